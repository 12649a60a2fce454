"""Expressions of a configuration, which know where they stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gristmill.store.expressions import Expression as Plain
from gristmill.store.expressions import ExpressionError

from .document import ConfigError


class Expression:
    """An expression (`store.expressions`), and FILE:LINE where it stands, for its ConfigErrors."""

    def __init__(self, text: str, place: str) -> None:
        self.text, self.place = text, place
        self._plain: Plain = self._placed(lambda: Plain(text))

    def value(self, names: Mapping[str, Any]) -> Any:
        """What it is worth where all its names have values."""
        return self._placed(lambda: self._plain.value(names))

    def of_sizes(self, constexprs: Mapping[str, Any], sizes: set[str]) -> Any:
        """The grid expression of it, with constexprs as their values and sizes as scalars."""
        return self._placed(lambda: self._plain.of_sizes(constexprs, sizes))

    def _placed(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except ExpressionError as error:
            raise ConfigError(f"{self.place}: {error}") from error
