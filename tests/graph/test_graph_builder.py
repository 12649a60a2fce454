"""Building a graph reads like numpy, and means the same; what it refuses says where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gristmill.ir.graph import OPS, GraphBuilder, GraphTypeError, TensorType, parse_tensor_type
from gristmill.ir.graph import functions as fn
from gristmill.ir.graph.array import Array
from gristmill.ir.graph.oracle import evaluate
from gristmill.ir.graph.oracle.rows import evaluators

CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "arithmetic": lambda x, y, m: 2.0 * x - y / (y * y + 1.0) + (-x) ** 2.0,
    "broadcast": lambda x, y, m: x[:, None] + y[None, :, :1],
    "compare": lambda x, y, m: m.where((x < y) | (x >= 1.0), x, y) * (x == x).astype("f4"),
    "where": lambda x, y, m: m.where(x > 0, 1.0, x),
    "slices": lambda x, y, m: x[1:, ::2][..., None] + y[-1, 0],
    "index": lambda x, y, m: x[-2] - y[:, 1][:2].sum(),
    "empty slice": lambda x, y, m: x[2:1],
    "sums": lambda x, y, m: x.sum((0, 1)) + y.sum(axis=-1, keepdims=True).max(0),
    "mean": lambda x, y, m: x.mean(0) - x.min(0),
    "matmul": lambda x, y, m: x @ y.T,
    "transpose": lambda x, y, m: x.transpose(1, 0).reshape(2, -1),
    "functions": lambda x, y, m: m.exp(x) + m.sqrt(m.abs(y)) * m.tanh(x),
    "maximum": lambda x, y, m: m.maximum(m.minimum(x, 0.5), y),
    "cumsum": lambda x, y, m: x.cumsum(1),
    "argmax": lambda x, y, m: x.argmax(1).astype("f4"),
}


class Numpy:
    """numpy's functions by the names that graphs have for them."""

    where, exp, sqrt, abs, tanh = np.where, np.exp, np.sqrt, np.abs, np.tanh
    maximum, minimum = np.maximum, np.minimum


class Graphs:
    where, exp, sqrt, abs, tanh = fn.where, fn.exp, fn.sqrt, fn.abs_, fn.tanh
    maximum, minimum = fn.maximum, fn.minimum


@pytest.mark.parametrize("case", CASES)
def test_an_expression_means_what_numpy_makes_of_it(
    case: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"f4": "f32"}
    monkeypatch.setattr(Array, "astype", lambda s, t: s.cast(names[t]), raising=False)
    given = {name: rng.standard_normal((4, 6)).astype(np.float32) for name in "xy"}
    g = GraphBuilder("case")
    x, y = (g.input(name, "f32", (4, 6)) for name in "xy")
    g.output("z", CASES[case](x, y, Graphs))
    found = evaluate(g.build(), given).outputs["z"]
    wide = {name: a.astype(np.float64) for name, a in given.items()}
    wanted = np.asarray(CASES[case](wide["x"], wide["y"], Numpy))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_every_op_says_what_it_is_and_is_evaluated() -> None:
    primitives = {name for name, row in OPS.items() if not row.composite}
    assert evaluators() == primitives
    assert [name for name, row in OPS.items() if not row.doc] == []


def arrays() -> tuple[GraphBuilder, Array, Array, Array]:
    g = GraphBuilder("bad")
    return g, g.input("x", "f32", (4, 6)), g.input("n", "i32", (3,)), g.input("h", "f16", (4, 6))


