"""YAML documents read strictly: every complaint names file, line and what would be right."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


_LISTS, _ITEMS = 4, 1000  # of a constexpr: within one another, and in all


class ConfigError(Exception):
    """A configuration that cannot be used: file:line, what was found, what is expected."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean X? (known: ...)` for an error about an unknown name."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, 1, 0.5)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return f"{meant} (known: {', '.join(known) or 'none'})"


class Node:
    """A node of a YAML document that knows where it stands."""

    def __init__(self, file: str, node: yaml.Node, path: str = "") -> None:
        self.file, self.node, self.path = file, node, path

    @property
    def line(self) -> int:
        return int(self.node.start_mark.line) + 1

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def fail(self, message: str) -> NoReturn:
        subject = f"{self.path}: " if self.path else ""
        raise ConfigError(f"{self.place}: {subject}{message}")

    def mapping(
        self, allowed: Iterable[str] | None = None, required: Iterable[str] = ()
    ) -> dict[str, Node]:
        """The entries by key, in order. Keys outside `allowed` and missing ones are refused."""
        if not isinstance(self.node, yaml.MappingNode):
            self.fail(f"expected a mapping, got {self._kind()}")
        found: dict[str, Node] = {}
        for key, value in self.node.value:
            name = Node(self.file, key, self.path)
            text = name.text()
            if text in found:
                name.fail(f"{text!r} stands here twice")
            if allowed is not None and text not in (allowed := list(allowed)):
                name.fail(f"unknown key {text!r}{nearest(text, allowed)}")
            found[text] = Node(self.file, value, f"{self.path}.{text}" if self.path else text)
        for name in required:
            if name not in found:
                self.fail(f"the key {name!r} is missing")
        return found

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    def sequence(self) -> list[Node]:
        if not isinstance(self.node, yaml.SequenceNode):
            self.fail(f"expected a list, got {self._kind()}")
        items = enumerate(self.node.value)
        return [Node(self.file, item, f"{self.path}[{n}]") for n, item in items]

    def text(self) -> str:
        value = self.scalar()
        if not isinstance(value, str):
            self.fail(f"expected text, got {self._kind()} {value!r}")
        return value

    def choice(self, known: Iterable[str]) -> str:
        """One of a set of words."""
        value = self.text()
        if value not in (known := list(known)):
            self.fail(f"unknown value {value!r}{nearest(value, known)}")
        return value

    def boolean(self) -> bool:
        value = self.scalar()
        if not isinstance(value, bool):
            self.fail(f"expected true or false, got {self._kind()} {value!r}")
        return value

    def scalar(self) -> Any:
        """A string, number or truth value."""
        if not isinstance(self.node, yaml.ScalarNode):
            self.fail(f"expected a single value, got {self._kind()}")
        try:
            value = _CONSTRUCTOR.construct_object(self.node)
        except (ValueError, OverflowError) as error:
            self.fail(f"cannot be read: {error}")
        except yaml.MarkedYAMLError as error:  # a tag of its own, as that of `<<`
            self.fail(f"cannot be read: {error.problem}")
        if not isinstance(value, str | int | float | bool):
            self.fail(f"expected text, a number, true or false, got {self._kind()}")
        if isinstance(value, float) and not math.isfinite(value):
            self.fail(f"expected a finite number, got {value}")
        return value

    def constexpr(self, depth: int = 0) -> Any:
        """A constexpr: a scalar or a list of constexprs."""
        if depth > _LISTS:  # also a list that holds itself
            self.fail(f"lists are nested deeper than {_LISTS}")
        if isinstance(self.node, yaml.SequenceNode):
            items = [item.constexpr(depth + 1) for item in self.sequence()]
            if sum(len(item) if isinstance(item, list) else 1 for item in items) > _ITEMS:
                self.fail(f"a list of over {_ITEMS} items")
            return items
        return self.scalar()

    def _kind(self) -> str:
        if isinstance(self.node, yaml.MappingNode):
            return "a mapping"
        if isinstance(self.node, yaml.SequenceNode):
            return "a list"
        return {"null": "nothing", "str": "text", "bool": "a truth value"}.get(
            self.node.tag.rpartition(":")[2], f"a value of type {self.node.tag.rpartition(':')[2]}"
        )


_CONSTRUCTOR = yaml.SafeLoader("")


def read(path: Path, name: str) -> Node:
    """The document in a file, called `name` in complaints. ConfigError on anything but YAML."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=_LOADER)
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 text ({error.reason})") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror or error}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else 1
        raise ConfigError(f"{name}:{line}: not YAML: {error.problem}") from None
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: not YAML: {error}".replace("\n", " ")) from None
    if root is None:
        raise ConfigError(f"{name}:1: the file is empty")
    return Node(name, root)
