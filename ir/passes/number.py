"""Canonical value numbers: 0, 1, ... in program order, without touching what already has them."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel, Op, Region, Value, with_body


@dataclass(frozen=True)
class Renumber:
    """Number values in program order, as `core.renumber` does; unchanged kernels stay the same."""

    name: str = "renumber"

    def __call__(self, kernel: Kernel) -> Kernel:
        body = _Numbers().region(kernel.body)
        return kernel if body is kernel.body else with_body(kernel, body)


class _Numbers:
    def __init__(self) -> None:
        self.new: dict[int, Value] = {}
        self.moved = False

    def define(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        new = self.new
        out = []
        for v in values:
            n = len(new)
            if v.id != n:
                v_new = Value(n, v.type, v.hint)
                self.moved = True
            else:
                v_new = v
            new[v.id] = v_new
            out.append(v_new)
        return tuple(out)

    def region(self, region: Region) -> Region:
        new = self.new
        args = self.define(region.args)
        ops = []
        for op in region.ops:
            if not op.regions:
                if op.results:
                    n = len(new)
                    v = op.results[0]
                    if v.id == n and not self.moved:
                        new[n] = v
                        ops.append(op)
                        continue
                elif not self.moved:
                    ops.append(op)
                    continue
            operands = tuple([new[v.id] for v in op.operands])
            regions = tuple([self.region(r) for r in op.regions]) if op.regions else ()
            results = self.define(op.results)
            ops.append(Op(op.name, operands, results, op.attrs, regions, op.loc))
        if not self.moved:
            return region
        return Region(args, tuple(ops))
