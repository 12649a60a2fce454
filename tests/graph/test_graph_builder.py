"""Building a graph reads like numpy, and means the same; what it refuses says where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gristmill.ir.graph import OPS, GraphBuilder, GraphTypeError, TensorType, parse_tensor_type
from gristmill.ir.graph import functions as fn
from gristmill.ir.graph.array import Array
from gristmill.ir.graph.composites.normalization import softmax
from gristmill.ir.graph.oracle import evaluate
from gristmill.ir.graph.oracle.rows import evaluators
from gristmill.ir.graph.text import print_graph

CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "arithmetic": lambda x, y, m: 2.0 * x - y / (y * y + 1.0) + (-x) ** 2.0,
    "broadcast": lambda x, y, m: x[:, None] + y[None, :, :1],
    "compare": lambda x, y, m: m.where((x < y) | (x >= 1.0), x, y) * (x == x).astype(m.f32),
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
    "reflected": lambda x, y, m: 2.0**x + 7.0 / (m.abs(y) + 1.0) - (1.0 - (+x)),
    "tuples": lambda x, y, m: x.reshape((2, 12)).transpose((1, 0)) + y.reshape(12, 2),
    "arrays": lambda x, y, m: np.ones((4, 6), np.float32) * 2 - x * np.float32(3),
    "several axes": lambda x, y, m: x.sum((np.int64(0), 1)) + y[np.int64(1)].sum(),
    "cumsum": lambda x, y, m: x.cumsum(1),
    "argmax": lambda x, y, m: x.argmax(1).astype(m.f32),
}


class Numpy:
    """numpy's functions by the names that graphs have for them."""

    where, exp, sqrt, abs, tanh = np.where, np.exp, np.sqrt, np.abs, np.tanh
    maximum, minimum, f32 = np.maximum, np.minimum, np.float32


class Graphs:
    where, exp, sqrt, abs, tanh = fn.where, fn.exp, fn.sqrt, fn.abs_, fn.tanh
    maximum, minimum, f32 = fn.maximum, fn.minimum, "f32"


@pytest.mark.parametrize("case", CASES)
def test_an_expression_means_what_numpy_makes_of_it(case: str, rng: np.random.Generator) -> None:
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


def f8(g: GraphBuilder) -> Array:
    return g.literal(np.zeros((4, 2)), "f8e4m3")


