"""Atomics and faults: one lane after the other, in lane order.

Workgroup memory belongs to one worker, so plain loads and stores are atomic there.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Op
from ...ir.dtypes import MemType, Space, unsigned
from ..llvm.types import Ty
from .lanes import VECTOR
from .lowering import Lowering, Memory, pointer_of
from .memory import index64

_RMW = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg"}


def emit_atomic(x: Lowering, op: Op) -> None:
    """`atomic` and `compare_exchange`: defines the old values."""
    f = x.f
    if _reduced(x, op):
        return
    memory = x.memory[op.operands[0].id]
    t = Ty(memory.type.element)
    vector = f"<{x.width} x {t.text}>"
    uniform = x.analysis.of(op.operands[1]).uniform
    indices = index64(x, op.operands[1]) if uniform else _indices(x, op)
    values = [x.lanes.vector(v) for v in op.operands[2:]]
    old = f.alloca(vector)
    f.do(f"store {vector} zeroinitializer, ptr {old}")

    def one(lane: str) -> None:
        at = indices
        if not uniform:
            at = f.value(f"extractelement <{x.width} x i64> {indices}, i64 {lane}")
        place = f.value(f"getelementptr {t.text}, ptr {pointer_of(x, memory)}, i64 {at}")
        given = [f.value(f"extractelement {vector} {v}, i64 {lane}") for v in values]
        was = _step(x, op, memory, t, place, given)
        so_far = f.value(f"load {vector}, ptr {old}")
        new = f.value(f"insertelement {vector} {so_far}, {t.text} {was}, i64 {lane}")
        f.do(f"store {vector} {new}, ptr {old}")

    each_lane(x, one)
    x.lanes.set(op.result, f.value(f"load {vector}, ptr {old}"))


def _indices(x: Lowering, op: Op) -> str:
    t = Ty(op.operands[1].type, x.width)  # type: ignore[arg-type]
    at = x.lanes.vector(op.operands[1])
    if t.dtype.bits == 64:
        return at
    word = "sext" if t.dtype.is_signed else "zext"
    return x.f.value(f"{word} {t.text} {at} to <{x.width} x i64>")


def each_lane(x: Lowering, body: Callable[[str], None]) -> None:
    """Run `body(lane)` for every active lane, lowest first. lane: an i64."""
    f, width = x.f, x.width
    if width == 1:
        body("0")
        return
    word = f"i{max(width, 64)}"
    bits = f.alloca(word)
    active = x.masks.bits_of(x.masks.to_bools(x.mask))
    if width < 64:
        active = f.value(f"zext i{width} {active} to i64")
    f.do(f"store {word} {active}, ptr {bits}")
    head, done = f.label("lane"), f.label("lanes")
    f.block(head)  # a lane is active wherever code runs
    left = f.value(f"load {word}, ptr {bits}")
    lane = f.call(f"llvm.cttz.{word}", word, (word, left), ("i1", "true"))
    body(lane if width <= 64 else f.value(f"trunc {word} {lane} to i64"))
    rest = f.value(f"and {word} {left}, {f.value(f'sub {word} {left}, 1')}")
    f.do(f"store {word} {rest}, ptr {bits}")
    f.branch_if(f.value(f"icmp ne {word} {rest}, 0"), head, done)
    f.block(done)


def _step(x: Lowering, op: Op, memory: Memory, t: Ty, place: str, given: list[str]) -> str:
    f = x.f
    if memory.type.space is Space.WORKGROUP:
        return _plain(x, op, t, place, given)
    word = Ty(unsigned(t.dtype)).text
    if op.name == "compare_exchange":
        a, b = (x.arith.converter.bits(v, t, unsigned(t.dtype)) for v in given)
        pair = f.value(f"cmpxchg ptr {place}, {word} {a}, {word} {b} monotonic monotonic")
        was = f.value(f"extractvalue {{ {word}, i1 }} {pair}, 0")
        return x.arith.converter.bits(was, t.of(unsigned(t.dtype)), t.dtype)
    kind = str(op.attr("kind"))
    if kind in ("min", "max"):
        if t.dtype.is_float:
            return _compare_and_swap(x, kind, t, place, given[0])
        name = ("" if t.dtype.is_signed else "u") + kind
    else:
        name = "fadd" if kind == "add" and t.dtype.is_float else _RMW[kind]
    return f.value(f"atomicrmw {name} ptr {place}, {t.text} {given[0]} monotonic")


def _compare_and_swap(x: Lowering, kind: str, t: Ty, place: str, value: str) -> str:
    """minimumNumber or maximumNumber with memory."""
    f, u = x.f, t.of(unsigned(t.dtype))
    was = f.alloca(u.text)
    seen = f.value(f"load atomic {u.text}, ptr {place} monotonic, align {t.dtype.bytes}")
    f.do(f"store {u.text} {seen}, ptr {was}")
    head, done = f.label("swap"), f.label("swapped")
    f.block(head)
    bits = f.value(f"load {u.text}, ptr {was}")
    new = x.arith.minmax(kind, t, x.arith.converter.bits(bits, u, t.dtype), value)
    new_bits = x.arith.converter.bits(new, t, u.dtype)
    pair = f.value(f"cmpxchg ptr {place}, {u.text} {bits}, {u.text} {new_bits} monotonic monotonic")
    f.do(f"store {u.text} {f.value(f'extractvalue {{ {u.text}, i1 }} {pair}, 0')}, ptr {was}")
    f.branch_if(f.value(f"extractvalue {{ {u.text}, i1 }} {pair}, 1"), done, head)
    f.block(done)
    return x.arith.converter.bits(f.value(f"load {u.text}, ptr {was}"), u, t.dtype)


def _plain(x: Lowering, op: Op, t: Ty, place: str, given: list[str]) -> str:
    f = x.f
    was = f.value(f"load {t.text}, ptr {place}, align {t.dtype.bytes}")
    if op.name == "compare_exchange":
        u = t.of(unsigned(t.dtype))
        a, b = (x.arith.converter.bits(v, t, u.dtype) for v in (was, given[0]))
        same = f.value(f"icmp eq {u.text} {a}, {b}")
        new = f.value(f"select i1 {same}, {t.text} {given[1]}, {t.text} {was}")
    elif op.attr("kind") == "exchange":
        new = given[0]
    else:
        new = x.arith.op(str(op.attr("kind")), t, [was, given[0]], t.dtype)
    f.do(f"store {t.text} {new}, ptr {place}, align {t.dtype.bytes}")
    return was


def _reduced(x: Lowering, op: Op) -> bool:
    """An integer atomic on one address whose old values nobody reads: one step for all lanes."""
    if op.name == "compare_exchange" or op.result.id in x.used or x.width == 1:
        return False
    memory = op.operands[0].type
    assert isinstance(memory, MemType)
    kind, t = str(op.attr("kind")), Ty(memory.element)
    if not x.analysis.of(op.operands[1]).uniform or t.dtype.is_float or kind == "exchange":
        return False
    total = reduce_integer(x, kind, x.lanes.vector(op.operands[2]), t)
    held = x.memory[op.operands[0].id]
    at = index64(x, op.operands[1])
    place = x.f.value(f"getelementptr {t.text}, ptr {pointer_of(x, held)}, i64 {at}")
    _step(x, op, held, t, place, [total])
    return True


IDENTITY = {"add": 0, "or": 0, "xor": 0, "and": -1, "mul": 1}


def reduce_integer(x: Lowering, kind: str, value: str, t: Ty) -> str:
    """An integer reduction over the active lanes."""
    v = Ty(t.dtype, x.width)
    if x.mask is not None:
        bound = {"min": t.dtype.max, "max": t.dtype.min}
        neutral = v.const(bound[kind] if kind in bound else IDENTITY[kind])
        value = x.masks.blend(x.mask, v.text, value, neutral)
    sign = ("s" if t.dtype.is_signed else "u") if kind in ("min", "max") else ""
    return x.f.call(f"llvm.vector.reduce.{sign}{kind}.{v.suffix}", t.text, (v.text, value))


def emit_assert(x: Lowering, op: Op) -> None:
    """Set the fault bit of the site where the condition is false in an active lane."""
    f, condition = x.f, op.operands[0]
    if x.lanes.form(condition) == VECTOR:
        bad = x.masks.without(x.mask, x.masks.from_bools(x.lanes.vector(condition)))
        failed = x.masks.any(bad)
    else:
        failed = f.value(f"xor i1 {x.lanes.scalar(condition)}, true")
    fault, fine = f.label("fault"), f.label("fine")
    f.branch_if(failed, fault, fine)
    f.block(fault)
    address, base = x.fault
    bit = f.value(f"add i64 {base}, {op.attr('site')}")
    word = f.value(f"getelementptr i32, ptr {address}, i64 {f.value(f'lshr i64 {bit}, 5')}")
    place = f.value(f"trunc i64 {f.value(f'and i64 {bit}, 31')} to i32")
    f.value(f"atomicrmw or ptr {word}, i32 {f.value(f'shl i32 1, {place}')} monotonic")
    f.block(fine)
