"""Reading the text form of a graph (`ir.graph.text`)."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable

from ..dtypes import DTYPES
from .core import Attr, Commit, Graph, Node, Origin, Output, Source, Tensor
from .table import complete
from .types import GraphTypeError, TensorType, parse_tensor_type, shown
from .verify import GraphError, verify

MOST_BYTES = 1 << 26  # of a text
_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(
    rf"\s*(?:({_STRING})|(%\d+)|([A-Za-z_]\w*\[[\d,]*\])|(-?(?:\d[\w.+-]*|inf|nan)(?!\w))"
    r"|([A-Za-z_]\w*)|(<-|[=,:{}\[\]])|(\#.*))",
    re.ASCII,
)
_NUMBER = re.compile(r"-?[0-9]{1,19}(\.[0-9]*)?(e[+-]?[0-9]{1,3})?", re.ASCII)
_SOURCES = {origin.value: origin for origin in Origin}


class GraphSyntaxError(ValueError):
    """Text that is no graph. line: counted from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line = line


def parse_graph(text: str) -> Graph:
    """The graph of a text, verified. Raises GraphSyntaxError, and GraphError for what is written
    well but is no graph."""
    if len(text) > MOST_BYTES:
        raise GraphSyntaxError(1, f"the text has {len(text)} characters, of at most {MOST_BYTES}")
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), 1):
        tokens = _Tokens(number, line)
        if tokens.peek():
            reader.line(tokens)
    if reader.name is None:
        raise GraphSyntaxError(1, 'a graph begins with its name: graph "..."')
    graph = Graph(
        reader.name,
        tuple(reader.sources),
        tuple(reader.nodes),
        tuple(reader.outputs),
        tuple(reader.commits),
    )
    verify(graph)
    return graph


class _Tokens:
    """The tokens of a line, without its remark."""

    def __init__(self, number: int, line: str) -> None:
        self.number = number
        self.items: list[str] = []
        at = 0
        line = line.rstrip()
        while at < len(line):
            found = _TOKEN.match(line, at)
            if found is None:
                rest = line[at:].strip()
                raise GraphSyntaxError(number, f"{rest[:20]!r} is nothing known")
            at = found.end()
            if found[7] is None:
                self.items.append(found[0].strip())
        self.at = 0

    def peek(self) -> str:
        return self.items[self.at] if self.at < len(self.items) else ""

    def next(self, what: str) -> str:
        token = self.peek()
        if not token:
            raise GraphSyntaxError(self.number, f"it ends where {what} is expected")
        self.at += 1
        return token

    def expect(self, *wanted: str) -> str:
        token = self.next(" or ".join(map(repr, wanted)))
        if token not in wanted:
            expected = " or ".join(map(repr, wanted))
            raise GraphSyntaxError(self.number, f"{shown(token)} where {expected} is expected")
        return token

    def take(self, token: str) -> bool:
        found = self.peek() == token
        self.at += found
        return found

    def end(self) -> None:
        if self.peek():
            raise GraphSyntaxError(self.number, f"{self.peek()!r} is too much")

    def string(self) -> str:
        token = self.next("a string")
        try:
            value = json.loads(token)
        except ValueError:
            value = None
        if not isinstance(value, str):
            raise GraphSyntaxError(self.number, f"{shown(token)} is no string")
        return value

    def value(self) -> int:
        token = self.next("a value such as %3")
        if not re.fullmatch(r"%[0-9]{1,9}", token):
            raise GraphSyntaxError(self.number, f"{shown(token)} is no value: one looks like %3")
        return int(token[1:])

    def type(self) -> TensorType:
        token = self.next("a type")
        try:
            return parse_tensor_type(token)
        except GraphTypeError as error:
            raise GraphSyntaxError(self.number, str(error)) from error

    def several(self, one: Callable[[], int]) -> list[int]:
        found = [one()]
        while self.take(","):
            found.append(one())
        return found


