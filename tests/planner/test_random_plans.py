"""Random graphs on devices, beside the oracle, which shares nothing with planner and kernels."""

from __future__ import annotations

import numpy as np

from graph_plans import run, stored
from gristmill import planner, runtime
from gristmill.ir.dtypes import DType, bf16, f32
from gristmill.ir.graph.core import Graph
from gristmill.ir.graph.oracle import evaluate
from gristmill.ir.interp.values import decode
from gristmill.ir.plan import Plan
from gristmill.runtime.engine import BundleKernels
from random_graphs import random_graph, values_for

GRAPHS = 60
# A graph of a dozen ops on numbers around 1: each op is off by a few units in the last place.
RELATIVE, ABSOLUTE = 2**-15, 2**-16


def close(got: np.ndarray, want: np.ndarray, name: str, dtype: DType = f32) -> None:
    if dtype == bf16:  # a result between two of its numbers may be rounded to either
        wide = [decode(values, dtype).astype(np.float64) for values in (got, want)]
        np.testing.assert_allclose(*wide, 2**-7, ABSOLUTE, err_msg=name)
    elif want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, RELATIVE, ABSOLUTE, err_msg=name)
    else:
        np.testing.assert_array_equal(got, want, err_msg=name)


def rounded(given: dict[str, np.ndarray], graph: Graph) -> dict[str, np.ndarray]:
    types = {s.name: s.tensor.type.dtype for s in graph.sources}
    return {name: stored(values, types[name]) for name, values in given.items()}


def test_random_graphs_give_what_the_oracle_gives(
    device: runtime.Device, bundle: runtime.Bundle, rng: np.random.Generator
) -> None:
    kernels = BundleKernels(bundle, device.capabilities)
    ran, missing = 0, set[str]()
    for _ in range(GRAPHS):
        graph = random_graph(rng, 8)
        given = rounded(values_for(rng, graph), graph)
        made = planner.plan("random", {"step": graph}, device.capabilities, kernels)
        if not isinstance(made, Plan):
            missing |= {refusal.op for refusal in made}
            continue
        want = evaluate(graph, given).outputs
        got = run(device, bundle, graph, given)
        for output in graph.outputs:
            close(got[output.name], want[output.name], output.name, output.tensor.type.dtype)
        ran += 1
    assert ran > GRAPHS // 4
    assert missing <= {"top_k", "matmul"}  # no kernel of theirs gives NaNs, or takes bf16


