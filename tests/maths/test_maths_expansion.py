"""What an expansion is made of: types, vectors, ops that weak targets have, coefficients."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gristmill.ir.builder import Builder
from gristmill.ir.core import Op, Region
from gristmill.ir.dtypes import DType, VectorType, element_of, f16, f32, f64
from gristmill.ir.maths import EXPANSIONS, expand
from gristmill.ir.maths.coefficients import COEFFICIENTS
from gristmill.ir.ops import ROWS
from maths_evaluation import build, evaluate, operand_types
from maths_references import (
    BINARY,
    UNARY,
    bound,
    double_reference,
    inside,
    single_reference,
    special_arguments,
    ulp_error,
)


def ops_of(region: Region) -> Iterator[Op]:
    for op in region.ops:
        yield op
        for inner in op.regions:
            yield from ops_of(inner)


@pytest.mark.parametrize("op", sorted(EXPANSIONS))
def test_f32_needs_neither_64_bit_types_nor_transcendental_ops(op: str) -> None:
    region, _ = build(op, f32)
    for inner in ops_of(region):
        assert inner.name not in EXPANSIONS, f"{op} expands to {inner.name}, which expands"
        for value in inner.results:
            assert element_of(value.type).bits <= 32, f"{op} uses {value.type}"


@pytest.mark.parametrize("op", sorted(EXPANSIONS))
@pytest.mark.parametrize("dtype", [f32, f64])
def test_only_large_angles_and_fmod_branch(op: str, dtype: DType) -> None:
    region, _ = build(op, dtype)
    control = [o.name for o in ops_of(region) if o.regions]
    expected = {"sin": ["if"], "cos": ["if"], "tan": ["if"], "fmod": ["while"]}
    assert control == expected.get(op, [])


@pytest.mark.parametrize("op", sorted(EXPANSIONS))
def test_without_fma_no_fma_is_emitted(op: str) -> None:
    region, _ = build(op, f32, fused=False)
    assert "fma" not in {o.name for o in ops_of(region)}


@pytest.mark.parametrize("op", sorted(EXPANSIONS))
@pytest.mark.parametrize(("dtype", "kind"), [(f32, np.float32), (f64, np.float64)])
def test_vectors_give_what_their_lanes_give(
    op: str, dtype: DType, kind: type, rng: np.random.Generator
) -> None:
    values = [
        np.exp(rng.uniform(-9, 9, 4000)),
        rng.choice([0, -0.0, np.inf, np.nan, 1e30, -2.5], 4000),
    ]
    args = [rng.permutation(np.concatenate(values)).astype(kind) for _ in operand_types(op, dtype)]
    if op == "ldexp":
        args[1] = rng.integers(-40, 40, 8000).astype(np.int32)
    scalar = evaluate(op, *args)
    for lanes in (2, 4, 8):
        t = VectorType(dtype, lanes)
        _, result = build(op, t)
        assert result.type == t
        vector = evaluate(op, *(a.reshape(-1, lanes) for a in args), type_=t)
        assert np.array_equal(vector.reshape(-1), scalar, equal_nan=True)


def test_other_types_are_refused_by_name() -> None:
    builder = Builder()
    with pytest.raises(TypeError, match=r"exp.*f32 and f64, not f16"):
        expand(builder, "exp", (builder.value(f16),))
    with pytest.raises(KeyError):
        expand(builder, "add", (builder.value(f32), builder.value(f32)))


# Which function notices a table of coefficients that its name does not say.
_JUDGE = {
    "ln2": "exp", "log2_e": "log2", "log10_e": "log10", "log10_2": "log10", "half_pi": "sin",
    "half_pi_pair": "sin", "pi_pair": "atan2", "log2_tail": "pow", "log2_first": "pow",
    "log2_second": "pow", "log2_e_pair": "gamma", "stirling": "gamma", "binet": "lgamma",
    "sinpi": "gamma", "erfc_log2": "erf", "exp2_short": "erf",
}  # fmt: skip

# Low halves of constants that cost less than what is left below the bound.
_SLACK = {("half_pi_pair", 1), ("pi_pair", 1), ("log2_e_pair", 1), ("log2_second", 1)}


def _arguments(op: str, kind: type) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(7)
    count = 6000 if kind is np.float32 else 700
    if op in BINARY:
        x = np.exp(rng.uniform(-2, 2, count)).astype(kind)
        reach = 80.0 if kind is np.float32 else 700.0
        y = (
            rng.uniform(-reach, reach, count) / np.log(x)
            if op == "pow"
            else -np.exp(rng.uniform(-2, 2, count))
        )
        return x, y.astype(kind)
    x = rng.uniform(-1, 1, count) * 40.0 ** rng.uniform(-1, 1, count)
    x = np.concatenate([x.astype(kind), special_arguments(kind, 0)])
    if kind is np.float64:
        x = x[:: 1 if op in ("sin", "cos", "tan") else 3]
    return (x[inside(op, x)],)


def _worst(op: str, args: tuple[np.ndarray, ...], kind: type, reference: object) -> float:
    return float(ulp_error(evaluate(op, *args), reference, kind).max())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "dtype"), [(n, t) for n, table in sorted(COEFFICIENTS.items()) for t in table]
)
def test_every_coefficient_is_needed(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any single one of them, or with a coarse one, the function leaves its bound."""
    op = _JUDGE.get(name, name)
    assert op in (*UNARY, *BINARY)
    kind = np.float32 if dtype == "f32" else np.float64
    args = _arguments(op, kind)
    with np.errstate(all="ignore"):
        reference = (single_reference if dtype == "f32" else double_reference)(op, *args)
    limit = bound(op, kind)
    assert _worst(op, args, kind, reference) <= limit
    values = COEFFICIENTS[name][dtype]
    for k in range(len(values)):
        if (name, k) in _SLACK:
            continue
        changed = (*values[:k], 0.0, *values[k + 1 :])
        monkeypatch.setitem(COEFFICIENTS[name], dtype, changed)
        assert _worst(op, args, kind, reference) > limit, (
            f"{op} does without coefficient {k} of {name}"
        )
    most = max(range(len(values)), key=lambda k: abs(values[k]))
    coarse = (*values[:most], values[most] * (1 + 2.0**-10), *values[most + 1 :])
    monkeypatch.setitem(COEFFICIENTS[name], dtype, coarse)
    assert _worst(op, args, kind, reference) > limit, f"{op} does not notice a coarse {name}"


def test_rows_and_expansions_agree_on_arity() -> None:
    for name in EXPANSIONS:
        assert len(operand_types(name, f32)) == ROWS[name].arity
