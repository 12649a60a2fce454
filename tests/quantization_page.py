"""The tables of docs/QUANTIZATION.md, from the code: `python tests/quantization_page.py` renews
them."""

from __future__ import annotations

from pathlib import Path

from gristmill.ir.quantized import BLOCKS, GROUPED
from language_page import BLOCK

PAGE = Path(__file__).parents[1] / "docs/QUANTIZATION.md"


def _blocks() -> str:
    lines = [
        "| format | weights, bytes of a block | bits a weight | fields: bytes | a value | planes |",
        "|---|---|---|---|---|---|",
    ]
    for f in BLOCKS.values():
        fields = ", ".join(f"{field.name}: {field.bytes}" for field in f.fields)
        cells = (f"`{f.name}`", f"{f.block}, {f.bytes}", f"{f.bits:g}", fields, f"`{f.scale}`")
        lines.append(f"| {' | '.join(cells)} | {f.apart} |")
    return "\n".join(lines) + "\n"


def _grouped() -> str:
    """Shapes of a matrix of n outputs and k inputs in groups of g, shown by distinct primes."""
    names = {24: "n", 3: "n/8", 160: "k", 20: "k/8", 5: "k/g", 1: "n/g"}
    lines = ["| format | tensors | a value | group |", "|---|---|---|---|"]
    for f in GROUPED.values():
        tensors = []
        for part in f.parts:
            dims = ", ".join(names[d] for d in part.shape(24, 160, 32))
            tensors.append(f"{part.name}: {part.dtype.name}[{dims}]")
        group = f.group or "a row"
        lines.append(f"| `{f.name}` | {'; '.join(tensors)} | `{f.scale}` | {group} |")
    return "\n".join(lines) + "\n"


TABLES = {"blocks": _blocks, "grouped": _grouped}


def renewed(text: str) -> str:
    """The page with its tables as the code has them now."""
    return BLOCK.sub(lambda m: m[1] + TABLES[m[2]]() + m[4], text)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
