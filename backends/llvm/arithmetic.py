"""Elementwise ops of the op table as LLVM IR, on scalars and on vectors of any width.

16-bit floats are computed in f32 and rounded after every op, which is what one rounding to the
narrow type gives for add, sub, mul, div and sqrt.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import DType, bf16, f32, f64, u64, unsigned
from . import integer
from .convert import Converter
from .text import Function
from .types import Ty

_INT = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARE = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
_ROUND = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "roundeven", "sqrt": "sqrt"}
_SIGN_OPS = ("neg", "abs", "copysign")
_FLAGS = {"contract": "contract", "reassociate": "reassoc", "approximate": "afn arcp"}

_OTHERS = (
    *("sign", "min", "max", "floordiv", "mod", "not", "shl", "shr", "popcount", "clz", "ctz"),
    *("reverse_bits", "mul_high", "dot4", "rsqrt", "fma", "select", "convert", "bitcast"),
    *("isnan", "isinf", "isfinite"),
)
ELEMENTWISE = frozenset((*_INT, *_FLOAT, *_COMPARE, *_ROUND, *_SIGN_OPS, *_OTHERS))


class UnsupportedOpError(Exception):
    """An op that a target has no code for."""


class Arithmetic:
    """Emits elementwise ops into a function.

    native_f16, native_bf16: the target converts them in hardware. native_fma: it has a fused
    multiply-add. fast: the kernel's `fast` flags.
    """

    def __init__(
        self, f: Function, native_f16: bool, native_fma: bool, fast: Sequence[str] = (),
        native_bf16: bool = False,
    ) -> None:  # fmt: skip
        self.f, self.native_fma = f, native_fma
        self.converter = Converter(f, native_f16, native_bf16)
        self.flags = "".join(_FLAGS[name] + " " for name in sorted(fast))

    def op(
        self, name: str, t: Ty, args: Sequence[str], result: DType,
        types: Sequence[DType] = (), divisor: int | None = None, wraps: str = "",
    ) -> str:  # fmt: skip
        """One op on operands of type `t` (a select: of its values).

        types: the dtypes of all operands. divisor: the second operand where it is a constant; for a
        shift 0, where it is one that is less than the width.
        wraps: `nsw` or `nuw` where an add, sub or mul is known not to overflow.
        """
        if name == "convert":
            return self.converter.convert(args[0], t, result)
        if name == "bitcast":
            return self.converter.bits(args[0], t, result)
        if t.dtype.is_float:
            return (
                self._narrow_float(name, t, args)
                if t.dtype.bits == 16
                else self._float(name, t, args)
            )
        if name in _INT:
            return self.f.value(
                f"{_INT[name]} {wraps + ' ' if wraps else ''}{t.text} {args[0]}, {args[1]}"
            )
        if name in _COMPARE:
            return self._compare(name, t, args)
        return self._int(name, t, args, types, divisor)

    def _compare(self, name: str, t: Ty, args: Sequence[str]) -> str:
        prefix = "" if name in ("eq", "ne") else "s" if t.dtype.is_signed else "u"
        return self.f.value(f"icmp {prefix}{name} {t.text} {args[0]}, {args[1]}")

    def _int(
        self, name: str, t: Ty, args: Sequence[str], types: Sequence[DType], divisor: int | None
    ) -> str:
        f, a = self.f, args[0]
        match name:
            case "floordiv":
                return integer.floordiv(f, t, a, args[1], divisor)
            case "mod":
                return integer.mod(f, t, a, args[1], divisor)
            case "shl" | "shr":
                return integer.shift(f, t, name == "shl", a, args[1], divisor == 0)
            case "popcount" | "clz" | "ctz" | "reverse_bits":
                return integer.bit_op(f, t, name, a)
            case "mul_high":
                return integer.mul_high(f, t, a, args[1])
            case "dot4":
                return self.dot4(t, args, (types[0].is_signed, types[1].is_signed))
            case "not":
                return f.value(
                    f"xor {t.text} {a}, {t.literal('true') if t.dtype.is_bool else t.const(-1)}"
                )
            case "neg":
                return f.value(f"sub {t.text} {t.const(0)}, {a}")
            case "abs":
                if not t.dtype.is_signed:
                    return a
                return f.call(f"llvm.abs.{t.suffix}", t.text, (t.text, a), ("i1", "false"))
            case "sign":
                return integer.sign(f, t, a)
            case "min" | "max":
                intrinsic = f"llvm.{'s' if t.dtype.is_signed else 'u'}{name}.{t.suffix}"
                return f.call(intrinsic, t.text, (t.text, a), (t.text, args[1]))
        raise UnsupportedOpError(f"no code for op {name} on {t.dtype}")

    def _float(self, name: str, t: Ty, args: Sequence[str]) -> str:
        f = self.f
        if name in _FLOAT:
            return f.value(f"{_FLOAT[name]} {self.flags}{t.text} {args[0]}, {args[1]}")
        if name in _COMPARE:
            prefix = "u" if name == "ne" else "o"
            return f.value(f"fcmp {prefix}{name} {t.text} {args[0]}, {args[1]}")
        if name in _ROUND:
            return f.call(f"llvm.{_ROUND[name]}.{t.suffix}", t.text, (t.text, args[0]))
        match name:
            case "neg":
                return f.value(f"fneg {t.text} {args[0]}")
            case "abs":
                return f.call(f"llvm.fabs.{t.suffix}", t.text, (t.text, args[0]))
            case "copysign":
                return f.call(f"llvm.copysign.{t.suffix}", t.text, *((t.text, a) for a in args))
            case "min" | "max":
                return self.minmax(name, t, args[0], args[1])
            case "fma":
                return self._fma(t, args)
            case "rsqrt":
                root = self._float("sqrt", t, args)
                one = t.const(0x3F800000 if t.dtype == f32 else 0x3FF << 52)
                return f.value(f"fdiv {self.flags}{t.text} {one}, {root}")
            case "sign":
                return self._sign(t, args[0])
            case "isnan":
                return f.value(f"fcmp uno {t.text} {args[0]}, {args[0]}")
            case "isinf" | "isfinite":
                size = f.call(f"llvm.fabs.{t.suffix}", t.text, (t.text, args[0]))
                infinity = t.const(0x7F800000 if t.dtype == f32 else 0x7FF << 52)
                return f.value(
                    f"fcmp {'oeq' if name == 'isinf' else 'olt'} {t.text} {size}, {infinity}"
                )
        raise UnsupportedOpError(f"no code for op {name} on {t.dtype}")

    def dot4(self, t: Ty, args: Sequence[str], signed: tuple[bool, bool]) -> str:
        """acc plus the products of four packed lanes. signed: those of the two words."""
        return integer.dot4(self.f, t, args[0], args[1], args[2], signed)

    def minmax(self, name: str, t: Ty, a: str, b: str) -> str:
        """minimumNumber or maximumNumber; the sign of a zero is open."""
        intrinsic = f"llvm.{name}imumnum.{t.suffix}"
        return self.f.call(intrinsic, t.text, (t.text, a), (t.text, b), flags="nsz ")

    def _sign(self, t: Ty, a: str) -> str:
        f, c = self.f, t.wrap("i1")
        zero, one = t.const(0), t.const(0x3F800000 if t.dtype == f32 else 0x3FF << 52)
        signed = f.call(f"llvm.copysign.{t.suffix}", t.text, (t.text, one), (t.text, a))
        other = f.value(f"fcmp one {t.text} {a}, {zero}")
        nan = f.value(f"fcmp uno {t.text} {a}, {a}")
        kept = f.value(f"select {c} {other}, {t.text} {signed}, {t.text} {zero}")
        return f.value(f"select {c} {nan}, {t.text} {a}, {t.text} {kept}")

    def _fma(self, t: Ty, args: Sequence[str]) -> str:
        if self.native_fma:
            return self.f.call(f"llvm.fma.{t.suffix}", t.text, *((t.text, a) for a in args))
        if t.dtype == f64:
            raise UnsupportedOpError(
                "fused multiply-add of f64: this level has no such instruction"
            )
        return self._fma_through_f64(t, args)

    def _fma_through_f64(self, t: Ty, args: Sequence[str]) -> str:
        """The product is exact in f64; the sum is rounded to odd there, so that it rounds once."""
        f, d = self.f, t.of(f64)
        a, b, c = (f.value(f"fpext {t.text} {x} to {d.text}") for x in args)
        p = f.value(f"fmul {d.text} {a}, {b}")
        s = f.value(f"fadd {d.text} {p}, {c}")
        bb = f.value(f"fsub {d.text} {s}, {p}")
        lost_p = f.value(f"fsub {d.text} {p}, {f.value(f'fsub {d.text} {s}, {bb}')}")
        lost_c = f.value(f"fsub {d.text} {c}, {bb}")
        error = f.value(f"fadd {d.text} {lost_p}, {lost_c}")
        w = d.of(u64)
        word = self.converter.bits(s, d, w.dtype)
        inexact = f.value(f"fcmp one {d.text} {error}, {d.const(0)}")  # false for inf and NaN
        even = f.value(
            f"icmp eq {w.text} {f.value(f'and {w.text} {word}, {w.const(1)}')}, {w.const(0)}"
        )
        move = f.value(f"and {w.wrap('i1')} {inexact}, {even}")
        up = f.value(f"fcmp ogt {d.text} {error}, {d.const(0)}")
        positive = f.value(f"fcmp ogt {d.text} {s}, {d.const(0)}")
        inward = f.value(f"xor {w.wrap('i1')} {up}, {positive}")
        step = f.value(
            f"select {w.wrap('i1')} {inward}, {w.text} {w.const(-1)}, {w.text} {w.const(1)}"
        )
        step = f.value(f"select {w.wrap('i1')} {move}, {w.text} {step}, {w.text} {w.const(0)}")
        odd = self.converter.bits(f.value(f"add {w.text} {word}, {step}"), w, f64)
        return f.value(f"fptrunc {d.text} {odd} to {t.text}")

    def _narrow_float(self, name: str, t: Ty, args: Sequence[str]) -> str:
        f, w = self.f, Ty(unsigned(t.dtype), t.lanes)
        if name == "neg":
            return f.value(f"xor {w.text} {args[0]}, {w.const(0x8000)}")
        if name in ("abs", "copysign"):
            size = f.value(f"and {w.text} {args[0]}, {w.const(0x7FFF)}")
            if name == "abs":
                return size
            sign = f.value(f"and {w.text} {args[1]}, {w.const(0x8000)}")
            return f.value(f"or {w.text} {size}, {sign}")
        native = self.native_narrow(name, t, args)
        if native is not None:
            return native
        wide = t.of(f32)
        operands = [self.converter.widen(a, t) for a in args]
        if name == "fma":  # the sum of an exact product may need more than f32 holds
            return self._narrow_fma(t, operands)
        out = self._float(name, wide, operands)
        if name in _COMPARE or name in ("isnan", "isinf", "isfinite"):
            return out
        return self.converter.narrow(out, wide, t.dtype)

    def native_narrow(self, name: str, t: Ty, args: Sequence[str]) -> str | None:
        """An op on 16-bit floats that the target computes as such; None where it does not."""
        return None

    def _narrow_fma(self, t: Ty, operands: Sequence[str]) -> str:
        """bf16 rounds through f32, as the op table's meaning does; f16 once, through f64."""
        f, s, d = self.f, t.of(f32), t.of(f64)
        if t.dtype == bf16:
            return self.converter.narrow(self._fma(s, operands), s, bf16)
        a, b, c = (f.value(f"fpext {s.text} {x} to {d.text}") for x in operands)
        total = f.value(f"fadd {d.text} {f.value(f'fmul {d.text} {a}, {b}')}, {c}")
        return self.converter.convert(total, d, t.dtype)
