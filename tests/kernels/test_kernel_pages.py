"""docs/KERNELS.md and docs/NUMERICS.md say what the kernels are."""

from __future__ import annotations

import re

import pytest

import kernels_page
import numerics_page
from kernel_facts import configuration
from language_page import BLOCK

PAGES = pytest.mark.parametrize("page", [kernels_page, numerics_page], ids=["kernels", "numerics"])


@PAGES
def test_the_page_is_as_the_code_has_it(page: object) -> None:
    text = page.PAGE.read_text()
    assert page.renewed(text) == text, f"run python tests/{page.__name__}.py"
    assert sorted(block[2] for block in BLOCK.finditer(text)) == sorted(page.tables())


@PAGES
def test_every_kernel_is_on_the_page(page: object) -> None:
    found = re.findall(r"^### (\w+)$", page.PAGE.read_text(), re.MULTILINE)
    assert found == sorted(configuration().kernels)


def test_a_kernel_that_is_always_fast_is_listed_as_such() -> None:
    assert numerics_page.fast("nv_attention_prefill") == ["all"]
    assert numerics_page.fast("nv_linear") == []
