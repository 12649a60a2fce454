"""Calls: conversions, device functions, intrinsics, and the maths of `math` and numpy.

`HANDLERS` maps the name of an intrinsic to what traces it; `FOREIGN` maps functions of Python's
builtins, `math` and numpy to intrinsics by identity.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core import Value
from ..dtypes import DType, FragmentType, VectorType, bool_
from . import counters, elementwise, fragments, intrinsics, literals, memory
from .conversions import construct
from .decorator import DeviceFunction
from .foreign import FOREIGN, TYPES, evaluate
from .inline import inline
from .surface import TABLE, Intrinsic
from .values import Entry, Memory, Registers, WeakSelect, describe

if TYPE_CHECKING:
    from .tracer import Tracer


def call(t: Tracer, node: ast.Call) -> Entry:
    """A call expression."""
    function = t.expression(node.func)
    args: list[Entry] = []
    for part in node.args:
        if isinstance(part, ast.Starred):
            entry = t.expression(part.value)
            if not isinstance(entry, tuple):
                t.fail(part, f"expected a tuple after *, found {describe(entry)}")
            args += entry
        else:
            args.append(t.expression(part))
    kwargs: dict[str, Entry] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            t.fail(keyword.value, "** arguments are not supported in a kernel")
        kwargs[keyword.arg] = t.expression(keyword.value)
    if type(function) is DeviceFunction:
        return inline(t, node, function, args, kwargs)
    name: str | None
    if type(function) is Intrinsic:
        name = function.name
    else:
        key = _key(function)
        name = FOREIGN.get(key)
        function = TYPES.get(key, function)
    if isinstance(function, (DType, VectorType, FragmentType)):
        if kwargs:
            t.fail(node, f"{function}(...) takes no keyword arguments")
        return construct(t, node, function, args)
    if name is None:
        return _refuse(t, node, function)
    if name in VARIADIC:
        return VARIADIC[name](t, node, args, kwargs)
    return _bound(t, node, TABLE[name], args, kwargs)


def _key(function: Entry) -> Any:
    try:
        hash(function)
    except TypeError:
        return None
    return None if isinstance(function, int | float | str | tuple) else function


def _refuse(t: Tracer, node: ast.Call, function: Entry) -> Any:
    if callable(function):
        where = f"{getattr(function, '__module__', '') or ''}.{getattr(function, '__name__', '?')}"
        t.fail(
            node,
            f"{where.strip('.')} cannot be called in a kernel; expected a function of "
            "gristmill.ir.lang, math or numpy, or one decorated with @device",
        )
    t.fail(node, f"expected a function to call, found {describe(function)}")


def _bound(
    t: Tracer, node: ast.AST, function: Intrinsic, args: list[Entry], kwargs: dict[str, Entry]
) -> Entry:
    if kwargs or len(args) != function.parameters.count:
        try:
            args = list(function.parameters.bind(args, kwargs).values())
        except TypeError as error:
            t.fail(node, f"{function.name}{function.signature}: {error}")
    return HANDLERS[function.name](t, node, *args)


def _len(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    (entry,) = args if len(args) == 1 and not kwargs else (None,)
    if isinstance(entry, Memory):
        if entry.shape is not None:
            return entry.shape[0]
        return t.emit(node, "count", entry.value, type=t.index)
    if isinstance(entry, Registers):
        return entry.shape[0]
    if isinstance(entry, tuple | str):
        return len(entry)
    if isinstance(entry, Value) and isinstance(entry.type, VectorType):
        return entry.type.lanes
    t.fail(node, f"len takes a buffer, array, vector or tuple, found {describe(entry)}")


def _int(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    if len(args) == 1 and not kwargs and isinstance(args[0], int | float):
        return evaluate(t, node, "int", (args[0],))
    t.fail(node, "int() of a run-time value: name the type, as in i32(...)")


def _float(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    if len(args) == 1 and not kwargs and isinstance(args[0], int | float):
        return evaluate(t, node, "float", (args[0],))
    if len(args) == 1 and not kwargs and isinstance(args[0], str):
        try:
            return float(args[0])
        except ValueError as error:
            t.fail(node, f"cannot compute this constant: {error}")
    t.fail(node, "float() of a run-time value: name the type, as in f32(...)")


def _bool(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    if len(args) != 1 or kwargs:
        t.fail(node, "bool() takes one value")
    if isinstance(args[0], Value | WeakSelect):
        return construct(t, node, bool_, args)
    counters.refuse(t, node, args[0])
    return bool(args[0])


def _vec(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    if len(args) != 2 or kwargs or not isinstance(args[0], DType):
        t.fail(node, "vec takes an element type and a number of lanes, as in vec(f32, 4)")
    return VectorType(args[0], memory.check_lanes(t, node, args[1]))


def _print(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    if kwargs:
        t.fail(node, "print takes no keyword arguments in a kernel")
    words, values = [], []
    counters.refuse(t, node, *args)  # it would be part of the text
    for entry in args:
        if isinstance(entry, Value | WeakSelect):
            words.append("{}")
            values.append(literals.value(t, node, entry))
        else:
            text = str(entry) if isinstance(entry, str | int | float | DType) else describe(entry)
            words.append(text.replace("{", "{{").replace("}", "}}"))
    t.op(node, "print", tuple(values), {"format": " ".join(words)})
    return None


def _breakpoint(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    names, values = [], []
    for (number, name), entry in t.state.items():
        ours = number == t.frame.number and isinstance(name, str) and name.isidentifier()
        if ours and isinstance(entry, Value):
            names.append(name)
            values.append(entry)
    t.op(node, "breakpoint", tuple(values), {"names": tuple(names)})
    return None


HANDLERS = {**elementwise.HANDLERS, **intrinsics.HANDLERS}
VARIADIC: dict[str, Callable[..., Entry]] = {
    **elementwise.VARIADIC,
    "len": _len,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "vec": _vec,
    "fragment": fragments.make_type,
    "print": _print,
    "breakpoint": _breakpoint,
}