BAD: list[tuple[Callable[..., Any], str]] = [
    (lambda g, x, n, h: x + h, "f32"),
    (lambda g, x, n, h: x + n, "no common one"),
    (lambda g, x, n, h: n + 0.5, "0.5 does not fit into i32"),
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
    (lambda g, x, n, h: g.input("x", "f32"), "name of another one"),
    (lambda g, x, n, h: g.input("z", "f33"), "no element type"),
    (lambda g, x, n, h: g.input("z", "f32", (-1,)), "integers from 0 on"),
    (lambda g, x, n, h: g.input("z", "f32", (2**40, 2**40)), "more than 46"),
    (lambda g, x, n, h: GraphBuilder("other").op("neg", x), "of graph 'bad'"),
    (lambda g, x, n, h: g.op("neg", 3), "not int"),
    (lambda g, x, n, h: bool(x > 0), "no truth"),
    (lambda g, x, n, h: list(x), "not iterated over"),
    (lambda g, x, n, h: h + 70000, "does not fit into f16"),
    (lambda g, x, n, h: x + 10**60, "does not fit into f32"),
    (lambda g, x, n, h: n + float("inf"), "does not fit into i32"),
    (lambda g, x, n, h: (x > 0) & 2, "does not fit into bool"),
    (lambda g, x, n, h: x * [[1], [1, 2]], "made of numbers"),
    (lambda g, x, n, h: x[::0], "no step of 0"),
    (lambda g, x, n, h: x[1.5:], "a slice has integers"),
    (lambda g, x, n, h: x[np.array([0, 1])], "take(...)"),
    (lambda g, x, n, h: x.sum(1.0), "an axis is an integer"),
    (lambda g, x, n, h: x.sum((0, 0)), "names a dimension twice"),
    (lambda g, x, n, h: x.argmax(0.5), "an axis is an integer"),
    (lambda g, x, n, h: x.transpose("x"), "is an integer"),
    (lambda g, x, n, h: n.mean(), "the mean of i32[3]"),
    (lambda g, x, n, h: x @ 2.0, "an array of a graph, not float"),
    (lambda g, x, n, h: np.ones((4, 4), np.float32) @ x, "make a literal of it"),
    (lambda g, x, n, h: fn.concat([]), "no operand"),
    (lambda g, x, n, h: fn.concat([1.0, x]), "not float"),
    (lambda g, x, n, h: fn.pad(x, [(1,)]), "a pair of widths a dimension"),
    (lambda g, x, n, h: fn.where(True, x, 0.0), "not bool"),
    (lambda g, x, n, h: fn.exp(2.0), "not float"),
    (lambda g, x, n, h: fn.iota(x, (3,), 5), "axis 5"),
    (lambda g, x, n, h: fn.iota(x, (300,), 0, "i8"), "i8 counts to 128"),
    (lambda g, x, n, h: softmax(), "its operands are arrays"),
    (lambda g, x, n, h: softmax(n, axis=0), "computed in floats"),
    (lambda g, x, n, h: g.op("rms_norm", x, x[0], eps=10**400), "eps is float"),
    (lambda g, x, n, h: g.op("rms_norm", x, x[0], eps=float("nan")), "eps is a number"),
    (lambda g, x, n, h: g.op("slice", x, start=(0, 0), stop=(1, 1), step=(1, 2**63)), "64 bits"),
    (lambda g, x, n, h: g.input("z", "f32", "ab"), "a size is an integer"),
    (lambda g, x, n, h: g.input("z", "f32", (1,) * 17), "of at most 16"),
    (lambda g, x, n, h: g.input("z", "f32", (0, 10**20)), "has more than"),
    (lambda g, x, n, h: g.input("z", "f32", (10**5000,)), "a large tuple has more"),
    (lambda g, x, n, h: g.input(7, "f32"), "a name is a string"),
    (lambda g, x, n, h: g.output("", x), "a name is a string"),
    (lambda g, x, n, h: fn.scatter(f8(g), n, f8(g)[:3], kind="add"), "is not added"),
    (lambda g, x, n, h: fn.matmul(f8(g), f8(g).T, dtype="f8e4m3"), "sums are no f8e4m3"),
    (lambda g, x, n, h: fn.matmul(n.cast("i8")[None], n[:, None]), "is summed as"),
    (lambda g, x, n, h: g.op("rotary", h.reshape(4, 1, 6), n, width=6, base=0.0), "above 0"),
]


@pytest.mark.parametrize(("build", "words"), BAD, ids=[words for _, words in BAD])
def test_what_does_not_fit_is_refused_in_words(build: Callable[..., Any], words: str) -> None:
    with pytest.raises(GraphTypeError) as error:
        build(*arrays())
    assert words in str(error.value)


def test_every_refusal_names_the_line() -> None:
    for build, _ in BAD:
        with pytest.raises(GraphTypeError, match=r"tests/graph/test_graph_builder\.py:\d+: "):
            build(*arrays())


def test_integers_stand_on_either_side_of_their_operators() -> None:
    g = GraphBuilder("whole")
    n, m = g.input("n", "i32", (4,)), g.input("m", "bool", (4,))
    g.output("y", 7 // n + 7 % n + (1 << n) + (64 >> n) + (6 & n) + (6 | n) + (6 ^ n))
    g.output("m", (True & m) | (False ^ m))
    n_, m_ = np.int32([1, 2, 3, 4]), np.array([True, False, True, False])
    found = evaluate(g.build(), {"n": n_, "m": m_}).outputs
    wanted = 7 // n_ + 7 % n_ + (1 << n_) + (64 >> n_) + (6 & n_) + (6 | n_) + (6 ^ n_)
    np.testing.assert_array_equal(found["y"], wanted)
    np.testing.assert_array_equal(found["m"], m_)


def test_numbers_of_numpy_are_those_of_python() -> None:
    g, x, _, _ = arrays()
    y = g.op("rms_norm", x, x[0], eps=np.float64(1e-5))
    z = g.op("rms_norm", x, x[0], eps=np.float32(0.5))
    g.output("y", y.reshape(np.int64(2), np.int64(12)))
    g.output("z", fn.top_k(z, np.int64(2))[0])
    g.input("more", "f32", (np.int64(3),))
    assert "np." not in print_graph(g.build())


def test_literals_take_names_that_no_source_has() -> None:
    g = GraphBuilder("names")
    x = g.input("literal0", "f32", (2,))
    y = x + 1.0
    g.output("y", y + g.constant("literal1", "f32", (2,)))
    assert [s.name for s in g.build().sources] == ["literal0", "literal2", "literal1"]


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
