"""Features that GPUs have in common, by the names that artifacts require them with."""

from __future__ import annotations

SUBGROUPS = (
    "subgroup_basic",
    "subgroup_vote",
    "subgroup_arithmetic",
    "subgroup_ballot",
    "subgroup_shuffle",
    "subgroup_shuffle_relative",
)
# Of every GPU that runs code of ours through LLVM, NVIDIA's and AMD's. Atomics that a processor
# lacks are loops over those that it has.
OF_ALL = (
    "f16",
    "f64",
    "i8",
    "i16",
    "i64",
    "storage8",
    "storage16",
    "atomic_i64",
    "atomic_shared_i64",
    "atomic_f32_add",
    "atomic_shared_f32_add",
    "atomic_f64_add",
    "atomic_f32_minmax",
    *SUBGROUPS,
    "subgroup_size_control",
    "memory_model",
    "float_controls_rte",
    "float_controls_denorm",
    "float_controls_signed_zero_inf_nan",
)
