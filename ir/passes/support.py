"""What a target does natively, as legalization reads it."""

from __future__ import annotations

from dataclasses import dataclass

from ..dtypes import DTYPES, DType, Type, element_of
from ..ops import ROWS
from .effects import names

ALL = frozenset(DTYPES)

# Ops that a target may lack: each has a lowering (`expand`) to the others, which every target
# has on the element types of `Support.arithmetic`.
OPTIONAL = names(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh"
    " acosh atanh erf erfc cbrt gamma lgamma pow atan2 hypot fmod ldexp rsqrt fma sign"
    " copysign isnan isinf isfinite trunc floor ceil rint mul_high dot4 popcount clz ctz"
    " reverse_bits subgroup_reduce subgroup_scan subgroup_shuffle_xor"
    " subgroup_shuffle_up subgroup_shuffle_down subgroup_broadcast"
)
assert ROWS.keys() >= OPTIONAL
ROUNDINGS = names("trunc floor ceil rint")
# What SPIR-V and WGSL have of them. f64 is left out: llvmpipe (Mesa 22.3) rounds it by way of i32
# where the processor has no AVX-512, which takes ties towards zero, forgets the sign of zero, and
# leaves what is beyond 2**24 as it is.
NARROW_ROUNDINGS = frozenset(f"{name}:{t}" for name in ROUNDINGS for t in ("f16", "bf16", "f32"))


@dataclass(frozen=True)
class Support:
    """What a target has; legalization lowers the rest.

    arithmetic: names of the element types that values may have: constants, arithmetic, and
    private and workgroup arrays of them.
    storage: names of the element types that buffers may hold; one that is not in `arithmetic`
    appears in `load`, `store`, `convert` and `bitcast` only, next to those.
    native: the ops of `OPTIONAL` that the target has, as `op` (for every type of `arithmetic`)
    or `op:type` for one element type.
    max_lanes: the longest vector, 4 or 8. subgroup_vectors: subgroup ops take vectors.
    keeps_nan: comparisons and selections see NaNs; without it, `isnan` must be native.
    divides: bits of the widest integers that the target divides, 32 or 64.
    """

    arithmetic: frozenset[str] = ALL
    storage: frozenset[str] = ALL
    native: frozenset[str] = OPTIONAL
    max_lanes: int = 8
    subgroup_vectors: bool = True
    keeps_nan: bool = True
    divides: int = 64

    def __post_init__(self) -> None:
        odd = sorted({n.partition(":")[0] for n in self.native} - OPTIONAL)
        odd += sorted((self.arithmetic | self.storage) - ALL)
        if odd:
            raise ValueError(f"Support: not an optional op or element type: {', '.join(odd)}")
        if self.max_lanes not in (4, 8):
            raise ValueError(f"Support: max_lanes must be 4 or 8, not {self.max_lanes}")
        if missing := {"bool", "i32", "u32", "f32"} - self.arithmetic:
            raise ValueError(f"Support: every target has {', '.join(sorted(missing))}")

    def has(self, op: str, t: Type) -> bool:
        """Whether op `op` on element type of `t` needs no lowering."""
        if op not in OPTIONAL:
            return True
        name = element_of(t).name
        return f"{op}:{name}" in self.native or (op in self.native and name in self.arithmetic)

    def register(self, dtype: DType) -> DType:
        """The type in which values of `dtype` are held: wide enough to hold each exactly."""
        if dtype.name in self.arithmetic or dtype.bits > 16 or dtype.is_bool:
            return dtype
        if dtype.is_float:
            return DTYPES["f32"]
        return DTYPES["i32" if dtype.is_signed else "u32"]
