"""The node tests of ONNX: each case passes, or is refused as docs/ONNX.md says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from gristmill import runtime
from need import driver_file


@pytest.mark.parametrize("name", ["cpu", "lavapipe"])
def test_every_case_passes_or_is_refused_as_the_page_says(
    name: str,
    bundle: runtime.Bundle,
    require: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    require("onnx")
    require(name)
    from onnx_cases import cases, outcomes
    from onnx_page import PAGE, counts, renewed

    if name == "lavapipe":
        require("vulkan")
        monkeypatch.setenv("VK_DRIVER_FILES", str(driver_file("lavapipe")))
    with runtime.open_device("vulkan:llvmpipe" if name == "lavapipe" else name) as device:
        found = list(outcomes(cases(), device, bundle))
    assert not [outcome for outcome in found if outcome.wrong]
    for line in _said(name, counts(found)):
        record_property("summary", line)
    assert PAGE.read_text() == renewed(PAGE.read_text(), found), "python tests/onnx_page.py BUNDLE"


def _said(name: str, table: dict[str, tuple[int, int]]) -> Sequence[str]:
    passed, refused = (sum(column) for column in zip(*table.values(), strict=True))
    kinds = ", ".join(f"{kind} {a}/{a + b}" for kind, (a, b) in table.items())
    return [f"ONNX node tests on {name}: {passed} pass, {refused} refused ({kinds})"]
