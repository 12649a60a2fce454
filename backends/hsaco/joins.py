"""Values that control brings to a join, kept from a fault of LLVM.

LLVM 22.1's structurizer moves an instruction that costs nothing and ends as a phi's value out of
its block, and then gives the moved value to paths that do not come from there, where more than two
meet (mended in a later release: pull request 183792 of LLVM). Its other passes put such an
instruction into that block, and make nested joins into one, so every such value is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

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

    def value(self, instruction: str) -> str:
        name = super().value(instruction)
        if _INSTRUCTION.match(instruction):
            self.free.add(name)
        return name

    def fill(self, template: str, names: int, operands: Sequence[str]) -> list[str]:
        results = super().fill(template, names, operands)
        self.free.update([results[n] for n in _free_results(template)])
        return results


@lru_cache(4096)
def _free_results(template: str) -> list[int]:
    """Which results of a template cost nothing."""
    lines, *marks = template.split("\0")
    forms = [re.compile(rf"^  {re.escape(mark)} = {_FREE}", re.MULTILINE) for mark in marks]
    return [n for n, form in enumerate(forms) if form.search(lines)]


def hidden(f: TracedFunction, part: str, type_: str, bits: int) -> str:
    """The same value, of which LLVM knows nothing; the value itself where that is no matter."""
    return part if part not in f.free or bits < 16 else hide(f, type_, part)


def hide(f: Function, type_: str, part: str) -> str:
    """The same value, of which LLVM knows nothing."""
    return f.value(f'call {type_} asm "", "=v,0"({type_} {part})')
