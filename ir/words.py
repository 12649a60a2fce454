"""The lines and words of kernel IR in text form, for `ir.parse`."""

from __future__ import annotations

import contextlib
import json
import re
from collections import deque
from functools import lru_cache
from typing import NoReturn

from .core import Attr, const_bits
from .dtypes import DTYPES, DType, Type, parse_type

MAX_LISTS = 150  # within one another
_SHOWN = 300  # characters of a message


class ParseError(ValueError):
    """Text that is not kernel IR: line, what was expected, what was found."""

    def __init__(self, line: int, message: str) -> None:
        if len(message) > _SHOWN:
            message = f"{message[:_SHOWN]}..."
        super().__init__(f"kernel IR line {line}: {message}")
        self.line = line


_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"'  # a string
    r"|%(?:\w+\.)?\d+"  # a value
    r"|\w+<[^>]{0,80}>"  # a type
    r"|nan:0x[0-9a-f]+|[\w.+-]+"  # a number or word
    r"|\S"  # a mark, or what cannot be read
)
_CLOSING = (["}"], ["}", "else", "{"])  # the commonest lines that are no op
_MARKS = frozenset("(){}[]=,:_.+-")
_INTEGER = re.compile(r"-?[0-9]{1,1300}")  # constexprs have up to `limits.MAX_BITS`


class Words:
    """The words of a text, line by line. ParseError where they are not what is expected."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.at = 0  # lines read
        self.tokens: deque[str] = deque()  # of the present line, as far as they are left

    def fail(self, message: str) -> NoReturn:
        raise ParseError(self.at, message)

    def next_line(self) -> None:
        while self.at < len(self.lines):
            self.at += 1
            line = self.lines[self.at - 1]
            if line.strip():
                self.tokens = deque(self.tokenize(line))
                return
        self.fail("expected more, found the end of the text")

    def tokenize(self, line: str) -> list[str]:
        if (words := line.split()) in _CLOSING:
            return words
        tokens = _TOKEN.findall(line)
        for n, token in enumerate(tokens):
            if len(token) == 1 and token not in _MARKS and not token.isalnum():
                start = [found.start() for found in _TOKEN.finditer(line)][n]
                self.fail(f"cannot read {line[start:].strip()[:40]!r}")
        return tokens

    def take(self, expected: str | None = None) -> str:
        if not self.tokens:
            wanted = "more" if expected is None else repr(expected)
            self.fail(f"expected {wanted}, found the end of the line")
        found = self.tokens.popleft()
        if expected is not None and found != expected:
            self.fail(f"expected {expected!r}, found {found!r}")
        return found

    def end_line(self) -> None:
        if self.tokens:
            self.fail(f"expected the end of the line, found {self.tokens[0]!r}")

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.tokens.popleft()
            return True
        return False

    def number(self) -> int:
        word = self.take()
        if not _INTEGER.fullmatch(word):
            self.fail(f"expected an integer, found {word!r}")
        return int(word)

    def type(self) -> Type:
        word = self.take()
        try:
            return parse_type(word)
        except ValueError as error:
            self.fail(str(error))

    def dtype(self) -> DType:
        word = self.take()
        if word not in DTYPES:
            self.fail(f"expected a scalar type, found {word!r}")
        return DTYPES[word]

    def string(self) -> str:
        word = self.take()
        try:
            value = json.loads(word)
        except ValueError:
            value = None
        if not isinstance(value, str):
            self.fail(f"expected a string, found {word!r}")
        return value

    def attr_value(self, depth: int = 0) -> Attr:
        """A number, string, truth value, or a list of them."""
        if depth > MAX_LISTS:
            self.fail(f"lists nest deeper than {MAX_LISTS}")
        token = self.peek()
        if token.startswith('"'):
            return self.string()
        if token in ("true", "false"):
            return self.take() == "true"
        if self.accept("["):
            items: list[Attr] = []
            while not self.accept("]"):
                items.append(self.attr_value(depth + 1))
                if self.peek() != "]":
                    self.take(",")
            return tuple(items)
        return self.number()


@lru_cache(1 << 10)
def constant_bits(word: str, dtype: DType) -> int:
    """The bits of a constant as it is written; ValueError."""
    if word in ("true", "false") and dtype.is_bool:
        return int(word == "true")
    with contextlib.suppress(ValueError):
        if word.startswith("nan:") and dtype.is_float:
            return int(word[4:], 16) & ((1 << dtype.bits) - 1)
        if dtype.is_float:
            return const_bits(float(word), dtype)
        if dtype.is_int and dtype.min <= int(word) <= dtype.max:
            return const_bits(int(word), dtype)
    raise ValueError(f"{word!r} is not a constant of type {dtype}")
