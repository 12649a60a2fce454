"""The tables of docs/ONNX_IMPORT.md, from a run of the node tests: `python
tests/onnx_import_page.py` renews them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from onnx_cases import cases
from onnx_import_cases import ImportOutcome, import_outcomes
from onnx_page import BLOCK
from onnx_page import tables as tables_of

PAGE = Path(__file__).parents[1] / "docs/ONNX_IMPORT.md"


def _constants(found: Sequence[ImportOutcome]) -> str:
    """The operators of cases that pass with inputs that became constants."""
    count = Counter(o.op for o in found if o.constants and not o.expanded)
    graphs = sum(bool(o.constants) for o in found if o.expanded)
    shown = ", ".join(f"{op} ({n})" for op, n in sorted(count.items()))
    return f"{shown}, and {graphs} graphs of several nodes.\n"


def tables(found: Sequence[ImportOutcome]) -> dict[str, str]:
    """Every table by name."""
    return {**tables_of(found), "constants": _constants(found)}


def renewed(page: str, found: Sequence[ImportOutcome]) -> str:
    """The page with its tables as these outcomes have them."""
    made = tables(found)
    return BLOCK.sub(lambda block: block[1] + made[block[2]] + block[4], page)


if __name__ == "__main__":
    ran = list(import_outcomes(cases()))
    for one in ran:
        if one.wrong:
            sys.exit(f"{one.case}: {one.reason}")
    PAGE.write_text(renewed(PAGE.read_text(), ran))
