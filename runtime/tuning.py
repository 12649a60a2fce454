"""Choosing among variants that fit by the sizes of a problem: what was measured, else a model.

Sizes name parameters of the kernel: values of scalars, elements of buffers. A bundle's index says
of a variant where it won (facts `tuned`: {device, matches, sizes}...): on devices that are opened
by that word and whose names match, for the problem of those sizes, which stands for all problems
none of whose sizes is over FACTOR times larger or smaller. Of several the nearest counts, by the
sum of the logarithms. Where there is none, `cost` chooses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .cost import cheapest
from .errors import ArgumentError, ManifestInvalid
from .memory import Buffer, is_size

if TYPE_CHECKING:
    from ..ir.targets import Capabilities
    from .bundle import Artifact
    from .device import Device
    from .launch import LoadedKernel

FACTOR = 4
_KEPT = 4096  # problems whose variant a handle remembers


class Measured(NamedTuple):
    """A problem that was measured on such a device, and the variant that won."""

    sizes: Mapping[str, int]
    artifact: Artifact


class Choices(NamedTuple):
    """What a device may choose from: the variants that fit, in declared order, and measurements."""

    fitting: tuple[Artifact, ...]
    measured: tuple[Measured, ...]
    capabilities: Capabilities

    def best(self, sizes: Mapping[str, int]) -> Artifact:
        """The variant for a problem."""
        near = [(_distance(m.sizes, sizes), n) for n, m in enumerate(self.measured)]
        distance, number = min(near, default=(math.inf, 0))
        if math.isfinite(distance):
            return self.measured[number].artifact
        return cheapest(self.fitting, self.capabilities, sizes)


def choices(fitting: Sequence[Artifact], capabilities: Capabilities) -> Choices:
    """What there is to choose from. ManifestInvalid where an index says it wrongly."""
    first = fitting[0].manifest
    fitting = tuple(a for a in fitting if a.manifest.params == first.params)
    measured = tuple(
        Measured(row["sizes"], artifact)
        for artifact in fitting
        for row in _rows(artifact)
        if _is_for(row, capabilities)
    )
    return Choices(fitting, measured, capabilities)


def checked_sizes(artifact: Artifact, sizes: Any) -> dict[str, int]:
    """Sizes that a caller gives. ArgumentError unless they name parameters of the kernel."""
    known = [p.name for p in artifact.manifest.params]
    where = f"kernel {artifact.manifest.kernel}"
    if not isinstance(sizes, Mapping) or not all(map(is_size, sizes.values())):
        wanted = "parameters with integers of at least 0"
        raise ArgumentError("wrong sizes", where=where, expected=wanted, got=f"{sizes!r:.80}")
    for name in sizes:
        if name not in known:
            names = f"one of {', '.join(known)}"
            raise ArgumentError("sizes of no parameter", where=where, expected=names, got=str(name))
    return {name: int(value) for name, value in sizes.items()}


class Choice:
    """How each launch of a handle takes the variant for the sizes of its arguments.

    first: the kernel where these do not tell, and where a launch states its grid, which is of that.
    """

    def __init__(self, first: LoadedKernel, found: Choices) -> None:
        self.first, self.found = first, found
        names = {name for m in found.measured for name in m.sizes}
        self._sized = [(n, p.name) for n, p in enumerate(first.params) if p.name in names]
        self._known: dict[tuple[int | None, ...], LoadedKernel] = {}

    def of(self, args: Sequence[Any], grid: Any = None) -> LoadedKernel:
        """The kernel for these arguments, in the order of the parameters."""
        if grid is not None or len(args) != len(self.first.params):
            return self.first
        key = tuple([_size(args[n]) for n, _ in self._sized])
        kernel = self._known.get(key)
        return kernel if kernel is not None else self._chosen(key)

    def direct(self, args: Sequence[Any], grid: Any) -> bool | None:
        """The direct way of the kernel for these arguments (`binder.Direct`)."""
        kernel = self.of(args, grid)
        return (kernel.direct or self._device._first(kernel))(args, grid)

    @property
    def _device(self) -> Device:
        return self.first.device

    def _chosen(self, key: tuple[int | None, ...]) -> LoadedKernel:
        sizes = {name: s for (_, name), s in zip(self._sized, key, strict=True) if s is not None}
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[key] = self._device._loaded(self.found.best(sizes))
        return self._known[key]


def _size(value: Any) -> int | None:
    if type(value) is int:
        return value
    if isinstance(value, Buffer):
        return value.count
    if isinstance(value, np.ndarray):
        return value.size
    if isinstance(value, np.integer):
        return int(value)
    shape = getattr(value, "shape", None)  # an array of another library
    return math.prod(shape) if isinstance(shape, tuple) and all(map(is_size, shape)) else None


def _distance(measured: Mapping[str, int], sizes: Mapping[str, int]) -> float:
    """How far a problem is from one that was measured; infinite beyond what that stands for."""
    total = 0.0
    for name, size in measured.items():
        if name not in sizes:
            return math.inf
        apart = abs(math.log2(max(1, sizes[name]) / max(1, size)))
        if apart > math.log2(FACTOR):
            return math.inf
        total += apart
    return total


def _is_for(row: Mapping[str, Any], capabilities: Capabilities) -> bool:
    import fnmatch  # for who has measurements

    if row["device"] != capabilities.device.partition(":")[0]:
        return False
    return any(fnmatch.fnmatchcase(capabilities.name, pattern) for pattern in row["matches"])


def _rows(artifact: Artifact) -> list[dict[str, Any]]:
    rows = artifact.manifest.facts.get("tuned", [])
    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        raise ManifestInvalid(
            "measurements of a variant in another form",
            where=str(artifact.file),
            expected="a list of device, matches and sizes",
            got=f"{rows!r:.80}",
        )
    return rows


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and row.keys() == {"device", "matches", "sizes"}
        and isinstance(row["device"], str)
        and isinstance(row["matches"], list)
        and all(isinstance(pattern, str) for pattern in row["matches"])
        and isinstance(row["sizes"], dict)
        and all(map(is_size, row["sizes"].values()))
    )
