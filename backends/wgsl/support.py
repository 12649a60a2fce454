"""What WGSL does natively, for legalization.

The portable form holds f16 in f32 and keeps 8- and 16-bit types in buffers of words, so that it
needs no feature; `f16` among the native features keeps the type and asks for `shader-f16`. A kernel
that has no 64-bit values of its own gets none, since no browser has them.
"""

from __future__ import annotations

from functools import lru_cache

from ...ir.core import Kernel, walk
from ...ir.dtypes import element_of
from ...ir.passes.support import NARROW_ROUNDINGS, OPTIONAL, Support

# Ops that WGSL has with the accuracy that the op table asks for, or that are made of bits here.
_NATIVE = frozenset(
    (
        *("rsqrt", "fma", "sign", "copysign", "isnan", "isinf", "isfinite"),
        *NARROW_ROUNDINGS,
        *(f"{op}:{t}" for op in ("popcount", "clz", "ctz", "reverse_bits") for t in ("i32", "u32")),
        *("subgroup_reduce", "subgroup_scan", "subgroup_shuffle_xor", "subgroup_shuffle_up"),
        *("subgroup_shuffle_down", "subgroup_broadcast"),
    )
)
# WGSL's own functions, for kernels that declare `approximate`.
APPROXIMATE = frozenset(
    (
        *("exp", "exp2", "log", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh"),
        *("cosh", "tanh", "asinh", "acosh", "atanh", "pow", "atan2"),
    )
)
_TYPES = frozenset({"bool", "i32", "u32", "f32"})
_WIDE = frozenset({"i64", "u64", "f64"})
assert {name.partition(":")[0] for name in _NATIVE} | APPROXIMATE <= OPTIONAL


def support(kernel: Kernel, native: frozenset[str]) -> Support:
    """The native ops of a kernel whose artifact may use the features `native`."""
    return _support("approximate" in kernel.fast, "f16" in native, "dot4" in native, _wide(kernel))


def _wide(kernel: Kernel) -> bool:
    """Whether any value, element or index of a kernel is of 64 bits."""
    types = [value.type for op in walk(kernel.body) for value in op.results]
    types += [*(p.dtype for p in kernel.params), kernel.index]
    return any(element_of(t).bits == 64 for t in types)


@lru_cache(16)
def _support(approximate: bool, half: bool, dot4: bool, wide: bool) -> Support:
    ops = set(_NATIVE)
    if approximate:
        ops |= {f"{name}:f32" for name in APPROXIMATE}
    if dot4:
        ops.add("dot4")
    types = _TYPES | (_WIDE if wide else frozenset())
    types |= {"f16"} if half else frozenset()
    return Support(
        arithmetic=types,
        storage=types - {"bool"},
        native=frozenset(ops),
        max_lanes=4,
        keeps_nan=False,
        divides=32,
    )
