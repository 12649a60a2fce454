"""What a fixture is: a program, what it is given at each step, and how far a result may be off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ...ir.dtypes import DTYPES
from ...ir.graph import Graph, GraphBuilder
from ...ir.interp.values import encode
from ...ir.ops.meaning import convert
from .mutation import Mutation

Values = np.ndarray
_UNIT = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}  # unit roundoffs
_LEAST = {"f32": 2.0**-126, "f16": 2.0**-24, "bf16": 2.0**-126}  # where results may become 0


@dataclass(frozen=True, slots=True)
class Bound:
    """n roundings in a type with unit roundoff u, each of numbers up to `magnitude`, are off by at
    most n u / (1 - n u) times that (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).

    roundings: 0 for what is exact. magnitude: of the sums and products that lead to a result, and
    at least the result's own. relative: instead of it the result's own magnitude, where roundings
    only multiply.
    """

    roundings: float = 0
    dtype: str = "f32"
    magnitude: float = 1.0
    relative: bool = False

    @property
    def share(self) -> float:
        """Of the magnitude."""
        n = self.roundings * _UNIT[self.dtype]
        return n / (1 - n)

    def allowed(self, want: Values) -> Values:
        """The absolute error of each element."""
        size = np.abs(want)
        if not self.roundings:
            return np.zeros_like(size)
        scale = size if self.relative else np.maximum(size, self.magnitude)
        return np.asarray(self.share * scale + _LEAST[self.dtype])


EXACT = Bound()


@dataclass(frozen=True, slots=True)
class Step:
    """Inputs of one step, by name."""

    entry: str
    inputs: Mapping[str, Values]


@dataclass(frozen=True, slots=True)
class Case:
    """A program with its weights, and the steps that it takes."""

    program: Mapping[str, Graph]
    weights: Mapping[str, Values]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Fixture:
    """name: class and what is looked at. make: the case, of random numbers. mutation: a change of
    the plan that must not pass."""

    name: str
    make: Callable[[np.random.Generator], Case]
    bound: Bound
    mutation: Mutation


def one(
    build: Callable[..., None],
    given: Callable[[np.random.Generator], Mapping[str, Values | Typed]],
    *,
    weights: tuple[str, ...] = (),
    steps: int = 1,
) -> Callable[[np.random.Generator], Case]:
    """A case of one entry: `build` takes a builder and arrays by the names of what is given, of
    their types; each step has numbers of its own, but for the weights."""

    def make(rng: np.random.Generator) -> Case:
        rows = [stored(given(rng)) for _ in range(steps)]
        g = GraphBuilder("parity", places=False)
        arrays = {
            name: (g.constant if name in weights else g.input)(name, dtype, values.shape)
            for name, (values, dtype) in rows[0].items()
        }
        build(g, **arrays)
        kept = {name: rows[0][name][0] for name in weights}
        taken = tuple(
            Step("step", {n: v for n, (v, _) in row.items() if n not in weights}) for row in rows
        )
        return Case({"step": g.build()}, kept, taken)

    return make


@dataclass(frozen=True, slots=True)
class Typed:
    """Numbers that become an element type which numpy lacks, or another one than theirs."""

    values: Values
    dtype: str


def stored(given: Mapping[str, Values | Typed]) -> dict[str, tuple[Values, str]]:
    """Arrays as memory holds them, with their element types; floats that are not said to be of
    another one are f32."""
    found = {}
    for name, value in given.items():
        typed = value if isinstance(value, Typed) else Typed(value, _natural(value))
        dtype = DTYPES[typed.dtype]
        array = typed.values
        if dtype.is_float:
            flat = convert(array.astype(np.float64).reshape(-1), out=dtype)
            array = encode(flat, dtype).reshape(array.shape)
        found[name] = np.ascontiguousarray(array, dtype.storage), typed.dtype
    return found


def _natural(values: Values) -> str:
    kinds = {"f": "f32", "b": "bool"}
    if values.dtype.kind in kinds:
        return kinds[values.dtype.kind]
    return f"{values.dtype.kind}{8 * values.dtype.itemsize}"
