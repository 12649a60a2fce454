"""Calls: conversions, device functions, intrinsics, and the maths of `math` and numpy.

`HANDLERS` maps the name of an intrinsic to what traces it; `FOREIGN` maps functions of Python's
builtins, `math` and numpy to intrinsics by identity.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core import Attr, Value
from ..dtypes import DType, Space, VectorType, bool_, element_of, f32, i32, u32, u64, with_element
from ..ops import ROWS
from . import literals, memory
from .conversions import bitcast, construct, convert
from .decorator import DeviceFunction
from .foreign import FOREIGN, TYPES, evaluate
from .functions import ATOMICS, COMPOSED, ELEMENTWISE, REDUCTIONS, TABLE, python_name
from .inline import inline
from .surface import Intrinsic, vec
from .values import Entry, Memory, Registers, WeakSelect, describe, is_number

if TYPE_CHECKING:
    from .tracer import Tracer


def call(t: Tracer, node: ast.Call) -> Entry:
    """A call expression."""
    function = t.expression(node.func)
    name = FOREIGN.get(_key(function))
    if name in NODES:
        return NODES[name](t, node)
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
    if dtype := TYPES.get(_key(function)):
        function = dtype
    if isinstance(function, DType | VectorType):
        if kwargs:
            t.fail(node, f"{function}(...) takes no keyword arguments")
        return construct(t, node, function, args)
    if isinstance(function, DeviceFunction):
        return inline(t, node, function, args, kwargs)
    if isinstance(function, Intrinsic):
        name = function.name
    if name is None:
        _refuse(t, node, function)
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
        t.fail(node, f"{where.strip('.')} cannot be called in a kernel; expected a function of "
                     "gristmill.ir.lang, math or numpy, or one decorated with @device")  # fmt: skip
    t.fail(node, f"expected a function to call, found {describe(function)}")


def _bound(
    t: Tracer, node: ast.AST, function: Intrinsic, args: list[Entry], kwargs: dict[str, Entry]
) -> Entry:
    try:
        bound = function.signature.bind(*args, **kwargs)
    except TypeError as error:
        t.fail(node, f"{function.name}{function.signature}: {error}")
    bound.apply_defaults()
    return HANDLERS[function.name](t, node, *bound.arguments.values())


def library(t: Tracer, node: ast.AST, name: str, *args: Entry) -> Entry:
    """A function that is itself written in the kernel language (`prelude`)."""
    from . import prelude

    return inline(t, node, getattr(prelude, name), list(args), {}, pinned=True)


# elementwise


def elementwise(name: str) -> Callable[..., Entry]:
    """The handler of an op that takes and gives values of one type."""

    def handler(t: Tracer, node: ast.AST, *args: Entry) -> Entry:
        if not any(isinstance(a, Value | WeakSelect) for a in args):
            return evaluate(t, node, name, args)
        if name == "ldexp":
            return _ldexp(t, node, *args)
        if name == "dot4":
            return _dot4(t, node, *args)
        wants_float = name in FLOAT_OPS
        prepared = [float(a) if wants_float and is_number(a) else a for a in args]
        values, weak = literals.common(t, node, prepared, name)
        if wants_float and not element_of(values[0].type).is_float:
            found = values[0].type
            if not weak:
                t.fail(node, f"{name} takes floats, found {found}; convert it, as in f32(...)")
            values = [t.emit(node, "convert", v, type=with_element(v.type, f32)) for v in values]
        return t.emit(node, name, *values)

    return handler


INT_OPS = {"popcount", "clz", "ctz", "reverse_bits", "mul_high", "dot4"}
FLOAT_OPS = {n for n in (*ELEMENTWISE, "pow") if n not in INT_OPS and n != "sign"}


def _ldexp(t: Tracer, node: ast.AST, x: Entry, n: Entry) -> Entry:
    value = literals.value(t, node, float(x) if is_number(x) else x)
    wanted = with_element(value.type, i32)
    if isinstance(n, Value) and element_of(n.type).is_int and element_of(n.type) != i32:
        n = convert(t, node, n, with_element(n.type, i32), None, True)
    return t.emit(node, "ldexp", value, literals.typed(t, node, n, wanted, "the exponent of ldexp"))


def _dot4(t: Tracer, node: ast.AST, a: Entry, b: Entry, acc: Entry) -> Entry:
    x, y = (literals.value(t, node, e) for e in (a, b))
    wanted = u32 if x.type == u32 and y.type == u32 else i32
    return t.emit(node, "dot4", x, y, literals.typed(t, node, acc, wanted, "the sum of dot4"))


def _fold(name: str) -> Callable[..., Entry]:
    """min and max of any number of operands."""

    def handler(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
        if kwargs:
            t.fail(node, f"{name} takes no keyword arguments in a kernel")
        if len(args) == 1 and isinstance(args[0], tuple):
            args = list(args[0])
        if not args:
            t.fail(node, f"{name} takes at least one value")
        result = args[0]
        for entry in args[1:]:
            if not any(isinstance(e, Value | WeakSelect) for e in (result, entry)):
                result = (min if name == "min" else max)(result, entry)
                continue
            (a, b), _ = literals.common(t, node, [result, entry], name)
            result = t.emit(node, name, a, b)
        return result

    return handler


def _binary(name: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
        from .operators import binary

        if kwargs or len(args) != 2:
            t.fail(node, f"{name} takes 2 arguments, found {len(args) + len(kwargs)}")
        return binary(t, node, name, *args)

    return handler


def _unary(name: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
        if kwargs or len(args) != 1:
            t.fail(node, f"{name} takes 1 argument, found {len(args) + len(kwargs)}")
        if not isinstance(args[0], Value | WeakSelect):
            return evaluate(t, node, name, tuple(args))
        value = literals.value(t, node, args[0])
        if name == "not_logical":
            return t.emit(node, "not", literals.typed(t, node, value, bool_))
        return t.emit(node, name, value)

    return handler


def _round(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    if kwargs or not args or len(args) > 2 or (len(args) == 2 and args[1] not in (0, None)):
        t.fail(node, "round takes one value in a kernel; scale it to round to digits")
    if not isinstance(args[0], Value | WeakSelect):
        return round(args[0])
    value = literals.value(t, node, args[0])
    return value if element_of(value.type).is_int else t.emit(node, "rint", value)


def _divmod(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    from .operators import binary

    if kwargs or len(args) != 2:
        t.fail(node, f"divmod takes 2 arguments, found {len(args) + len(kwargs)}")
    return (binary(t, node, "floordiv", *args), binary(t, node, "mod", *args))


def _nan_first(name: str) -> Callable[..., Entry]:
    """numpy's maximum and minimum, which give NaN where either operand is one."""

    def handler(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
        if kwargs or len(args) != 2:
            t.fail(node, f"np.{name}imum takes 2 arguments, found {len(args) + len(kwargs)}")
        best = _fold(name)(t, node, args, {})
        if not isinstance(best, Value) or not element_of(best.type).is_float:
            return best
        for entry in args:
            value = literals.typed(t, node, entry, best.type)
            best = t.emit(node, "select", t.emit(node, "isnan", value), value, best)
        return best

    return handler


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
        return int(args[0])
    t.fail(node, "int() of a run-time value: name the type, as in i32(...)")


def _float(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    if len(args) == 1 and not kwargs and isinstance(args[0], int | float | str):
        return float(args[0])
    t.fail(node, "float() of a run-time value: name the type, as in f32(...)")


def _bool(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    if len(args) != 1 or kwargs:
        t.fail(node, "bool() takes one value")
    return construct(t, node, bool_, args) if isinstance(args[0], Value) else bool(args[0])


def _vec(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    if len(args) != 2 or kwargs or not isinstance(args[0], DType):
        t.fail(node, "vec takes an element type and a number of lanes, as in vec(f32, 4)")
    return VectorType(args[0], memory.check_lanes(t, node, args[1]))


def _print(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    if kwargs:
        t.fail(node, "print takes no keyword arguments in a kernel")
    words, values = [], []
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
        if number == t.frame.number and isinstance(name, str) and isinstance(entry, Value):
            names.append(name)
            values.append(entry)
    t.op(node, "breakpoint", tuple(values), {"names": tuple(names)})
    return None


VARIADIC: dict[str, Callable[..., Entry]] = {
    "min": _fold("min"),
    "max": _fold("max"),
    "np_max": _nan_first("max"),
    "np_min": _nan_first("min"),
    "abs": _unary("abs"),
    "neg": _unary("neg"),
    "invert": _unary("not"),
    "logical_not": _unary("not_logical"),
    "round": _round,
    "divmod": _divmod,
    "len": _len,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "vec": _vec,
    "print": _print,
    "breakpoint": _breakpoint,
    **{
        name: _binary(name)
        for name in (
            "add", "sub", "mul", "div", "floordiv", "mod", "pow", "and", "or", "xor", "shl", "shr",
            "eq", "ne", "lt", "le", "gt", "ge",
        )
    },
}  # fmt: skip


# ids


def _dim(t: Tracer, node: ast.AST, entry: Entry) -> int:
    dim = t.static_int(node, entry, "a dimension")
    if dim not in (0, 1, 2):
        t.fail(node, f"a dimension is 0, 1 or 2, found {dim}")
    return dim


def _id(name: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, dim: Entry) -> Entry:
        return t.emit(node, name, type=t.index, dim=_dim(t, node, dim))

    return handler


def _plain_id(name: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST) -> Entry:
        if name != "local_linear_id":
            _subgroup(t, node)
        return t.emit(node, name, type=t.index)

    return handler


def _workgroup_size(t: Tracer, node: ast.AST, dim: Entry) -> Entry:
    return t.workgroup[_dim(t, node, dim)]


def _subgroup(t: Tracer, node: ast.AST) -> int:
    if t.subgroup is None:
        t.fail(node, "a kernel that uses subgroups has the constexpr SUBGROUP, their size: "
                     "add `*, SUBGROUP: int = 32` to its parameters")  # fmt: skip
    return t.subgroup


# memory


def _memory(t: Tracer, node: ast.AST, entry: Entry) -> Memory:
    if not isinstance(entry, Memory):
        t.fail(node, f"expected a buffer or an array, found {describe(entry)}")
    return entry


def _load_vector(t: Tracer, node: ast.AST, base: Entry, index: Entry, lanes: Entry) -> Entry:
    n = memory.check_lanes(t, node, lanes)
    return memory.load(t, node, _memory(t, node, base), index, n)


def _store_vector(t: Tracer, node: ast.AST, base: Entry, index: Entry, value: Entry) -> Entry:
    memory.store_vector(t, node, _memory(t, node, base), index, value)
    return None


def _atomic(kind: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, base: Entry, index: Entry, *values: Entry) -> Entry:
        place = _memory(t, node, base)
        memory.check_writes(t, node, place)
        if not place.type.access.reads:
            t.fail(node, f"{place.name!r} is write-only; atomics need ReadWrite")
        position = memory.flat_index(t, node, place, index)
        what = f"an element of {place.name!r}"
        operands = [literals.typed(t, node, v, place.type.element, what) for v in values]
        if kind == "compare_exchange":
            return t.emit(node, "compare_exchange", place.value, position, *operands)
        return t.emit(node, "atomic", place.value, position, *operands, kind=kind)

    return handler


def _barrier(t: Tracer, node: ast.AST) -> Entry:
    t.op(node, "barrier")
    return None


def _fence(t: Tracer, node: ast.AST, scope: Entry, order: Entry) -> Entry:
    if scope not in ("workgroup", "device"):
        t.fail(node, f"the scope of a fence is 'workgroup' or 'device', found {describe(scope)}")
    if order not in ("acquire", "release", "acq_rel"):
        t.fail(node, "the order of a fence is 'acquire', 'release' or 'acq_rel', found "
                     f"{describe(order)}")  # fmt: skip
    attrs: dict[str, Attr] = {"scope": scope, "order": order}
    t.op(node, "fence", (), attrs)
    return None


# vectors and choices


def _select(t: Tracer, node: ast.AST, cond: Entry, a: Entry, b: Entry) -> Entry:
    if isinstance(cond, Value) and isinstance(cond.type, VectorType):
        chosen: Value | bool = cond
        if not cond.type.element.is_bool:
            t.fail(node, f"the condition of a select is a bool, found {cond.type}")
    else:
        chosen = literals.condition(t, node, cond)
    if isinstance(chosen, bool):
        return a if chosen else b
    (x, y), weak = literals.common(t, node, [a, b], "select")
    if isinstance(chosen.type, VectorType) and not isinstance(x.type, VectorType):
        wide = with_element(chosen.type, element_of(x.type))
        x, y = (t.emit(node, "splat", v, type=wide) for v in (x, y))
    made = t.emit(node, "select", chosen, x, y)
    if weak and t.probing:
        t.weak.add(made.id)
    return made


def _shuffle(t: Tracer, node: ast.AST, a: Entry, b: Entry, lanes: Entry) -> Entry:
    x, y = (literals.value(t, node, e) for e in (a, b))
    if not isinstance(lanes, tuple) or len(lanes) not in (2, 4, 8):
        t.fail(node, f"shuffle chooses 2, 4 or 8 lanes by a tuple, found {describe(lanes)}")
    numbers = tuple(t.static_int(node, n, "a lane") for n in lanes)
    return t.emit(node, "shuffle", x, y, lanes=numbers)


def _clamp(t: Tracer, node: ast.AST, x: Entry, low: Entry, high: Entry) -> Entry:
    lowest = _fold("max")(t, node, [x, low], {})
    return _fold("min")(t, node, [lowest, high], {})


def _ceil_div(t: Tracer, node: ast.AST, a: Entry, b: Entry) -> Entry:
    if isinstance(a, int) and isinstance(b, int) and b != 0:
        return -(-a // b)
    return library(t, node, "int_ceil_div", a, b)


def _static_assert(t: Tracer, node: ast.AST, cond: Entry, message: Entry) -> Entry:
    t.require_static(node, cond, "the condition of static_assert")
    if not literals.condition(t, node, cond):
        t.fail(node, str(message))
    return None


def _static_range(t: Tracer, node: ast.AST, start: Entry, stop: Entry, step: Entry) -> Entry:
    bounds = [start] if stop is None else [start, stop] if step is None else [start, stop, step]
    return tuple(range(*(t.static_int(node, b, "a bound of static_range") for b in bounds)))


def _convert(
    t: Tracer, node: ast.AST, value: Entry, type_: Entry, rounding: Entry, saturate: Entry
) -> Entry:
    return convert(t, node, value, type_, rounding, saturate)


# subgroups


def _reduce(kind: str, inclusive: bool | None) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, entry: Entry) -> Entry:
        _subgroup(t, node)
        value = literals.value(t, node, entry)
        if inclusive is None:
            return t.emit(node, "subgroup_reduce", value, kind=kind)
        return t.emit(node, "subgroup_scan", value, kind=kind, inclusive=inclusive)

    return handler


def _lane_op(name: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, entry: Entry, lane: Entry) -> Entry:
        _subgroup(t, node)
        value, number = (literals.value(t, node, e) for e in (entry, lane))
        return t.emit(node, name, value, number)

    return handler


def _vote(name: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, entry: Entry) -> Entry:
        size = _subgroup(t, node)
        vote = literals.typed(t, node, entry, bool_, "a vote")
        if name != "subgroup_ballot":
            return t.emit(node, name, vote)
        return t.emit(node, name, vote, type=u64 if size > 32 else u32)

    return handler


def _elect(t: Tracer, node: ast.AST) -> Entry:
    _subgroup(t, node)
    return t.emit(node, "subgroup_elect")


def _composed(name: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, *args: Entry) -> Entry:
        if not any(isinstance(a, Value | WeakSelect) for a in args):
            return evaluate(t, node, name, args)
        integers = name in ("gcd", "lcm", "square")
        prepared = [float(a) if is_number(a) and not integers else a for a in args]
        values, _ = literals.common(t, node, prepared, name)
        wants = element_of(values[0].type)
        if not (wants.is_float or (integers and wants.is_int)) or (name in ("gcd", "lcm") and wants.is_float):
            kind = "integers" if name in ("gcd", "lcm") else "floats"
            t.fail(node, f"{name} takes {kind}, found {values[0].type}")
        return library(t, node, name, *values)

    return handler


HANDLERS: dict[str, Callable[..., Entry]] = {
    **{name: elementwise(name) for name in ELEMENTWISE},
    **{name: _composed(name) for name in COMPOSED},
    **{name: _id(name) for name in ("global_id", "local_id", "group_id", "num_groups")},
    **{
        name: _plain_id(name)
        for name in ("local_linear_id", "subgroup_id", "subgroup_lane", "num_subgroups")
    },
    **{f"atomic_{python_name(kind)}": _atomic(kind) for kind in ATOMICS},
    **{f"subgroup_{python_name(k)}": _reduce(k, None) for k in REDUCTIONS},
    **{f"subgroup_inclusive_{python_name(k)}": _reduce(k, True) for k in REDUCTIONS},
    **{f"subgroup_exclusive_{python_name(k)}": _reduce(k, False) for k in REDUCTIONS},
    **{
        f"subgroup_{n}": _lane_op(f"subgroup_{n}")
        for n in ("shuffle", "shuffle_xor", "shuffle_up", "shuffle_down", "broadcast")
    },
    **{f"subgroup_{n}": _vote(f"subgroup_{n}") for n in ("ballot", "any", "all")},
    "subgroup_elect": _elect,
    "workgroup_size": _workgroup_size,
    "subgroup_size": _subgroup,
    "workgroup_array": lambda t, node, e, s: memory.make_array(t, node, Space.WORKGROUP, e, s),
    "private_array": lambda t, node, e, s: memory.make_array(t, node, Space.PRIVATE, e, s),
    "registers": memory.make_registers,
    "load_vector": _load_vector,
    "store_vector": _store_vector,
    "atomic_compare_exchange": _atomic("compare_exchange"),
    "barrier": _barrier,
    "fence": _fence,
    "convert": _convert,
    "bitcast": lambda t, node, v, ty: bitcast(t, node, v, ty),
    "select": _select,
    "shuffle": _shuffle,
    "ceil_div": _ceil_div,
    "clamp": _clamp,
    "static_range": _static_range,
    "static_assert": _static_assert,
}
NODES: dict[str | None, Callable[..., Entry]] = {}
