"""What is declared to be tuned: `tune` of a kernel's configuration, and the points of its spaces.

tune:
  specializations: [f32]              # else all
  sizes: [{m: 512, n: 512, k: 512}]   # problems to measure: parameters with their values, for
                                      # buffers their elements
  arguments: {a: m * k, b: k * n}     # all other parameters
  cost: {operations: ..., bytes: ...} # what the runtime's model knows of a variant
  spaces:                             # by backend, family or target
    cpu:
      constexprs: {TM: [4, 8], TK: [128, 256], DOWN: true}
      where: [TM * TK <= 1024]
    ptx: [{TM: 8}, {TM: 4, TK: 256}]  # or the points themselves
  rotating: [b]                       # parameters of which every launch that is timed has another
                                      # copy, so that no cache holds them
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gristmill.store.expressions import LARGEST

from .constexprs import MADE_FROM, Constexprs, constexprs, places
from .document import Node, nearest
from .expressions import Expression

MOST = 512  # points of a space: each is an artifact
KEYS = ("specializations", "sizes", "arguments", "cost", "spaces", "rotating")

Argument = tuple[Expression, ...] | Expression | float  # a shape; elements or an integer; a float


@dataclass(frozen=True)
class Space:
    """The points that are tried for some targets, in order of their constexprs."""

    points: tuple[Constexprs, ...]


@dataclass(frozen=True)
class Tune:
    """A kernel's declaration: see above. specializations: None are all."""

    spaces: Mapping[str, Space]
    sizes: tuple[dict[str, int], ...] = ()
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    cost: Mapping[str, Expression] = field(default_factory=dict)
    specializations: tuple[str, ...] | None = None
    rotating: tuple[str, ...] = ()
    place: str = ""

    def points(self, specialization: str, backend: str, arch: str) -> tuple[Constexprs, ...]:
        """The points for a target; none where no space is declared for it."""
        if self.specializations is not None and specialization not in self.specializations:
            return ()
        for word in (backend, MADE_FROM.get(backend, backend)):
            for where in places(f"{word}-{arch}", self.spaces):
                if where in self.spaces:
                    return self.spaces[where].points
        return ()


def tune_of(node: Node, specializations: Iterable[str]) -> Tune:
    """A kernel's declaration, once the keys of its spaces are right."""
    keys = node.mapping(KEYS, ["spaces", "sizes", "arguments"])
    cost = keys["cost"].mapping(["operations", "bytes"]) if "cost" in keys else {}
    spaces = keys["spaces"].mapping()
    only = None
    if "specializations" in keys:
        known = list(specializations)
        only = tuple(item.choice(known) for item in keys["specializations"].sequence())
    return Tune(
        {where: _space(space) for where, space in spaces.items()},
        tuple(sizes_of(item) for item in keys["sizes"].sequence()),
        {name: _argument(item) for name, item in keys["arguments"].mapping().items()},
        {name: _expression(item) for name, item in cost.items()},
        only,
        tuple(item.text() for item in keys["rotating"].sequence()) if "rotating" in keys else (),
        node.place,
    )


def sizes_of(node: Node) -> dict[str, int]:
    """A problem: parameter -> value, or elements of a buffer."""
    found = {}
    for name, item in node.mapping().items():
        value = item.scalar()
        if type(value) is not int or not 0 <= value <= LARGEST:
            item.fail(f"expected a size, 0 to {LARGEST}, got {value!r}")
        found[name] = value
    if not found:
        node.fail("sizes of nothing; name parameters of the kernel")
    return found


def _argument(node: Node) -> Argument:
    if node.is_list:
        return tuple(_expression(item) for item in node.sequence())
    value = node.scalar()
    return value if isinstance(value, float) else _expression(node)


def _expression(node: Node) -> Expression:
    return Expression(str(node.scalar()), node.place)


def _space(node: Node) -> Space:
    if node.is_list:
        return _listed(node)
    keys = node.mapping(["constexprs", "where"], ["constexprs"])
    entries = keys["constexprs"].mapping()
    values: dict[str, list[Any]] = {}
    for name, item in entries.items():
        value = item.constexpr()
        values[name] = value if isinstance(value, list) else [value]
        twice = [v for n, v in enumerate(values[name]) if v in values[name][:n]]
        if twice or not values[name]:
            item.fail(f"{twice[0]!r} stands here twice" if twice else "a list without values")
    if (count := math.prod(map(len, values.values()))) > MOST * 64:
        node.fail(f"{count} points, before any constraint; at most {MOST * 64}")
    rules = [_expression(item) for item in keys["where"].sequence()] if "where" in keys else []
    where = {"": node.place, **{name: item.place for name, item in entries.items()}}
    points = [
        Constexprs(point, where)
        for point in (
            dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
        )
        if all(rule.value(point) for rule in rules)
    ]
    if not points:
        node.fail("no point of the space meets the constraints")
    return _limited(node, points)


def _listed(node: Node) -> Space:
    """The space of a list of points."""
    points: list[Constexprs] = []
    for item in node.sequence():
        point = constexprs(item, item.mapping())
        if point in points:
            item.fail("this point stands here twice")
        points.append(point)
    if not points:
        node.fail("a space without points")
    return _limited(node, points)


def _limited(node: Node, points: list[Constexprs]) -> Space:
    if len(points) > MOST:
        node.fail(f"{len(points)} points; at most {MOST}, each of which is an artifact")
    return Space(tuple(points))


def unknown_value(point: Mapping[str, Any], known: Iterable[Mapping[str, Any]]) -> str:
    """What is odd about a point that is none of those known, in words."""
    known = list(known)
    names = {name for other in known for name in other}
    for name, value in point.items():
        if name not in names:
            return f"unknown constexpr {name!r}{nearest(name, names)}"
        values = [other[name] for other in known if name in other]
        if value not in values:
            have = ", ".join(sorted({str(v) for v in values}))
            return f"{name}: {value!r} is no value of the space (it has {have})"
    return "no point of the space and no variant has these values together"
