"""LLVM IR for NVIDIA as LLVM IR for the host, by rewriting its text.

Address spaces go, intrinsics become calls of the model's functions, and every access to memory is
announced to the model first. The text is an emitter's, one op a line; what is not understood is
refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .assembly import Assembly
from .shims import Shims
from .table import NotModelledError

ANY = 0xFFFFFFFF  # an object that the model finds by the address
LOAD, STORE, ATOMIC = range(3)
MAP = "[128 x i8]"  # a tensor map, by value

_NUMBERS = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}
_SHARED = re.compile(
    r"(@\S+) = (?:internal|external) global \[(\d+) x (\S+)\](?: undef)?, align (\d+)"
)
_GEP = re.compile(r"(%\S+) = getelementptr (?:inbounds )?(?:nuw )?[^,]+, ptr ([%@][\w.]+), ")
_ALLOCA = re.compile(r"(%\S+) = alloca (\S.*?)(?:, align (\d+))?$")
_LOAD = re.compile(r"%\S+ = load (?:atomic )?(.+?), ptr (\S+?)(?:,| ).*?align (\d+)")
_STORE = re.compile(r"store (?:atomic )?(.+), ptr (\S+?)(?:,| ).*?align (\d+)")
_ATOMIC = re.compile(r"%\S+ = (?:atomicrmw \w+|cmpxchg) ptr (\S+), (\S+) ")
_CALL = re.compile(r"call ([^@]*?)@([\w.]+)\(")
_RANGE = re.compile(r"(%\S+) = call range\(i32 (-?\d+), (-?\d+)\) i32 @([\w.]+)\(\)")
_WIDE = re.compile(
    r'(%\S+) = call i64 asm "mul\.wide\.([su])32 \$0, \$1, (\d+);", "=l,r"\(i32 (\S+)\)'
)
_MEMORY = re.compile(r"\b(?:load|store|atomicrmw|cmpxchg)\b")


def size_of(text: str) -> int:
    """Bytes of a type in memory."""
    if found := re.fullmatch(r"[<\[](\d+) x (.+)[>\]]", text):
        return int(found[1]) * size_of(found[2])
    if found := re.fullmatch(r"i(\d+)", text):
        return -(-int(found[1]) // 8)
    if text not in _NUMBERS:
        raise NotModelledError(f"the size of {text} is not known")
    return _NUMBERS[text]


def leading_type(text: str) -> str:
    """The type at the start of `TYPE VALUE`."""
    found = re.match(r"[<\[].*?[>\]](?= )|\S+", text)
    assert found is not None
    return found[0]


@dataclass
class Array:
    """A workgroup array: its symbol, elements, bytes of an element; none: a launch says it."""

    symbol: str
    count: int
    element: int


@dataclass
class Retargeted:
    """sites: the ops that may fail, in the order of their numbers. params: types and names."""

    text: str = ""
    entry: str = ""
    params: list[tuple[str, str]] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    sites: list[str] = field(default_factory=list)


class Rewriter:
    """One module. memory_params: how many pointers are buffers; dynamic: bytes of the dynamic
    block; clustered: blocks run together, each with workgroup arrays of its own."""

    def __init__(
        self,
        memory_params: int,
        faults: bool,
        dynamic: int,
        counter: bool = False,
        clustered: bool = False,
    ) -> None:
        self.clustered = clustered
        self.out = Retargeted()
        self.shims = Shims()
        self.assembly = Assembly()
        self.dynamic = dynamic
        self.bases: dict[str, str] = {}  # pointers and what they point into
        self.objects = {f"%buffer{n}": n for n in range(memory_params)}
        if faults:
            self.objects["%faults"] = memory_params
        if counter:
            self.objects["%grid_counter"] = len(self.objects)
        self.own: list[str] = []  # arrays of which each block has one
        self.private: dict[str, int] = {}  # stack slots and their bytes
        self.lines: list[str] = []

    def run(self, text: str) -> Retargeted:
        """Rewrite the whole text."""
        text = re.sub(r" addrspace\(\d+\)", "", text)
        text = re.sub(r"addrspacecast ptr (\S+) to ptr", r"bitcast ptr \1 to ptr", text)
        for line in text.splitlines():
            self._line(line)
        self.out.text = "\n".join([*self.lines, *self.shims.text(), *self.assembly.text()])
        return self.out

    def _line(self, line: str) -> None:
        for symbol in self.own:
            line = re.sub(rf"{symbol}\b", f"%{symbol[1:]}", line)
        if found := _SHARED.match(line):
            line = self._array(*found.groups())
        elif line.startswith("define "):
            line = self._head(line)
        elif line.startswith("declare "):
            self.shims.declare(line)
            line = "" if self.shims.replaces(line) else line
        else:
            self._note_pointers(line)
            self._announce(line)
            line = self._calls(line)
        if line:
            self.lines.append(line)
        if line == "entry:":
            for symbol in self.own:
                number = self.objects[symbol]
                self.objects[f"%{symbol[1:]}"] = number
                self.lines.append(f"  %{symbol[1:]} = call ptr @model_array(i32 {number})")

    def _array(self, symbol: str, count: str, element: str, align: str) -> str:
        total = int(count) or self.dynamic
        self.objects[symbol] = len(self.objects)
        if self.clustered:
            self.own.append(symbol)
        self.out.arrays.append(Array(symbol, int(count), size_of(element)))
        return f"{symbol} = internal global [{total} x {element}] undef, align {align}"

    def _head(self, line: str) -> str:
        found = re.fullmatch(r"define ptx_kernel void @(\w+)\((.*)\) (.*)\{", line)
        if found is None:
            raise NotModelledError(f"not the head of a kernel: {line}")
        self.out.entry, params, attributes = found.groups()
        params = re.sub(r"byval\(\[(\d+ x i8)\]\) align \d+ \"nvvm.grid_constant\"", "", params)
        for param in params.split(", "):
            words = param.split()
            is_map = words[-1].startswith("%map")
            self.out.params.append((MAP if is_map else words[0], words[-1]))
        return f"define internal void @model.kernel({params}) noinline {attributes}{{"

    def _note_pointers(self, line: str) -> None:
        if found := _GEP.search(line):
            self.bases[found[1]] = self.bases.get(found[2], found[2])
        if found := _ALLOCA.search(line):
            self.private[found[1]] = size_of(found[2])

    def site(self, line: str) -> int:
        """The number of an op in messages."""
        self.out.sites.append(line.strip())
        return len(self.out.sites) - 1

    def _announce(self, line: str) -> None:
        """Tell the model of the access that a line makes."""
        if not _MEMORY.search(line):
            return
        op = line.strip()
        if found := _LOAD.match(op):
            self._touch(op, LOAD, size_of(found[1]), found[2], int(found[3]))
        elif found := _STORE.match(op):
            self._touch(op, STORE, size_of(leading_type(found[1])), found[2], int(found[3]))
        elif found := _ATOMIC.match(op):
            size = size_of(found[2])
            self._touch(op, ATOMIC, size, found[1], size)
        else:
            raise NotModelledError(f"an access that the model does not understand: {op}")

    def _touch(self, op: str, kind: int, size: int, pointer: str, align: int) -> None:
        base = self.bases.get(pointer, pointer)
        rest = f"i32 {size}, i32 {align}"
        if base in self.private:
            array = f"ptr {base}, i64 {self.private[base]}"
            call = f"@model_touch_private(ptr {pointer}, {array}, {rest}, i32 {self.site(op)})"
        else:
            number = f"i32 {self.objects.get(base, ANY)}"
            call = f"@model_touch(ptr {pointer}, {number}, {rest}, i32 {kind}, i32 {self.site(op)})"
        self.lines.append(f"  call void {call}")

    def _calls(self, line: str) -> str:
        if found := _WIDE.search(line):
            result, kind, factor, word = found.groups()
            extend = "sext" if kind == "s" else "zext"
            wide = f"%wide.{result[1:]}"
            self.lines.append(f"  {wide} = {extend} i32 {word} to i64")
            return f"  {result} = mul i64 {wide}, {factor}"
        if " asm " in line:
            return self.assembly.rewritten(line, self.site(line))
        if found := _RANGE.search(line):
            return self._register(*found.groups())
        found = _CALL.search(line)
        if found is None or (shim := self.shims.of(found[2])) is None:
            return line
        place = ""
        if shim.placed:
            rest = line[found.end() :]
            place = f"i32 {self.site(line)}" + ("" if rest.startswith(")") else ", ")
        return f"{line[: found.start()]}call {found[1]}@{shim.name}({place}{line[found.end() :]}"

    def _register(self, result: str, low: str, high: str, name: str) -> str:
        """A special register, held to its range."""
        shim = self.shims.of(name)
        assert shim is not None
        site = self.site(f"{name} in {low} .. {int(high) - 1}")
        raw = f"%raw.{result[1:]}"
        self.lines.append(f"  {raw} = call i32 @{shim.name}()")
        within = f"@model_within(i32 {raw}, i32 {low}, i32 {high}, i32 {site})"
        return f"  {result} = call range(i32 {low}, {high}) i32 {within}"
