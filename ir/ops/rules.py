"""Type rules shared by the rows of the op table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..dtypes import (
    LANES,
    DType,
    FragmentType,
    MemType,
    Type,
    VectorType,
    bool_,
    element_of,
    i32,
    lanes_of,
    vector_of,
    with_element,
)
from .table import OpTypeError, TypeRule

Types = tuple[Type, ...]
Attrs = Mapping[str, Any]

_CLASSES: dict[str, Callable[[DType], bool]] = {
    "float": lambda t: t.is_float,
    "int": lambda t: t.is_int,
    "bool": lambda t: t.is_bool,
    "number": lambda t: t.is_int or t.is_float,
    "bits": lambda t: t.is_int or t.is_bool,
    "any": lambda t: True,
}


def require(condition: bool, message: str) -> None:
    if not condition:
        raise OpTypeError(message)


def computes(t: Type) -> None:
    """Values of the element type must be such that ops compute with."""
    element = element_of(t)
    if not element.computes:
        raise OpTypeError(
            f"{element} is stored, moved and converted only: compute in another type, as in "
            f"f32(x), and convert the result, as in {element}(y)"
        )


def value_type(t: Type, what: str) -> Type:
    """`t`, which must be a scalar or vector."""
    require(not isinstance(t, MemType), f"{what} must be a value, not {t}")
    return t


def lane_type(t: Type, what: str) -> Type:
    """`t`, which must be a value of one invocation: a scalar or vector."""
    require(not isinstance(t, FragmentType), f"{what} must be a scalar or vector, not {t}")
    return value_type(t, what)


def memory_type(t: Type, what: str) -> MemType:
    """`t`, which must be a reference to memory."""
    if not isinstance(t, MemType):
        raise OpTypeError(f"{what} must be a buffer or array, not {t}")
    return t


def int_scalar(t: Type, what: str) -> DType:
    if not (isinstance(t, DType) and t.is_int):
        raise OpTypeError(f"{what} must be an integer scalar, not {t}")
    return t


def bool_scalar(t: Type, what: str) -> None:
    require(t == bool_, f"{what} must be a bool, not {t}")


def same(kind: str, result: str = "same") -> TypeRule:
    """All operands of one value type of class `kind`; the result is that type or bool lanes."""

    def rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
        first = value_type(operands[0], "operand 1")
        for n, t in enumerate(operands[1:], 2):
            require(t == first, f"operand {n} is {t}, but operand 1 is {first}")
        computes(first)
        require(_CLASSES[kind](element_of(first)), f"expected {kind} operands, not {first}")
        return (with_element(first, bool_) if result == "bool" else first,)

    return rule


def nothing(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    """Any operands, no result."""
    return ()


def select_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    cond, a, b = operands
    value_type(a, "operand 2")
    require(a == b, f"the two values of a select are {a} and {b}")
    ok = cond == bool_ or cond == with_element(a, bool_)
    require(ok, f"the condition of a select of {a} must be bool or its vector, not {cond}")
    return (a,)


def convert_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    source = value_type(operands[0], "operand")
    if wanted is None or len(wanted) != 1:
        raise OpTypeError("convert needs the type to convert to")
    target = value_type(wanted[0], "result")
    same_shape = with_element(source, element_of(target)) == target
    require(same_shape, f"convert from {source} to {target}: lanes differ")
    return (target,)


def bitcast_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    source = value_type(operands[0], "operand")
    if wanted is None or len(wanted) != 1:
        raise OpTypeError("bitcast needs the type to cast to")
    target = value_type(wanted[0], "result")
    sizes = [element_of(t).bits * lanes_of(t) for t in (source, target)]
    require(
        sizes[0] == sizes[1], f"bitcast from {source} to {target}: {sizes[0]} bits to {sizes[1]}"
    )
    for t in (source, target):
        require(not element_of(t).is_bool, f"a bool has no bit pattern (bitcast of {t})")
    if isinstance(source, FragmentType) or isinstance(target, FragmentType):
        same_shape = with_element(source, element_of(target)) == target
        require(same_shape, f"bitcast from {source} to {target}: shapes differ")
    return (target,)


def vector_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    require(len(operands) in (2, 4, 8), f"a vector has 2, 4 or 8 lanes, not {len(operands)}")
    first = operands[0]
    if not isinstance(first, DType):
        raise OpTypeError(f"the lanes of a vector are scalars, not {first}")
    for t in operands:
        require(t == first, f"lanes of one vector have types {first} and {t}")
    return (vector_of(first, len(operands)),)


def splat_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    if not wanted or not isinstance(wanted[0], VectorType | FragmentType):
        raise OpTypeError("splat needs a vector or fragment type")
    require(operands[0] == wanted[0].element, f"splat of {operands[0]} to {wanted[0]}")
    return (wanted[0],)


def extract_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    vector, lane = operands[0], attrs["lane"]
    if not isinstance(vector, VectorType):
        raise OpTypeError(f"extract takes a vector, not {vector}")
    require(0 <= lane < vector.lanes, f"lane {lane} of a vector of {vector.lanes}")
    return (vector.element,)


def insert_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    (element,) = extract_rule(operands, attrs, wanted)
    require(operands[1] == element, f"insert of {operands[1]} into {operands[0]}")
    return (operands[0],)


def shuffle_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    a, b = operands
    if not isinstance(a, VectorType) or a != b:
        raise OpTypeError(f"shuffle takes two vectors of one type, not {a} and {b}")
    lanes = attrs["lanes"]
    require(all(0 <= n < 2 * a.lanes for n in lanes), f"shuffle lanes {lanes} of 2 x {a.lanes}")
    require(len(lanes) in LANES, f"a vector has 2, 4 or 8 lanes, not {len(lanes)}")
    return (vector_of(a.element, len(lanes)),)


def wanted_scalar(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    """No constraint from operands: the result type is given (constants, ids)."""
    if wanted is None or len(wanted) != 1 or not isinstance(wanted[0], DType):
        raise OpTypeError("this op needs a scalar result type")
    return wanted


def index_result(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    """An index: i32 or i64, as the kernel says."""
    (t,) = wanted_scalar(operands, attrs, wanted)
    require(str(t) in ("i32", "i64"), f"an index is i32 or i64, not {t}")
    return (t,)


def count_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    memory_type(operands[0], "operand")
    return index_result(operands, attrs, wanted)


def alloc_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    if not wanted or not isinstance(wanted[0], MemType) or wanted[0].count is None:
        raise OpTypeError("alloc gives a workgroup or private array with a count")
    require(wanted[0].count > 0, f"an array of {wanted[0].count} elements")
    return wanted


def load_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    memory = memory_type(operands[0], "operand 1")
    int_scalar(operands[1], "an index")
    require(memory.access.reads, f"load from {memory}, which may only be written")
    lanes = attrs.get("lanes", 1)
    require(lanes == 1 or lanes in LANES, f"a load of {lanes} lanes: 1, 2, 4 or 8")
    return (memory.element if lanes == 1 else vector_of(memory.element, lanes),)


def store_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    memory = memory_type(operands[0], "operand 1")
    int_scalar(operands[1], "an index")
    value = lane_type(operands[2], "operand 3")
    require(memory.access.writes, f"store to {memory}, which may only be read")
    require(element_of(value) == memory.element, f"store of {value} to {memory}")
    return ()


def copy_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    require(len(operands) in (4, 5), f"copy_async takes 4 or 5 operands, not {len(operands)}")
    target, source = (memory_type(operands[n], f"operand {n + 1}") for n in (0, 2))
    for n in (1, 3, *range(4, len(operands))):
        int_scalar(operands[n], "an index" if n < 4 else "a number of elements")
    space = target.space.value
    require(space == "workgroup", f"copy_async fills workgroup memory, not {space} memory")
    require(source.space.value == "buffer", f"copy_async reads a buffer, not {source}")
    require(source.access.reads, f"copy from {source}, which may only be written")
    require(source.element == target.element, f"copy from {source} to {target}")
    size = attrs["count"] * target.element.bytes
    require(size in (4, 8, 16), f"copy_async moves 4, 8 or 16 bytes, not {size}")
    return ()


def atomic_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    memory = memory_type(operands[0], "operand 1")
    int_scalar(operands[1], "an index")
    require(str(memory.space.value) != "private", "atomics act on buffers and workgroup arrays")
    require(memory.access.writes and memory.access.reads, f"atomic on {memory}: needs readwrite")
    for n, t in enumerate(operands[2:], 3):
        require(t == memory.element, f"operand {n} is {t}, but the memory holds {memory.element}")
    element, kind = memory.element, attrs.get("kind", "compare_exchange")
    require(element.bits in (32, 64) and not element.is_bool, f"no atomics on {element}")
    if element.is_float:
        floats = ("add", "min", "max", "exchange", "compare_exchange")
        require(kind in floats, f"atomic {kind} takes integers, not {element}")
    return (element,)


REDUCTIONS = ("add", "mul", "min", "max", "and", "or", "xor")


def subgroup_reduce_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    t, kind = lane_type(operands[0], "operand"), attrs["kind"]
    computes(t)
    require(kind in REDUCTIONS, f"reduction {kind!r}; known: {', '.join(REDUCTIONS)}")
    bitwise = kind in ("and", "or", "xor")
    ok = element_of(t).is_int if bitwise else not element_of(t).is_bool
    require(ok, f"subgroup {kind} of {t}")
    return (t,)


def shuffle_lane_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    int_scalar(operands[1], "a lane")
    return (lane_type(operands[0], "operand"),)


def vote_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    bool_scalar(operands[0], "a vote")
    return (bool_,)


def ballot_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    bool_scalar(operands[0], "a vote")
    (t,) = wanted_scalar(operands, attrs, wanted)
    require(str(t) in ("u32", "u64"), f"a ballot is u32 or u64, not {t}")
    return (t,)


def elect_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    return (bool_,)


def ldexp_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    x, n = operands
    require(element_of(x).is_float, f"ldexp takes a float, not {x}")
    computes(x)
    require(n == with_element(x, i32), f"the exponent of ldexp must be i32, not {n}")
    return (x,)


def dot4_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    a, b, acc = (str(t) for t in operands)
    require(a in ("i32", "u32") and b in ("i32", "u32"), f"dot4 takes packed words, not {a}, {b}")
    expected = "u32" if (a, b) == ("u32", "u32") else "i32"
    require(acc == expected, f"dot4 of {a} and {b} accumulates in {expected}, not {acc}")
    return (operands[2],)


def assert_rule(operands: Types, attrs: Attrs, wanted: Types | None) -> Types:
    bool_scalar(operands[0], "an asserted condition")
    return ()
