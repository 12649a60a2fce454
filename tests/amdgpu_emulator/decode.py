"""Text of LLVM's disassembler -> Instruction values. The grammar is the assembler's own.

`v_fma_f32 v0, -v1, |s2|, 0x40490fdb clamp mul:2` has the mnemonic `v_fma_f32`, four operands and
the modifiers {"clamp": True, "mul": "2"}. Two halves of a dual issue stand in `halves`.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from .errors import CodeObjectError, UnknownInstruction

DISASSEMBLER = "llvm-objdump-22"

# Register numbers of the scalar file beyond s0-s105, as the encodings have them.
VCC, TTMP, NULL, M0, EXEC = 106, 108, 124, 125, 126
SPECIAL = {
    "vcc": (VCC, 2),
    "vcc_lo": (VCC, 1),
    "vcc_hi": (VCC + 1, 1),
    "exec": (EXEC, 2),
    "exec_lo": (EXEC, 1),
    "exec_hi": (EXEC + 1, 1),
    "m0": (M0, 1),
    "null": (NULL, 1),
    "flat_scratch": (102, 2),
    "flat_scratch_lo": (102, 1),
    "flat_scratch_hi": (103, 1),
}
_CACHE_FLAGS = ("glc", "slc", "dlc", "sc0", "sc1", "nt", "nv")
FLAGS = frozenset((*_CACHE_FLAGS, "clamp", "lds", "tfe", "gds", "offen", "idxen", "high"))


@dataclass(frozen=True)
class Operand:
    """kind: v (vector), a (accumulation), s (scalar register), int, float, literal, off, name.

    `index`, `count`: first register and number of 32-bit registers. `half`: "l" or "h" of a
    16-bit operand. `value`: number of a constant. `neg`, `abs`: sign modifiers.
    """

    kind: str
    text: str
    index: int = 0
    count: int = 1
    value: int | float = 0
    half: str | None = None
    neg: bool = False
    abs: bool = False
    sext: bool = False

    @property
    def is_vector(self) -> bool:
        return self.kind in ("v", "a")


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction. `suffix`: e32, e64, dpp, e64_dpp, sdwa or empty."""

    address: int
    size: int
    mnemonic: str
    suffix: str
    operands: tuple[Operand, ...]
    modifiers: dict[str, str | bool]
    text: str
    halves: tuple[Instruction, ...] = field(default=())

    @property
    def next(self) -> int:
        return self.address + self.size

    @property
    def branch_target(self) -> int:
        """Where a branch goes: its operand is a distance in words from the next instruction."""
        distance = int(self.operands[-1].value)
        distance -= 1 << 16 if distance >= 1 << 15 else 0
        return self.next + 4 * distance

    def number(self, modifier: str, default: int = 0) -> int:
        """The value of a modifier such as `offset:-16`."""
        found = self.modifiers.get(modifier)
        if found is None:
            return default
        try:
            return int(str(found), 0)
        except ValueError:
            raise self.unknown(f"{modifier}:{found} is no number") from None

    def bits(self, modifier: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """The value of a modifier such as `op_sel:[0,1]`, filled up from `default`."""
        found = self.modifiers.get(modifier)
        if found is None:
            return default
        given = tuple(int(b, 0) for b in str(found).strip("[]").split(","))
        return given + default[len(given) :]

    def unknown(self, why: str) -> UnknownInstruction:
        error = UnknownInstruction(f"unknown instruction `{self.text}`: {why}")
        error.place("", f"{self.address:#x}: {self.text}")
        return error

    def with_operands(self, *operands: Operand) -> Instruction:
        return replace(self, operands=operands)


_REGISTER = re.compile(r"(v|s|a|ttmp)(?:(\d+)(?:\.([lh]))?|\[(\d+)(?::(\d+))?\])")
_FLOAT = re.compile(r"-?\d+\.\d+(e[-+]?\d+)?")
_INTEGER = re.compile(r"-?\d+")
_LITERAL = re.compile(r"-?0x[0-9a-fA-F]+")
_NAMES = re.compile(r"(src_\w+|[a-z]\w*\(.*\)|[A-Z]\w*|lit64\(.*\)|off|\w+)")


def operand(text: str) -> Operand:
    """One operand, signs included."""
    if text.startswith("-") and len(text) > 1 and not text[1].isdigit():
        return replace(operand(text[1:]), neg=True, text=text)
    for function, change in (("neg", "neg"), ("abs", "abs"), ("sext", "sext")):
        if text.startswith(function + "(") and text.endswith(")"):
            inner = operand(text[len(function) + 1 : -1])
            return replace(inner, text=text, **{change: True})  # type: ignore[arg-type]
    if text.startswith("|") and text.endswith("|") and len(text) > 2:
        return replace(operand(text[1:-1]), abs=True, text=text)
    if found := _REGISTER.fullmatch(text):
        first = int(found[2] or found[4])
        count = int(found[5]) - first + 1 if found[5] else 1
        kind = "s" if found[1] == "ttmp" else found[1]
        first += TTMP if found[1] == "ttmp" else 0
        return Operand(kind, text, first, count, half=found[3])
    if text in SPECIAL:
        return Operand("s", text, *SPECIAL[text])
    if text.startswith("lit(") and text.endswith(")"):  # a literal where an inline one would do
        text = text[4:-1]
    if _LITERAL.fullmatch(text):
        return Operand("literal", text, value=int(text, 16))
    if _FLOAT.fullmatch(text):
        return Operand("float", text, value=float(text))
    if _INTEGER.fullmatch(text):
        return Operand("int", text, value=int(text))
    return Operand("off" if text == "off" else "name", text)


def _split(text: str, separator: str) -> list[str]:
    """`text` cut at separators outside brackets, parentheses and quotation marks."""
    parts, depth, start, quoted = [], 0, 0, False
    for at, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif c in "[(":
            depth += 1
        elif c in "])":
            depth -= 1
        elif c == separator and not depth and not quoted:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def _is_modifier(word: str) -> bool:
    return word in FLAGS or re.match(r"[a-z]\w*:", word) is not None


def _mnemonic(word: str) -> tuple[str, str]:
    found = re.fullmatch(r"(\w+?)(?:_(e32|e64|dpp|sdwa|e64_dpp|dpp8|e64_dpp8))?", word)
    assert found is not None
    return found[1], found[2] or ""


# Their operands are immediates of a grammar of their own; the text says all there is.
_OPAQUE = ("s_waitcnt", "s_delay_alu", "s_wait_alu", "s_sendmsg", "s_wait_")


def instruction(address: int, size: int, text: str) -> Instruction:
    """The instruction that the disassembler writes as `text`."""
    if "::" in text:
        halves = tuple(instruction(address, size, part.strip()) for part in text.split("::"))
        return Instruction(address, size, "dual", "", (), {}, text, halves)
    word, _, rest = text.partition(" ")
    mnemonic, suffix = _mnemonic(word)
    if mnemonic.startswith(_OPAQUE):
        return Instruction(
            address, size, mnemonic, suffix, (Operand("name", rest.strip()),), {}, text
        )
    operands: list[Operand] = []
    modifiers: dict[str, str | bool] = {}
    for part in _split(rest, ","):
        for w in _split(part, " "):
            if _is_modifier(w):
                name, _, value = w.partition(":")
                modifiers[name] = value or True
            else:
                operands.append(operand(w))
    return Instruction(address, size, mnemonic, suffix, tuple(operands), modifiers, text)


_LINE = re.compile(r"\s+(\S.*?)\s*// ([0-9A-F]+): ((?:[0-9A-F]{8}\s*)+)(?:<.*>)?\s*")


def _lines(text: str) -> Iterator[Instruction]:
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found and found[1] != "s_code_end":
            yield instruction(int(found[2], 16), 4 * len(found[3].split()), found[1])


def disassemble(data: bytes) -> dict[int, Instruction]:
    """Address -> instruction of the whole code object, by LLVM's disassembler."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "code.o"
        path.write_bytes(data)
        try:
            done = subprocess.run(
                [DISASSEMBLER, "-d", str(path)], capture_output=True, text=True, check=False
            )
        except FileNotFoundError as error:
            raise CodeObjectError(f"no {DISASSEMBLER} on PATH: install LLVM 22's tools") from error
    if done.returncode:
        raise CodeObjectError(f"{DISASSEMBLER}: {done.stderr.strip()}")
    return {i.address: i for i in _lines(done.stdout)}
