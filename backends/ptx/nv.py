"""The extensions of `ir.ops.nv`: which architectures have them, and what emits them."""

from __future__ import annotations

from dataclasses import replace

from ...ir.core import Kernel
from ...ir.extensions import cluster, used
from ..compile import CompileError
from . import float8, fragments, nv_async, nv_groups, nv_wgmma
from .arch import Arch

EMIT = {**nv_async.EMIT, **nv_wgmma.EMIT, **nv_groups.EMIT}

# Which architectures have a feature, as the end of a refusal says it.
_WHERE = {
    "nv_async": "sm_90 and later have it",
    "nv_cluster": "sm_90 and later have it",
    "nv_dependent_launch": "sm_90 and later have it",
    "nv_subgroup_mma": "sm_80 and later have it",
    "nv_warpgroup": "sm_90a alone has it",
}
_LATER = ("sm_90", "sm_90a", "sm_100", "sm_120")
FEATURES = ("grid_barrier", "nv_roles", *_WHERE)
ISA = "8.0"  # of PTX: the least with these features
MOST_CLUSTER = 8  # workgroups that every device takes


def has(arch: str, feature: str) -> bool:
    """Whether an architecture has an extension."""
    if feature not in _WHERE:
        return True
    if feature == "nv_subgroup_mma":
        return arch != "sm_75"
    return arch == "sm_90a" if feature == "nv_warpgroup" else arch in _LATER


def check(kernel: Kernel, target: str, arch: str) -> None:
    """CompileError, at the source line, for an extension that an architecture lacks."""
    found = used(kernel)
    for feature, op in found.items():
        if not has(arch, feature):
            message = f"{op.name} needs {feature}: {_WHERE[feature]}"
            raise CompileError(kernel.name, target, message, op.loc)
    if not 1 <= cluster(kernel) <= MOST_CLUSTER:
        message = f"a cluster has 1 to {MOST_CLUSTER} workgroups, not {cluster(kernel)}"
        raise CompileError(kernel.name, target, message)
    if cluster(kernel) > 1 and not has(arch, "nv_cluster"):
        message = f"a cluster of workgroups: {_WHERE['nv_cluster']}"
        raise CompileError(kernel.name, target, message)


def suited(kernel: Kernel, arch: Arch) -> Arch:
    """The architecture with the version of PTX that a kernel's extensions, products and conversions
    need; the same before and after its passes."""
    late = any(f in _WHERE for f in used(kernel)) or cluster(kernel) > 1
    needed = [arch.isa, ISA if late else "", fragments.isa(kernel, arch.products)]
    needed.append(float8.isa(kernel, arch.float8))
    return replace(arch, isa=max(filter(None, needed), key=_version))


def _version(isa: str) -> tuple[int, ...]:
    return tuple(map(int, isa.split(".")))


def facts(kernel: Kernel) -> dict[str, object]:
    """What a launch has to know."""
    from ...ir.extensions import tensor_maps

    found: dict[str, object] = {}
    if views := tensor_maps(kernel):
        found["tensor_maps"] = [view.fact for view in views]
    if "grid_barrier" in used(kernel):
        found["grid_barrier"] = True
    if cluster(kernel) > 1:
        found["cluster"] = cluster(kernel)
    if "nv_dependent_launch" in used(kernel):
        found["dependent_launch"] = True
    return found


def requires(kernel: Kernel) -> tuple[str, ...]:
    """The features of `ir.targets` that a device must have."""
    more = ("nv_cluster",) if cluster(kernel) > 1 else ()
    return tuple(sorted({*used(kernel), *more}))
