"""Vector arithmetic by table: a function of typed sources, lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .decode import Instruction
from .operands import KINDS, OUTPUT_MODIFIERS, Kind, source, target
from .registry import Build, Step, register
from .state import Arch, Machine

Array = np.ndarray[Any, Any]
Function = Callable[..., Array]


# Instructions new with gfx9, which leave the upper half; its others of 16 bits clear it.
KEEPS_UPPER = frozenset(("v_mad_f16", "v_mad_u16", "v_mad_i16", "v_fma_f16", "v_div_fixup_f16"))


def clears_upper(i: Instruction, arch: Arch, result: Kind) -> bool:
    """Whether a result of 16 bits clears the upper half of its register."""
    old = arch.generation == 9 and i.mnemonic not in KEEPS_UPPER
    return result.bits == 16 and old and "op_sel" not in i.modifiers


def elementwise(result: Kind, sources: tuple[Kind, ...], f: Function) -> Build:
    """A builder for `f(*sources) -> result`; arrays broadcast to [count, lanes]."""

    def build(i: Instruction, arch: Arch) -> Step:
        if len(i.operands) != 1 + len(sources):
            raise i.unknown(f"{len(i.operands)} operands, expected {1 + len(sources)}")
        reads = tuple(source(i, k + 1, kind) for k, kind in enumerate(sources))
        write = target(i, result, clears_upper(i, arch, result))
        return _step(f, reads, write)

    return build


def _step(f: Function, reads: tuple[Any, ...], write: Any) -> Step:
    if len(reads) == 1:
        (x,) = reads
        return lambda m: write(m, f(x(m)))
    if len(reads) == 2:
        x, y = reads
        return lambda m: write(m, f(x(m), y(m)))

    def step(m: Machine) -> None:
        write(m, f(*(read(m) for read in reads)))

    return step


def kinds(names: str) -> tuple[Kind, ...]:
    """`"F32 U32"` -> (F32, U32)."""
    return tuple(KINDS[name] for name in names.split())


def vector(
    mnemonics: str,
    signature: str,
    f: Function,
    generations: Iterable[int] = (),
) -> None:
    """Register `"v_add_f32"` (or several, separated by blanks), `"F32 F32 F32"` (result first)."""
    result, *sources = kinds(signature)
    allowed = OUTPUT_MODIFIERS if result.is_float else frozenset(("op_sel",))
    if all(k.bits != 16 for k in (result, *sources)):
        allowed -= {"op_sel"}
    for mnemonic in mnemonics.split():
        register(
            mnemonic,
            elementwise(result, tuple(sources), f),
            allowed,
            generations or (9, 10, 11, 12),
        )
