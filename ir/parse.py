"""Reading the text form of kernel IR (`ir.text` describes it)."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from sys import intern

from .core import Attr, Kernel, Loc, Op, Param, Region, Value, types_of
from .dtypes import Access, DType, Type, parse_type
from .ops import ROWS, OpTypeError, infer_op
from .words import ParseError, Words, constant_bits

__all__ = ["JOINTS", "ParseError", "parse_kernel"]

MAX_DEPTH = 200
_PLAIN_LINE = 400  # characters; of longer lines the expression below takes too long


# An op without regions, of at most one result and one attribute, which is an integer.
_PLAIN = re.compile(
    r" *(?:(%(?:(\w+)\.)?([0-9]{1,9})) = )?"  # its result: text, hint and number
    r"([a-z]\w*)([^{:]*)"  # its name; the literal of a constant, or operands
    r"(?:\{(\w+)=(-?[0-9]{1,40})\} ?)?(?:: (\S+))?"
)
# What stands before the regions of an op; those of a switch are cases and a default.
JOINTS = {"if": ("", "else"), "while": ("cond", "body"), "for": ("body",)}
_MOST_REGIONS = 1 << 16
_OWNERS = ("if", "switch", "for", "while")
# By their names, which are the very strings that the rest of a compile compares them with.
_PLAIN_OPS = {name: name for name in ROWS if name not in _OWNERS}
_VALUE = re.compile(r"%(?:(\w+)\.)?([0-9]{1,9})")
_CLOSES, _TURNS = ["}"], ["}", "else", "{"]  # the words of the commonest lines that are no op
_KEPT = 1 << 14  # places of a file that are kept
_places: dict[str, list[Loc]] = {}  # of the files read last, by line


def _lines(file: str, count: int) -> list[Loc]:
    """The places of a file's first lines, so many at least; most texts have the same name."""
    known = _places.get(file, [])
    if len(known) < count:
        known = [Loc(file, n, 1) for n in range(1, 2 * count + 1)]
        if count <= _KEPT:
            if len(_places) >= 4:
                _places.clear()
            _places[file] = known
    return known


@dataclass
class _Header:
    """The lines between the name and the body, as far as they are read."""

    params: list[Param] = field(default_factory=list)
    sites: list[str] = field(default_factory=list)
    constexprs: list[tuple[str, Attr]] = field(default_factory=list)
    workgroup: tuple[int, int, int] | None = None
    index: DType | None = None
    subgroup: int | None = None
    fast: tuple[str, ...] = ()
    grid: tuple[Attr, Attr, Attr] | None = None


def _name(word: str) -> tuple[int, str]:
    """Number and hint of a value; ValueError."""
    if (found := _VALUE.fullmatch(word)) is None:
        raise ValueError(word)
    return int(found[2]), found[1] or ""


def parse_kernel(text: str, file: str = "<kernel IR>") -> Kernel:
    """Read a kernel; ParseError on anything that `print_kernel` would not write.

    Each op's `loc` is its line of the text.
    """
    return _Parser(text, file).kernel()


