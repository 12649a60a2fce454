"""From a kernel function and constexprs to verified kernel IR."""

from __future__ import annotations

import ast
import os
import re
from typing import Any

from ..core import Kernel, Loc, Region
from ..dtypes import DType, i32
from ..garbage import uncollected
from ..limits import MAX_NAME, MAX_OPS
from ..recursion import deep
from ..verify import VerifyError, verify
from .decorator import KernelFunction, _refuse, fast_flags
from .diagnostics import Diagnostic, Note
from .frames import Frame
from .grid import grid_size, workgroup_size
from .share import share
from .signature import attribute, bind_constexprs, read_params
from .source import Source
from .tracer import Tracer


@uncollected()
def specialize(function: KernelFunction, specialization: str, given: dict[str, Any]) -> Kernel:
    """Trace, renumber and verify one specialization."""
    node = function.source.node
    if not re.fullmatch(r"[\w.+-]+", specialization):
        _refuse(
            function.source,
            node,
            f"{specialization!r:.60} does not name a specialization (letters, digits, _ . + -)",
        )
    if len(specialization.encode()) > MAX_NAME:
        _refuse(function.source, node, f"a specialization's name of over {MAX_NAME} bytes")
    with deep():
        try:
            constexprs = bind_constexprs(function, given)
            kernel, sources = _trace(function, specialization, constexprs)
        except RecursionError:
            _refuse(function.source, node, "the kernel nests too deeply")
        try:
            verify(kernel, inferred=os.environ.get("GRISTMILL_VERIFY") != "1")
        except VerifyError as error:
            raise _diagnostic(function, error, sources) from error
    return kernel


def _trace(
    function: KernelFunction, specialization: str, constexprs: dict[str, Any]
) -> tuple[Kernel, dict[str, Source]]:
    index = constexprs.get("INDEX", i32)
    if not isinstance(index, DType) or index.name not in ("i32", "i64"):
        _refuse(function.source, function.source.node, f"INDEX is i32 or i64, found {index}")
    t = Tracer(index)
    scope = function.scope
    t.enter(Frame(0, function.name, function.source, scope.lookup, scope.names, function=function))
    for name, value in constexprs.items():
        t.state[(0, name)] = value
    params = t.params = read_params(t, function)
    t.subgroup = _subgroup(function, constexprs)
    one = ast.Constant(1)
    t.workgroup = workgroup_size(t, function.options.get("workgroup", one))
    grid = None
    if "grid" in function.options and not _is_none(function.options["grid"]):
        grid = grid_size(t, function.options["grid"])
    fast = function.fast
    if fast is None:
        node = function.options["fast"]
        fast = fast_flags(function.source, node, t.static(node, "what is fast"))
    t.builder.ops.clear()  # the decorator's expressions leave nothing behind
    t.block(function.source.node.body)
    if not t.dead:
        t.op(function.source.node.body[-1], "return")
    body = Region(tuple(value for _, value in params), (*t.allocs, *t.builder.ops))
    kernel = Kernel(
        function.name,
        specialization,
        tuple(param for param, _ in params),
        t.workgroup,
        index,
        body,
        t.subgroup,
        fast,
        tuple(message for _, message in t.sites),
        tuple((name, attribute(value)) for name, value in constexprs.items()),
        grid,
    )
    kernel, ops = share(kernel)
    if ops > MAX_OPS:
        message = f"the kernel has over {MAX_OPS} operations; unroll less"
        _refuse(function.source, function.source.node, message)
    return kernel, t.sources


def _subgroup(function: KernelFunction, constexprs: dict[str, Any]) -> int | None:
    size = constexprs.get("SUBGROUP")
    if size is None:
        return None
    if not (isinstance(size, int) and 1 <= size <= 128 and size & (size - 1) == 0):
        message = f"SUBGROUP is a power of two up to 128, found {size}"
        _refuse(function.source, function.source.node, message)
    # 1 stands for a kernel that uses no subgroup ops: it runs on any device.
    return None if size == 1 else size


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _diagnostic(
    function: KernelFunction, error: VerifyError, sources: dict[str, Source]
) -> Diagnostic:
    """What the verifier found, at its place in the source."""

    def text(loc: Loc) -> str:
        return sources[loc.file].text(loc.line) if loc.file in sources else ""

    loc = error.loc or function.source.loc(function.source.node)
    notes: tuple[Note, ...] = ()
    if error.cause is not None:
        notes = (Note(error.cause, "control diverges here", text(error.cause)),)
    return Diagnostic(error.message, loc, text(loc), 1, notes)
