"""Atomic operations on global memory, flat addresses and LDS.

Lanes that meet at one address take turns in the order of slots, which is shuffled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .decode import Instruction
from .ds import lds_address
from .errors import OutOfBounds
from .operands import flush, vector_index
from .registry import Build, Step, register
from .state import Arch, Machine
from .valu_float import maximum_number, minimum_number
from .vmem import CACHE, PRIVATE_APERTURE, SHARED_APERTURE, global_address, write_loaded

Array = np.ndarray[Any, Any]
Function = Callable[..., Array]  # (old, data) or (old, new, compared) -> what is stored


def _increment(old: Array, top: Array) -> Array:
    return np.where(old >= top, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: Array, top: Array) -> Array:
    return np.where((old == 0) | (old > top), top, old - old.dtype.type(1))


def _compare_swap(old: Array, new: Array, compared: Array) -> Array:
    return np.where(old == compared, new, old)


def _subtract_clamped(old: Array, data: Array) -> Array:
    return np.where(old > data, old - data, old.dtype.type(0))


def _subtract_if(old: Array, data: Array) -> Array:
    return np.where(old >= data, old - data, old)


def _packed_add(old: Array, data: Array) -> Array:
    """Two f16 in each word."""
    pair = np.ascontiguousarray(old).view(np.float16) + np.ascontiguousarray(data).view(np.float16)
    return pair.view(np.uint32)


def _packed_add_bf16(old: Array, data: Array) -> Array:
    out = np.zeros_like(old)
    for half in (0, 16):
        parts = [(v >> np.uint32(half) & np.uint32(0xFFFF)) << np.uint32(16) for v in (old, data)]
        total = parts[0].view(np.float32) + parts[1].view(np.float32)
        bits = total.view(np.uint32)
        even = bits >> np.uint32(16) & np.uint32(1)
        rounded = (bits + np.uint32(0x7FFF) + even) >> np.uint32(16)
        rounded = np.where(np.isnan(total), np.uint32(0x7FC0), rounded)
        out |= rounded << np.uint32(half)
    return out


def _add_flushed(old: Array, data: Array) -> Array:
    """Denormals count as zeros of their sign, and come out as such."""
    return flush(flush(old) + flush(data))


@dataclass(frozen=True)
class Operation:
    """`dtype` as the operation sees words; `at`: numpy's own unordered form, if there is one."""

    f: Function
    dtype: type[Any]
    sources: int = 1
    at: Any = None

    @property
    def size(self) -> int:
        return int(np.dtype(self.dtype).itemsize)


def _ordered(view: Array, index: Array, operation: Operation, data: list[Array]) -> Array:
    """Old values [k]; every lane in turn."""
    order = np.argsort(index, kind="stable")
    where = index[order]
    fresh = np.ones(len(where), np.bool_)
    fresh[1:] = where[1:] != where[:-1]
    starts = np.nonzero(fresh)[0]
    turn = np.arange(len(where)) - starts[np.cumsum(fresh) - 1]
    old = np.empty(len(where), view.dtype)
    by_turn = np.argsort(turn, kind="stable")
    bounds = np.searchsorted(turn[by_turn], np.arange(int(turn.max()) + 2))
    for k in range(len(bounds) - 1):
        now = by_turn[bounds[k] : bounds[k + 1]]
        lanes = order[now]
        here = where[now]
        old[lanes] = before = view[here]
        view[here] = operation.f(before, *(d[lanes] for d in data))
    return old


def _at(f: Any, view: Array, index: Array, data: Array) -> None:
    """f.at on the touched words alone: numpy would copy all of a view that overlaps `data`, and
    the view of global memory spans whatever lies between allocations."""
    where, inverse = np.unique(index, return_inverse=True)
    words = view[where]
    f.at(words, inverse, data)
    view[where] = words


def _sum_in_turn(view: Array, index: Array, data: Array) -> Array:
    """Old values of integer additions, by a running sum over the lanes of each address."""
    order = np.argsort(index, kind="stable")
    where, added = index[order], data[order]
    running = np.cumsum(added, dtype=added.dtype) - added
    fresh = np.ones(len(where), np.bool_)
    fresh[1:] = where[1:] != where[:-1]
    starts = np.nonzero(fresh)[0]
    segment = np.cumsum(fresh) - 1
    old = np.empty(len(where), view.dtype)
    old[order] = view[where] + running - running[starts][segment]
    _at(np.add, view, index, data)
    return old


