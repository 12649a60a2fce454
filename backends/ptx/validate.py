"""Whether a PTX is what its label says, read from the text itself."""

from __future__ import annotations

import re

from ...ir.core import Kernel
from ...ir.extensions import gpu_layout
from ..compile import CompileError, Options
from . import nv
from .arch import ARCHS

_ENTRY = re.compile(r"\.visible \.entry (\w+)\((.*?)\)\s*(\.\w[^{]*)?\{", re.DOTALL)
_PARAM = re.compile(r"\.param (?:\.align (\d+) )?\.[busf](\d+)[^,\[]*(?:\[(\d+)\])?")
_CALL = re.compile(r"^\s*(?:\.extern \.func.*|call.*)$", re.MULTILINE)


def entry_name(text: bytes) -> str:
    """The name of the kernel of a PTX text; empty where it has none."""
    found = _ENTRY.search(text.decode("ascii", "replace"))
    return found[1] if found else ""


def validate(
    blob: bytes, arch: str, kernel: Kernel | None = None, options: Options | None = None
) -> None:
    """Check a PTX text: version, target, one entry, no calls. CompileError says what is wrong.

    Given the kernel, its name, parameters and workgroup size are checked as well.
    """
    text = blob.decode("ascii", "replace")
    target = f"ptx-{arch}"
    found = _ENTRY.findall(text)
    name = kernel.name if kernel is not None else found[0][0] if found else "?"

    def check(right: bool, message: str) -> None:
        if not right:
            raise CompileError(name, target, f"the PTX is wrong: {message}")

    row = ARCHS[arch]
    isas = (nv.suited(kernel, row).isa,) if kernel is not None else (row.isa, nv.ISA)
    for word, expected in ((".version", isas), (".target", (row.name,))):
        told = re.findall(rf"^{re.escape(word)} (\S+)", text, re.MULTILINE)
        right = len(told) == 1 and told[0] in expected
        check(right, f"{word} is {', '.join(told) or 'missing'}, not {expected[0]}")
    check(len(found) == 1, f"{len(found)} entries, not one")
    outside = _CALL.search(text)
    check(outside is None, f"it calls what it does not define: {outside and outside[0].strip()}")
    if kernel is None:
        return
    entry, params, directives = found[0]
    check(entry == kernel.name, f"its entry is {entry}")
    size = 0
    for align, bits, count in _PARAM.findall(params):
        natural = int(bits) // 8
        unit = int(align) if align and count else natural
        size = -(-size // unit) * unit + natural * int(count or 1)
    expected_size = gpu_layout(kernel).size
    check(size == expected_size, f"{size} bytes of parameters, not {expected_size}")
    x, y, z = kernel.workgroup
    check(f".reqntid {x}, {y}, {z}" in directives, f"its directives are {directives.strip()}")
