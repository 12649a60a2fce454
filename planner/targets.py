"""What every device of a target has, for plans that are made where no such device is.

Portable targets promise less than their drivers give: of Vulkan and WebGPU this is what hardware
and software drivers have in common beyond the guaranteed minimum. Which of a kernel's variants runs
is chosen on the device, so that a plan loses nothing by that modesty; a device that has less yet
refuses the plan when it is loaded, and names what it lacks.
"""

from __future__ import annotations

from ..ir.targets import FEATURES, Capabilities, Limits, Target

DEVICES = {
    "interp": "interp",
    "cpu": "cpu",
    "spirv": "vulkan",
    "wgsl": "wgpu",
    "ptx": "cuda",
    "cubin": "cuda",
    "hsaco": "hsa",
}
_BIG = 1 << 40
_WIDE, _FAR = 1 << 16, 2**32 - 1
_HOST = Limits(_WIDE, (_WIDE, _WIDE, _WIDE), (_FAR, _FAR, _FAR), 1 << 24, _BIG, _BIG, 1024)
_GPU = Limits(1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535), 48 << 10, _BIG, _BIG, 64)
_PORTABLE = Limits(256, (256, 256, 64), (65535, 65535, 65535), 16 << 10, 1 << 28, 1 << 27, 16)
_LIMITS = {"interp": _HOST, "cpu": _HOST, "vulkan": _PORTABLE, "wgpu": _PORTABLE}
_COMMON = {
    "f16", "i8", "i16", "storage8", "storage16",
    "subgroup_basic", "subgroup_vote", "subgroup_arithmetic", "subgroup_ballot",
    "subgroup_shuffle", "subgroup_shuffle_relative", "subgroup_size_control",
}  # fmt: skip
# Code for an architecture needs nothing that the architecture lacks; portable code may.
_FEATURES = {
    **{device: frozenset(FEATURES) for device in ("interp", "cpu", "cuda", "hsa")},
    "vulkan": frozenset({*_COMMON, "i64"}),
    "wgpu": frozenset(_COMMON),
}
_WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128)
_SUBGROUPS = {"cuda": (32,), "hsa": (32, 64)}


def capabilities_of(name: str) -> Capabilities:
    """Of the devices that a target is for. Raises UnknownTargetError."""
    target = Target.parse(name)
    device = DEVICES[target.backend]
    features = _FEATURES[device]
    return Capabilities(
        device,
        f"any that loads {name}",
        "any",
        (name,),
        _LIMITS.get(device, _GPU),
        features,
        _SUBGROUPS.get(device, _WIDTHS),
        offset_alignment=256,
    )
