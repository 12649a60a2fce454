"""Dead code: values that nothing needs, down to carried values, results and unread arrays.

First everything that has an effect marks what it needs, transitively, through a work list; then
what is not marked goes. An op with regions lives when one of its results is needed or when
something inside it has an effect; a loop without either is taken to end. A store to an array of
the kernel's own counts only if something reads that array.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import is_

from ..core import Kernel, Op, Region, Value, with_body
from .effects import CONVERGENT, LOOPS, MERGEABLE, READERS, WRITERS

_JUMPS = frozenset({"break", "continue", "return"})
_PLAIN = MERGEABLE | CONVERGENT | READERS | {"alloc", "yield", "condition"}


@dataclass(frozen=True)
class Dce:
    """Remove what has no effect."""

    name: str = "dce"

    def __call__(self, kernel: Kernel) -> Kernel:
        live = _Liveness(kernel)
        body = live.sweep(kernel.body)
        return kernel if body is kernel.body else with_body(kernel, body)


class _Liveness:
    def __init__(self, kernel: Kernel) -> None:
        self.body = kernel.body
        self.defs: dict[int, Op] = {}  # by the value that an op without regions defines
        # Results of ops with regions and their arguments: op and slot, -1 for a loop's counter.
        self.source: dict[int, tuple[Op, int]] = {}
        self.parent: dict[int, Op] = {}  # of ops with regions, by id
        self.exits: dict[int, list[Op]] = {}  # breaks and continues, by loop
        self.alive: set[int] = set()  # ids of ops that stay whether or not a result is needed
        self.values: set[int] = set()  # numbers of needed values
        self.slots: dict[int, set[int]] = {}  # needed results of ops with regions
        self.stores: dict[int, list[tuple[Op, Op | None]]] = {}
        self.queue: list[Value] = []
        self.arrays = {o.results[0].id for o in kernel.body.ops if o.name == "alloc"}
        roots: list[tuple[Op, Op | None]] = []
        self._index(kernel.body, None, None, roots)
        for op, parent in roots:
            self._keep(op, parent)
        self._drain()

    # collecting

    def _index(
        self, region: Region, parent: Op | None, loop: Op | None, roots: list[tuple[Op, Op | None]]
    ) -> None:
        source, defs = self.source, self.defs
        for op in region.ops:
            name = op.name
            if not op.regions:
                for v in op.results:
                    defs[v.id] = op
                if name in _PLAIN:
                    continue
            if op.regions:
                for n, v in enumerate(op.results):
                    source[v.id] = (op, n)
                if parent is not None:
                    self.parent[id(op)] = parent
                inner = op if name in LOOPS else loop
                first = 1 if name == "for" else 0
                for r in op.regions:
                    for n, v in enumerate(r.args):
                        source[v.id] = (op, n - first)
                    self._index(r, op, inner, roots)
            elif name in WRITERS and op.operands[0].id in self.arrays:
                self.stores.setdefault(op.operands[0].id, []).append((op, parent))
            elif name in _JUMPS:
                if name == "return":
                    if parent is not None:
                        roots.append((op, parent))
                elif loop is not None:
                    self.exits.setdefault(id(loop), []).append(op)
                    if parent is not loop and parent is not None:
                        self.parent[id(op)] = parent
            else:
                roots.append((op, parent))

    # marking

    def _keep(self, op: Op, parent: Op | None) -> None:
        """`op` itself must stay, with its operands and everything around it."""
        if id(op) in self.alive:
            return
        self.alive.add(id(op))
        self.queue.extend(op.operands)
        self._around(parent)

    def _around(self, op: Op | None) -> None:
        while op is not None and id(op) not in self.alive:
            self._enter(op)
            op = self.parent.get(id(op))

    def _enter(self, op: Op) -> None:
        """An op with regions stays: what decides its course is needed."""
        self.alive.add(id(op))
        name = op.name
        if name == "for":
            self.queue.extend(op.operands[:2])
        elif name == "while":
            end = op.regions[0].terminator
            if end.name == "condition":
                self.queue.extend(end.operands)
        else:
            self.queue.append(op.operands[0])
        if name in LOOPS:
            for jump in self.exits.get(id(op), ()):
                self.alive.add(id(jump))
                self._around(self.parent.get(id(jump)))

    def _need_slot(self, op: Op, n: int) -> None:
        """Result or carried value number `n` of an op with regions is needed."""
        slots = self.slots.setdefault(id(op), set())
        if n in slots:
            return
        slots.add(n)
        if id(op) not in self.alive:
            self._around(op)
        if op.name in LOOPS:
            self.queue.append(op.operands[n + 2 if op.name == "for" else n])
            for jump in self.exits.get(id(op), ()):
                self.queue.append(jump.operands[n])
        else:
            for r in op.regions:
                if r.ops[-1].name == "yield":
                    self.queue.append(r.ops[-1].operands[n])

    def _drain(self) -> None:
        queue, values, defs = self.queue, self.values, self.defs
        while queue:
            number = queue.pop().id
            if number in values:
                continue
            values.add(number)
            op = defs.get(number)
            if op is not None:
                queue += op.operands
                if number in self.stores:  # an array
                    for store, parent in self.stores[number]:
                        self._keep(store, parent)
            elif number in self.source:
                op, n = self.source[number]
                if n >= 0:
                    self._need_slot(op, n)
                else:
                    self._around(op)

    # sweeping

    def sweep(self, region: Region) -> Region:
        alive, values = self.alive, self.values
        out = []
        for op in region.ops:
            if op.results and not op.regions and op.results[0].id in values:
                out.append(op)
            elif op.regions:
                if id(op) in alive:
                    out.append(self._sweep_op(op))
            elif id(op) in alive or op is region.ops[-1]:
                out.append(op)
        if len(out) == len(region.ops) and all(map(is_, out, region.ops)):
            return region
        return Region(region.args, tuple(out))

    def _sweep_op(self, op: Op) -> Op:
        slots = self.slots.get(id(op), set())
        count = len(op.results)
        regions = tuple([self.sweep(r) for r in op.regions])
        if len(slots) == count:
            if all(map(is_, regions, op.regions)):
                return op
            return Op(op.name, op.operands, op.results, op.attrs, regions, op.loc)
        kept = [n for n in range(count) if n in slots]
        results = tuple([op.results[n] for n in kept])
        if op.name not in LOOPS:
            regions = tuple([_trim(r, kept, ("yield",), 0) for r in regions])
            return Op(op.name, op.operands, results, op.attrs, regions, op.loc)
        first = 2 if op.name == "for" else 0
        operands = (*op.operands[:first], *(op.operands[first + n] for n in kept))
        head = 1 if op.name == "for" else 0
        regions = tuple([_trim(r, kept, ("break", "continue"), head) for r in regions])
        regions = tuple([_trim_args(r, kept, head) for r in regions])
        return Op(op.name, operands, results, op.attrs, regions, op.loc)


def _trim_args(region: Region, kept: list[int], head: int) -> Region:
    args = (*region.args[:head], *(region.args[head + n] for n in kept))
    return Region(args, region.ops)


def _trim(region: Region, kept: list[int], names: tuple[str, ...], head: int) -> Region:
    """Drop operands of the terminators that belong to one op: its yields, or its loop exits."""
    ops = []
    for op in region.ops:
        if op.name in names:
            operands = tuple([op.operands[n] for n in kept])
            op = Op(op.name, operands, (), op.attrs, (), op.loc)
        elif op.regions and names[0] != "yield" and op.name not in LOOPS:
            inner = tuple([_trim(r, kept, names, head) for r in op.regions])
            op = Op(op.name, op.operands, op.results, op.attrs, inner, op.loc)
        ops.append(op)
    return Region(region.args, tuple(ops))
