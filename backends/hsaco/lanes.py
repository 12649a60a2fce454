"""What moves between the lanes of a wave, all of which take part.

Within a row of 16 lanes words move by DPP, which an arithmetic instruction does on its way; between
rows through a scalar register where the lane is known, else through the LDS hardware (`ds_swizzle`,
`ds_bpermute`), which needs no LDS. Control words: LLVM's "User Guide for AMDGPU Backend" and AMD's
instruction set manuals, "DPP" and "DS_SWIZZLE_B32".
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtypes import DType
from ..llvm.types import Ty
from ..simt.ids import lane
from ..simt.subgroup import by_words, identity
from .lowering import Lowering, LoweringError

ROW = 16
_MIRROR, _HALF_MIRROR, _ROTATE, _SHIFT, _XMASK = 0x140, 0x141, 0x120, 0x110, 0x160
_NANS = {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "f64": 0x7FF8 << 48}


def vote(x: Lowering, kind: str, condition: str) -> str:
    """`any`, `all` or `ballot`."""
    f, word = x.f, f"i{x.lanes}"
    if kind == "all":
        condition = f.value(f"xor i1 {condition}, true")
    votes = f.call(f"llvm.amdgcn.ballot.{word}", word, ("i1", condition))
    if kind == "ballot":
        return votes
    return f.value(f"icmp {'ne' if kind == 'any' else 'eq'} {word} {votes}, 0")


def move(x: Lowering, mode: str, word: str, operand: str) -> str:
    """A word as another lane has it (`simt.Lowering.move`)."""
    known = int(operand) if operand.isdecimal() else None
    if mode == "idx" and known is not None:
        return read_lane(x, word, known)
    if mode == "bfly" and known is not None:
        return _exchange(x, word, known)
    own = lane(x)
    if mode == "idx":
        there = operand
    elif mode == "bfly":
        there = x.f.value(f"xor i32 {own}, {operand}")
    else:
        there = _shifted(x, own, mode, operand)
    return _permute(x, word, own, there)


def _shifted(x: Lowering, own: str, mode: str, distance: str) -> str:
    """The lane so far down or up; the own one where there is none."""
    f = x.f
    there = f.value(f"{'sub' if mode == 'up' else 'add'} i32 {own}, {distance}")
    inside = f.value(f"icmp ult i32 {there}, {x.lanes}")
    return f.value(f"select i1 {inside}, i32 {there}, i32 {own}")


def read_lane(x: Lowering, word: str, number: int) -> str:
    """The word of one lane, the same for all."""
    return x.f.call("llvm.amdgcn.readlane.i32", "i32", ("i32", word), ("i32", str(number)))


def _permute(x: Lowering, word: str, own: str, there: str) -> str:
    """The word of any lane."""
    f = x.f
    at = f.value(f"shl i32 {there}, 2")
    name, arguments = "llvm.amdgcn.ds.bpermute", ("i32", at)
    near = f.call(name, "i32", arguments, ("i32", word))
    if not x.arch.halves_apart:
        return near
    far = f.call(name, "i32", arguments, ("i32", swap_halves(x, word)))
    apart = f.value(f"and i32 {f.value(f'xor i32 {own}, {there}')}, 32")
    return f.value(f"select i1 {f.value(f'icmp eq i32 {apart}, 0')}, i32 {near}, i32 {far}")


def swap_halves(x: Lowering, word: str) -> str:
    """A word as the lane 32 further has it, in a wave of 64."""
    if x.arch.half_swap:
        swapped = x.f.call("llvm.amdgcn.permlane64.i32", "i32", ("i32", word))
        # LLVM 22.1 does not know that the instruction is convergent, and moves it into a branch
        # of which the other half of the wave may have no part. This use, which is, holds it here.
        return x.f.value(f'call i32 asm sideeffect "", "=v,0"(i32 {swapped}) convergent')
    if x.arch.halves_apart:
        message = (
            f"{x.arch.cpu} moves no values between the halves of a subgroup of 64; give the kernel "
            "SUBGROUP = 32"
        )
        raise LoweringError(message, None)
    own = x.f.value(f"xor i32 {lane(x)}, 32")
    at = x.f.value(f"shl i32 {own}, 2")
    return x.f.call("llvm.amdgcn.ds.bpermute", "i32", ("i32", at), ("i32", word))


def _exchange(x: Lowering, word: str, mask: int) -> str:
    """A word as the lane has it whose number is xored with `mask`."""
    if mask >= 32:
        word, mask = swap_halves(x, word), mask - 32
    if mask == 0:
        return word
    control = _row_exchange(x, mask)
    if control is not None:
        return _dpp(x, _unknown(x, word), control)
    if mask == ROW and x.arch.row_lanes:
        return _other_row(x, word)
    # Bits of the lane within 32: the number is kept by the low five bits, then xored.
    pattern = ("i32", str(mask << 10 | 0x1F))
    return x.f.call("llvm.amdgcn.ds.swizzle", "i32", ("i32", word), pattern)


def _other_row(x: Lowering, word: str) -> str:
    """A word as the same lane of the neighbouring row has it: lane n takes from the place that the
    n-th four bits name."""
    places = (("i32", str(0x76543210)), ("i32", str(0xFEDCBA98 - (1 << 32))))
    flags = (("i1", "false"), ("i1", "false"))
    arguments = (("i32", "poison"), ("i32", word), *places, *flags)
    return x.f.call("llvm.amdgcn.permlanex16.i32", "i32", *arguments)


def _row_exchange(x: Lowering, mask: int) -> int | None:
    """The control word of an exchange within rows; None where the hardware has none."""
    if mask < 4:  # of four lanes: two bits each
        return sum((n ^ mask) << 2 * n for n in range(4))
    if mask in (7, 8, 15):
        return {7: _HALF_MIRROR, 8: _ROTATE + 8, 15: _MIRROR}[mask]
    return _XMASK + mask if mask < ROW and x.arch.row_lanes else None


def _dpp(x: Lowering, word: str, control: int, old: str = "poison") -> str:
    """A word moved within rows of 16 lanes. old: what a lane gets that takes from no lane."""
    edge = "true" if old == "poison" else "false"
    return x.f.call(
        "llvm.amdgcn.update.dpp.i32", "i32",
        ("i32", old), ("i32", word), ("i32", str(control)), ("i32", "15"), ("i32", "15"),
        ("i1", edge),
    )  # fmt: skip


def reduce(x: Lowering, kind: str, part: str, t: Ty) -> str:
    """A butterfly within each row, then the rows' totals in scalar registers: the same bits for
    all lanes."""
    part = _hidden(x, part, t)
    for control in (_row_exchange(x, 1), _row_exchange(x, 2), _HALF_MIRROR, _MIRROR):
        assert control is not None
        other = by_words(x, part, t, _mover(x, control))
        part = x.arith.op(kind, t, [part, other], t.dtype)
    totals = [_of_lane(x, part, t, at) for at in range(0, x.lanes, ROW)]
    while len(totals) > 1:
        pairs = zip(totals[::2], totals[1::2], strict=True)
        totals = [x.arith.op(kind, t, list(pair), t.dtype) for pair in pairs]
    return totals[0]


def _hidden(x: Lowering, part: str, t: Ty) -> str:
    """The part in vector registers, whose value LLVM does not know."""
    return by_words(x, part, t, lambda word: _unknown(x, word))


def _unknown(x: Lowering, word: str) -> str:
    """A word whose value LLVM does not know: where DPP with a constant meets an instruction that
    takes it, it loses words (LLVM 22.1, a scan by `or` of a constant of 64 bits)."""
    return x.f.value(f'call i32 asm "", "=v,0"(i32 {word})')


def _mover(x: Lowering, control: int) -> Callable[[str], str]:
    return lambda word: _dpp(x, word, control)


def _of_lane(x: Lowering, part: str, t: Ty, number: int) -> str:
    return by_words(x, part, t, lambda word: read_lane(x, word, number))


def scan(x: Lowering, kind: str, inclusive: bool, part: str, t: Ty) -> str:
    """Hillis and Steele within each row, then what the rows before hold, from scalar registers."""
    f, neutral = x.f, neutral_bits(kind, t.dtype)
    part = _hidden(x, part, t)
    for step in (1, 2, 4, 8):
        other = _shift_in(x, part, t, _SHIFT + step, neutral)
        part = x.arith.op(kind, t, [other, part], t.dtype)
    own, before, total = lane(x), t.const(neutral), ""
    for row in range(ROW, x.lanes, ROW):
        last = _of_lane(x, part, t, row - 1)
        total = x.arith.op(kind, t, [total, last], t.dtype) if total else last
        here = f.value(f"icmp uge i32 {own}, {row}")
        before = f.value(f"select i1 {here}, {t.text} {total}, {t.text} {before}")
    part = x.arith.op(kind, t, [before, part], t.dtype)
    if inclusive:
        return part
    lower = by_words(x, part, t, lambda word: move(x, "up", word, "1"))
    first = f.value(f"icmp eq i32 {own}, 0")
    start = t.const(identity(kind, t.dtype))
    return f.value(f"select i1 {first}, {t.text} {start}, {t.text} {lower}")


def neutral_bits(kind: str, dtype: DType) -> int:
    """What changes no value: a negative zero and a NaN, which loses, among them."""
    if kind == "mul" or not dtype.is_float:
        return identity(kind, dtype)
    return 1 << (dtype.bits - 1) if kind == "add" else _NANS[dtype.name]


def _shift_in(x: Lowering, part: str, t: Ty, control: int, neutral: int) -> str:
    """The part of the lane so far down in the row; neutral where there is none."""
    bits = neutral & ((1 << t.dtype.bits) - 1)
    olds = iter((bits & 0xFFFFFFFF, bits >> 32))

    def word(value: str) -> str:
        old = next(olds)
        return _dpp(x, value, control, str(old - (1 << 32) if old >> 31 else old))

    return by_words(x, part, t, word)
