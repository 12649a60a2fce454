"""Functions in LLVM IR between an intrinsic as the emitter calls it and the model's C function."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .table import Row, find

_HEAD = (
    "declare void @model_touch(ptr captures(none), i32, i32, i32, i32, i32) "
    "nounwind memory(inaccessiblemem: readwrite)",
    "declare void @model_touch_private(ptr captures(none), ptr captures(none), i64, i32, i32, i32) "
    "nounwind memory(inaccessiblemem: readwrite)",
    "declare ptr @model_array(i32) nounwind memory(none)",
    "declare i32 @model_within(i32, i32, i32, i32) nounwind memory(inaccessiblemem: readwrite)",
)
# How a value of a type is handed to C: type there, and the instruction that makes it.
_AS_WORD = {
    "i1": ("i8", "zext"),
    "half": ("i16", "bitcast"),
    "bfloat": ("i16", "bitcast"),
    "<2 x half>": ("i32", "bitcast"),
    "<2 x bfloat>": ("i32", "bitcast"),
    "<4 x i8>": ("i32", "bitcast"),
    "<2 x i16>": ("i32", "bitcast"),
}
_NARROW = ("i8", "i16")


@dataclass(frozen=True)
class Shim:
    """Function in LLVM IR for an intrinsic. placed: its first argument is the place of the call."""

    name: str
    placed: bool


def split_types(text: str) -> list[str]:
    """Types separated by commas, which vectors and structs hold none of here at top level."""
    return re.findall(r"\{.*?\}|<.*?>|[^,\s]+", text)


class Shims:
    """The shims that a module needs."""

    def __init__(self) -> None:
        self.declared: dict[str, str] = {}
        self.used: dict[str, tuple[str, Row]] = {}

    def declare(self, line: str) -> None:
        """Note the declaration of an intrinsic."""
        found = re.search(r"@([\w.]+)\(", line)
        assert found is not None
        self.declared[found[1]] = line
        self.of(found[1])

    def replaces(self, line: str) -> bool:
        """Whether a declaration is of an intrinsic that has a shim."""
        found = re.search(r"@([\w.]+)\(", line)
        return found is not None and found[1] in self.used

    def of(self, intrinsic: str) -> Shim | None:
        """The shim of an intrinsic; None where the host has it itself. NotModelledError."""
        row = find(intrinsic)
        if row is None:
            return None
        self.used[intrinsic] = row
        return Shim(f"shim.{intrinsic}", row[1].placed)

    def text(self) -> list[str]:
        """Definitions and declarations."""
        return [*_HEAD, *(self._one(name, *row) for name, row in sorted(self.used.items()))]

    def _one(self, name: str, symbol: str, row: Row) -> str:
        line = self.declared[name]
        found = re.match(r"declare (.+?) @[\w.]+\((.*)\)", line)
        assert found is not None
        result, types = found[1], split_types(found[2])
        params = [f"{t} %a{n}" for n, t in enumerate(types)]
        body: list[str] = []
        given: list[tuple[str, str]] = []  # type in a declaration, value
        for n, t in enumerate(types):
            word, how = _AS_WORD.get(t, (t, ""))
            value = f"%a{n}"
            if how:
                body.append(f"  %w{n} = {how} {t} %a{n} to {word}")
                value = f"%w{n}"
            given.append((f"{word} zeroext" if word in _NARROW else word, value))
        if row.placed:
            params.insert(0, "i32 %site")
            given.insert(0, ("i32", "%site"))
        several = result.startswith("{")
        if several:
            body.insert(0, f"  %out = alloca {result}, align 16")
            given.insert(0, ("ptr", "%out"))
        returned = "void" if several else _AS_WORD.get(result, (result, ""))[0]
        arguments = ", ".join(f"{t} {v}" for t, v in given)
        call = f"call {returned} @{symbol}({arguments})"
        body.append(f"  {call}" if returned == "void" else f"  %r = {call}")
        body += self._return(result, several)
        head = f"define internal {result} @shim.{name}({', '.join(params)})"
        declared = ", ".join(t for t, _ in given)
        return "\n".join(
            [
                f"declare {returned} @{symbol}({declared}) {row.attributes}",
                f"{head} alwaysinline {row.attributes} {{",
                *body,
                "}",
            ]
        )

    def _return(self, result: str, several: bool) -> list[str]:
        if result == "void":
            return ["  ret void"]
        if several:
            return [f"  %r = load {result}, ptr %out, align 16", f"  ret {result} %r"]
        word, how = _AS_WORD.get(result, (result, ""))
        if not how:
            return [f"  ret {result} %r"]
        if result == "i1":
            return ["  %b = icmp ne i8 %r, 0", "  ret i1 %b"]
        return [f"  %b = bitcast {word} %r to {result}", f"  ret {result} %b"]
