"""What a family's reference expects, computed once for all variants that it is the same for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..kernels.family import Expected, Family


class _Seen(Mapping[str, Any]):
    """Constexprs that remember which of them were asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self.seen: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        self.seen[name] = self._values.get(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        self.seen.update(self._values)
        return iter(self._values)

    def __len__(self) -> int:
        self.seen.update(self._values)
        return len(self._values)


class References:
    """The reference of a family for one set of arguments. A reference is a function of what it
    reads: of variants that agree in those constexprs the first one's answer holds for all."""

    def __init__(self, family: Family, args: dict[str, Any]) -> None:
        self._family, self._args = family, args
        self._known: list[tuple[dict[str, Any], dict[str, Expected]]] = []

    def of(self, constexprs: Mapping[str, Any]) -> dict[str, Expected]:
        """What is expected of a variant."""
        for seen, expected in self._known:
            if all(constexprs.get(name) == value for name, value in seen.items()):
                return expected
        asked = _Seen(constexprs)
        expected = self._family.reference(self._args, asked)
        self._known.append((asked.seen, expected))
        return expected