BAD: list[tuple[Callable[..., Any], str]] = [
    (lambda g, x, n, h: x + h, "f32"),
    (lambda g, x, n, h: x + n, "no common one"),
    (lambda g, x, n, h: n + 0.5, "is no i32"),
    (lambda g, x, n, h: n + 2**40, "does not fit into i32"),
    (lambda g, x, n, h: x[4], "index 4 of dimension 0, which has 4"),
    (lambda g, x, n, h: x[n], "take(...)"),
    (lambda g, x, n, h: x[::-1], "step of 1 or more"),
    (lambda g, x, n, h: x[0, 0, 0], "3 indices"),
    (lambda g, x, n, h: x[..., ...], "one ... at most"),
    (lambda g, x, n, h: x.reshape(5, -1), "does not go into shape"),
    (lambda g, x, n, h: x.reshape(5, 5), "25 elements, not 24"),
    (lambda g, x, n, h: x.transpose(0, 0), "each of the 2 dimensions once"),
    (lambda g, x, n, h: x.sum(2), "axis 2"),
    (lambda g, x, n, h: x @ x, "6 columns meet 4 rows"),
    (lambda g, x, n, h: x @ n, "two dimensions at least"),
    (lambda g, x, n, h: fn.concat([x, h]), "does not go behind"),
    (lambda g, x, n, h: fn.take(x, h), "a place is i32 or i64"),
    (lambda g, x, n, h: fn.scatter(x, n, x), "the updates are f32[3,6]"),
    (lambda g, x, n, h: fn.top_k(x, 7), "k is 1 to 6"),
    (lambda g, x, n, h: fn.pad(x, [(-1, 0), (0, 0)]), "below 0"),
    (lambda g, x, n, h: g.op("softmx", x), "softmax"),
    (lambda g, x, n, h: g.op("softmax", x), "needs the attribute 'axis'"),
    (lambda g, x, n, h: g.op("softmax", x, axis=0.5), "axis is int"),
    (lambda g, x, n, h: g.op("softmax", x, axis=2), "axis 2"),
    (lambda g, x, n, h: g.op("softmax", x, axis=0, base=2), "no attribute 'base'"),
    (lambda g, x, n, h: g.op("gelu", x, approximate="fast"), "one of none, tanh"),
    (lambda g, x, n, h: g.op("add", x), "takes 2 operands, not 1"),
    (lambda g, x, n, h: g.input("x", "f32"), "name of another source"),
    (lambda g, x, n, h: g.input("z", "f33"), "no element type"),
    (lambda g, x, n, h: g.input("z", "f32", (-1,)), "integers from 0 on"),
    (lambda g, x, n, h: g.input("z", "f32", (2**40, 2**40)), "of at most"),
    (lambda g, x, n, h: GraphBuilder("other").op("neg", x), "belongs to graph 'bad'"),
    (lambda g, x, n, h: g.op("neg", 3), "not int"),
    (lambda g, x, n, h: bool(x > 0), "no truth"),
    (lambda g, x, n, h: list(x), "not iterated over"),
]


@pytest.mark.parametrize(("build", "words"), BAD, ids=[words for _, words in BAD])
def test_what_does_not_fit_is_refused_in_words(build: Callable[..., Any], words: str) -> None:
    with pytest.raises(GraphTypeError) as error:
        build(*arrays())
    assert words in str(error.value)


def test_an_error_names_the_line_that_built_it() -> None:
    _, x, _, _ = arrays()
    with pytest.raises(GraphTypeError, match=r"^tests/graph/test_graph_builder\.py:\d+: top_k"):
        fn.top_k(x, 9)


def test_nodes_name_the_line_that_built_them() -> None:
    g, x, _, _ = arrays()
    y = fn.exp(x)
    g.output("y", y)
    (node,) = g.build().nodes
    assert node.loc is not None
    assert node.loc.file == "tests/graph/test_graph_builder.py"


@pytest.mark.parametrize("text", ["f32[4,64]", "i32[]", "bf16[0,3]"])
def test_types_are_read_as_they_are_written(text: str) -> None:
    assert str(parse_tensor_type(text)) == text


@pytest.mark.parametrize("text", ["f32", "f32[", "f32[-1]", "f32[4,]", "x[3]", "F32[3]", ""])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(GraphTypeError):
        parse_tensor_type(text)


def test_equal_literals_are_one() -> None:
    g, x, _, h = arrays()
    g.output("y", (x * 2.0 + 2.0) * (h * 2.0).cast("f32"))
    assert len([s for s in g.build().sources if s.data is not None]) == 2


def test_the_shape_of_a_type_is_no_list_of_bools() -> None:
    with pytest.raises(GraphTypeError):
        TensorType(parse_tensor_type("f32[]").dtype, (True,))
