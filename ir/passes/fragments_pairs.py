"""Two products that follow each other in a sum, as one of twice the depth.

gfx950 does a product of twice the depth in the same time. Which elements along the depth one
instruction takes does not matter (`fragments_amd`), so the words of both lie side by side.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..builder import Builder
from ..core import Kernel, Op, Region, Value, walk, with_body
from ..dtypes import VectorType, u32
from .effects import free_number

_WORDS = VectorType(u32, 2)  # of operands that can be joined


@dataclass(frozen=True)
class PairProducts:
    """Join the `amd_mma` of a region whose sum nothing else takes with the one that adds to it.

    depths: those that have a double, as (element type, depth).
    """

    depths: tuple[tuple[str, int], ...]
    name: str = "pair_products"

    def __call__(self, kernel: Kernel) -> Kernel:
        if not any(op.name == "amd_mma" for op in walk(kernel.body)):
            return kernel
        uses = Counter(v.id for op in walk(kernel.body) for v in op.operands)
        walker = _Pairing(free_number(kernel), frozenset(self.depths), uses)
        return with_body(kernel, walker.region(kernel.body))


class _Pairing:
    def __init__(self, first: int, depths: frozenset[tuple[str, int]], uses: Counter[int]) -> None:
        self.b, self.depths, self.uses = Builder(first), depths, uses

    def region(self, region: Region) -> Region:
        """The region with its pairs joined, inner ones too."""
        earlier: dict[int, Op] = {}  # products that may be joined, by the number of their sum
        pairs: dict[int, Op] = {}  # the first of two by `id` of the second
        gone: set[int] = set()
        for op in region.ops:
            if op.name != "amd_mma" or not self.fits(op):
                continue
            before = earlier.pop(op.operands[2].id, None)
            if before is not None and before.attrs == op.attrs:
                pairs[id(op)] = before
                gone.add(id(before))
            elif self.uses[op.result.id] == 1:
                earlier[op.result.id] = op
        out: list[Op] = []
        for op in region.ops:
            if id(op) in gone:
                continue
            if id(op) in pairs:
                out += self.joined(pairs[id(op)], op)
            elif op.regions:
                inner = tuple(self.region(r) for r in op.regions)
                out.append(Op(op.name, op.operands, op.results, op.attrs, inner, op.loc))
            else:
                out.append(op)
        return Region(region.args, tuple(out))

    def fits(self, op: Op) -> bool:
        key = str(op.attr("a")), op.attr("depth")
        return key in self.depths and all(v.type == _WORDS for v in op.operands[:2])

    def joined(self, one: Op, two: Op) -> list[Op]:
        """The ops of a product of both depths, where the second stood."""
        self.b.ops.clear()
        self.b.loc = two.loc
        sides: list[Value] = [
            self.b.emit("shuffle", a, b, lanes=(0, 1, 2, 3))
            for a, b in zip(one.operands[:2], two.operands[:2], strict=True)
        ]
        depth = two.attr("depth")
        assert isinstance(depth, int)
        attrs = tuple((n, 2 * depth if n == "depth" else v) for n, v in two.attrs)
        operands = (*sides, one.operands[2])
        return [*self.b.ops, Op("amd_mma", operands, two.results, attrs, (), two.loc)]
