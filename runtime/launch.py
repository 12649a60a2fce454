"""A loaded kernel and one launch of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..ir.abi import evaluate, words
from ..ir.dtypes import DTYPES, Access
from ..ir.interface import Param
from ..store.manifest import expression
from .errors import ArgumentError, LimitExceeded
from .hazards import Binding
from .memory import is_size

if TYPE_CHECKING:
    from .binder import Direct, Quick
    from .bundle import Artifact
    from .device import Device
    from .faults import FaultRange
    from .tuning import Choice

Grid = tuple[int, int, int]
MAX_GROUPS = (1 << 32) - 1  # linear group ids are 32-bit everywhere
FOLD = 65535


class Command(NamedTuple):
    """One checked launch, ready for a driver. `scalars` are bit patterns."""

    kernel: LoadedKernel
    bindings: tuple[Binding, ...]
    scalars: tuple[int, ...]
    grid: Grid
    fault_base: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(b.elements for b in self.bindings)

    @property
    def groups(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


def parameter_block(command: Command) -> bytes:
    """The uniform block of a launch, where kernels take one (`ir.abi.words`)."""
    kernel = command.kernel
    return words(
        kernel.params,
        kernel.index,
        command.scalars,
        command.counts,
        command.fault_base,
        command.grid,
    ).tobytes()


class LoadedKernel:
    """A kernel on a device: call it with numpy arrays, or launch it with device buffers.

    Calling is synchronous: arrays that the kernel writes are updated in place. `grid` states the
    workgroups where the kernel does not say how to compute them, or overrides that.
    """

    def __init__(self, device: Device, artifact: Artifact, code: Any) -> None:
        self.device, self.artifact, self.code = device, artifact, code
        self.manifest = artifact.manifest
        self.params = tuple(
            Param(p.name, p.kind, DTYPES[p.dtype], Access(p.access), p.may_alias)
            for p in self.manifest.params
        )
        self.memory = tuple(p for p in self.params if p.is_memory)
        self.scalars = tuple(p for p in self.params if not p.is_memory)
        self.index = DTYPES[self.manifest.index]
        self.faults: list[FaultRange] = []
        # Of each parameter: under what `Buffer.bound` keeps how a full check has bound a buffer to
        # it. Equal for parameters that ask the same of a buffer.
        self.keys = tuple(
            device._binding_keys.setdefault((p.dtype, p.kind, p.access, self.index), object())
            for p in self.params
        )
        self.quick: Quick | None = None  # once launched
        self.direct: Direct | None = None  # the same
        self.choice: Choice | None = None  # of a handle whose launches choose a variant
        limit = device.capabilities.limits.loop_iterations
        turns = expression(self.manifest.facts.get("loop_turns"))
        self.turns = turns if limit is not None and isinstance(turns, tuple) else None

    @property
    def name(self) -> str:
        return self.manifest.kernel

    def __repr__(self) -> str:
        m = self.manifest
        return f"<kernel {m.kernel} {m.specialization} ({m.target}) on {self.device.name}>"

    def __call__(self, *args: Any, grid: Any = None, **named: Any) -> None:
        """Run to completion. Arrays must be C-contiguous and of the parameter's storage dtype."""
        self.device._call(self, args, named, grid)

    def place(self, position: int) -> str:
        """How messages name an argument."""
        return f"kernel {self.name}, argument {position + 1} ({self.params[position].name})"

    def launch_grid(self, bindings: tuple[Binding, ...], values: dict[str, Any], grid: Any) -> Grid:
        """The workgroups of a launch in each dimension, checked against index and device."""
        sizes = self._stated(grid) if grid is not None else self._computed(bindings, values)
        where = f"kernel {self.name}"
        total = sizes[0] * sizes[1] * sizes[2]
        if total > MAX_GROUPS:
            raise LimitExceeded(
                "workgroups of a launch", MAX_GROUPS, total, where, "split the work"
            )
        for size, width, axis in zip(sizes, self.manifest.workgroup, "xyz", strict=True):
            if size * width > self.index.max:
                raise LimitExceeded(
                    f"index {self.index} in {axis}",
                    self.index.max,
                    size * width,
                    where,
                    "split the work or build the kernel with INDEX=i64",
                )
        return sizes

    def check_turns(self, command: Command) -> None:
        """LimitExceeded where the device would end the loops of this launch before they are done,
        as far as sizes and scalars tell."""
        if self.turns is None or not command.groups:
            return
        most = self.device.capabilities.limits.loop_iterations
        counts = dict(zip([p.name for p in self.memory], command.counts, strict=True))
        scalars = {
            p.name: bits - (bits >> (p.dtype.bits - 1) << p.dtype.bits if p.dtype.is_signed else 0)
            for p, bits in zip(self.scalars, command.scalars, strict=True)
        }
        turns = evaluate(self.turns, counts, scalars, command.grid)
        if most is not None and turns > most:
            raise LimitExceeded(
                "loop turns of an invocation",
                most,
                turns,
                f"kernel {self.name}",
                "split the work: this device ends longer loops silently",
            )

    def _stated(self, grid: Any) -> Grid:
        sizes = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
        if not 1 <= len(sizes) <= 3 or not all(map(is_size, sizes)):
            raise ArgumentError(
                "wrong grid",
                where=f"kernel {self.name}",
                expected="one to three integers of at least 0",
                got=repr(grid),
            )
        x, y, z = (*map(int, sizes), 1, 1)[:3]
        return x, y, z

    def _computed(self, bindings: tuple[Binding, ...], values: dict[str, Any]) -> Grid:
        if self.manifest.grid is None:
            raise ArgumentError(
                "the kernel does not state its grid",
                where=f"kernel {self.name}",
                do="pass grid=(x, y, z), in workgroups",
            )
        counts = {p.name: b.elements for p, b in zip(self.memory, bindings, strict=True)}
        try:
            x, y, z = (evaluate(e, counts, values) for e in self.manifest.grid)
        except ZeroDivisionError as error:
            given = ", ".join(f"{name}={value}" for name, value in values.items())
            raise ArgumentError(
                "the grid cannot be computed: it divides by 0",
                where=f"kernel {self.name}",
                got=given,
            ) from error
        if min(x, y, z) < 0:
            given = ", ".join(f"{name}={value}" for name, value in values.items())
            raise ArgumentError(
                f"the grid {x, y, z} is negative",
                where=f"kernel {self.name}",
                expected="sizes of at least 0",
                got=given,
            )
        return x, y, z


def folded(grid: Grid, limits: Grid, where: str) -> Grid:
    """The grid that hardware with these limits is given: itself, or folded (see DESIGN: Index)."""
    if all(size <= limit for size, limit in zip(grid, limits, strict=True)):
        return grid
    total = grid[0] * grid[1] * grid[2]
    x = min(total, FOLD, limits[0])
    y = -(-total // x)
    if y > limits[1]:
        raise LimitExceeded("workgroups of a launch", x * limits[1], total, where, "split the work")
    return x, y, 1
