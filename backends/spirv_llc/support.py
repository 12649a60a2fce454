"""What LLVM's SPIR-V backend does right, for legalization."""

from __future__ import annotations

from ...ir.passes.support import NARROW_ROUNDINGS, Support

# 8- and 16-bit types are held in 32 bits; what rounds to f16 is converted by the device. LLVM 22
# selects neither `copysign` nor counts of leading or trailing zeros, nor most bit operations of 64
# bits; its own transcendental functions are Vulkan's, which are off by up to thousands of ulp.
_WORDS = ("popcount", "reverse_bits", "mul_high")
SUPPORT = Support(
    arithmetic=frozenset({"bool", "i32", "u32", "i64", "u64", "f32", "f64"}),
    native=frozenset(
        (
            *("fma", "isnan", "isinf", "isfinite"),
            *NARROW_ROUNDINGS,
            *(f"{name}:{t}" for name in _WORDS for t in ("i32", "u32")),
            *("subgroup_reduce", "subgroup_scan", "subgroup_shuffle_xor", "subgroup_shuffle_up"),
            *("subgroup_shuffle_down", "subgroup_broadcast"),
        )
    ),
    max_lanes=4,
    keeps_nan=False,
)
