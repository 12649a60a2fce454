"""The example of docs/PLANS.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gristmill import runtime

PAGE = Path(__file__).parents[2] / "docs/PLANS.md"


def test_the_example_of_the_page_fails(
    bundle: runtime.Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    exec(compile(code.replace('"artifacts"', repr(str(bundle.root))), "PLANS.md", "exec"), {})
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("[128. 128.] ")
    assert second == "[0. 0.]"
