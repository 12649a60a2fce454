"""Parameters and ids: the uniform block, built-in values and folded grids.

A grid beyond a device's limit is dispatched as (min(total, 65535), rest, 1) groups. The kernel
compares the dispatched counts with the true grid of its parameter block; where they differ it
decodes the linear number of its group, and the surplus groups leave at once, as whole groups.
"""

from __future__ import annotations

import math

from ...ir import abi
from ...ir.core import Op
from ...ir.dtypes import DType, element_of
from ..usage import Usage, id_key
from .writer import Writer

_BUILTINS = {
    "workgroup_id": "vec3<u32>",
    "num_workgroups": "vec3<u32>",
    "local_invocation_id": "vec3<u32>",
    "local_invocation_index": "u32",
    "subgroup_invocation_id": "u32",
}
_BY_DIMENSION = ("global_id", "local_id", "group_id", "num_groups")


class Ids:
    """The ids and parameter words of one kernel, each found once at its start."""

    def __init__(self, w: Writer, usage: Usage) -> None:
        self.w, self.usage = w, usage
        kernel = w.kernel
        self.layout = abi.word_layout(kernel.params, kernel.index)
        self.binding = len(abi.memory_params(kernel.params))
        self.used: set[str] = set()
        self.size = self._size()
        self._known: dict[tuple[str, int], str] = {}
        w.globals.append(
            f"@group(0) @binding({self.binding}) "
            f"var<uniform> params: array<vec4<u32>, {self.layout.size // 4}>;"
        )

    def _size(self) -> tuple[int, int, int]:
        """The workgroup as it is declared: in a row where subgroups are used, as naga wants it."""
        kernel = self.w.kernel
        size, subgroup = kernel.workgroup, kernel.subgroup
        if not self.usage.subgroups:
            return size
        if subgroup is None:
            message = "subgroup ops need a subgroup size: give the kernel a SUBGROUP constexpr"
            raise self.w.fail(message)
        return (kernel.workgroup_count, 1, 1)

    def builtin(self, name: str) -> str:
        self.used.add(name)
        return name

    def builtins(self) -> list[str]:
        """The parameters of the entry point."""
        return [f"@builtin({n}) {n}: {t}" for n, t in _BUILTINS.items() if n in self.used]

    # the parameter block

    def word(self, at: int) -> str:
        return f"params[{at // 4}].{'xyzw'[at % 4]}"

    def depth(self) -> str:
        """The workgroups of the launch in z."""
        return self.word(self.layout.grid + 2)

    def scalar(self, at: int, dtype: DType) -> str:
        """A by-value scalar whose first word is `at`."""
        low, name = self.word(at), self.w.type(dtype)
        if dtype.is_bool:
            return f"({low} != 0u)"
        if dtype.bits == 64:
            return self.w.join(f"vec2<u32>({low}, {self.word(at + 1)})", dtype)
        if dtype.name == "f16":
            return f"bitcast<vec2<f16>>({low}).x"
        return low if name == "u32" else f"bitcast<{name}>({low})"

    def counts(self) -> list[str]:
        """The element count of each buffer, of the index type."""
        return [self.scalar(at, self.w.kernel.index) for at in self.layout.counts]

    def bind_scalars(self) -> None:
        """Bind the by-value scalars to their arguments."""
        w, at = self.w, iter(self.layout.scalars)
        for param, value in zip(w.kernel.params, w.kernel.body.args, strict=True):
            if not param.is_memory:
                w.bind(value, self.keep(self.scalar(next(at), element_of(value.type)), param.name))

    def keep(self, text: str, hint: str) -> str:
        name = self.w.name(hint)
        self.w.head.append(f"let {name} = {text};")
        return name

    # ids

    def as_index(self, word: str) -> str:
        name = self.w.type(self.w.kernel.index)
        return word if name == "u32" else f"{name}({word})"

    def prepare(self) -> None:
        """Define every id that the kernel uses; leave if the group is a surplus one."""
        used = sorted(self.usage.ids)
        dims = sorted({d for name, d in used if name in ("group_id", "global_id")})
        group = self.unfold(dims)
        for name, d in used:
            hint = f"{name}_{'xyz'[d]}" if name in _BY_DIMENSION else name
            self._known[name, d] = self.keep(self.find(name, d, group), hint)

    def find(self, name: str, d: int, group: dict[int, str]) -> str:
        kernel = self.w.kernel
        if name == "group_id":
            return self.as_index(group[d])
        if name == "global_id":
            base = f"{self.as_index(group[d])} * {self.constant(kernel.workgroup[d])}"
            return f"{base} + {self.local(d)}"
        if name == "num_groups":
            return self.as_index(self.word(self.layout.grid + d))
        if name == "local_id":
            return self.local(d)
        return self.linear(name)

    def constant(self, number: int) -> str:
        return self.w.literal(number, self.w.kernel.index)

    def local(self, d: int) -> str:
        size = self.w.kernel.workgroup
        if size[d] == 1:
            return self.constant(0)
        if self.size == size:
            return self.as_index(f"{self.builtin('local_invocation_id')}.{'xyz'[d]}")
        word, below = self.builtin("local_invocation_index"), math.prod(size[:d])
        word = f"{word} / {below}u" if below > 1 else word
        return self.as_index(f"({word}) % {size[d]}u")

    def linear(self, name: str) -> str:
        """local_linear_id and the ids of subgroups, which take invocations in their order."""
        index, size = self.builtin("local_invocation_index"), self.w.kernel.subgroup
        if name == "local_linear_id":
            return self.as_index(index)
        if size is None:
            raise self.w.fail(f"{name} needs a subgroup size: give the kernel a SUBGROUP constexpr")
        if name == "num_subgroups":
            return self.constant(-(-self.w.kernel.workgroup_count // size))
        if name == "subgroup_lane" and self.usage.subgroups:
            return self.as_index(self.lane())
        return self.as_index(f"({index} {'/' if name == 'subgroup_id' else '%'} {size}u)")

    def lane(self) -> str:
        self.w.enables.add("subgroups")
        self.w.requires.add("subgroup_basic")
        return self.builtin("subgroup_invocation_id")

    def unfold(self, dims: list[int]) -> dict[int, str]:
        """The group id along each dimension in use, of a grid that may be folded."""
        w = self.w
        count, group = self.builtin("num_workgroups"), self.builtin("workgroup_id")
        grid = [self.word(self.layout.grid + d) for d in range(3)]
        names = {d: w.name(f"group_{'xyz'[d]}") for d in dims}
        w.head += [f"var {name} = {group}.{'xyz'[d]};" for d, name in names.items()]
        decoded = {
            0: f"linear % {grid[0]}",
            1: f"(linear / {grid[0]}) % {grid[1]}",
            2: f"(linear / {grid[0]}) / {grid[1]}",
        }
        w.head += [
            f"if ({count}.x != {grid[0]} || {count}.y != {grid[1]}) {{  // a folded grid",
            f"  let linear = {group}.x + {group}.y * {count}.x;",
            f"  if (linear >= {grid[0]} * {grid[1]} * {grid[2]}) {{ return; }}",
            *(f"  {name} = {decoded[d]};" for d, name in names.items()),
            "}",
        ]
        return names

    def get(self, op: Op) -> str:
        return self._known[id_key(op)]
