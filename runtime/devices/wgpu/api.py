"""wgpu-native by the cffi objects that the `wgpu` package makes; none of its wrappers.

Its functions answer most wrong calls by ending the process, so that everything is checked before
one is called. What goes wrong anyway it tells a device's error callback (see `logical`).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...errors import NoDevice

VERSION = 29  # of wgpu-native, which wgpu 0.32 brings


class Api:
    """ffi, and `lib`: the library's functions and constants (tests put a stand-in there)."""

    def __init__(self) -> None:
        advice = "pip install 'gristmill[wgpu]'"
        try:
            native = import_module("wgpu.backends.wgpu_native")
        except ImportError as error:
            raise NoDevice("the wgpu package is not installed", do=advice) from error
        except (OSError, RuntimeError) as error:  # its library is missing, or does not load
            raise NoDevice(f"the library of the wgpu package: {error}", do=advice) from error
        self.ffi: Any = native.ffi
        self.lib: Any = native.lib
        number = int(self.lib.wgpuGetVersion())
        self.version = ".".join(str(number >> at & 0xFF) for at in (24, 16, 8, 0))
        if number >> 24 != VERSION:
            raise NoDevice(
                "another version of wgpu-native",
                expected=f"{VERSION}, as wgpu 0.32 brings it",
                got=self.version,
                do=advice,
            )

    def struct(self, type_: str, **fields: Any) -> Any:
        """A new struct; what its pointers point at, the caller keeps alive."""
        new = self.ffi.new(f"{type_} *")
        for name, value in fields.items():
            setattr(new, name, value)
        return new

    def chained(self, type_: str, tag: str, **fields: Any) -> tuple[Any, Any]:
        """A struct for another one's `nextInChain`, and the pointer for that."""
        new = self.struct(type_, **fields)
        new.chain.sType = getattr(self.lib, f"WGPUSType_{tag}")
        return new, self.ffi.addressof(new.chain)

    def text(self, view: Any) -> str:
        """What a WGPUStringView holds."""
        if not view.data or not view.length:
            return ""
        return bytes(self.ffi.buffer(view.data, view.length)).decode("utf-8", "replace")

    def view(self, text: bytes) -> tuple[Any, dict[str, Any]]:
        """The characters, to be kept alive, and the fields of a WGPUStringView of them."""
        chars = self.ffi.new("char[]", text)
        return chars, {"data": chars, "length": len(text)}
