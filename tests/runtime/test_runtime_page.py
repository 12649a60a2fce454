"""docs/RUNTIME.md says what the runtime is: its names, its tables, its examples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gristmill import runtime
from gristmill.runtime.registry import DRIVERS
from language_page import BLOCK
from runtime_page import CLASSES, PAGE, members, renewed, tables

TEXT = PAGE.read_text()
CODE = " ".join(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)))
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
KERNELS = [block for block in BLOCKS if block.startswith("@kernel")]
EXAMPLES = [block for block in BLOCKS if block not in KERNELS]
SOURCES = Path(runtime.__file__).parent


def test_the_tables_are_as_the_code_has_them() -> None:
    assert renewed(TEXT) == TEXT, "run python tests/runtime_page.py"
    assert sorted(block[2] for block in BLOCK.finditer(TEXT)) == sorted(tables())


def test_every_name_of_the_runtime_is_on_the_page() -> None:
    words = set(re.findall(r"\w+", CODE + " ".join(EXAMPLES)))
    known = {kind.__name__ for kind in CLASSES.values()} | {"MemoryReport", "Lack", "FoundDevice"}
    assert [name for name in runtime.__all__ if name not in words | known] == []


def test_every_call_says_what_it_does() -> None:
    empty = [row for kind in CLASSES.values() for row in members(kind).values() if "|  |" in row]
    assert empty == []


def test_every_device_and_variable_is_on_the_page() -> None:
    missing = [name for name in DRIVERS if f"| `{name}`" not in TEXT]
    read = {
        name
        for file in SOURCES.rglob("*.py")
        for name in re.findall(r'"(GRISTMILL_[A-Z_]+|VK_[A-Z_]+_FILE\w+)"', file.read_text())
    }
    missing += [name for name in read if f"`{name}`" not in TEXT]
    assert missing == []


def test_kernels_that_do_not_ship_stand_above_the_example_that_loads_them() -> None:
    samples = (Path(__file__).parent / "sample_kernels.py").read_text()
    shown = [re.findall(r"^def (\w+)", block, re.MULTILINE)[0] for block in KERNELS]
    shipped = {path.stem for path in (PAGE.parents[1] / "configs/kernels").glob("*.yaml")}
    loaded = re.findall(r"\.(?:load|select)\(\w*,? ?\"(\w+)\"", "".join(EXAMPLES))
    assert [block for block in KERNELS if block not in samples] == []
    assert set(loaded) - shipped == set(shown)
    for name in shown:
        assert TEXT.index(f"def {name}(") < TEXT.index(f'"{name}"')


def test_the_examples_run(
    bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, require
) -> None:
    require("cpu")
    (tmp_path / "artifacts").symlink_to(bundle_folder)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, example in enumerate(EXAMPLES):
        exec(compile(example, f"RUNTIME.md, example {number}", "exec"), names)
    assert repr(names["device"]).startswith("<device cpu")
