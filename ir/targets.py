"""Targets (what code is compiled for) and capabilities (what a device has).

A target is named `backend-arch`: `spirv-vulkan1.1`, `cpu-x86-64-v3`, `cpu-aarch64`, `interp-kir`,
`ptx-sm_80`, `cubin-sm_90a`, `hsaco-gfx1100`. `Capabilities` is what a device reports and what
selection and planning compare with a manifest: a feature that is not listed is absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

BACKENDS = ("interp", "cpu", "spirv", "wgsl", "ptx", "cubin", "hsaco")


class UnknownTargetError(ValueError):
    """A target name that cannot be read."""


class Target(NamedTuple):
    """A backend and an architecture within it."""

    backend: str
    arch: str

    def __str__(self) -> str:
        return f"{self.backend}-{self.arch}"

    @staticmethod
    def parse(text: str) -> Target:
        """Read `backend-arch`; UnknownTargetError names the known backends."""
        backend, dash, arch = text.partition("-")
        if backend not in BACKENDS or not dash or not arch:
            raise UnknownTargetError(
                f"not a target: {text!r} "
                f"(expected BACKEND-ARCH, backend one of {', '.join(BACKENDS)})"
            )
        return Target(backend, arch)


FEATURES: dict[str, str] = {
    "f16": "arithmetic on 16-bit floats",
    "f64": "64-bit floats",
    "i8": "arithmetic on 8-bit integers",
    "i16": "arithmetic on 16-bit integers",
    "i64": "64-bit integers",
    "bf16": "bfloat16 as a native type",
    "storage8": "8-bit loads and stores in buffers",
    "storage16": "16-bit loads and stores in buffers",
    "atomic_i64": "64-bit integer atomics on buffers",
    "atomic_shared_i64": "64-bit integer atomics on workgroup memory",
    "atomic_f32_add": "f32 atomic add on buffers",
    "atomic_shared_f32_add": "f32 atomic add on workgroup memory",
    "atomic_f64_add": "f64 atomic add on buffers",
    "atomic_f32_minmax": "f32 atomic min and max on buffers",
    "subgroup_basic": "subgroup ids and elect",
    "subgroup_vote": "subgroup any and all",
    "subgroup_arithmetic": "subgroup reduce and scan",
    "subgroup_ballot": "subgroup ballot and broadcast",
    "subgroup_shuffle": "subgroup shuffle and shuffle xor",
    "subgroup_shuffle_relative": "subgroup shuffle up and down",
    "subgroup_size_control": "a required subgroup size can be demanded",
    "component_stores": "a component of a vector in a buffer is stored without the others",
    "dot4": "packed 4x8-bit dot product in hardware",
    "cooperative_matrix": "16x16x16 products of f16 matrices by a subgroup, summed in f16 or f32",
    "cooperative_matrix_bf16": "16x16x16 products of bf16 matrices by a subgroup, summed in f32",
    "cooperative_matrix_i8": "16x16x32 products of 8-bit integers by a subgroup, summed in 32 bits",
    "grid_barrier": "a barrier of all workgroups of a launch",
    "nv_async": "mbarriers, and copies by the bulk copy engine (compute capability 9.0)",
    "nv_warpgroup": "matrix products by groups of four subgroups (compute capability 9.0 exactly)",
    "nv_subgroup_mma": "matrix products of registers by a subgroup (compute capability 8.0)",
    "nv_roles": "subgroups with roles of their own, and barriers of some of them",
    "nv_cluster": "clusters of workgroups (compute capability 9.0)",
    "nv_dependent_launch": "launches that begin before the one they depend on ends",
    "memory_model": "the Vulkan memory model, with device scope",
    "float_controls_rte": "f32 results rounded to nearest even on demand",
    "float_controls_rte16": "f16 results rounded to nearest even on demand",
    "float_controls_denorm": "f32 denormals kept on demand",
    "float_controls_signed_zero_inf_nan": "signed zero, infinity and NaN kept on demand",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes that a launch or an allocation must not exceed. None: no limit known to matter."""

    workgroup_invocations: int
    workgroup_size: tuple[int, int, int]
    grid: tuple[int, int, int]
    shared_bytes: int
    buffer_bytes: int
    binding_bytes: int
    buffers: int
    loop_iterations: int | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a device is and has.

    targets: names that it can load, best first. unified_memory: host and device share memory.
    shared_arena: one buffer may be bound for reading and writing in one dispatch.
    """

    device: str
    name: str
    driver: str
    targets: tuple[str, ...]
    limits: Limits
    features: frozenset[str] = frozenset()
    subgroup_sizes: tuple[int, ...] = ()
    offset_alignment: int = 16
    unified_memory: bool = True
    shared_arena: bool = True
    facts: dict[str, str | int] = field(default_factory=dict, hash=False)
