"""The tables of docs/GRAPHS.md, from the code: `python tests/graph_page.py` renews them."""

from __future__ import annotations

from pathlib import Path

from gristmill.ir.graph import OPS, GraphOp
from gristmill.ir.graph.elementwise import ELEMENTWISE
from gristmill.ir.graph.table import REQUIRED
from language_page import BLOCK

PAGE = Path(__file__).parents[1] / "docs/GRAPHS.md"


def _elementwise() -> str:
    return ", ".join(f"`{name}`" for name in sorted(ELEMENTWISE)) + ".\n"


def _table(rows: list[GraphOp]) -> str:
    lines = ["| op | operands | attributes | gives |", "|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: row.name):
        least, most = row.arity
        count = str(least) if least == most else f"{least} to {most}" if most else f"{least} on"
        lines.append(f"| `{row.name}` | {count} | {_attrs(row)} | {' '.join(row.doc.split())} |")
    return "\n".join(lines) + "\n"


def _attrs(row: GraphOp) -> str:
    shown = []
    for name, attr in sorted(row.attrs.items()):
        kind = "integers" if attr.kind is tuple else attr.kind.__name__
        if attr.words:
            kind = "a format" if len(attr.words) > 6 else "/".join(attr.words)
        default = "" if attr.default is REQUIRED else f" ({attr.default})"
        shown.append(f"{name}: {kind}{default}")
    return "; ".join(shown)


def _primitives() -> str:
    return _table(
        [row for row in OPS.values() if not row.composite and row.name not in ELEMENTWISE]
    )


def _composites() -> str:
    return _table([row for row in OPS.values() if row.composite])


TABLES = {"elementwise": _elementwise, "primitives": _primitives, "composites": _composites}


def renewed(text: str) -> str:
    """The page with its tables as the code has them now."""
    return BLOCK.sub(lambda m: m[1] + TABLES[m[2]]() + m[4], text)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
