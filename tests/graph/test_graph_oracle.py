"""What the oracle of graphs says, beside plain loops; its limits; and what it calls a fault."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gristmill.ir.graph import Graph, GraphBuilder
from gristmill.ir.graph import functions as fn
from gristmill.ir.graph.array import Array
from gristmill.ir.graph.decompose import decompose
from gristmill.ir.graph.oracle import WIDE, GraphFault, WorkBudgetError, evaluate, work
from gristmill.ir.graph.types import find_dtype
from random_graphs import random_graph, values_for

SPECIAL = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 3.5])


def one(build: Callable[..., Any], **given: np.ndarray) -> np.ndarray:
    """The result of a function of arrays of these values."""
    kinds = {"float32": "f32", "int32": "i32", "float16": "f16", "uint32": "u32"}
    g = GraphBuilder("one")
    arrays = [g.input(name, kinds[str(a.dtype)], a.shape) for name, a in given.items()]
    g.output("y", build(*arrays))
    return evaluate(g.build(), given).outputs["y"]


def special_rows(rng: np.random.Generator) -> np.ndarray:
    """Rows with equal numbers, infinities and NaNs, and one of NaNs alone."""
    x = rng.choice(SPECIAL, (9, 7))
    x[3] = np.nan
    return x


@pytest.mark.parametrize("kind", ["max", "min"])
def test_the_first_of_equal_numbers_is_found_and_no_nan(
    kind: str, rng: np.random.Generator
) -> None:
    x = special_rows(rng)
    found = one(lambda a: a.builder.op("arg_reduce", a, kind=kind, axis=1), x=x)
    for row, place in zip(x.tolist(), found.tolist(), strict=True):
        best = -1
        for n, value in enumerate(row):
            if math.isnan(value):
                continue
            if best < 0 or (value > row[best] if kind == "max" else value < row[best]):
                best = n
        assert place == best


def test_the_greatest_come_first_and_nans_last(rng: np.random.Generator) -> None:
    x = special_rows(rng)
    places = one(lambda a: fn.top_k(a, 5)[1], x=x)
    values = one(lambda a: fn.top_k(a, 5)[0], x=x)
    for row, found, taken in zip(x.tolist(), places.tolist(), values, strict=True):
        order = sorted(
            range(7), key=lambda n: (math.isnan(row[n]), -row[n] if row[n] == row[n] else 0, n)
        )
        assert found == order[:5]
        np.testing.assert_array_equal(taken, np.float32([row[n] for n in found]))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_begin_and_end_where_they_say(
    exclusive: bool, reverse: bool, rng: np.random.Generator
) -> None:
    x = rng.integers(-9, 9, (3, 5)).astype(np.int32)
    flags = {"exclusive": exclusive, "reverse": reverse}
    found = one(lambda a: a.builder.op("cumulative", a, kind="sum", axis=1, **flags), x=x)
    for row, sums in zip(x.tolist(), found.tolist(), strict=True):
        for n in range(5):
            behind = row[n + exclusive :] if reverse else row[: n + 1 - exclusive]
            assert sums[n] == sum(behind)


def test_reductions_of_nothing_have_their_neutral_element() -> None:
    x = np.zeros((2, 0), np.float32)
    wanted = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}
    for kind, value in wanted.items():
        found = one(lambda a, k=kind: a.builder.op("reduce", a, kind=k, axes=(1,)), x=x)
        assert found.tolist() == [value, value]
    assert one(lambda a: a.argmax(1), x=x).tolist() == [-1, -1]


def test_nans_lose_in_reductions() -> None:
    x = np.float32([[1, np.nan, -2], [np.nan, np.nan, np.nan]])
    assert one(lambda a: a.max(1), x=x)[0] == 1
    assert np.isnan(one(lambda a: a.min(1), x=x)[1])


def test_padding_lies_around(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3)).astype(np.float32)
    found = one(lambda a: fn.pad(a, [(1, 2), (0, 1)], 7.0), x=x)
    np.testing.assert_array_equal(found, np.pad(x, [(1, 2), (0, 1)], constant_values=7))


def test_updates_are_put_or_added_and_minus_one_is_no_place() -> None:
    x, u = np.zeros((4, 2), np.float32), np.float32([[1, 2], [3, 4], [5, 6]])
    places = np.int32([2, -1, 0])
    assert one(fn.scatter, x=x, p=places, u=u).tolist() == [[5, 6], [0, 0], [1, 2], [0, 0]]
    twice = np.int32([2, 2, 0])
    added = one(lambda *a: fn.scatter(*a, kind="add"), x=x, p=twice, u=u)
    assert added.tolist() == [[5, 6], [0, 0], [4, 6], [0, 0]]


@pytest.mark.parametrize("place", [4, -1, 2**31 - 1, -(2**31)])
def test_a_place_outside_is_a_fault(place: int) -> None:
    x = np.zeros((4, 2), np.float32)
    with pytest.raises(GraphFault, match=rf"gather \(tests/.*: place {place} of .* 4 elements"):
        one(fn.take, x=x, p=np.int32([0, place]))
    if place != -1:
        with pytest.raises(GraphFault, match="scatter"):
            one(fn.scatter, x=x, p=np.int32([0, place]), u=np.ones((2, 2), np.float32))


def test_two_updates_of_one_place_are_a_fault() -> None:
    x = np.zeros((4, 2), np.float32)
    with pytest.raises(GraphFault, match="one place"):
        one(fn.scatter, x=x, p=np.int32([1, 1]), u=np.ones((2, 2), np.float32))


def test_random_words_are_those_of_the_paper() -> None:
    """Of the test vectors of Random123 (kat_vectors), philox4x32-10 with counter and key all
    zeros."""
    ones = np.full(4, 0xFFFFFFFF, np.uint32)
    zeros = one(lambda s: fn.random_bits(s, (4,)), s=np.zeros(4, np.uint32))
    assert [hex(n) for n in zeros] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    rows = one(lambda s: fn.random_bits(s, (3, 6)), s=ones)
    assert rows[0].tolist() != rows[1].tolist()
    again = one(lambda s: fn.random_bits(s, (2, 4)), s=ones)
    np.testing.assert_array_equal(rows[:2, :4], again)


def test_declared_precision_rounds_and_wide_does_not(rng: np.random.Generator) -> None:
    g = GraphBuilder("round")
    x = g.input("x", "f16", (64,))
    g.output("y", (x * 1.001).cast("f32"))
    graph, values = g.build(), rng.standard_normal(64).astype(np.float16)
    declared = evaluate(graph, {"x": values}).outputs["y"]
    wide = evaluate(graph, {"x": values}, WIDE).outputs["y"]
    factor = np.float16(1.001)
    np.testing.assert_array_equal(declared, (values * factor).astype(np.float32))
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide, values.astype(np.float64) * 1.001, rtol=1e-3)
    assert (wide != declared).any()


def test_bf16_is_stored_as_its_bits() -> None:
    g = GraphBuilder("bf16")
    x = g.input("x", "bf16", (3,))
    g.output("y", x + 1.0)
    bits = (np.float32([1, -2, 0.5]).view(np.uint32) >> 16).astype(np.uint16)
    found = evaluate(g.build(), {"x": bits}).outputs["y"]
    assert found.dtype == np.uint16
    assert (found.astype(np.uint32) << 16).view(np.float32).tolist() == [2, -1, 1.5]


def test_composites_are_what_they_decompose_to(rng: np.random.Generator) -> None:
    g = GraphBuilder("whole")
    x, w = g.input("x", "f16", (5, 8)), g.constant("w", "f16", (8,))
    y = fn.apply("gelu", fn.apply("rms_norm", x, w, eps=1e-5), approximate="tanh")
    g.output("y", fn.apply("softmax", y, axis=-1) + y)
    graph = g.build()
    given = {n: rng.standard_normal(s).astype(np.float16) for n, s in (("x", (5, 8)), ("w", (8,)))}
    found = evaluate(graph, given).outputs["y"]
    np.testing.assert_array_equal(found, evaluate(decompose(graph), given).outputs["y"])
    some = decompose(graph, lambda node: node.op == "softmax")
    assert [n.op for n in some.nodes if n.op in ("softmax", "rms_norm", "gelu")] == [
        "rms_norm",
        "gelu",
    ]
    np.testing.assert_array_equal(found, evaluate(some, given).outputs["y"])


def test_scalars_of_bf16_stay_scalars() -> None:
    g = GraphBuilder("scalar")
    s = g.state("s", "bf16")
    g.commit(s, s + 1.0)
    graph = g.build()
    first = evaluate(graph, {})
    assert evaluate(graph, first.states).states["s"].shape == ()


def test_signaling_nans_lose_too() -> None:
    bits = np.uint32([0x7FA00000, 0x3F800000] * 9)
    for order in (bits, bits[::-1].copy(), bits[:2]):
        assert one(lambda a: a.max(0), x=order.view(np.float32)) == 1
        assert one(lambda a: a.min(0), x=order.view(np.float32)) == 1


def test_sums_are_made_in_f64() -> None:
    x = np.float32([1e8, 1, -1e8, 1])
    assert one(lambda a: a.sum(), x=x) == 2
    assert one(lambda a: a.cumsum(0), x=x).tolist() == [1e8, np.float32(1e8 + 1), 1, 2]
    added = one(
        lambda a, p, u: fn.scatter(a, p, u, kind="add"),
        x=np.zeros(1, np.float32), p=np.int32([0, 0, 0]), u=x[:3],
    )  # fmt: skip
    assert added.tolist() == [1]


def test_bits_are_those_of_the_declared_type_in_wide_numbers() -> None:
    g = GraphBuilder("bits")
    x = g.input("x", "f32", (1,))
    g.output("y", (x * 0.1).builder.op("bitcast", x * 0.1, dtype=f32_bits()))
    found = evaluate(g.build(), {"x": np.float32([3.0])}, WIDE).outputs["y"]
    assert found[0] == np.float32(3.0 * np.float64(np.float32(0.1))).view(np.uint32)


def f32_bits() -> Any:
    return find_dtype("u32")


def test_results_are_arrays_of_their_own() -> None:
    g = GraphBuilder("own")
    n = g.input("n", "i32", (3,))
    g.output("same", n)
    g.output("all", n[:1].broadcast_to(5))
    given = np.int32([1, 2, 3])
    found = evaluate(g.build(), {"n": given}).outputs
    found["same"][0] = found["all"][0] = 9
    assert given.tolist() == [1, 2, 3]
    assert found["all"].tolist() == [9, 1, 1, 1, 1]


def test_work_of_nothing_that_makes_much_is_counted() -> None:
    g = GraphBuilder("outer")
    g.output("y", g.input("a", "f32", (10**6, 0)) @ g.input("b", "f32", (0, 10**6)))
    assert work(g.build()) == 10**12


def test_places_of_nothing_take_no_memory() -> None:
    g = GraphBuilder("none")
    x = g.input("x", "f32")
    g.output("y", fn.iota(x, (2**30, 0), 0))
    assert evaluate(g.build(), {"x": np.float32(0)}).outputs["y"].shape == (2**30, 0)


def test_lines_stay_with_what_a_composite_becomes() -> None:
    g = GraphBuilder("lines")
    x = g.input("x", "f32", (2, 4))
    for n in range(4):
        g.constant(f"literal{n}", "f32", (1,))
    g.output("y", fn.apply("gelu", x))
    graph = decompose(g.build())
    assert {str(node.loc)[:32] for node in graph.nodes} == {"tests/graph/test_graph_oracle.py"}
    assert len({source.name for source in graph.sources}) == len(graph.sources)


def test_states_are_zeros_at_first_and_new_afterwards() -> None:
    g = GraphBuilder("count")
    n = g.state("n", "i32", (2,))
    kept = g.state("kept", "f32", (1,))
    g.commit(n, n + 1)
    g.output("y", n.cast("f32") + kept)
    graph = g.build()
    first = evaluate(graph, {})
    assert first.states["n"].tolist() == [1, 1]
    second = evaluate(graph, first.states)
    assert second.outputs["y"].tolist() == [1, 1]
    assert second.states["kept"].tolist() == [0]


def taking(x: Array) -> Graph:
    x.builder.output("y", x + 1.0)
    return x.builder.build()


def test_what_is_given_is_checked() -> None:
    graph = taking(GraphBuilder("g").input("x", "f32", (3,)))
    with pytest.raises(KeyError, match="input 'x', f32\\[3\\], is missing"):
        evaluate(graph, {})
    with pytest.raises(KeyError, match="takes no 'z'"):
        evaluate(graph, {"x": np.zeros(3, np.float32), "z": np.zeros(3)})
    with pytest.raises(ValueError, match="not of shape"):
        evaluate(graph, {"x": np.zeros(4, np.float32)})
    with pytest.raises(ValueError, match="float32, not int32"):
        evaluate(graph, {"x": np.zeros(3, np.int32)})


def test_too_much_work_is_refused_before_it_begins() -> None:
    g = GraphBuilder("large")
    x = g.input("x", "f32", (100_000, 100_000))
    g.output("y", (x @ x).sum())
    graph = g.build()
    assert work(graph) > 2 * 10**15
    with pytest.raises(WorkBudgetError, match="raise the budget") as error:
        evaluate(graph, {"x": np.zeros(1)})
    assert error.value.got == work(graph)


def test_random_graphs_are_evaluated_alike_in_both_precisions(rng: np.random.Generator) -> None:
    """Nothing but rounding is between them; shapes and types are checked at each node."""
    agree, count = 0.0, 0
    for _ in range(60):
        graph = random_graph(rng)
        given = values_for(rng, graph)
        declared, wide = evaluate(graph, given), evaluate(graph, given, WIDE)
        for (name, value), other in zip(
            declared.outputs.items(), wide.outputs.values(), strict=True
        ):
            dtype = next(o.tensor.type.dtype for o in graph.outputs if o.name == name)
            if dtype.name == "bf16":
                value = (value.astype(np.uint32) << 16).view(np.float32)
            with np.errstate(all="ignore"):
                near = np.isclose(
                    value.astype(np.float64),
                    other,
                    rtol=0.2,
                    atol=0.2 * np.abs(other).max(initial=1),
                )
            agree += near.mean() if near.size else 1
            count += 1
    assert agree / count > 0.9  # a rounded comparison, or place, may fall to the other side
