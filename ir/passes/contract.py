"""Contraction: a product that is only added to something becomes one `fma`.

Acts on kernels that declare `fast=("contract", ...)`; the result then depends on whether the
target's fma is fused.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..core import Kernel, Op, Region, Value, walk, with_body
from ..dtypes import element_of
from .effects import free_number


@dataclass(frozen=True)
class Contract:
    """Make fma of mul and add or sub, where the kernel allows it."""

    name: str = "contract"

    def __call__(self, kernel: Kernel) -> Kernel:
        if "contract" not in kernel.fast:
            return kernel
        walker = _Contraction(kernel)
        body = walker.region(kernel.body)
        return kernel if body is kernel.body else with_body(kernel, body)


class _Contraction:
    """Leaves the products behind; DCE removes them."""

    def __init__(self, kernel: Kernel) -> None:
        self.uses = Counter(v.id for op in walk(kernel.body) for v in op.operands)
        self.products: dict[int, tuple[Value, ...]] = {}
        self.next = free_number(kernel)

    def region(self, region: Region) -> Region:
        out: list[Op] = []
        changed = False
        # A product outside is not taken into a region: a loop around the sum would repeat it.
        outside, self.products = self.products, {}
        for op in region.ops:
            new = op
            if op.regions:
                regions = tuple([self.region(r) for r in op.regions])
                if any(a is not b for a, b in zip(regions, op.regions, strict=True)):
                    new = Op(op.name, op.operands, op.results, op.attrs, regions, op.loc)
            elif op.name == "mul" and element_of(op.results[0].type).is_float:
                if self.uses[op.results[0].id] == 1:
                    self.products[op.results[0].id] = op.operands
            elif op.name in ("add", "sub") and element_of(op.results[0].type).is_float:
                new = self.fuse(op, out)
            changed |= new is not op
            out.append(new)
        self.products = outside
        return Region(region.args, tuple(out)) if changed else region

    def fuse(self, op: Op, out: list[Op]) -> Op:
        a, b = op.operands
        if (pair := self.products.get(a.id)) is not None:
            c = b if op.name == "add" else self.negated(b, op, out)
            return Op("fma", (*pair, c), op.results, (), (), op.loc)
        if (pair := self.products.get(b.id)) is not None:
            x = pair[0] if op.name == "add" else self.negated(pair[0], op, out)
            return Op("fma", (x, pair[1], a), op.results, (), (), op.loc)
        return op

    def negated(self, v: Value, op: Op, out: list[Op]) -> Value:
        result = Value(self.next, v.type)
        self.next += 1
        out.append(Op("neg", (v,), (result,), (), (), op.loc))
        return result