class _Parser(Words):
    def __init__(self, text: str, file: str) -> None:
        super().__init__(text)
        self.places = _lines(file, len(self.lines))
        self.values: dict[int, Value] = {}
        self.written: dict[str, Value] = {}  # values by their text
        self.depth = 0

    # header

    def kernel(self) -> Kernel:
        self.next_line()
        self.take("kernel")
        name, specialization = self.take(), self.take()
        self.end_line()
        header = _Header()
        self.next_line()
        while (word := self.take()) != "body":
            self.header_line(word, header)
            self.end_line()
            self.next_line()
        if header.workgroup is None or header.index is None:
            missing = "workgroup" if header.workgroup is None else "index"
            self.fail(f"the header has no line {missing!r}")
        body = self.region_body(self.region_args())
        self.end_line()
        if any(line.strip() for line in self.lines[self.at :]):
            self.at += 1
            self.fail("expected the end of the text")
        return Kernel(
            name,
            specialization,
            tuple(header.params),
            header.workgroup,
            header.index,
            body,
            header.subgroup,
            header.fast,
            tuple(header.sites),
            tuple(header.constexprs),
            header.grid,
        )

    def header_line(self, word: str, header: _Header) -> None:
        """Read a line before the body, which begins with `word`."""
        if word == "param":
            header.params.append(self.param())
        elif word == "site":
            header.sites.append(self.string())
        elif word == "constexpr":
            key = self.take()
            self.take("=")
            header.constexprs.append((key, self.attr_value()))
        elif word == "grid":
            header.grid = (self.attr_value(), self.attr_value(), self.attr_value())
        elif word == "workgroup":
            header.workgroup = (self.number(), self.number(), self.number())
        elif word == "subgroup":
            header.subgroup = self.number()
        elif word == "index":
            header.index = self.dtype()
        elif word == "fast":
            header.fast = tuple(self.tokens)
            self.tokens.clear()
        else:
            self.fail(f"expected a header line or body, found {word!r}")

    def param(self) -> Param:
        name = self.take()
        self.take(":")
        dtype, kind = self.dtype(), self.take()
        if kind not in ("buffer", "slot", "scalar"):
            self.fail(f"expected buffer, slot or scalar, found {kind!r}")
        access = Access.READ
        if kind == "buffer":
            word = self.take()
            if word not in ("read", "write", "readwrite"):
                self.fail(f"expected read, write or readwrite, found {word!r}")
            access = Access(word)
        return Param(name, kind, dtype, access, self.accept("may_alias"))

    # values, ops, regions

    def value_parts(self, word: str) -> tuple[int, str]:
        match = _VALUE.fullmatch(word)
        if match is None:
            self.fail(f"expected a value, found {word!r}")
        return int(match[2]), match[1] or ""

    def define(self, number: int, hint: str, type_: Type) -> Value:
        if number in self.values:
            self.fail(f"value %{number} is defined twice")
        made = self.values[number] = Value(number, type_, hint)
        self.written[f"%{hint}.{number}" if hint else f"%{number}"] = made
        return made

    def use(self) -> Value:
        word = self.take()
        known = self.written.get(word)
        if known is None:
            number, _ = self.value_parts(word)
            if number not in self.values:
                self.fail(f"value %{number} is used before it is defined")
            known = self.written[word] = self.values[number]
        return known

    def region_args(self) -> tuple[Value, ...]:
        args: list[Value] = []
        if self.accept("("):
            while not self.accept(")"):
                number, hint = self.value_parts(self.take())
                self.take(":")
                args.append(self.define(number, hint, self.type()))
                if self.peek() != ")":
                    self.take(",")
        self.take("{")
        return tuple(args)

    def region_body(self, args: tuple[Value, ...]) -> Region:
        """The ops up to the line that starts with a closing brace, whose rest stays in tokens."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"regions nest deeper than {MAX_DEPTH}")
        self.end_line()
        ops: list[Op] = []
        lines, count = self.lines, len(self.lines)
        while True:
            line = lines[self.at] if self.at < count else ""
            last = line[-1:]
            if last in ("}", "{"):
                words = line.split(None, 3)
                if words in (_CLOSES, _TURNS):
                    self.at += 1
                    self.depth -= 1
                    self.tokens = deque(words[1:])
                    return Region(args, tuple(ops))
                known = None if last == "}" else self.opening(line)
            else:
                known = self.plain_op(line)
            if known is not None:
                ops.append(known)
                continue
            self.next_line()
            if self.accept("}"):
                self.depth -= 1
                return Region(args, tuple(ops))
            ops.append(self.op())

    def opening(self, line: str) -> Op | None:
        """The `if` or `for` that the next line opens where nothing is wrong with the line; else
        None, and nothing is read."""
        loc = self.places[self.at]
        rest, args = line.strip(" ").removesuffix(" {"), ""
        results, _, rest = rest.partition(" = ") if rest[:1] == "%" else ("", "", rest)
        word, _, rest = rest.partition(" ")
        name = intern(word)
        if name == "for":
            rest, opened, args = rest.partition(" body(")
            if not opened or args[-1:] != ")":
                return None
            args = args[:-1]
        elif name != "if":
            return None
        operands, colon, types = rest.partition(" : ")
        try:
            used = tuple([self.written[word] for word in operands.split(", ")])
            inner = [word.partition(": ") for word in args.split(", ")] if args else []
            taken = [(*_name(word), parse_type(type_)) for word, _, type_ in inner]
            names = list(map(_name, results.split(", "))) if results else []
            given = list(map(parse_type, types.split(", "))) if colon else []
        except (ValueError, KeyError):
            return None  # said where the line is read token by token
        if len(names) != len(given):
            return None
        self.at += 1
        self.tokens.clear()
        body = tuple([self.define(*value) for value in taken])
        regions = self.regions(name, ("" if name == "if" else "body", body))
        self.end_line()
        made = tuple([self.define(*name, t) for name, t in zip(names, given, strict=True)])
        return Op(name, used, made, (), regions, loc)

    def plain_op(self, line: str) -> Op | None:
        """The op of the next line where it has the commonest form and nothing is wrong with it;
        else None, and nothing is read."""
        at = self.at
        if len(line) > _PLAIN_LINE or at >= len(self.lines):
            return None
        if (found := _PLAIN.fullmatch(line)) is None:
            return None
        written, hint, number, word, rest, key, attr, type_text = found.groups()
        name = _PLAIN_OPS.get(word)
        if (written is None) is not (type_text is None) or name is None:
            return None
        operands: tuple[Value, ...] = ()
        attrs: tuple[tuple[str, Attr], ...] = () if key is None else ((intern(key), int(attr)),)
        types: tuple[Type, ...]
        try:
            types = () if type_text is None else (parse_type(type_text),)
            if name == "const":
                attrs = (("bits", self.literal(rest.strip(" "), types)),)
            elif rest := rest.strip(" "):
                known = self.written
                first, comma, second = rest.partition(", ")
                if not comma:
                    operands = (known[first],)
                elif ", " not in second:
                    operands = known[first], known[second]
                else:
                    operands = tuple([known[word] for word in rest.split(", ")])
            told = () if name == "const" else attrs
            infer_op(name, types_of(operands), told, types)
        except (ValueError, KeyError, OpTypeError):
            return None  # said where the line is read token by token
        results: tuple[Value, ...] = ()
        if types:
            if (value := int(number)) in self.values:
                return None
            made = self.values[value] = self.written[written] = Value(value, types[0], hint or "")
            results = (made,)
        self.at = at + 1
        return Op(name, operands, results, attrs, (), self.places[at])

    def op(self) -> Op:
        loc = self.places[self.at - 1]
        names: list[tuple[int, str]] = []
        if self.peek().startswith("%"):
            names.append(self.value_parts(self.take()))
            while self.accept(","):
                names.append(self.value_parts(self.take()))
            self.take("=")
        name = intern(self.take())
        if name not in ROWS:
            self.fail(f"no op is called {name!r}")
        literal = self.take() if name == "const" else ""
        operands: list[Value] = []
        if self.peek().startswith("%"):
            operands.append(self.use())
            while self.accept(","):
                operands.append(self.use())
        attrs = self.attrs()
        types = self.types() if self.accept(":") else ()
        if name == "const":
            attrs = (("bits", self.literal(literal, types)),)
        regions = self.regions(name)
        self.end_line()
        if len(names) != len(types):
            self.fail(f"{len(names)} results, but {len(types)} types")
        if not regions:
            try:
                infer_op(name, types_of(operands), attrs, types)
            except OpTypeError as error:
                self.fail(str(error))
            except KeyError as error:
                self.fail(f"op {name} lacks attribute {error}")
        results = tuple([self.define(n, h, t) for (n, h), t in zip(names, types, strict=True)])
        return Op(name, tuple(operands), results, attrs, regions, loc)

    def attrs(self) -> tuple[tuple[str, Attr], ...]:
        # A brace that ends the line opens a region; attributes are closed on their line.
        if self.peek() != "{" or len(self.tokens) == 1:
            return ()
        self.take("{")
        found: dict[str, Attr] = {}
        while not self.accept("}"):
            key = self.take()
            self.take("=")
            found[key] = self.attr_value()
            if self.peek() != "}":
                self.take(",")
        return tuple(sorted(found.items()))

    def types(self) -> tuple[Type, ...]:
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return tuple(found)

    def literal(self, word: str, types: tuple[Type, ...]) -> int:
        (dtype,) = types if len(types) == 1 else (None,)
        if not isinstance(dtype, DType):
            self.fail("a constant has one scalar type")
        try:
            return constant_bits(word, dtype)
        except ValueError as error:
            self.fail(str(error))

    def regions(
        self, name: str, head: tuple[str, tuple[Value, ...]] | None = None
    ) -> tuple[Region, ...]:
        """The regions of an op. head: the joint and the arguments of the first, which were read."""
        found: list[Region] = []
        joints: list[str] = []
        if head is not None:
            joints.append(head[0])
            found.append(self.region_body(head[1]))
        while self.tokens:
            joint = "" if self.peek() in ("{", "(") else self.take()
            joints.append(joint)
            if joint not in JOINTS.get(name, ("case", "default")) or len(joints) > _MOST_REGIONS:
                self.fail(f"expected a region of {name} or the end of the line, found {joint!r}")
            found.append(self.region_body(self.region_args()))
        wanted = JOINTS.get(name) or (*["case"] * (len(joints) - 1), "default")
        if tuple(joints) != (wanted if name in _OWNERS else ()):
            self.fail(f"op {name} with {len(found)} regions: {' '.join(joints)}")
        return tuple(found)
