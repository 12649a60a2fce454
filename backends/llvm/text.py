"""Writing LLVM IR as text: a function under construction.

Instructions are appended to the open block; `alloca` puts stack slots into the entry block, where
LLVM's mem2reg turns them into SSA values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

_OWN = re.compile(r"%(\d+)")  # a name that `Function` gives
_NAMES: list[str] = []  # these names
_PLACE = re.compile(r"(%)?\{(\d+)\}|\{\{|\}\}|%")  # what is filled in, and what stands for itself


def _own_names(count: int) -> list[str]:
    """These names, so many at least. The list is replaced whole: threads may compile at once."""
    global _NAMES
    known = _NAMES
    if len(known) < count:
        known = _NAMES = [f"%{n}" for n in range(2 * count)]
    return known


class Form(NamedTuple):
    """A template as it is filled in: a text for the % operator, which of all words it takes, and
    the results, as numbers of words or as they are."""

    text: str
    pick: Callable[[Sequence[str]], Any]
    results: tuple[int | str, ...]

    @classmethod
    @lru_cache(4096)
    def of(cls, template: str) -> Form:
        """The form of a template of `Function`."""
        text, *results = template.split("\0")
        places: list[int] = []
        text = _PLACE.sub(lambda m: _place(m, places), text)
        pick: Callable[[Sequence[str]], Any] = itemgetter(*places) if places else lambda words: ()
        return cls(text, pick, tuple(map(_result, results)))


def _place(found: re.Match[str], places: list[int]) -> str:
    """A place in the text, which is noted, or a mark that stands for itself."""
    if found[2] is None:
        return {"{{": "{", "}}": "}"}.get(found[0], "%%")
    places.append(int(found[2]))
    return "%s"


def _result(text: str) -> int | str:
    found = _PLACE.fullmatch(text)
    return int(found[2]) if found and found[2] else text.format()


class Phi:
    """A value that depends on the block control came from; edges may be added after its uses."""

    def __init__(self, name: str, type_: str) -> None:
        self.name, self.type = name, type_
        self.edges: list[tuple[str, str]] = []  # value, block

    def __str__(self) -> str:
        edges = ", ".join(f"[ {value}, %{block} ]" for value, block in self.edges)
        return f"  {self.name} = phi {self.type} {edges}"


class Function:
    """One function definition and the intrinsics that it calls.

    convention: LLVM's word for the calling convention, where it is not C's.
    """

    def __init__(
        self, name: str, params: Sequence[str], attributes: str = "", convention: str = ""
    ) -> None:
        result = f"{convention} void" if convention else "void"
        self.head = f"define {result} @{name}({', '.join(params)}) {attributes}".rstrip()
        self.declarations: dict[str, str] = {}
        self._slots: list[str] = []
        self._lines: list[str | Phi] = []
        self._next = 0
        self._labels = 0
        self.current = "start"  # label of the current block
        self.open = True  # whether the current block still lacks its terminator

    def value(self, instruction: str) -> str:
        """Append an instruction; the name of its result."""
        name = f"%{self._next}"
        self._next += 1
        self._lines.append(f"  {name} = {instruction}")
        return name

    def phi(self, type_: str) -> Phi:
        """A phi at the head of the current block, without edges yet."""
        phi = Phi(f"%{self._next}", type_)
        self._next += 1
        self._lines.append(phi)
        return phi

    def do(self, instruction: str) -> None:
        """Append an instruction without a result."""
        self._lines.append(f"  {instruction}")

    def mark(self) -> tuple[int, int]:
        """Where a template begins."""
        return len(self._lines), self._next

    def template(self, start: tuple[int, int], results: Sequence[str]) -> tuple[str, int]:
        """Take back the instructions since `start`, as text for `fill`: the text, and how many
        names it defines. results: what they give."""
        at, first = start
        lines = self._lines[at:]
        names = self._next - first
        del self._lines[at:]
        self._next = first
        text = "\n".join(map(str, lines)) + "".join(f"\0{result}" for result in results)
        text = text.replace("{", "{{").replace("}", "}}")
        return _OWN.sub(lambda m: f"%{{{int(m[1]) - first}}}", text), names

    def fill(self, template: str, names: int, operands: Sequence[str]) -> list[str]:
        """Append the instructions of a template; its results.

        In it `{n}` stands for the number of name n, and behind the names for the operands.
        """
        form = Form.of(template)
        first = self._next
        self._next = end = first + names
        words = [*_own_names(end)[first:end], *operands]
        if form.text:
            self._lines.append(form.text % form.pick(words))
        return [r if isinstance(r, str) else words[r] for r in form.results]

    def call(
        self,
        intrinsic: str,
        result: str,
        *args: tuple[str, str],
        flags: str = "",
        attributes: str = "",
    ) -> str:
        """Call an intrinsic with (type, value) arguments; the name of its result, if any.

        flags: fast-math flags, each with a space behind it. attributes: of the call, each with a
        space before it.
        """
        if intrinsic not in self.declarations:
            types = ", ".join([t for t, _ in args])
            self.declarations[intrinsic] = f"declare {result} @{intrinsic}({types})"
        given = ", ".join([f"{t} {v}" for t, v in args])
        text = f"call {flags}{result} @{intrinsic}({given}){attributes}"
        if result == "void":
            self.do(text)
            return ""
        return self.value(text)

    def alloca(self, type_: str, align: int = 0, pointer: str = "ptr") -> str:
        """A stack slot, made once per call of the function. pointer: the type of its address."""
        name = f"%s{len(self._slots)}"
        tail = f", align {align}" if align else ""
        if pointer != "ptr":
            tail += pointer.replace("ptr", ",")
        self._slots.append(f"  {name} = alloca {type_}{tail}")
        return name

    def label(self, hint: str) -> str:
        """A fresh block name."""
        self._labels += 1
        return f"{hint}{self._labels}"

    def block(self, label: str) -> None:
        """Start a block; falls into it where the previous one is still open."""
        if self.open:
            self._lines.append(f"  br label %{label}")
        self._lines.append(f"{label}:")
        self.current = label
        self.open = True

    def branch(self, label: str) -> None:
        """End the block with a jump; nothing where it has ended already."""
        if self.open:
            self._lines.append(f"  br label %{label}")
        self.open = False

    def branch_if(self, condition: str, yes: str, no: str) -> None:
        """End the block with a conditional jump."""
        self._lines.append(f"  br i1 {condition}, label %{yes}, label %{no}")
        self.open = False

    def switch(
        self, type_: str, value: str, default: str, cases: Sequence[tuple[int, str]]
    ) -> None:
        """End the block with a jump by value."""
        table = " ".join(f"{type_} {n}, label %{label}" for n, label in cases)
        self._lines.append(f"  switch {type_} {value}, label %{default} [ {table} ]")
        self.open = False

    def ret(self) -> None:
        """End the function."""
        if self.open:
            self._lines.append("  ret void")
        self.open = False

    def text(self) -> str:
        """The definition and its declarations."""
        body = "\n".join([*self._slots, "  br label %start", "start:", *map(str, self._lines)])
        declared = "\n".join(self.declarations[k] for k in sorted(self.declarations))
        return f"{self.head} {{\nentry:\n{body}\n}}\n{declared}\n"
