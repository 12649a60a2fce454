"""One form for what can be said in several: movement that moves nothing goes, two moves in a row
become one. Nothing is computed otherwise, so every bit stays but those of NaNs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..core import Attr, Graph, Node, Tensor
from ..types import TensorType
from .rewrite import Rewriter

Found = tuple[Tensor, ...] | Node | None


def canonicalize(graph: Graph) -> Graph:
    """Each node by its rule; nodes that nothing reads any more stay for `remove_dead`."""
    return Rewriter(graph, _rule).run()


def _rule(rewriter: Rewriter, node: Node) -> Found:
    rule = _RULES.get(node.op)
    return None if rule is None else rule(rewriter, node)


def _before(rewriter: Rewriter, node: Node, op: str) -> Node | None:
    """The node that made the operand, where it is of this op."""
    made = rewriter.made.get(node.operands[0].id)
    return made if made is not None and made.op == op else None


def _over(node: Node, operand: Tensor, **attrs: Attr) -> Node:
    merged = dict(node.attrs) | attrs
    return replace(node, operands=(operand,), attrs=tuple(sorted(merged.items())))


def _same(node: Node) -> Found:
    """The operand itself, where the result is of its type."""
    return node.operands if node.results[0].type == node.operands[0].type else None


def _cast(rewriter: Rewriter, node: Node) -> Found:
    if (found := _same(node)) is not None:
        return found
    before = _before(rewriter, node, "cast")
    if before is None:
        return None
    first, middle = before.operands[0].type, before.results[0].type
    return _over(node, before.operands[0]) if _keeps(first, middle) else None


def _keeps(first: TensorType, middle: TensorType) -> bool:
    """Whether every value of the first element type is one of the second, so that a cast by way of
    it is the cast itself."""
    a, b = first.dtype, middle.dtype
    if a.is_float and b.is_float:
        ranges = {"f16": ("f32", "f64"), "bf16": ("f32", "f64"), "f32": ("f64",)}
        return b.name in ranges.get(a.name, ())
    if a.is_int and b.is_int:
        if a.is_signed and not b.is_signed:
            return False
        return b.bits > a.bits or (a.is_signed == b.is_signed and b.bits == a.bits)
    return False


def _reshape(rewriter: Rewriter, node: Node) -> Found:
    if (found := _same(node)) is not None:
        return found
    before = _before(rewriter, node, "reshape")
    return _over(node, before.operands[0]) if before is not None else None


def _transpose(rewriter: Rewriter, node: Node) -> Found:
    axes = node.attr("axes")
    assert isinstance(axes, tuple)
    if axes == tuple(range(len(axes))):
        return node.operands
    before = _before(rewriter, node, "transpose")
    if before is None:
        return None
    inner = before.attr("axes")
    assert isinstance(inner, tuple)
    return _over(node, before.operands[0], axes=tuple(inner[axis] for axis in axes))


def _broadcast(rewriter: Rewriter, node: Node) -> Found:
    if (found := _same(node)) is not None:
        return found
    before = _before(rewriter, node, "broadcast")
    return _over(node, before.operands[0]) if before is not None else None


def _slice(rewriter: Rewriter, node: Node) -> Found:
    if (found := _same(node)) is not None:
        return found
    before = _before(rewriter, node, "slice")
    if before is None:
        return None
    outer, inner = (_bounds(n) for n in (node, before))
    start = tuple(a + b * s for (a, _, s), (b, _, _) in zip(inner, outer, strict=True))
    step = tuple(s * t for (_, _, s), (_, _, t) in zip(inner, outer, strict=True))
    sizes = node.results[0].type.shape
    ends = zip(start, step, sizes, before.operands[0].type.shape, strict=True)
    stop = tuple(min(a + s * n, most) for a, s, n, most in ends)
    start = tuple(min(a, b) for a, b in zip(start, stop, strict=True))
    return _over(node, before.operands[0], start=start, stop=stop, step=step)


def _bounds(node: Node) -> list[tuple[int, int, int]]:
    parts = [node.attr(name) for name in ("start", "stop", "step")]
    return list(zip(*(part for part in parts if isinstance(part, tuple)), strict=True))


def _concat(rewriter: Rewriter, node: Node) -> Found:
    return node.operands if len(node.operands) == 1 else None


def _pad(rewriter: Rewriter, node: Node) -> Found:
    return node.operands[:1] if node.results[0].type == node.operands[0].type else None


def _twice(rewriter: Rewriter, node: Node) -> Found:
    """-(-x) and ~(~x) are x, to the bit."""
    before = _before(rewriter, node, node.op)
    return before.operands if before is not None else None


_RULES: dict[str, Callable[[Rewriter, Node], Found]] = {
    "broadcast": _broadcast,
    "cast": _cast,
    "concat": _concat,
    "neg": _twice,
    "not": _twice,
    "pad": _pad,
    "reshape": _reshape,
    "slice": _slice,
    "transpose": _transpose,
}
