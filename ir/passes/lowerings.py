"""The lowerings of optional ops by name; the transcendental ones are in `ir.maths`."""

from __future__ import annotations

from . import lower_bits as bits
from . import lower_division as division
from . import lower_floats as floats
from . import lower_subgroup as subgroup
from .context import Context, Lowering

__all__ = ["LOWERINGS", "Context", "Lowering"]

LOWERINGS: dict[str, Lowering] = {
    "fma": floats.fma,
    "sign": floats.sign,
    "copysign": floats.copysign,
    "isnan": floats.isnan,
    "isinf": floats.isinf,
    "isfinite": floats.isfinite,
    "trunc": floats.trunc,
    "floor": floats.floor,
    "ceil": floats.ceil,
    "rint": floats.rint,
    "floordiv": division.floordiv,
    "mod": division.mod,
    "mul_high": bits.mul_high,
    "dot4": bits.dot4,
    "popcount": bits.popcount,
    "clz": bits.clz,
    "ctz": bits.ctz,
    "reverse_bits": bits.reverse_bits,
    "subgroup_reduce": subgroup.reduce,
    "subgroup_scan": subgroup.scan,
    "subgroup_shuffle_xor": subgroup.shuffle_xor,
    "subgroup_shuffle_up": subgroup.shuffle_up,
    "subgroup_shuffle_down": subgroup.shuffle_down,
    "subgroup_broadcast": subgroup.broadcast,
}
