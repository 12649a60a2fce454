"""The targets of a machine without a GPU: how the fuzzer opens each, and what that needs."""

from __future__ import annotations

from need import driver_file

SPECS = {
    "python": "python",
    "scalar": "scalar",
    "interp": "interp",
    "cpu": "cpu",
    "lavapipe": "vulkan:llvmpipe",
    "swiftshader": "vulkan:SwiftShader",
    "wgpu-lavapipe": "wgpu:llvmpipe",
    "wgpu-swiftshader": "wgpu:SwiftShader",
    "chromium": "python:fuzz_models.chromium",
    "aarch64": "python:fuzz_models.aarch64",
    "ptx": "python:fuzz_models.ptx",
    "gfx1100": "python:fuzz_models.gfx1100",
    "gfx1201": "python:fuzz_models.gfx1201",
    "gfx942": "python:fuzz_models.gfx942",
}
NEEDS = {
    "lavapipe": ("vulkan", "lavapipe"),
    "swiftshader": ("vulkan", "swiftshader"),
    "wgpu-lavapipe": ("wgpu", "lavapipe"),
    "wgpu-swiftshader": ("wgpu", "swiftshader"),
    "chromium": ("chromium",),
    "aarch64": ("qemu",),
    "ptx": ("gcc",),
    **dict.fromkeys(("gfx1100", "gfx1201", "gfx942"), ("llvm-objdump",)),
}


def environment(target: str) -> dict[str, str]:
    """The one Vulkan driver that a target is about."""
    manifest = driver_file(target.rpartition("-")[2]) if target in DRIVERS else None
    return {} if manifest is None else dict.fromkeys(_VARIABLES, str(manifest))


DRIVERS = ("lavapipe", "swiftshader", "wgpu-lavapipe", "wgpu-swiftshader")
_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