def perform(
    raw: Array, index: Array, operation: Operation, data: list[Array], returns: bool
) -> Array | None:
    """Do it at `index` of a view of words; old values if `returns`."""
    view = raw.view(operation.dtype)
    if operation.at is not None and not returns:
        _at(operation.at, view, index, data[0])
        return None
    summed = operation.at is np.add and view.dtype.kind == "u"
    old = _sum_in_turn(view, index, data[0]) if summed else _ordered(view, index, operation, data)
    return old if returns else None


def _integer(bits: int) -> dict[str, Operation]:
    """By gfx11's names without the width."""
    u, s = (np.uint32, np.int32) if bits == 32 else (np.uint64, np.int64)
    return {
        f"add_u{bits}": Operation(np.add, u, at=np.add),
        f"sub_u{bits}": Operation(np.subtract, u, at=np.subtract),
        f"min_i{bits}": Operation(np.minimum, s, at=np.minimum),
        f"max_i{bits}": Operation(np.maximum, s, at=np.maximum),
        f"min_u{bits}": Operation(np.minimum, u, at=np.minimum),
        f"max_u{bits}": Operation(np.maximum, u, at=np.maximum),
        f"and_b{bits}": Operation(np.bitwise_and, u, at=np.bitwise_and),
        f"or_b{bits}": Operation(np.bitwise_or, u, at=np.bitwise_or),
        f"xor_b{bits}": Operation(np.bitwise_xor, u, at=np.bitwise_xor),
        f"inc_u{bits}": Operation(_increment, u),
        f"dec_u{bits}": Operation(_decrement, u),
        f"swap_b{bits}": Operation(lambda old, data: data, u),
        f"cmpswap_b{bits}": Operation(_compare_swap, u, sources=2),
    }


OPERATIONS: dict[str, Operation] = {
    **_integer(32),
    **_integer(64),
    "csub_u32": Operation(_subtract_clamped, np.uint32),
    "sub_clamp_u32": Operation(_subtract_clamped, np.uint32),
    "cond_sub_u32": Operation(_subtract_if, np.uint32),
    "pk_add_f16": Operation(_packed_add, np.uint32),
    "pk_add_bf16": Operation(_packed_add_bf16, np.uint32),
}
for _bits, _dtype in ((32, np.float32), (64, np.float64)):
    OPERATIONS[f"add_f{_bits}"] = Operation(np.add, _dtype, at=np.add)
    for _suffix in ("", "_num"):
        OPERATIONS[f"min{_suffix}_f{_bits}"] = Operation(minimum_number, _dtype)
        OPERATIONS[f"max{_suffix}_f{_bits}"] = Operation(maximum_number, _dtype)

# gfx9's and gfx10's names of the same operations on global memory, without "_x2"
OLD_NAMES = {
    "add": "add_u", "sub": "sub_u", "smin": "min_i", "smax": "max_i", "umin": "min_u",
    "umax": "max_u", "and": "and_b", "or": "or_b", "xor": "xor_b", "inc": "inc_u",
    "dec": "dec_u", "swap": "swap_b", "cmpswap": "cmpswap_b",
}  # fmt: skip


_FLUSHED = Operation(_add_flushed, np.float32)


def _in_memory(operation: Operation, arch: Arch) -> Operation:
    """Caches add f32 in a mode of their own, without denormals until gfx942 and gfx12 (LLVM's
    features of processors: "memory-atomic-fadd-f32-denormal-support")."""
    keeps = arch.generation == 12 or arch.processor in ("gfx942", "gfx950", "gfx9-4-generic")
    return operation if keeps or operation is not OPERATIONS["add_f32"] else _FLUSHED


def _in_lds(operation: Operation, m: Machine) -> Operation:
    """LDS adds f32 as MODE says."""
    sums = operation.f is np.add and operation.dtype is np.float32
    return _FLUSHED if sums and m.mode.denormal_32 != 3 else operation


def _data(i: Instruction, position: int, operation: Operation) -> Callable[[Machine], list[Array]]:
    """m -> the sources [k] as the operation's dtype; they stand in consecutive registers."""
    first, count = vector_index(i.operands[position]), operation.size // 4

    def read(m: Machine) -> list[Array]:
        found = []
        for k in range(operation.sources):
            words = [m.active(m.read(first + k * count + j)) for j in range(count)]
            found.append(np.stack(words, axis=1).view(operation.dtype)[:, 0])
        return found

    return read


