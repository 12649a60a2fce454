"""The parameters of functions that kernels call, and the arguments that they get."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any


class Parameters:
    """Binds arguments as Python would; a signature that is bound often is taken apart once.

    count: of arguments by position that are all there are; -1 where some go by name alone.
    """

    def __init__(self, signature: inspect.Signature) -> None:
        self.signature = signature
        parameters = signature.parameters.values()
        self._names = tuple(signature.parameters)
        self._positional = sum(p.kind is not p.KEYWORD_ONLY for p in parameters)
        self.count = self._positional if self._positional == len(self._names) else -1
        self._by_name = {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}
        self._defaults = {p.name: p.default for p in parameters if p.default is not p.empty}

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Each parameter's argument or default, in their order; TypeError in Python's words."""
        if not kwargs and len(args) == len(self._names) == self._positional:
            return dict(zip(self._names, args, strict=True))
        given = self._defaults | dict(zip(self._names, args, strict=False)) | kwargs
        bound = {name: given[name] for name in self._names if name in given}
        once = self._by_name.issuperset(kwargs) and kwargs.keys().isdisjoint(
            self._names[: len(args)]
        )
        if once and len(args) <= self._positional and len(bound) == len(self._names):
            return bound
        complete = self.signature.bind(*args, **kwargs)  # which says what is wrong
        complete.apply_defaults()
        return complete.arguments
