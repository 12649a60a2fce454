"""Which file knows which instruction. Semantics are built once per instruction of a program.

    @instruction("v_add_f32", modifiers={"clamp"})
    def build(i: Instruction, arch: Arch) -> Step: ...

`build` returns a closure that executes it for the group of waves of a `Machine`. It returns None to
go on with the next instruction, or an address or int64[count] of addresses to jump to, or STOP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .decode import Instruction
from .state import Arch, Machine

Array = np.ndarray[Any, Any]
Step = Callable[[Machine], Any]
Build = Callable[[Instruction, Arch], Step]
Form = Callable[[Instruction, Arch, Callable[[Instruction, Arch], Step]], Step]

STOP = -1  # the group waits or has ended; its PC is stored

_BUILDERS: dict[str, tuple[Build, frozenset[str], frozenset[int]]] = {}
_FORMS: dict[str, tuple[Form, frozenset[str]]] = {}


def instruction(
    *mnemonics: str, modifiers: Iterable[str] = (), generations: Iterable[int] = (9, 10, 11, 12)
) -> Callable[[Build], Build]:
    """Register the semantics of `mnemonics` (without _e32, _e64, _dpp ...).

    `modifiers` are those that the builder understands; others make the instruction unknown.
    """

    def decorate(build: Build) -> Build:
        for mnemonic in mnemonics:
            register(mnemonic, build, modifiers, generations)
        return build

    return decorate


def register(
    mnemonic: str,
    build: Build,
    modifiers: Iterable[str] = (),
    generations: Iterable[int] = (9, 10, 11, 12),
) -> None:
    """What `@instruction` does, for tables."""
    if mnemonic in _BUILDERS:
        raise ValueError(f"{mnemonic} is registered twice")
    _BUILDERS[mnemonic] = build, frozenset(modifiers), frozenset(generations)


def form(*suffixes: str, modifiers: Iterable[str]) -> Callable[[Form], Form]:
    """Register how an encoding (`dpp`, `sdwa` ...) wraps any instruction.

    The function gets (instruction, arch, build): it may call `build` on an instruction with other
    operands (registers from `state.TEMPORARY` up) and without the modifiers that it consumed.
    """

    def decorate(function: Form) -> Form:
        for suffix in suffixes:
            _FORMS[suffix] = function, frozenset(modifiers)
        return function

    return decorate


def known() -> frozenset[str]:
    return frozenset(_BUILDERS)


def build(i: Instruction, arch: Arch) -> Step:
    """The closure of one instruction; `UnknownInstruction` where there is none."""
    wrapped = _FORMS.get(i.suffix)
    if wrapped is not None:
        return wrapped[0](i, arch, build_plain)
    if i.suffix not in ("", "e32", "e64"):
        raise i.unknown(f"no semantics for the form {i.suffix}")
    return build_plain(i, arch)


def build_plain(i: Instruction, arch: Arch) -> Step:
    found = _BUILDERS.get(i.mnemonic)
    if found is None:
        raise i.unknown(f"no semantics for {i.mnemonic}")
    builder, modifiers, generations = found
    if arch.generation not in generations:
        raise i.unknown(f"no semantics for {i.mnemonic} on gfx{arch.generation}")
    unknown = [m for m in i.modifiers if m not in modifiers]
    if unknown:
        raise i.unknown(f"modifiers {unknown} of {i.mnemonic}")
    return builder(i, arch)