def _returned(m: Machine, register_number: int, old: Array) -> None:
    write_loaded(m, register_number, old.view(np.uint32).reshape(len(old), -1), None)


def _is_returning(i: Instruction) -> bool:
    th = str(i.modifiers.get("th", ""))
    return "glc" in i.modifiers or "sc0" in i.modifiers or "RETURN" in th


def _global(operation: Operation, space: str) -> Build:
    """[destination,] address, data[, scalar base]: the destination where the old value is asked."""

    def build(i: Instruction, arch: Arch) -> Step:
        returns, does = _is_returning(i), _in_memory(operation, arch)
        at = 1 if returns else 0
        scalar = i.operands[at + 2] if len(i.operands) > at + 2 else i.operands[at]
        address = global_address(i, i.operands[at], scalar)
        data = _data(i, at + 1, operation)
        destination = vector_index(i.operands[0])

        def step(m: Machine) -> None:
            where = address(m)
            if not len(where):
                return
            if space == "flat":
                _refuse_apertures(where)
            raw, index = m.memory.atomic(where, operation.size)
            old = perform(raw, index, does, data(m), returns)
            if old is not None:
                _returned(m, destination, old)

        return step

    return build


def _refuse_apertures(where: Array) -> None:
    upper = where >> np.uint64(32)
    if ((upper == SHARED_APERTURE) | (upper == PRIVATE_APERTURE)).any():
        raise OutOfBounds("a flat atomic on LDS or scratch")


def _lds(operation: Operation, returns: bool, sources: tuple[int, ...]) -> Build:
    """[destination,] address, data...; `sources`: where the operation's data stand."""

    def build(i: Instruction, arch: Arch) -> Step:
        at = 1 if returns else 0
        address = lds_address(i, at, i.number("offset"))
        one = Operation(operation.f, operation.dtype)
        reads = [_data(i, at + 1 + k, one) for k in sources]
        destination = vector_index(i.operands[0])

        def step(m: Machine) -> None:
            where = address(m)
            if not len(where):
                return
            raw, index = m.lds.atomic(m.groups_of_lanes(), where, operation.size)
            data = [read(m)[0] for read in reads]
            old = perform(raw, index, _in_lds(operation, m), data, returns)
            if old is not None:
                _returned(m, destination, old)

        return step

    return build


def _register_all() -> None:
    modifiers = ("offset", *CACHE)
    for name, operation in OPERATIONS.items():
        for space in ("global", "flat"):
            register(f"{space}_atomic_{name}", _global(operation, space), modifiers)
    for old_name, name in OLD_NAMES.items():
        for bits, suffix in ((32, ""), (64, "_x2")):
            for space in ("global", "flat"):
                register(
                    f"{space}_atomic_{old_name}{suffix}",
                    _global(OPERATIONS[f"{name}{bits}"], space),
                    modifiers,
                )
    for name in ("min", "max"):  # gfx90a and gfx942 leave the type's letter at the end
        for space in ("global", "flat"):
            register(
                f"{space}_atomic_f{name}",
                _global(OPERATIONS[f"{name}_f32"], space),
                modifiers,
                (10,),
            )
    for name, operation in OPERATIONS.items():
        head, _, tail = name.rpartition("_")
        if head in ("swap", "cmpswap"):
            continue
        register(f"ds_{name}", _lds(operation, False, (0,)), ("offset",))
        register(f"ds_{head}_rtn_{tail}", _lds(operation, True, (0,)), ("offset",))
    for bits in (32, 64):
        swap, compare = OPERATIONS[f"swap_b{bits}"], OPERATIONS[f"cmpswap_b{bits}"]
        for name in ("wrxchg", "storexchg"):
            register(f"ds_{name}_rtn_b{bits}", _lds(swap, True, (0,)), ("offset",))
        # ds_cmpst has the compared value first, ds_cmpstore (gfx11 and later) the new one
        for name, order in (("cmpst", (1, 0)), ("cmpstore", (0, 1))):
            register(f"ds_{name}_b{bits}", _lds(compare, False, order), ("offset",))
            register(f"ds_{name}_rtn_b{bits}", _lds(compare, True, order), ("offset",))


_register_all()
