"""Which program a number stands for: a function of the seed, the number and a target's traits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .features import Features
from .generate import random_kernel
from .program import Program
from .targets import Traits

_WHOLE = Features(
    *(True,) * 7,
    lanes=(2, 4, 8),
    atomics64=True,
    faults=True,
    bools=True,
    small=True,
    special=True,
    near=True,
    slots=True,
    copies=True,
    atomics_more=True,
    fences=("workgroup", "device"),
)
_PLAIN = replace(_WHOLE, special=False, near=False, small=False, slots=False, copies=False)
# One of each in turn.
KINDS: dict[str, Features] = {
    "everything": replace(_WHOLE, statements=6),
    "subgroups": replace(_WHOLE, subgroup=1, fragments=True, statements=6),
    "integers": replace(_PLAIN, f16=False, bf16=False, f32=False, f64=False, statements=9),
    "floats": replace(_WHOLE, i8=False, i16=False, faults=False, statements=7),
    "control flow": replace(_PLAIN, lanes=(), workgroup=False, statements=10, deep=4),
    "wide index": replace(_PLAIN, index="i64", statements=7),
    "small": replace(_WHOLE, statements=3, deep=2),
    "subgroups and memory": replace(_PLAIN, subgroup=1, fragments=True, statements=5),
}


def kind_of(number: int) -> str:
    return list(KINDS)[number % len(KINDS)]


def features_of(number: int, traits: Traits) -> Features:
    """What program `number` may hold on a target."""
    wanted = KINDS[kind_of(number)]
    has = {
        "i8": {"i8", "u8"},
        "i16": {"i16", "u16"},
        "i64": {"i64", "u64"},
        **{name: {name} for name in ("f16", "bf16", "f32", "f64")},
    }
    kept = {name: getattr(wanted, name) and needs <= traits.types for name, needs in has.items()}
    index = wanted.index if kept["i64"] or "i64" in traits.types else "i32"
    subgroup, turn = wanted.subgroup, number // len(KINDS)
    if subgroup is not None:
        sizes = traits.subgroups
        subgroup = sizes[turn % len(sizes)] if sizes else None
    # Where a product becomes plain code, that is long: not often.
    fragments = wanted.fragments and traits.fragments and turn % 6 == 0
    return replace(
        wanted,
        **kept,
        index=index,
        subgroup=subgroup,
        atomics64=wanted.atomics64 and traits.atomics64,
        scarce=traits.scarce,
        buffers=traits.buffers,
        invocations=traits.invocations,
        bools=wanted.bools and "bool" in traits.types,
        small=wanted.small and "f8e4m3" in traits.types,
        special=wanted.special and traits.special,
        denormals=traits.numerics.denormals,
        near=wanted.near and traits.near,
        diverging=traits.diverging,
        fences=tuple(f for f in wanted.fences if f in traits.fences),
        fragments=fragments and subgroup in (4, 8, 16, 32, 64),
    )


def program(seed: int, number: int, traits: Traits) -> Program:
    """Program `number` of a seed for a target."""
    rng = np.random.default_rng([seed, number])
    return replace(random_kernel(rng, features_of(number, traits)), variant=number)
