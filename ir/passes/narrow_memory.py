"""Loads and stores of types that a target's buffers do not hold, and bit patterns of vectors.

A buffer of such a type is an array of u32 words. A load shifts its element out of the word. A
store never reads and writes back: it clears the element's bits and sets the new ones by two atomic
ops, so that neighbours in the word that other invocations write at the same time are kept. Vectors
that fill whole words are plain loads and stores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core import Op, Value
from ..dtypes import (
    DTYPES,
    Access,
    DType,
    MemType,
    Space,
    VectorType,
    element_of,
    lanes_of,
    u32,
    with_element,
)
from .support import Support

if TYPE_CHECKING:
    from .narrow import _Narrower as Narrower


@dataclass(frozen=True)
class Place:
    """A buffer whose memory type changed: its new value and the element type it stands for."""

    buffer: Value
    element: DType

    @property
    def words(self) -> bool:
        cell = element_of(self.buffer.type)
        return cell == u32


def cell(t: DType, support: Support) -> DType:
    """The element type in which buffers of `t` are declared."""
    if t.bits > 16:
        return t
    names = {"bf16": ("u16",), "bool": ("bool", "u8")}.get(t.name, (t.name,))
    if t.name == "bf16" and {"bf16"} <= support.storage & support.arithmetic:
        return t
    return DTYPES[next((n for n in names if n in support.storage), "u32")]


def buffer_type(t: MemType, new: DType) -> MemType:
    """The type of a buffer in other cells; words are updated by atomics, which also read."""
    access = Access.READWRITE if new == u32 and t.access.writes else t.access
    return MemType(Space.BUFFER, new, None, access)


def load(w: Narrower, op: Op) -> None:
    memory = op.operands[0]
    index = w.value(op.operands[1])
    result = op.results[0]
    place = w.memories.get(memory.id)
    element = element_of(memory.type)
    if place is not None and place.words:
        w.set(result, from_pattern(w, _load_words(w, place, index, lanes_of(result.type)), element))
        return
    source = w.value(memory)
    raw = w.b.op("load", (source, index), dict(op.attrs), None).result
    if place is not None:
        w.set(result, _from_cell(w, raw, element))
    elif raw.type != (w.types(result.type) or (result.type,))[0]:
        w.set(result, w.wide.cast(raw, w.held[element.name]))
    else:
        w.set(result, raw)


def store(w: Narrower, op: Op) -> None:
    memory, _, old = op.operands
    index, value = w.value(op.operands[1]), w.value(old)
    place = w.memories.get(memory.id)
    element = element_of(memory.type)
    if place is not None and place.words:
        _store_words(w, place, index, to_pattern(w, value, element))
        return
    target = w.value(memory)
    new = element_of(target.type)
    if place is not None:
        value = w.wide.cast(to_pattern(w, value, element), new)
    else:
        value = w.wide.cast(value, new)
    w.b.op("store", (target, index, value), dict(op.attrs))


def _from_cell(w: Narrower, raw: Value, element: DType) -> Value:
    """The value in a loaded u8 or u16 that stands for a bool or bf16."""
    return from_pattern(w, w.wide.cast(raw, u32), element)


def from_pattern(w: Narrower, word: Value, element: DType) -> Value:
    """A value, as it is held, from its bits in u32."""
    if element.is_bool:
        return w.wide.e("ne", word, w.wide.k(0, word))
    if element.name in w.held:
        return w.wide.unpattern(word, element)
    return w._unraw(word, element)


def to_pattern(w: Narrower, value: Value, element: DType) -> Value:
    """The bits of a value, as it is held, zero-extended in u32."""
    if element.is_bool:
        return w.wide.cast(value, u32)
    if element.name in w.held:
        return w.wide.pattern(value, element)
    return w._raw(value, element)


def _locate(w: Narrower, index: Value, bits: int) -> tuple[Value, Value]:
    """The word that holds piece `index` of `bits` bits, and how far up in it the piece lies."""
    per = 32 // bits
    word = w.wide.e("shr", index, w.wide.k(per.bit_length() - 1, index))
    within = w.wide.e("and", index, w.wide.k(per - 1, index))
    up = w.wide.e("mul", w.wide.cast(within, u32), w.b.const(bits, u32))
    return word, up


def _load_words(w: Narrower, place: Place, index: Value, lanes: int) -> Value:
    """Elements as u32 patterns: a scalar, or a vector of `lanes`."""
    bits = place.element.bits
    total = bits * lanes
    if total <= 16:
        at, up = _locate(w, index, total)
        word = w.b.emit("load", place.buffer, at)
        word = w.wide.e("shr", word, up)
        words = [w.wide.e("and", word, w.wide.k((1 << total) - 1, word))]
    else:
        count = total // 32
        if count == 1:
            words = [w.b.emit("load", place.buffer, index)]
        else:
            loaded = w.b.emit("load", place.buffer, index, lanes=count)
            words = [w.b.emit("extract", loaded, lane=n) for n in range(count)]
    return _gather(w, cut(w, words, min(total, 32), bits))


def _store_words(w: Narrower, place: Place, index: Value, pattern: Value) -> None:
    bits = place.element.bits
    lanes = lanes_of(pattern.type)
    total = bits * lanes
    words = join(w, _scatter(w, pattern), bits, min(total, 32))
    if total >= 32:
        w.b.do("store", place.buffer, index, _gather(w, words))
        return
    at, up = _locate(w, index, total)
    mask = w.b.const((1 << total) - 1, u32)
    others = w.wide.e("not", w.wide.e("shl", mask, up))
    w.b.emit("atomic", place.buffer, at, others, kind="and")
    w.b.emit("atomic", place.buffer, at, w.wide.e("shl", words[0], up), kind="or")


def _scatter(w: Narrower, value: Value) -> list[Value]:
    if not isinstance(value.type, VectorType):
        return [value]
    return [w.b.emit("extract", value, lane=n) for n in range(value.type.lanes)]


def _gather(w: Narrower, lanes: list[Value]) -> Value:
    return lanes[0] if len(lanes) == 1 else w.b.emit("vector", *lanes)


def cut(w: Narrower, words: list[Value], have: int, want: int) -> list[Value]:
    """u32 words of `have` bits as pieces of `want` bits, low first."""
    out = []
    for word in words:
        for low in range(0, have, want):
            piece = w.wide.e("shr", word, w.wide.k(low, word)) if low else word
            if low + want < have:  # the topmost piece has nothing above it
                piece = w.wide.e("and", piece, w.wide.k((1 << want) - 1, piece))
            out.append(piece)
    return out


def join(w: Narrower, pieces: list[Value], have: int, want: int) -> list[Value]:
    """u32 pieces of `have` bits as words of `want` bits, low first."""
    out = []
    for first in range(0, len(pieces), want // have):
        word = pieces[first]
        for n in range(1, want // have):
            up = w.wide.k(n * have, word)
            word = w.wide.e("or", word, w.wide.e("shl", pieces[first + n], up))
        out.append(word)
    return out


def repack(w: Narrower, result: Value, value: Value, a: DType, b: DType) -> None:
    """A bitcast between vectors (or scalars) of elements of different width."""
    have, want = min(a.bits, 32), min(b.bits, 32)
    if a.bits == 64:
        pair = VectorType(u32, 2)
        halves = [w.b.emit("bitcast", v, type=pair) for v in _scatter(w, value)]
        words = [w.b.emit("extract", h, lane=n) for h in halves for n in (0, 1)]
    elif a.bits == 32:
        words = _scatter(w, w.wide.bits(value, u32))
    else:
        words = _scatter(w, to_pattern(w, value, a))
    words = cut(w, words, have, want) if have > want else join(w, words, have, want)
    if b.bits == 64:
        pairs = [w.b.emit("vector", *words[n : n + 2]) for n in range(0, len(words), 2)]
        done = _gather(w, [w.b.emit("bitcast", p, type=b) for p in pairs])
    elif b.bits == 32:
        done = w.wide.bits(_gather(w, words), b)
    else:
        done = from_pattern(w, _gather(w, words), b)
    assert done.type == with_element(result.type, element_of(done.type))
    w.set(result, done)
