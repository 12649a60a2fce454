"""Plain text tables."""

from __future__ import annotations

from collections.abc import Sequence

from ..store.message import printable


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Rows in aligned columns, the first row as head. `right`: columns aligned to the right. Cells
    may be of a file that somebody else made."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = (
            cell.rjust(width) if n in right else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def milliseconds(seconds: float) -> str:
    """A duration with three significant digits."""
    value = seconds * 1e3
    return f"{value:.{max(0, 2 - len(str(int(value))) + 1)}f} ms"