def test_an_output_that_is_an_input_is_a_copy(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    from gristmill.ir.graph import GraphBuilder

    g = GraphBuilder("same")
    x = g.input("x", "f32", (3,))
    g.output("a", x)
    g.output("b", x.reshape(3, 1))
    values = np.arange(3, dtype=np.float32)
    got = run(device, bundle, g.build(), {"x": values})
    np.testing.assert_array_equal(got["a"], values)
    np.testing.assert_array_equal(got["b"], values.reshape(3, 1))


def test_states_that_are_exchanged_do_not_overwrite_each_other(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    from graph_plans import model_of
    from gristmill.ir.graph import GraphBuilder

    g = GraphBuilder("exchange")
    a, b = (g.state(name, "f32", (4,)) for name in "ab")
    x = g.input("x", "f32", (4,))
    g.output("old", a + 0.0)
    g.commit(a, b)
    g.commit(b, a + x)
    model = model_of(device, bundle, {"step": g.build()}, {})
    one = np.ones(4, np.float32)
    have = np.zeros(4), np.zeros(4)
    for _ in range(5):
        model.step("step", x=one)
        np.testing.assert_array_equal(model.read("step", "old"), have[0])
        have = have[1], have[0] + 1
        np.testing.assert_array_equal(model.state("a"), have[0])
        np.testing.assert_array_equal(model.state("b"), have[1])


def test_everything_that_is_missing_is_refused_in_one_pass(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    from gristmill.ir.graph import GraphBuilder
    from gristmill.ir.graph.functions import top_k

    g = GraphBuilder("two")
    x, y = g.input("x", "f32", (4, 8)), g.input("y", "f64", (4, 8))
    g.output("a", top_k(x, 2)[0])
    g.output("b", y * y + y)
    kernels = BundleKernels(bundle, device.capabilities)
    made = planner.plan("two", {"step": g.build()}, device.capabilities, kernels)
    assert not isinstance(made, Plan)
    assert [r.op for r in made] == ["top_k", "mul", "add"]
    assert "kernel binary mul_f64" in made[1].missing
    assert made[1].dtypes == ("f64", "f64")
    assert "test_random_plans.py:" in made[0].node
    assert device.capabilities.name in made[0].target


def oracle(graph: Graph, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return evaluate(graph, given).outputs


def test_rows_that_go_to_each_other_s_places_are_all_there(
    device: runtime.Device, bundle: runtime.Bundle, rng: np.random.Generator
) -> None:
    from gristmill.ir.graph import GraphBuilder
    from gristmill.ir.graph.functions import scatter

    g = GraphBuilder("swap")
    x = g.input("x", "f32", (2, 64))
    h = x + x
    g.output("y", scatter(h, g.literal([1, 0], "i32"), h))
    given = {"x": rng.standard_normal((2, 64)).astype(np.float32)}
    got = run(device, bundle, g.build(), given)["y"]
    np.testing.assert_array_equal(got, 2 * given["x"][::-1])


def test_a_sum_of_a_tensor_and_itself_is_normed_like_any(
    device: runtime.Device, bundle: runtime.Bundle, rng: np.random.Generator
) -> None:
    from gristmill.ir.graph import GraphBuilder
    from gristmill.ir.graph.composites.normalization import add_rms_norm

    g = GraphBuilder("twice")
    x, w = g.input("x", "f32", (3, 64)), g.input("w", "f32", (64,))
    h = x * 3.0
    normed, total = add_rms_norm(h, h, w, eps=1e-5)
    g.output("normed", normed)
    g.output("total", total)
    given = {
        "x": rng.standard_normal((3, 64)).astype(np.float32),
        "w": rng.standard_normal(64).astype(np.float32),
    }
    graph = g.build()
    for name, want in oracle(graph, given).items():
        close(run(device, bundle, graph, given)[name], want, name)


def test_quotients_round_down_at_the_ends_of_a_type(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    from gristmill.ir.graph import GraphBuilder

    for dtype in ("i32", "i8"):
        ends = np.iinfo(dtype.replace("i", "int"))
        a = np.array([ends.min, ends.min, ends.max, -7, 7, -7, 0, -1], ends.dtype)
        b = np.array([3, 7, -3, 2, -2, -2, 5, ends.max], ends.dtype)
        g = GraphBuilder("quotients")
        g.output("q", g.input("a", dtype, a.shape) // g.input("b", dtype, b.shape))
        graph = g.build()
        got = run(device, bundle, graph, {"a": a, "b": b})["q"]
        np.testing.assert_array_equal(got, a // b)


def test_a_scalar_is_an_input(device: runtime.Device, bundle: runtime.Bundle) -> None:
    from gristmill.ir.graph import GraphBuilder

    g = GraphBuilder("scalar")
    g.output("y", g.input("n", "i32", ()) + 1)
    assert run(device, bundle, g.build(), {"n": np.array(3, np.int32)})["y"] == 4


def test_a_cache_that_is_not_given_away_stays_as_it_was(
    device: runtime.Device, bundle: runtime.Bundle, rng: np.random.Generator
) -> None:
    """Of two appends that one launch makes, the one of the values alone donates."""
    from gristmill.ir.graph import GraphBuilder
    from gristmill.ir.graph.composites.cache import kv_append

    g = GraphBuilder("append")
    caches = [g.state(name, "f32", (2, 1, 16, 64)) for name in "kv"]
    rows = g.input("rows", "f32", (1, 1, 64))
    table, first = g.literal([[0, 1]], "i32"), g.literal([0], "i32")
    at = g.input("at", "i32", (1,))
    k, v = (kv_append(cache, rows, table, first, at) for cache in caches)
    g.commit(caches[1], v, donates=True)
    g.output("k", k)
    g.output("old", caches[0] + 0.0)
    from graph_plans import model_of

    model = model_of(device, bundle, {"step": g.build()}, {})
    for n in range(2):
        values = rng.standard_normal((1, 1, 64)).astype(np.float32)
        model.step("step", rows=values, at=np.array([n], np.int32))
        assert not model.read("step", "old").any()
        assert not model.state("k").any()
        np.testing.assert_array_equal(model.read("step", "k")[0, 0, n], values[0, 0])
        assert np.count_nonzero(model.state("v")) == 64 * (n + 1)


def test_a_state_that_is_given_away_is_read_before_it_is_overwritten(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    """Through a view of it, and through a gate that waits for its product."""
    from graph_plans import model_of
    from gristmill.ir.graph import GraphBuilder
    from gristmill.ir.graph.composites.activations import silu
    from gristmill.ir.graph.functions import scatter

    g = GraphBuilder("given away")
    state, rows = g.state("s", "f32", (4, 64)), g.input("rows", "f32", (2, 64))
    up = g.input("up", "f32", (4, 64))
    part, gate = state[0:2], silu(state)
    new = scatter(state, g.literal([0, 1], "i32"), rows)
    g.output("part", part + 1.0)
    g.output("gated", gate * up)
    g.commit(state, new, donates=True)
    model = model_of(device, bundle, {"step": g.build()}, {})
    values = np.full((2, 64), 3, np.float32)
    model.step("step", rows=values, up=np.ones((4, 64), np.float32))
    np.testing.assert_array_equal(model.read("step", "part"), np.ones((2, 64)))
    assert not model.read("step", "gated").any()


def test_two_appends_to_one_scratch_cache_are_two_caches(
    device: runtime.Device, bundle: runtime.Bundle, rng: np.random.Generator
) -> None:
    from gristmill.ir.graph import GraphBuilder
    from gristmill.ir.graph.composites.cache import kv_append

    g = GraphBuilder("two")
    cache = g.input("x", "f32", (1, 1, 16, 64)) * 2.0
    a, b = (g.input(name, "f32", (1, 1, 64)) for name in "ab")
    where = g.literal([[0]], "i32"), g.literal([0], "i32"), g.literal([3], "i32")
    g.output("k", kv_append(cache, a, *where))
    g.output("v", kv_append(cache, b, *where))
    given = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in (("x", (1, 1, 16, 64)), ("a", (1, 1, 64)), ("b", (1, 1, 64)))
    }
    graph = g.build()
    got = run(device, bundle, graph, given)
    for name, want in oracle(graph, given).items():
        np.testing.assert_array_equal(got[name], want, err_msg=name)


def test_quotients_by_zero_and_counts_of_shifts_are_the_graph_s(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    from gristmill.ir.graph import GraphBuilder
    from gristmill.ir.graph.functions import isinf

    a = np.array([5, -5, 0, 1, -8, 77], np.int32)
    b = np.array([0, 0, 0, 33, 31, -1], np.int32)
    g = GraphBuilder("integers")
    x, y = g.input("a", "i32", (6,)), g.input("b", "i32", (6,))
    g.output("quotient", x // y)
    g.output("left", x << y)
    g.output("right", x >> y)
    g.output("infinite", isinf(g.input("c", "bf16", (2,))))
    graph = g.build()
    given = {"a": a, "b": b, "c": np.array([0x7F80, 0x3F80], np.uint16)}
    got = run(device, bundle, graph, given)
    for name, want in oracle(graph, given).items():
        np.testing.assert_array_equal(got[name], want, err_msg=name)
