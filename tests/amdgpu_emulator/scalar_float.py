"""Float arithmetic of the scalar unit (gfx11.5 and gfx12): one value a wave.

An f16 result clears the upper half of its register.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import valu_float
from .compare import FLOAT
from .conversions import rounded, to_integer
from .decode import Instruction
from .exact import fma
from .operands import (
    F16,
    F32,
    I32,
    RAW,
    U32,
    Kind,
    clamped,
    flush,
    raw_scalar,
    scalar_target,
    with_signs,
)
from .registry import Build, Step, register
from .state import Arch, Machine

Array = np.ndarray[Any, Any]
NEW = (11, 12)


def _source(i: Instruction, position: int, kind: Kind) -> Callable[[Machine], Array]:
    """A scalar operand as [count] of the kind, denormals flushed where MODE says so."""
    o = i.operands[position]
    if o.is_vector:
        raise i.unknown(f"vector operand {o.text} of a scalar instruction")
    raw, dtype = with_signs(raw_scalar(i, o, kind), o, kind), kind.dtype
    if not kind.is_float:
        return lambda m: raw(m).view(dtype)

    def read(m: Machine) -> Array:
        lives = m.mode.denormal_32 if kind is F32 else m.mode.denormal_16_64
        value = raw(m).view(dtype)
        return value if lives & 1 else flush(value)

    return read


def _target(i: Instruction, kind: Kind, any_rounding: bool = False) -> Any:
    write = scalar_target(i, U32)

    def put(m: Machine, value: Array) -> None:
        mode = m.mode
        if kind.is_float:
            if (mode.round_32 or mode.round_16_64) and not any_rounding:
                raise i.unknown("it rounds to nearest even only")
            if not (mode.denormal_32 if kind is F32 else mode.denormal_16_64) & 2:
                value = flush(value)
        write(m, np.ascontiguousarray(value).view(RAW[kind.bits]).astype(np.uint32))

    return put


def _simple(result: Kind, sources: tuple[Kind, ...], f: Callable[..., Array]) -> Build:
    def build(i: Instruction, arch: Arch) -> Step:
        if len(i.operands) != 1 + len(sources):
            raise i.unknown(f"{len(i.operands)} operands")
        reads = [_source(i, k + 1, kind) for k, kind in enumerate(sources)]
        write = _target(i, result)
        return lambda m: write(m, f(*(read(m) for read in reads)))

    return build


def _accumulate(kind: Kind) -> Build:
    def build(i: Instruction, arch: Arch) -> Step:
        x, y, z = _source(i, 1, kind), _source(i, 2, kind), _source(i, 0, kind)
        write = _target(i, kind)
        return lambda m: write(m, fma(x(m), y(m), z(m)))

    return build


def _to_float(given: Kind) -> Build:
    """An integer, or f32 to f16: rounds by MODE."""

    def build(i: Instruction, arch: Arch) -> Step:
        kind = F16 if i.mnemonic.startswith("s_cvt_f16") else F32
        x, write = _source(i, 1, given), _target(i, kind, any_rounding=True)

        def step(m: Machine) -> None:
            mode = m.mode.round_32 if kind is F32 else m.mode.round_16_64
            write(m, rounded(x(m).astype(np.float64), kind.dtype, mode))

        return step

    return build


def _compare(f: Callable[[Array, Array], Array], kind: Kind) -> Build:
    def build(i: Instruction, arch: Arch) -> Step:
        x, y = _source(i, 0, kind), _source(i, 1, kind)
        return lambda m: m.set_scc(f(x(m), y(m)))

    return build


def _upper_half(x: Array) -> Array:
    return (x >> np.uint32(16)).astype(np.uint16).view(np.float16).astype(np.float32)


def _packed(x: Array, y: Array) -> Array:
    halves = [rounded(v.astype(np.float64), np.float16, 3).view(np.uint16) for v in (x, y)]
    return halves[0].astype(np.uint32) | halves[1].astype(np.uint32) << np.uint32(16)


def _approximation(name: str, kind: Kind) -> Build:
    """v_s_rcp_f32 and its like: the vector unit's function of a scalar."""
    f = valu_float.approximation(name, kind)

    def build(i: Instruction, arch: Arch) -> Step:
        x, write, clamp = _source(i, 1, kind), _target(i, kind), "clamp" in i.modifiers

        def step(m: Machine) -> None:
            value = f(np.ascontiguousarray(x(m)), m.salt)
            write(m, clamped(value) if clamp else value)

        return step

    return build


def _register_all() -> None:
    for kind in (F16, F32):
        k = kind.name.lower()
        for name, f in valu_float.UNARY.items():
            if name in ("trunc", "ceil", "floor", "rndne"):
                register(f"s_{name}_{k}", _simple(kind, (kind,), f), generations=NEW)
        for name, f in valu_float.BINARY.items():
            if name != "subrev":
                register(f"s_{name}_{k}", _simple(kind, (kind, kind), f), generations=NEW)
        register(f"s_fmac_{k}", _accumulate(kind), generations=NEW)
        for name, f in FLOAT.items():
            if name not in ("t", "f", "tru"):
                register(f"s_cmp_{name}_{k}", _compare(f, kind), generations=NEW)
        for name in ("exp", "log", "rcp", "rsq", "sqrt"):
            build = _approximation(name, kind)
            register(f"v_s_{name}_{k}", build, ("clamp",), generations=(12,))
    for name in ("fmaak", "fmamk"):
        register(f"s_{name}_f32", _simple(F32, (F32, F32, F32), fma), generations=NEW)
    register("s_cvt_f32_i32", _to_float(I32), generations=NEW)
    register("s_cvt_f32_u32", _to_float(U32), generations=NEW)
    register("s_cvt_f16_f32", _to_float(F32), generations=NEW)
    widened = _simple(F32, (F16,), lambda x: x.astype(np.float32))
    register("s_cvt_f32_f16", widened, generations=NEW)
    register("s_cvt_hi_f32_f16", _simple(F32, (U32,), _upper_half), generations=NEW)
    for kind in (I32, U32):
        to = _simple(kind, (F32,), lambda x, kind=kind: to_integer(x, kind))
        register(f"s_cvt_{kind.name.lower()}_f32", to, generations=NEW)
    register("s_cvt_pk_rtz_f16_f32", _simple(U32, (F32, F32), _packed), generations=NEW)


_register_all()
