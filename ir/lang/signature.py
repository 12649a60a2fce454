"""The parameters of a kernel: constexprs, and the arguments of a launch."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core import Attr, Param, Value
from ..dtypes import DTYPES, Access, DType, MemType, Space, VectorType
from ..limits import MAX_PARAMS
from .budget import measure
from .decorator import DeviceFunction, KernelFunction, _refuse
from .diagnostics import suggest
from .scope import constant
from .surface import BuffersType, BufferType, Function, SlotType
from .values import Entry, Memory, SlotRef, describe

if TYPE_CHECKING:
    from .tracer import Tracer

EMPTY = inspect.Parameter.empty
KINDS = {
    DType: "DType",
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    tuple: "tuple",
    Function: "Function",
}


def read_constexprs(
    kernel: KernelFunction, function: Callable[..., Any]
) -> dict[str, tuple[str, Any]]:
    """Kind and default of every keyword-only parameter."""
    arguments = kernel.source.node.args
    for star in (arguments.vararg, arguments.kwarg):
        if star is not None:
            _refuse(kernel.source, star, f"*{star.arg} is not supported in a kernel")
    if arguments.defaults:
        _refuse(
            kernel.source,
            arguments.defaults[0],
            "a launch argument has no default; constexprs stand behind `*`",
        )
    defaults = function.__kwdefaults__ or {}
    found = {}
    for argument in arguments.kwonlyargs:
        found[argument.arg] = (_kind(kernel, argument), defaults.get(argument.arg, EMPTY))
    return found


def _kind(kernel: KernelFunction, argument: ast.arg) -> str:
    node = argument.annotation
    if node is None:
        _refuse(
            kernel.source,
            argument,
            f"constexpr {argument.arg!r} needs a kind: {', '.join(KINDS.values())}",
        )
    base = node.value if isinstance(node, ast.Subscript) else node
    name = base.id if isinstance(base, ast.Name) else getattr(base, "attr", "")
    try:
        known = KINDS.get(kernel.scope.lookup(name))
    except (KeyError, TypeError):
        known = name if name in KINDS.values() else None
    if known is None:
        _refuse(
            kernel.source,
            node,
            f"the kind of a constexpr is one of {', '.join(KINDS.values())}, "
            f"found {kernel.source.segment(node)!r}",
        )
    return known


def bind_constexprs(kernel: KernelFunction, given: dict[str, Any]) -> dict[str, Entry]:
    """Every constexpr with its value for one specialization."""
    node = kernel.source.node
    for name in given:
        if name not in kernel.constexprs:
            known = ", ".join(kernel.constexprs) or "none"
            hint = suggest(name, kernel.constexprs)
            _refuse(
                kernel.source,
                node,
                f"kernel {kernel.name} has no constexpr {name!r} (it has {known}){hint}",
                name,
            )
    bound = {}
    nodes = {a.arg: a for a in node.args.kwonlyargs}
    for name, (kind, default) in kernel.constexprs.items():
        value = given.get(name, default)
        if value is EMPTY:
            _refuse(
                kernel.source,
                nodes[name],
                f"constexpr {name!r} of kernel {kernel.name} has no "
                "value: the specialization must give one",
                name,
            )
        _, excess = measure(constant(value))
        if excess is not None:
            _refuse(kernel.source, nodes[name], f"constexpr {name!r}: {excess}", name)
        entry = _coerce(kernel, kind, constant(value))
        if entry is EMPTY:
            _refuse(
                kernel.source,
                nodes[name],
                f"constexpr {name!r} must be of kind {kind}, found {describe(value)}"
                + (f"; expected one of {', '.join(DTYPES)}" if kind == "DType" else ""),
                name,
            )
        bound[name] = entry
    return bound


def _coerce(kernel: KernelFunction, kind: str, value: Any) -> Any:
    """A value of a kind; EMPTY where it is not one."""
    if kind == "DType":
        return (
            DTYPES.get(value, EMPTY) if isinstance(value, str) else _only(value, DType | VectorType)
        )
    if kind == "Function":
        if isinstance(value, str):
            try:
                value = kernel.scope.lookup(value)
            except KeyError:
                return EMPTY
        return _only(value, DeviceFunction)
    if kind == "bool":
        return _only(value, bool)
    if isinstance(value, bool):
        return EMPTY
    if kind == "float":
        try:
            return float(value) if isinstance(value, int | float) else EMPTY
        except OverflowError:
            return EMPTY
    return _only(value, {"int": int, "str": str, "tuple": tuple}[kind])


def _only(value: Any, kind: Any) -> Any:
    return value if isinstance(value, kind) else EMPTY


def attribute(value: Entry) -> Attr:
    """A constexpr's value for the kernel's record."""
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, tuple):
        return tuple(attribute(v) for v in value)
    if isinstance(value, DeviceFunction):
        return value.name
    return repr(value) if isinstance(value, float) else str(value)


def read_params(t: Tracer, kernel: KernelFunction) -> list[tuple[Param, Value]]:
    """The launch parameters, from annotations read with the constexprs bound."""
    arguments = kernel.source.node.args
    found: list[tuple[Param, Value]] = []
    for argument in (*arguments.posonlyargs, *arguments.args):
        if argument.annotation is None:
            t.fail(
                argument,
                f"parameter {argument.arg!r} needs a type: Read[T], Write[T], "
                "ReadWrite[T], slot[T], Buffers[Read[T], N] or a scalar type",
            )
        kind = t.static(argument.annotation, f"the type of parameter {argument.arg!r}")
        found += _param(t, argument, kind)
        if len(found) > MAX_PARAMS:
            t.fail(argument, f"over {MAX_PARAMS} parameters, each buffer of a tuple counted")
    return found


def _param(t: Tracer, node: ast.arg, kind: Entry) -> list[tuple[Param, Value]]:
    name = node.arg
    slot_ = (t.frame.number, name)
    if isinstance(kind, DType):
        param = Param(name, "scalar", kind)
        t.state[slot_] = t.builder.value(kind, name)
        return [(param, t.state[slot_])]
    if isinstance(kind, SlotType) and isinstance(kind.element, DType):
        value = t.builder.value(MemType(Space.BUFFER, kind.element, None, Access.READ), name)
        t.state[slot_] = SlotRef(value, name)
        return [(Param(name, "slot", kind.element), value)]
    if isinstance(kind, BufferType):
        memory = _buffer(t, node, kind, name)
        t.state[slot_] = memory
        return [(_buffer_param(kind, name), memory.value)]
    if isinstance(kind, BuffersType) and isinstance(kind.item, BufferType):
        count = t.static_int(node, kind.count, "the number of buffers")
        if not 0 < count <= 64:
            t.fail(node, f"a tuple of buffers has 1 to 64 items, found {count}")
        items = [_buffer(t, node, kind.item, f"{name}_{n}") for n in range(count)]
        t.state[slot_] = tuple(items)
        return [(_buffer_param(kind.item, m.name), m.value) for m in items]
    t.fail(
        node.annotation or node,
        f"{describe(kind)} is not the type of a parameter; expected Read[T], "
        "Write[T], ReadWrite[T], slot[T], Buffers[Read[T], N] or a scalar type",
    )


def _buffer(t: Tracer, node: ast.arg, kind: BufferType, name: str) -> Memory:
    if not isinstance(kind.element, DType):
        vector = isinstance(kind.element, VectorType)
        t.fail(
            node.annotation or node,
            f"a buffer holds scalars of a type such as f32, found {describe(kind.element)}"
            + ("; read vectors with load_vector" if vector else ""),
        )
    value = t.builder.value(MemType(Space.BUFFER, kind.element, None, kind.access), name)
    return Memory(value, None, name)


def _buffer_param(kind: BufferType, name: str) -> Param:
    return Param(name, "buffer", kind.element, kind.access, kind.may_alias)
