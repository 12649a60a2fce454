"""docs/LANGUAGE.md says what the language is: its names, its tables, its examples."""

from __future__ import annotations

import builtins
import re
from pathlib import Path

import pytest

from gristmill.ir import lang
from gristmill.ir.lang import KernelFunction
from language_page import BLOCK, PAGE, renewed, tables
from modules import load_module

TEXT = PAGE.read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
CODE = " ".join(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)))


def test_every_name_of_the_language_is_on_the_page() -> None:
    missing = [name for name in lang.__all__ if not re.search(rf"\b{name}\b", CODE)]
    assert missing == []


def test_the_tables_are_as_the_code_has_them() -> None:
    assert renewed(TEXT) == TEXT, "run python tests/language_page.py"
    assert sorted(block[2] for block in BLOCK.finditer(TEXT)) == sorted(tables())


def test_a_call_on_the_page_is_of_something_that_is_there() -> None:
    known = {*dir(lang.nv), *lang.__all__, *dir(builtins), "trace"}
    assert set(re.findall(r"\b([a-z_]\w*)\(", CODE)) <= known


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_examples_trace(tmp_path: Path, number: int) -> None:
    path = tmp_path / f"example_{number}.py"
    path.write_text(EXAMPLES[number])
    module = load_module(path, path.stem)
    found = [value for value in vars(module).values() if isinstance(value, KernelFunction)]
    assert found
    for kernel in found:
        kernel.trace("example")