class _Reader:
    def __init__(self) -> None:
        self.name: str | None = None
        self.sources: list[Source] = []
        self.nodes: list[Node] = []
        self.outputs: list[Output] = []
        self.commits: list[Commit] = []
        self.tensors: dict[int, Tensor] = {}

    def line(self, t: _Tokens) -> None:
        word = t.peek()
        if self.name is None:
            t.expect("graph")
            self.name = t.string()
        elif word in _SOURCES:
            self._source(t)
        elif word == "output":
            t.next("")
            name = t.string()
            self.outputs.append(Output(name, self._known(t)))
        elif word == "commit":
            t.next("")
            state = self._known(t)
            t.expect("<-")
            self.commits.append(Commit(state, self._known(t), t.take("donate")))
        elif word.startswith("%"):
            self._node(t)
        else:
            begins = f"{', '.join(_SOURCES)}, output, commit or a value"
            raise GraphSyntaxError(t.number, f"{word!r} where a line begins with {begins}")
        t.end()

    def _known(self, t: _Tokens) -> Tensor:
        number = t.value()
        if number not in self.tensors:
            raise GraphSyntaxError(t.number, f"%{number} is not defined before")
        return self.tensors[number]

    def _new(self, t: _Tokens, number: int, type_: TensorType) -> Tensor:
        if number in self.tensors:
            raise GraphSyntaxError(t.number, f"%{number} is defined twice")
        return self.tensors.setdefault(number, Tensor(number, type_))

    def _source(self, t: _Tokens) -> None:
        origin = _SOURCES[t.next("")]
        number, name = t.value(), t.string()
        t.expect(":")
        tensor = self._new(t, number, t.type())
        data = None
        if t.take("="):
            t.expect("hex")
            digits = t.string()
            if len(digits) % 2 or not re.fullmatch("[0-9a-f]*", digits):
                raise GraphSyntaxError(t.number, "no bytes in hex: two of 0-9 and a-f for each")
            data = bytes.fromhex(digits)
        self.sources.append(Source(origin, name, tensor, data))

    def _node(self, t: _Tokens) -> None:
        numbers = t.several(t.value)
        t.expect("=")
        op = t.next("an op")
        operands = []
        if t.peek().startswith("%"):
            operands = [self._known(t)]
            while t.take(","):
                operands.append(self._known(t))
        attrs = self._attrs(t) if t.take("{") else {}
        t.expect(":")
        types = [t.type()]
        while t.take(","):
            types.append(t.type())
        if len(types) != len(numbers):
            raise GraphSyntaxError(t.number, f"{len(numbers)} results and {len(types)} types")
        results = [self._new(t, n, type_) for n, type_ in zip(numbers, types, strict=True)]
        ordered = tuple(sorted(attrs.items()))
        with contextlib.suppress(GraphTypeError):  # the verifier tells
            ordered = complete(op, attrs)
        self.nodes.append(Node(op, tuple(operands), ordered, tuple(results)))

    def _attrs(self, t: _Tokens) -> dict[str, Attr]:
        attrs: dict[str, Attr] = {}
        if t.take("}"):
            return attrs
        while True:
            name = t.next("an attribute")
            if name in attrs:
                raise GraphSyntaxError(t.number, f"attribute {name!r} is given twice")
            t.expect("=")
            attrs[name] = self._attr(t)
            if t.expect(",", "}") == "}":
                return attrs

    def _attr(self, t: _Tokens) -> Attr:
        token = t.next("the value of an attribute")
        if token == "[":
            return self._tuple(t)
        if token.startswith('"'):
            t.at -= 1
            return t.string()
        if token in ("true", "false"):
            return token == "true"
        if token in DTYPES:
            return DTYPES[token]
        if token in ("inf", "-inf", "nan"):
            return float(token)
        found = _NUMBER.fullmatch(token)
        if found is None:
            raise GraphSyntaxError(t.number, f"{shown(token)} is no value of an attribute")
        return float(token) if found[1] or found[2] else int(token)

    def _tuple(self, t: _Tokens) -> tuple[int, ...]:
        found: list[int] = []
        if t.take("]"):
            return ()
        while True:
            token = t.next("an integer")
            if not re.fullmatch(r"-?[0-9]{1,19}", token):
                raise GraphSyntaxError(t.number, f"{shown(token)} is no integer")
            found.append(int(token))
            if t.expect(",", "]") == "]":
                return tuple(found)


__all__ = ["GraphError", "GraphSyntaxError", "parse_graph"]
