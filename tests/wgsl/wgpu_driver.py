"""Running WGSL through wgpu on a driver of this machine, beside the interpreter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from vulkan_driver import Driver


class WgpuDriver(Driver):
    """wgpu on one Vulkan driver in a process of its own."""

    CHILD = Path(__file__).with_name("wgpu_child.py")

    def submit(self, job: dict[str, Any]) -> list[bytes]:
        text = job["blob"].decode()
        # A layout made from the module has the bindings that the module uses.
        body = text[text.index("@compute") :]
        declared = re.findall(r"@binding\((\d+)\) var<[^>]*> (\w+):", text)
        used = [int(n) for n, name in declared if re.search(rf"\b{name}\b", body)]
        return super().submit({**job, "bindings": used})
