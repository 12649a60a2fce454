"""Identities of ops that build vectors and take them apart."""

from __future__ import annotations

from ..core import Op, Value
from ..dtypes import VectorType
from .rewrite import Answer, Rewriter, Rules


def lane_of(rw: Rewriter, vector: Value, lane: int) -> Value | None:
    """The scalar that is known to be lane `lane` of `vector`; emits nothing."""
    op = rw.defs.get(vector.id)
    while op is not None:
        if op.name == "vector":
            return op.operands[lane]
        if op.name == "splat":
            return op.operands[0]
        if op.name == "insert":
            if op.attrs[0][1] == lane:
                return op.operands[1]
            op = rw.defs.get(op.operands[0].id)
        elif op.name == "shuffle":
            a, b = op.operands
            assert isinstance(a.type, VectorType)
            lane = op.attrs[0][1][lane]  # type: ignore[index,assignment]
            source = a if lane < a.type.lanes else b
            lane %= a.type.lanes
            op = rw.defs.get(source.id)
        else:
            return None
    return None


def extract(rw: Rewriter, op: Op) -> Answer:
    lane = op.attrs[0][1]
    assert isinstance(lane, int)
    vector = op.operands[0]
    found = lane_of(rw, vector, lane)
    if found is not None:
        return found
    inner = rw.defs.get(vector.id)
    if inner is not None and inner.name == "insert":  # of another lane
        return Op("extract", inner.operands[:1], op.results, op.attrs, (), op.loc)
    if inner is not None and inner.name == "shuffle":
        a, b = inner.operands
        assert isinstance(a.type, VectorType)
        chosen: int = inner.attrs[0][1][lane]  # type: ignore[index,assignment]
        source = a if chosen < a.type.lanes else b
        attrs = (("lane", chosen % a.type.lanes),)
        return Op("extract", (source,), op.results, attrs, (), op.loc)
    return None


def vector(rw: Rewriter, op: Op) -> Answer:
    """The lanes of one vector put together again, or one scalar everywhere."""
    lanes = op.operands
    if all(v.id == lanes[0].id for v in lanes):
        return Op("splat", lanes[:1], op.results, (), (), op.loc)
    source: Value | None = None
    for n, lane in enumerate(lanes):
        inner = rw.defs.get(lane.id)
        if inner is None or inner.name != "extract" or inner.attrs[0][1] != n:
            return None
        if source is not None and inner.operands[0].id != source.id:
            return None
        source = inner.operands[0]
    return source if source is not None and source.type == op.results[0].type else None


def insert(rw: Rewriter, op: Op) -> Answer:
    base, value = op.operands
    inner = rw.defs.get(value.id)
    same = inner is not None and inner.name == "extract" and inner.attrs == op.attrs
    if same and inner is not None and inner.operands[0].id == base.id:
        return base
    return None


def shuffle(rw: Rewriter, op: Op) -> Answer:
    a, b = op.operands
    assert isinstance(a.type, VectorType)
    lanes = op.attrs[0][1]
    if lanes == tuple(range(a.type.lanes)):
        return a
    if lanes == tuple(range(a.type.lanes, 2 * a.type.lanes)):
        return b
    return None


VECTOR_RULES: Rules = {
    "extract": (extract,),
    "vector": (vector,),
    "insert": (insert,),
    "shuffle": (shuffle,),
}
