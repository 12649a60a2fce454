"""What a random program may hold."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.dtypes import DTYPES, DType


@dataclass(frozen=True)
class Features:
    """What a random kernel may use beyond i32 and u32. atomics64: 64-bit atomics too (with i64).

    subgroup: size, None for no subgroup ops (the workgroup is a multiple of it). faults: asserts.
    index: the index type. lanes: vector widths. statements: length of the program, roughly.
    scarce: types whose arithmetic is rare. bools: buffers of bools. small: 8-bit floats. special:
    infinities, NaNs and the like. denormals: those too. near: ops with an error bound. slots.
    fences: their scopes; diverging: also where
    invocations have gone apart. copies: asynchronous ones. fragments: products of matrices (with a
    subgroup). atomics_more: float atomics, exchanges. deep: how far regions nest. buffers:
    the most that a target binds. invocations: the most of a launch, roughly.
    """

    i8: bool = False
    i16: bool = False
    i64: bool = False
    f16: bool = False
    bf16: bool = False
    f32: bool = True
    f64: bool = False
    lanes: tuple[int, ...] = (2, 4)
    private: bool = True
    workgroup: bool = True
    atomics: bool = True
    atomics64: bool = False
    subgroup: int | None = None
    faults: bool = False
    early_return: bool = True
    index: str = "i32"
    statements: int = 12
    scarce: frozenset[str] = frozenset()
    bools: bool = False
    small: bool = False
    special: bool = False
    denormals: bool = False
    near: bool = False
    slots: bool = False
    fences: tuple[str, ...] = ()
    diverging: bool = True
    copies: bool = False
    fragments: bool = False
    atomics_more: bool = False
    deep: int = 3
    buffers: int = 64
    invocations: int = 1024

    def types(self) -> list[DType]:
        """The scalar types beyond i32 and u32."""
        names = [n for n in ("f16", "bf16", "f32", "f64") if getattr(self, n)]
        for n in ("8", "16", "64"):
            names += [f"i{n}", f"u{n}"] if getattr(self, f"i{n}") else []
        return [DTYPES[n] for n in names]


EVERYTHING = Features(*(True,) * 7, lanes=(2, 4, 8), atomics64=True, subgroup=8, faults=True)
