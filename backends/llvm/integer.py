"""Integer ops with the semantics of the op table: nothing is undefined, nothing traps."""

from __future__ import annotations

from ...ir.dtypes import f32, f64
from .text import Function
from .types import Ty


def _pick(f: Function, t: Ty, condition: str, yes: str, no: str) -> str:
    return f.value(f"select {t.wrap('i1')} {condition}, {t.text} {yes}, {t.text} {no}")


def _safe_divisor(f: Function, t: Ty, a: str, b: str) -> str:
    """The divisor, 1 where division by it is not defined: x//0 = x and MIN//-1 = MIN follow."""
    bad = f.value(f"icmp eq {t.text} {b}, {t.const(0)}")
    if t.dtype.is_signed:
        least = f.value(f"icmp eq {t.text} {a}, {t.const(t.dtype.min)}")
        minus = f.value(f"icmp eq {t.text} {b}, {t.const(-1)}")
        wraps = f.value(f"and {t.wrap('i1')} {least}, {minus}")
        bad = f.value(f"or {t.wrap('i1')} {bad}, {wraps}")
    return _pick(f, t, bad, t.const(1), b)


def _truncated(f: Function, t: Ty, a: str, b: str) -> str:
    """a / b towards zero for a divisor that is safe."""
    sign = "s" if t.dtype.is_signed else "u"
    if not t.lanes or t.dtype.bits == 64 or b.startswith("splat"):
        return f.value(f"{sign}div {t.text} {a}, {b}")
    # No CPU divides vectors of integers. A float with more bits than the operands does: the
    # quotient is nearer to the whole number below it than rounding reaches.
    real = t.of(f32 if t.dtype.bits <= 16 else f64)
    x, y = (f.value(f"{sign}itofp {t.text} {v} to {real.text}") for v in (a, b))
    q = f.value(f"fdiv {real.text} {x}, {y}")
    return f.value(f"fpto{sign}i {real.text} {q} to {t.text}")


def floordiv(f: Function, t: Ty, a: str, b: str, divisor: int | None) -> str:
    """Floor division. divisor: the value of `b` where it is a constant."""
    if divisor is None:
        b = _safe_divisor(f, t, a, b)
    elif divisor == 0 or divisor == 1:
        return a
    elif divisor == -1:
        return f.value(f"sub {t.text} {t.const(0)}, {a}")
    elif divisor > 0 and divisor & (divisor - 1) == 0:
        shift = "ashr" if t.dtype.is_signed else "lshr"
        return f.value(f"{shift} {t.text} {a}, {t.const(divisor.bit_length() - 1)}")
    q = _truncated(f, t, a, b)
    if not t.dtype.is_signed:
        return q
    r = f.value(f"sub {t.text} {a}, {f.value(f'mul {t.text} {q}, {b}')}")
    below = _differs(f, t, r, b)
    one_less = f.value(f"sext {t.wrap('i1')} {below} to {t.text}")
    return f.value(f"add {t.text} {q}, {one_less}")


def _differs(f: Function, t: Ty, r: str, b: str) -> str:
    """Whether a remainder is not zero and has another sign than the divisor."""
    nonzero = f.value(f"icmp ne {t.text} {r}, {t.const(0)}")
    signs = f.value(f"xor {t.text} {r}, {b}")
    negative = f.value(f"icmp slt {t.text} {signs}, {t.const(0)}")
    return f.value(f"and {t.wrap('i1')} {nonzero}, {negative}")


def mod(f: Function, t: Ty, a: str, b: str, divisor: int | None) -> str:
    """The remainder with the divisor's sign. divisor: as in `floordiv`."""
    if divisor is None:
        b = _safe_divisor(f, t, a, b)
    elif divisor in (0, 1, -1):
        return t.const(0)
    elif divisor > 0 and divisor & (divisor - 1) == 0:
        return f.value(f"and {t.text} {a}, {t.const(divisor - 1)}")
    q = _truncated(f, t, a, b)
    r = f.value(f"sub {t.text} {a}, {f.value(f'mul {t.text} {q}, {b}')}")
    if not t.dtype.is_signed:
        return r
    return _pick(f, t, _differs(f, t, r, b), f.value(f"add {t.text} {r}, {b}"), r)


def shift(f: Function, t: Ty, left: bool, a: str, n: str, less: bool = False) -> str:
    """A shift whose count is taken modulo the width. less: it is known to be less than that."""
    word = "shl" if left else "ashr" if t.dtype.is_signed else "lshr"
    if not less:
        n = f.value(f"and {t.text} {n}, {t.const(t.dtype.bits - 1)}")
    return f.value(f"{word} {t.text} {a}, {n}")


def bit_op(f: Function, t: Ty, name: str, a: str) -> str:
    """popcount, clz, ctz or reverse_bits."""
    intrinsic = {"popcount": "ctpop", "clz": "ctlz", "ctz": "cttz", "reverse_bits": "bitreverse"}[
        name
    ]
    args = [(t.text, a)]
    if name in ("clz", "ctz"):
        args.append(("i1", "false"))
    return f.call(f"llvm.{intrinsic}.{t.suffix}", t.text, *args)


def mul_high(f: Function, t: Ty, a: str, b: str) -> str:
    """The upper half of the double-width product."""
    bits = t.dtype.bits
    wide = t.wrap(f"i{2 * bits}")
    word = "sext" if t.dtype.is_signed else "zext"
    x, y = (f.value(f"{word} {t.text} {v} to {wide}") for v in (a, b))
    product = f.value(f"mul {wide} {x}, {y}")
    high = f.value(f"lshr {wide} {product}, {t.literal(str(bits), f'i{2 * bits}')}")
    return f.value(f"trunc {wide} {high} to {t.text}")


def dot4(f: Function, t: Ty, a: str, b: str, acc: str, signed: tuple[bool, bool]) -> str:
    """acc plus the products of four packed 8-bit lanes; `signed`: of the lanes of a and of b."""
    for lane in range(4):
        x, y = (_byte(f, t, v, lane, s) for v, s in zip((a, b), signed, strict=True))
        acc = f.value(f"add {t.text} {acc}, {f.value(f'mul {t.text} {x}, {y}')}")
    return acc


def _byte(f: Function, t: Ty, word: str, lane: int, signed: bool) -> str:
    up = f.value(f"shl {t.text} {word}, {t.const(24 - 8 * lane)}")
    return f.value(f"{'ashr' if signed else 'lshr'} {t.text} {up}, {t.const(24)}")


def sign(f: Function, t: Ty, a: str) -> str:
    """-1, 0 or 1."""
    zero = t.const(0)
    above = f.value(f"icmp {'sgt' if t.dtype.is_signed else 'ugt'} {t.text} {a}, {zero}")
    one = f.value(f"zext {t.wrap('i1')} {above} to {t.text}")
    if not t.dtype.is_signed:
        return one
    shift_ = f.value(f"ashr {t.text} {a}, {t.const(t.dtype.bits - 1)}")
    return f.value(f"or {t.text} {one}, {shift_}")
