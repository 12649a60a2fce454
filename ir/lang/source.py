"""The source of a function: its AST and the place of every node.

The file is read once, when the decorator runs, and parsed as a whole: `inspect.getsource` loses
its way in decorators that hold lambdas. Paths are relative to the package or to the current
folder, so that no IR depends on where a checkout lies.
"""

from __future__ import annotations

import ast
import functools
import linecache
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core import Loc
from ..limits import MAX_NAME
from .diagnostics import Diagnostic
from .liveness import Liveness, Names, Repetition, repetition, stored

_LONGEST = 500  # characters of source text in a message
_PACKAGE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, eq=False)
class Source:
    """A function definition within its file."""

    file: str
    lines: tuple[str, ...]
    node: ast.FunctionDef
    _locs: dict[ast.AST, Loc] = field(default_factory=dict, repr=False)
    _loops: dict[ast.For, Repetition] = field(default_factory=dict, repr=False)

    @functools.cached_property
    def liveness(self) -> Liveness:
        return Liveness(self.node)

    @functools.cached_property
    def locals(self) -> Names:
        """The function's own names: parameters, and what it assigns."""
        arguments = self.node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        return stored(self.node) | {a.arg for a in named}

    @functools.cached_property
    def long_name(self) -> str | None:
        """A name of the function that is longer than names may be; it may get into every line of
        the IR."""
        names = (self.node.name, *self.locals)
        return next((name for name in names if len(name.encode()) > MAX_NAME), None)

    def repetition(self, loop: ast.For) -> Repetition:
        """What a loop does, to one who would trace one of its iterations for all."""
        if (known := self._loops.get(loop)) is None:
            known = self._loops[loop] = repetition(loop)
        return known

    def loc(self, node: ast.AST) -> Loc:
        """Where a node begins; the function itself for nodes without a place."""
        if (known := self._locs.get(node)) is None:
            known = self._locs[node] = self._loc(node)
        return known

    def _loc(self, node: ast.AST) -> Loc:
        try:
            line, offset = node.lineno, node.col_offset  # type: ignore[attr-defined]
        except AttributeError:
            line, offset = self.node.lineno, self.node.col_offset
        # col_offset counts UTF-8 bytes, a column counts characters.
        column = len(self.text(line).encode()[:offset].decode(errors="replace")) + 1
        return Loc(self.file, line, column)

    def text(self, line: int) -> str:
        """The text of a line (1-based), without its end."""
        return self.lines[line - 1].rstrip("\r\n") if 0 < line <= len(self.lines) else ""

    def segment(self, node: ast.AST) -> str:
        """The source text of a node, on one line; of a long one, its beginning."""
        text = " ".join((ast.get_source_segment("".join(self.lines), node) or "").split())
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

    @staticmethod
    def width(node: ast.AST) -> int:
        """How many columns of its first line a node covers."""
        line, end = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        if isinstance(node, ast.stmt) and not isinstance(
            node, ast.Expr | ast.Assign | ast.AugAssign
        ):
            return 1
        first, last = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 1)
        return max(1, last - first) if line == end else 1 << 16


@functools.lru_cache(maxsize=16)
def _parse(text: str) -> ast.Module:
    return ast.parse(text)


def read_source(function: Callable[..., Any]) -> Source:
    """The source of a Python function.

    OSError where there is none, as in a plain REPL; TypeError for what is no function of Python,
    Diagnostic for one that is not written as a plain def.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        raise TypeError(f"a kernel or device function is a function, not {function!r:.60}")
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    for node in ast.walk(_parse("".join(lines))):
        if isinstance(node, _DEFINITIONS) and _name(node) == function.__name__:
            decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
            if code.co_firstlineno not in [node.lineno, *(d.lineno for d in decorators)]:
                continue
            source = Source(_relative(code.co_filename), tuple(lines), node)  # type: ignore[arg-type]
            if isinstance(node, ast.FunctionDef):
                return source
            found = "lambda" if isinstance(node, ast.Lambda) else "async def"
            loc = source.loc(node)
            message = f"a kernel or device function is a plain def, found {found}"
            raise Diagnostic(message, loc, source.text(loc.line))
    raise OSError(f"no source of function {function.__name__} in {code.co_filename}")


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _name(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _relative(file: str) -> str:
    path = Path(os.path.realpath(file))
    for root in (_PACKAGE, Path.cwd()):
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name
