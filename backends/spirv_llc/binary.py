"""A SPIR-V module as a list of instructions, and back."""

from __future__ import annotations

import array
import sys
from dataclasses import dataclass

MAGIC = 0x07230203


@dataclass(slots=True)
class Instruction:
    """An opcode and its operands, result type and result id among them."""

    op: int
    words: list[int]


@dataclass(slots=True)
class Binary:
    """A module: its header and its instructions, in the order of the file."""

    version: int
    generator: int
    bound: int
    instructions: list[Instruction]

    def id(self) -> int:
        """A fresh result id."""
        self.bound += 1
        return self.bound - 1

    def bytes(self) -> bytes:
        out = [MAGIC, self.version, self.generator, self.bound, 0]
        for instruction in self.instructions:
            out.append((len(instruction.words) + 1) << 16 | instruction.op)
            out += instruction.words
        data = array.array("I", out)
        if sys.byteorder == "big":
            data.byteswap()
        return data.tobytes()


def parse(blob: bytes) -> Binary:
    """Read a module. ValueError where it is none."""
    words = array.array("I", blob[: len(blob) // 4 * 4])
    if sys.byteorder == "big":
        words.byteswap()
    if len(words) < 5 or len(blob) % 4 or words[0] != MAGIC:
        raise ValueError(f"{len(blob)} bytes that are no SPIR-V module")
    found, at = [], 5
    while at < len(words):
        length = words[at] >> 16
        if not length or at + length > len(words):
            raise ValueError(f"an instruction of {length} words at word {at} of {len(words)}")
        found.append(Instruction(words[at] & 0xFFFF, list(words[at + 1 : at + length])))
        at += length
    return Binary(words[1], words[2], words[3], found)


def text_of(words: list[int]) -> tuple[str, int]:
    """The literal string at the beginning of these operands, and how many words it takes."""
    data = b"".join(word.to_bytes(4, "little") for word in words)
    text = data.split(b"\0")[0]
    return text.decode("utf-8", "replace"), len(text) // 4 + 1
