"""Values that control brings to a join, kept from a fault of LLVM.

LLVM 22.1's structurizer moves an instruction that costs nothing and ends as a phi's value out of
its block, and then gives the moved value to paths that do not come from there, where more than two
meet (mended in a later release: pull request 183792 of LLVM). Its other passes put such an
instruction into that block, and make nested joins into one, so every such value is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..llvm.text import Function

# What costs nothing by LLVM's model of these processors.
_FREE = (
    r"(?:extractelement|insertelement|shufflevector|trunc|zext|bitcast|ptrtoint|inttoptr|freeze"
    r"|fneg|call \w+ @llvm\.fabs)\b"
)
_INSTRUCTION = re.compile(_FREE)


class TracedFunction(Function):
    """A function that knows which of its values cost nothing."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.free: set[str] = set()
        self._templates: dict[str, list[bool]] = {}

    def value(self, instruction: str) -> str:
        name = super().value(instruction)
        if _INSTRUCTION.match(instruction):
            self.free.add(name)
        return name

    def fill(self, template: str, names: int, operands: Sequence[str]) -> list[str]:
        results = super().fill(template, names, operands)
        known = self._templates.get(template)
        if known is None:
            lines, *marks = template.split("\0")
            known = [_defined_free(lines, mark) for mark in marks]
            self._templates[template] = known
        self.free.update(r for r, free in zip(results, known, strict=True) if free)
        return results


def _defined_free(lines: str, name: str) -> bool:
    return bool(re.search(rf"^  {re.escape(name)} = {_FREE}", lines, re.MULTILINE))


def hidden(f: TracedFunction, part: str, type_: str, bits: int) -> str:
    """The same value, of which LLVM knows nothing; the value itself where that is no matter."""
    if part not in f.free or bits < 16:
        return part
    return f.value(f'call {type_} asm "", "=v,0"({type_} {part})')
