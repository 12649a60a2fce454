"""docs/QUANTIZATION.md says what the code has."""

from __future__ import annotations

from language_page import BLOCK
from quantization_page import PAGE, TABLES, renewed


def test_the_tables_are_those_of_the_code() -> None:
    text = PAGE.read_text()
    assert renewed(text) == text, "run python tests/quantization_page.py"
    assert {m[1] for m in BLOCK.findall(text)} == set(TABLES)
