"""The state of one emission: names, lines, types and constants of WGSL.

Values of kernel IR are expressions. A pure one that is used once, in the region that it stands in,
is written where it is used; every other one gets a `let` of its own, named after the source.
Constants stand where they are used, but never only among themselves: WGSL evaluates an expression
of constants when it compiles, and an overflow there is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ...ir.core import Kernel, Loc, Op, Region, Value, bits_float, const_bits
from ...ir.dtypes import DType, Type, element_of, lanes_of, u32, u64, with_element
from ..compile import CompileError
from ..divisors import divisors
from ..folds import folds
from ..zeros import zeros
from . import guards, helpers
from .helpers import suffix, type_name

_FEATURES = {"i64": "i64", "u64": "i64", "f64": "f64", "f16": "f16"}
_DEPTH = 12  # of nested expressions; compilers limit theirs
_NAMED = re.compile(r"[A-Za-z]\w*_\d+", re.ASCII)  # what `Writer.name` gives
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


@dataclass(slots=True)
class Expr:
    """An expression: its text, how deep it nests, and whether it is made of constants alone."""

    text: str
    depth: int = 0
    constant: bool = False


def _uses(kernel: Kernel) -> dict[int, tuple[int, int]]:
    """Of each value: how often it is used, and the id() of the region of its last use."""
    found: dict[int, tuple[int, int]] = {}

    def region(r: Region) -> None:
        for op in r.ops:
            for v in op.operands:
                found[v.id] = (found.get(v.id, (0, 0))[0] + 1, id(r))
            for inner in op.regions:
                region(inner)

    region(kernel.body)
    return found


MAX_BRACES = 127  # within one another: "Limits" in the specification of WGSL


class Writer:
    """Writes the body of one kernel."""

    def __init__(self, kernel: Kernel, target: str, native: frozenset[str]) -> None:
        self.kernel, self.target, self.native = kernel, target, native
        self.globals: list[str] = []
        self.head: list[str] = []  # first statements of the function
        self.lines: list[str] = []
        self.enables: set[str] = set()
        self.language: set[str] = set()  # of `requires`
        self.requires: set[str] = set()
        self.helpers: dict[str, str] = {}
        self.values: dict[int, Expr] = {}
        self.bits: dict[int, int] = {}  # patterns of values that are constants
        self.lanes: dict[int, list[int]] = {}  # of vectors of constants: the constants
        self.loc: Loc | None = None
        self.region: Region = kernel.body
        self._indent = 1
        self.guarded, self.zeros = guards.guarded(kernel), zeros(kernel)
        self.folds, self.divisors = folds(kernel, self.zeros), divisors(kernel)
        self.guards = False  # whether there are any
        # Whether the kernel may see the place of an invocation in its subgroup.
        self.sees_lanes = False
        self._uses = _uses(kernel)
        self._next = 0

    def fail(self, message: str) -> CompileError:
        """The error for what cannot be written, at the op in hand."""
        return CompileError(self.kernel.name, self.target, message, self.loc)

    # lines

    def line(self, text: str) -> None:
        self.lines.append("  " * self._indent + text)

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """Lines within braces."""
        self.line(head)
        self._indent += 1
        if self._indent > MAX_BRACES:
            raise self.fail(f"statements nest deeper than WGSL's {MAX_BRACES} levels of braces")
        yield
        self._indent -= 1
        self.line(tail)

    # names and types

    def name(self, hint: str = "") -> str:
        """A fresh name that begins as the source has it; the number keeps it off WGSL's words."""
        self._next += 1
        return f"{self.stem(hint, 'v')}_{self._next}"

    @staticmethod
    def stem(hint: str, other: str) -> str:
        """What a name may begin with: the hint, or `other` where WGSL does not take that."""
        stem = hint.strip("_")
        return stem if _PLAIN.fullmatch(stem) else other

    def type(self, t: Type) -> str:
        """The WGSL type of a value; the artifact then requires what the type does."""
        if feature := _FEATURES.get(element_of(t).name):
            self.requires.add(feature)
            if feature == "f16":
                self.enables.add("f16")
        return type_name(t)

    def helper(self, name: str, t: Type) -> str:
        """The name of a helper function on this type, which is then defined."""
        for part in helpers.closure(name):
            full = helpers.full_name(part, t)
            if full not in self.helpers:
                self.helpers[full] = helpers.text(part, t)
        self.type(t)
        return helpers.full_name(name, t)

    # values

    def use(self, value: Value) -> str:
        """The text of an operand, fit to stand in any expression."""
        return self.values[value.id].text

    def operands(self, op: Op) -> list[str]:
        """The texts of all operands, of which one at least is no constant of WGSL."""
        texts = [self.values[v.id] for v in op.operands]
        if texts and all(t.constant for t in texts):
            return [self.runtime(texts[0].text), *(t.text for t in texts[1:])]
        return [t.text for t in texts]

    def runtime(self, text: str) -> str:
        """A constant as a value that the compiler of WGSL does not evaluate."""
        name = self.name("c")
        self.line(f"let {name} = {text};")
        return name

    def let(self, text: str, hint: str = "") -> str:
        """A name for an intermediate value, which may be the one that it has."""
        return text if _NAMED.fullmatch(text) else self.named(text, hint)

    def named(self, text: str, hint: str = "") -> str:
        """A new name for the value that an expression has now."""
        name = self.name(hint)
        self.line(f"let {name} = {text};")
        return name

    def bind(self, value: Value, text: str) -> None:
        """A value that a name or a call stands for."""
        self.values[value.id] = Expr(text)

    def define(
        self, op: Op, text: str, *, atom: bool = False, constant: bool | None = None
    ) -> None:
        """The result of a pure op. atom: the text needs no parentheses within another one.
        constant: whether it is made of constants alone, where its operands do not tell."""
        result = op.results[0]
        depths = [self.values[v.id].depth for v in op.operands if v.id in self.values]
        depth = 1 + max(depths, default=0)
        count, region = self._uses.get(result.id, (0, 0))
        if count == 0:
            return
        if count == 1 and region == id(self.region) and depth < _DEPTH:
            if constant is None:
                constant = bool(op.operands) and all(
                    self.values[v.id].constant for v in op.operands
                )
            self.values[result.id] = Expr(text if atom else f"({text})", depth, constant)
        else:
            self.effect(op, text)

    def guard(self, op: Op, text: str) -> str:
        """The result of a float op, hidden from compilers where it must be (see `guards`)."""
        known = all(self.values[v.id].constant for v in op.operands)
        if op.results[0].id not in self.guarded or known:
            return f"({text})"
        return self.hidden(text, op.results[0].type)

    def hidden(self, text: str, t: Type) -> str:
        """A value of type t that no compiler knows."""
        self.guards = True
        if element_of(t).bits >= 32:
            wide = element_of(t).bits == 64
            words = self.type(with_element(t, u64 if wide else u32))
            bit = "u64(nothing)" if wide and lanes_of(t) > 1 else "nothing"
            return f"bitcast<{type_name(t)}>(bitcast<{words}>({text}) | {words}({bit}))"
        # No integer is as wide. Not beside a constant: drivers draw what follows into both sides.
        never, other = "nothing != 0u", f"{type_name(element_of(t))}(nothing)"
        if lanes_of(t) > 1:
            never, other = f"vec{lanes_of(t)}<bool>({never})", f"{type_name(t)}({other})"
        return f"select({text}, {other}, {never})"

    def effect(self, op: Op, text: str) -> None:
        """The result of an op that must happen here."""
        result = op.results[0]
        self.values[result.id] = Expr(self.let(text, result.hint))

    def constant(self, value: Value, bits: int) -> None:
        """Bind a scalar constant by its pattern."""
        assert isinstance(value.type, DType)
        self.bits[value.id] = bits
        text = self.literal(bits, value.type)
        self.values[value.id] = Expr(text, 0, not text.startswith("bitcast"))

    def literal(self, bits: int, dtype: DType) -> str:
        """The text of a constant.

        WGSL has no infinities and NaNs, and denormals may be flushed where it evaluates them: such
        a pattern is made at run time.
        """
        self.type(dtype)
        if dtype.is_bool:
            return "true" if bits else "false"
        if dtype.is_int:
            negative = dtype.is_signed and bits >> (dtype.bits - 1)
            number = bits - (1 << dtype.bits) if negative else bits
            if number >= 0:
                return f"{number}{suffix(dtype)}"
            if number == dtype.min:  # no literal has this value
                return f"({number + 1}{suffix(dtype)} - 1{suffix(dtype)})"
            return f"({number}{suffix(dtype)})"
        number = bits_float(bits, dtype)
        tiny = float(np.finfo(dtype.storage).tiny)
        if math.isfinite(number) and (number == 0 or abs(number) >= tiny):
            if number == 0 and bits:
                return self.pattern(bits, dtype)
            text = f"{dtype.storage.type(number)!s}{suffix(dtype)}"
            if abs(float(text[: -len(suffix(dtype))])) > float(np.finfo(dtype.storage).max):
                text = f"{number!r}{suffix(dtype)}"  # Tint takes none above the greatest
            return f"({text})" if number < 0 else text
        return self.pattern(bits, dtype)

    def pattern(self, bits: int, dtype: DType) -> str:
        """A float by its bits, at run time."""
        self.helpers.setdefault("zero", helpers.ZERO)
        if dtype.name == "f16":
            return f"bitcast<vec2<f16>>(zero | {bits}u).x"
        if dtype.name == "f64":
            low, high = bits & 0xFFFFFFFF, bits >> 32
            return self.join(f"vec2<u32>(zero | {low}u, zero | {high}u)", dtype)
        return f"bitcast<f32>(zero | {bits}u)"

    def join(self, words: str, dtype: DType) -> str:
        """A 64-bit value of two words, low first."""
        self.helpers.setdefault("join", helpers.JOIN)
        name = self.type(dtype)
        self.requires.add("i64")
        return f"join({words})" if name == "u64" else f"bitcast<{name}>(join({words}))"

    def split(self, value: str, dtype: DType) -> str:
        """The two words of a 64-bit value, low first."""
        self.helpers.setdefault("split", helpers.SPLIT)
        self.requires.add("i64")
        return f"split({value})" if dtype.name == "u64" else f"split(bitcast<u64>({value}))"

    def splat(self, number: float, t: Type) -> str:
        """A number as an expression of type t."""
        element = element_of(t)
        text = self.literal(const_bits(number, element), element)
        return text if lanes_of(t) == 1 else f"{type_name(t)}({text})"

    def module(
        self, entry: str, size: tuple[int, int, int], builtins: list[str], depth: str
    ) -> str:
        """The whole module. depth: the launch's workgroups in z, a word of the parameters."""
        enables = [f"enable {name};" for name in sorted(self.enables)]
        enables += [f"requires {name};" for name in sorted(self.language)]
        if "subgroups" in self.enables:
            # ir.uniformity has checked what this rule asks for, by the size of subgroups too.
            enables.append("diagnostic(off, subgroup_uniformity);")
        x, y, z = size
        function = [
            f"@compute @workgroup_size({x}, {y}, {z})",
            f"fn {entry}({', '.join(builtins)}) {{",
            *(
                [f"  let nothing = {depth} >> {guards.MOST_Z.bit_length()}u;"]
                if self.guards
                else []
            ),
            *("  " + line for line in self.head),
            *self.lines,
            "}",
        ]
        parts = [enables, self.globals, list(self.helpers.values()), function]
        return "\n\n".join("\n".join(part) for part in parts if part) + "\n"
