"""Packed 16-bit arithmetic (VOP3P) and mixed-precision multiply-add.

op_sel[k] chooses the half of source k for the low result, op_sel_hi[k] for the high one; neg_lo and
neg_hi negate what each half reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .decode import Instruction, Operand
from .exact import fma
from .integers import shift_left, shift_right
from .operands import (
    F16,
    F32,
    KINDS,
    Kind,
    clamped,
    constant_bits,
    flush,
    raw_source,
    target,
)
from .registry import Build, Step, register
from .state import Arch, Machine
from .valu_float import (
    maximum_ieee,
    maximum_number,
    minimum_ieee,
    minimum_number,
)

Array = np.ndarray[Any, Any]
Function = Callable[..., Array]
MODIFIERS = ("op_sel", "op_sel_hi", "neg_lo", "neg_hi", "clamp")


def _word(i: Instruction, o: Operand, kind: Kind) -> Callable[[Machine], Array]:
    """Both halves of a source: uint32. An inline float stands in the low half."""
    if o.kind == "float":
        fixed = np.array([[constant_bits(o, F16)]], np.uint32)
        return lambda m: fixed
    return raw_source(i, o, KINDS["B32"])


def _half(word: Array, high: int, negative: int, kind: Kind) -> Array:
    bits = (word >> np.uint32(16) if high else word).astype(np.uint16)
    if negative:
        bits = bits ^ np.uint16(0x8000)
    return bits.view(kind.dtype)


def _packed(kind: Kind, f: Function, count: int) -> Build:
    def build(i: Instruction, arch: Arch) -> Step:
        if len(i.operands) != count + 1:
            raise i.unknown(f"{len(i.operands)} operands")
        words = [_word(i, o, kind) for o in i.operands[1:]]
        low = list(zip(i.bits("op_sel", (0,) * count), i.bits("neg_lo", (0,) * count), strict=True))
        high = list(
            zip(i.bits("op_sel_hi", (1,) * count), i.bits("neg_hi", (0,) * count), strict=True)
        )
        clamp = "clamp" in i.modifiers
        write = target(_without_modifiers(i), KINDS["B32"])

        def half(m: Machine, read: list[Array], choice: list[tuple[int, int]]) -> Array:
            parts = [_half(w, h, n, kind) for w, (h, n) in zip(read, choice, strict=True)]
            if kind.is_float and not m.mode.denormal_16_64 & 1:
                parts = [flush(p) for p in parts]
            out = _result(f, parts, kind, clamp)
            if kind.is_float and not m.mode.denormal_16_64 & 2:
                out = flush(out)
            return np.ascontiguousarray(out).view(np.uint16).astype(np.uint32)

        def step(m: Machine) -> None:
            read = [word(m) for word in words]
            write(m, half(m, read, low) | half(m, read, high) << np.uint32(16))

        return step

    return build


def _result(f: Function, parts: list[Array], kind: Kind, clamp: bool) -> Array:
    if not clamp:
        return f(*parts)
    if kind.is_float:
        return clamped(f(*parts))
    limits = np.iinfo(kind.dtype)
    wide = f(*(p.astype(np.int64) for p in parts))
    return np.clip(wide, limits.min, limits.max).astype(kind.dtype)


def _without_modifiers(i: Instruction) -> Instruction:
    return Instruction(i.address, i.size, i.mnemonic, i.suffix, i.operands, {}, i.text)


TWO: dict[str, tuple[str, Function]] = {
    "add_f16": ("F16", lambda x, y: x + y),
    "mul_f16": ("F16", lambda x, y: x * y),
    "min_f16": ("F16", minimum_number),
    "max_f16": ("F16", maximum_number),
    "min_num_f16": ("F16", minimum_number),
    "max_num_f16": ("F16", maximum_number),
    "minimum_f16": ("F16", minimum_ieee),
    "maximum_f16": ("F16", maximum_ieee),
    "add_u16": ("U16", lambda x, y: x + y),
    "add_i16": ("I16", lambda x, y: x + y),
    "sub_u16": ("U16", lambda x, y: x - y),
    "sub_i16": ("I16", lambda x, y: x - y),
    "mul_lo_u16": ("U16", lambda x, y: x * y),
    "min_u16": ("U16", np.minimum),
    "max_u16": ("U16", np.maximum),
    "min_i16": ("I16", np.minimum),
    "max_i16": ("I16", np.maximum),
    "lshlrev_b16": ("U16", lambda n, x: shift_left(x, n)),
    "lshrrev_b16": ("U16", lambda n, x: shift_right(x, n)),
    "ashrrev_i16": ("I16", lambda n, x: shift_right(x, n)),
}
THREE: dict[str, tuple[str, Function]] = {
    "fma_f16": ("F16", fma),
    "mad_u16": ("U16", lambda x, y, z: x * y + z),
    "mad_i16": ("I16", lambda x, y, z: x * y + z),
}
for _count, _table in ((2, TWO), (3, THREE)):
    for _name, (_kind, _f) in _table.items():
        register(f"v_pk_{_name}", _packed(KINDS[_kind], _f, _count), MODIFIERS)


# v_fma_mix: each source is f32, or a half (op_sel) where op_sel_hi is set. The sum is rounded to
# f32 and then to f16, as LLVM's selection of a truncated fma takes it to be.


def _mixed_source(i: Instruction, k: int) -> Callable[[Machine], Array]:
    o = i.operands[k + 1]
    if not i.bits("op_sel_hi", (0, 0, 0))[k]:
        read = raw_source(i, o, KINDS["B32"])
        convert: Function = lambda w: w.view(np.float32)  # noqa: E731
    else:
        read, high = _word(i, o, F16), i.bits("op_sel", (0, 0, 0))[k]
        convert = lambda w: _half(w, high, 0, F16).astype(np.float32)  # noqa: E731

    def value(m: Machine) -> Array:
        x = convert(read(m))
        if not m.mode.denormal_32 & 1:
            x = flush(x)
        x = np.abs(x) if o.abs else x
        return -x if o.neg else x

    return value


def _mixed(result: Kind, half: str | None, fused: bool) -> Build:
    def build(i: Instruction, arch: Arch) -> Step:
        reads = [_mixed_source(i, k) for k in range(3)]
        kept = {k: v for k, v in i.modifiers.items() if k == "clamp"}
        o = i.operands[0]
        if half is not None:
            o = Operand(o.kind, o.text, o.index, half=o.half or half)
        plain = Instruction(
            i.address, i.size, i.mnemonic, i.suffix, (o, *i.operands[1:]), kept, i.text
        )
        write = target(plain, result)

        def step(m: Machine) -> None:
            x, y, z = (read(m) for read in reads)
            total = fma(x, y, z) if fused else x * y + z
            write(m, total if result is F32 else total.astype(np.float16))

        return step

    return build


_MIX = ("op_sel", "op_sel_hi", "clamp")
for _stem, _fused in (("fma", True), ("mad", False)):
    register(f"v_{_stem}_mix_f32", _mixed(F32, None, _fused), _MIX)
    register(f"v_{_stem}_mixlo_f16", _mixed(F16, "l", _fused), _MIX)
    register(f"v_{_stem}_mixhi_f16", _mixed(F16, "h", _fused), _MIX)
