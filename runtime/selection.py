"""Choosing an artifact for a device: the first that fits, or a refusal with what each lacks.

Everything here is a function of manifests and capabilities, so that it holds for a device that is
not at hand. What an artifact needs of every device stands in its manifest and is compared here.
Which architectures and drivers take code of a vendor's format its `Rules` tell: a module `rules`
beside the device that loads it, imported once such an artifact is there.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from .refusal import Lack, Refusal

if TYPE_CHECKING:
    from ..ir.targets import Capabilities
    from ..store.manifest import Manifest
    from .bundle import Artifact
    from .tuning import Choices

# backend -> the device in `devices/` with its rules
RULES = {"cubin": "cuda", "ptx": "cuda", "hsaco": "hsa"}


class Rules(Protocol):
    """What a vendor's devices and drivers load. Each answer is in words, None where nothing lacks.

    Capabilities of another vendor's device lack nothing: it loads none of the targets.
    """

    def lacking_driver(self, manifest: Manifest, capabilities: Capabilities) -> str | None:
        """What the device's driver lacks for an artifact of a target that the device loads."""

    def lacking_architecture(self, target: str, capabilities: Capabilities) -> str | None:
        """Why a device does not load a target of its vendor."""


def rules_for(target: str) -> Rules | None:
    """The rules for a target's format; None where what every device states is all there is."""
    device = RULES.get(target.partition("-")[0])
    if device is None:
        return None
    return cast("Rules", importlib.import_module(f".devices.{device}.rules", __package__))


def choose(
    artifacts: Sequence[Artifact],
    capabilities: Capabilities,
    sizes: Mapping[str, int] | None = None,
) -> Artifact | Refusal:
    """Of the artifacts of one specialization the first, in the device's order of targets, that the
    device can run; with the sizes of a problem, the best of that target for it (`tuning`)."""
    lacks = []
    for target in capabilities.targets:
        fitting = []
        for number, artifact in enumerate(_variants(artifacts, target, capabilities)):
            missing = lacking(artifact.manifest, capabilities)
            if missing:
                lacks.append(Lack(artifact.manifest.target, number, missing))
            elif sizes is None:
                return artifact
            else:
                fitting.append(artifact)
        if fitting:
            from .tuning import checked_sizes, choices

            return choices(fitting, capabilities).best(checked_sizes(fitting[0], sizes))
    first = artifacts[0].manifest
    return Refusal(
        first.kernel,
        first.specialization,
        f"{capabilities.device} ({capabilities.name})",
        capabilities.targets,
        tuple(sorted({a.manifest.target for a in artifacts})),
        (*lacks, *_unloadable(artifacts, capabilities)),
        _advice(artifacts, capabilities),
    )


def measured(
    artifacts: Sequence[Artifact], chosen: Artifact, capabilities: Capabilities
) -> Choices | None:
    """What there is to choose from beside the first that fits, where some of it was measured on
    such a device; else None."""
    target = listed(chosen.manifest.target)
    variants = _variants(artifacts, target, capabilities)
    if not any("tuned" in a.manifest.facts for a in variants):
        return None
    from .tuning import choices

    found = choices([a for a in variants if not lacking(a.manifest, capabilities)], capabilities)
    return found if found.measured else None


def lacking(manifest: Manifest, capabilities: Capabilities) -> tuple[str, ...]:
    """What an artifact needs and a device has not, in words."""
    missing = [f"feature {f}" for f in manifest.requires if f not in capabilities.features]
    limits = capabilities.limits
    if manifest.subgroup is not None and manifest.subgroup not in capabilities.subgroup_sizes:
        sizes = ", ".join(map(str, capabilities.subgroup_sizes)) or "none"
        missing.append(f"subgroups of {manifest.subgroup} (the device has {sizes})")
    x, y, z = manifest.workgroup
    buffers = sum(p.kind != "scalar" for p in manifest.params) + bool(manifest.sites)
    needs = [
        ("invocations in a workgroup", x * y * z, limits.workgroup_invocations),
        *(
            (f"workgroup size in {axis}", size, limit)
            for axis, size, limit in zip("xyz", (x, y, z), limits.workgroup_size, strict=True)
        ),
        ("bytes of workgroup memory", manifest.shared_bytes, limits.shared_bytes),
        ("buffers", buffers, limits.buffers),
    ]
    turns = manifest.facts.get("loop_turns")
    if limits.loop_iterations is not None and isinstance(turns, int):  # else each launch tells
        needs.append(("loop turns of an invocation", turns, limits.loop_iterations))
    missing += [f"{need} {what} (limit {limit})" for what, need, limit in needs if need > limit]
    rules = rules_for(manifest.target)
    if rules and (driver := rules.lacking_driver(manifest, capabilities)):
        missing.append(driver)
    return tuple(missing)


def _variants(
    artifacts: Sequence[Artifact], target: str, capabilities: Capabilities
) -> list[Artifact]:
    """Artifacts for a target of the device: those that use more of its features (named by suffixes
    such as `:dot4`) first, then in declared order."""

    def suffixes(artifact: Artifact) -> list[str]:
        made_for = artifact.manifest.target
        return made_for.removeprefix(listed(made_for)).split(":")[1:]

    fitting = [
        a
        for a in artifacts
        if listed(a.manifest.target) == target and capabilities.features.issuperset(suffixes(a))
    ]
    return sorted(fitting, key=lambda a: -len(suffixes(a)))


def listed(target: str) -> str:
    """A target as a device lists it: without features that code uses. What follows the processor
    of a code object is its target id, which devices list as well."""
    return target if target.startswith("hsaco-") else target.partition(":")[0]


def _unloadable(artifacts: Sequence[Artifact], capabilities: Capabilities) -> list[Lack]:
    """The artifacts of the device's vendor that are for other architectures."""
    numbers: dict[str, int] = {}
    lacks = []
    for artifact in artifacts:
        target = artifact.manifest.target
        number = numbers[target] = numbers.get(target, -1) + 1
        rules = rules_for(target)
        if rules is None or listed(target) in capabilities.targets:
            continue
        if why := rules.lacking_architecture(target, capabilities):
            lacks.append(Lack(target, number, (why,)))
    return lacks


def _advice(artifacts: Sequence[Artifact], capabilities: Capabilities) -> str:
    """What to do where a variant for the device is made for another size of its subgroups."""
    sizes = capabilities.subgroup_sizes
    for a in artifacts:
        loads = listed(a.manifest.target) in capabilities.targets
        if loads and sizes and a.manifest.subgroup not in (None, *sizes):
            size = " or ".join(map(str, sizes))
            return f"add a variant with SUBGROUP: {size} to the kernel's configuration"
    return ""
