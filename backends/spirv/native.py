"""Native instructions that a target may allow although a portable form exists.

A target names them as suffixes of its arch: `vulkan1.3:atomic_f32_add:dot4`. Each is a feature that
the artifact then requires.
"""

from __future__ import annotations

from .opcodes import Cap

_ADD, _MINMAX = "SPV_EXT_shader_atomic_float_add", "SPV_EXT_shader_atomic_float_min_max"
# (kind, bits, on workgroup memory) -> feature, capability, extension
FLOAT_ATOMICS = {
    ("add", 32, False): ("atomic_f32_add", Cap.ATOMIC_FLOAT32_ADD, _ADD),
    ("add", 32, True): ("atomic_shared_f32_add", Cap.ATOMIC_FLOAT32_ADD, _ADD),
    ("add", 64, False): ("atomic_f64_add", Cap.ATOMIC_FLOAT64_ADD, _ADD),
    ("min", 32, False): ("atomic_f32_minmax", Cap.ATOMIC_FLOAT32_MIN_MAX, _MINMAX),
    ("max", 32, False): ("atomic_f32_minmax", Cap.ATOMIC_FLOAT32_MIN_MAX, _MINMAX),
}

DOT4 = "dot4"
FLOAT_CONTROLS = frozenset(
    {"float_controls_rte", "float_controls_denorm", "float_controls_signed_zero_inf_nan"}
)
NATIVE = frozenset({row[0] for row in FLOAT_ATOMICS.values()} | {DOT4} | FLOAT_CONTROLS)


def on_bits(native: frozenset[str], kinds: set[str], bits: int, shared: bool) -> bool:
    """Whether any of these float atomics works on the bits of the float."""
    rows = [FLOAT_ATOMICS.get((kind, bits, shared)) for kind in kinds]
    return any(row is None or row[0] not in native for row in rows)
