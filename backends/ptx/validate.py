"""Whether a PTX is what its label says, read from the text itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest

from ...ir import abi, extensions
from ...ir.core import Kernel
from ...ir.dtypes import DTYPES, Access
from ...ir.interface import Param
from ...store.manifest import Manifest
from ..compile import CompileError
from . import nv
from .arch import ARCHS

_ENTRY = re.compile(r"\.visible \.entry (\w+)\((.*?)\)\s*(\.\w[^{]*)?\{", re.DOTALL)
_PARAM = re.compile(r"\.param (?:\.align (\d+) )?\.[busf](\d+)[^,\[]*(?:\[(\d+)\])?")
# With or without a predicate, alone on its line or behind a brace or another instruction.
_CALL = re.compile(r"(?:\.extern \.func|(?:^|[;{}])\s*(?:@!?%?\w+\s+)?call\b)[^;\n]*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Label:
    """What a PTX or a cubin is to hold. parameters: place and size of each in bytes. isa: the
    version of PTX; None in a cubin's label."""

    entry: str
    parameters: tuple[tuple[int, int], ...]
    workgroup: tuple[int, int, int]
    isa: str | None

    @staticmethod
    def of_kernel(kernel: Kernel, arch: str) -> Label:
        """For the kernel after its passes, which may add fault sites."""
        places = abi.gpu_places(kernel.params, extensions.gpu_layout(kernel))
        return Label(kernel.name, places, kernel.workgroup, nv.suited(kernel, ARCHS[arch]).isa)

    @staticmethod
    def of_manifest(manifest: Manifest) -> Label:
        params = [Param(p.name, p.kind, DTYPES[p.dtype], Access(p.access)) for p in manifest.params]
        facts = manifest.facts
        barrier, maps = "grid_barrier" in facts, len(facts.get("tensor_maps", ()))
        layout = abi.gpu_layout(params, bool(manifest.sites), barrier, maps)
        places = abi.gpu_places(params, layout)
        return Label(manifest.entry, places, manifest.workgroup, facts.get("ptx_isa"))


def entry_name(text: bytes) -> str:
    """The name of the kernel of a PTX text; empty where it has none."""
    found = _ENTRY.search(text.decode("ascii", "replace"))
    return found[1] if found else ""


def check_label(blob: bytes, manifest: Manifest) -> None:
    """Check a PTX text against its manifest. CompileError says what is wrong."""
    _check(blob, manifest.target.partition("-")[2], Label.of_manifest(manifest))


def validate(blob: bytes, arch: str, kernel: Kernel) -> None:
    """Check a PTX text against the kernel, after its passes, that it comes from."""
    _check(blob, arch, Label.of_kernel(kernel, arch))


def _check(blob: bytes, arch: str, label: Label) -> None:
    """Version, target, one entry with its parameters and workgroup, no calls."""
    text = blob.decode("ascii", "replace")
    found = _ENTRY.findall(text)

    def check(right: bool, message: str) -> None:
        if not right:
            raise CompileError(label.entry, f"ptx-{arch}", f"the PTX is wrong: {message}")

    for word, expected in ((".version", label.isa), (".target", ARCHS[arch].name)):
        told = re.findall(rf"^{re.escape(word)} (\S+)", text, re.MULTILINE)
        check(told == [expected], f"{word} is {', '.join(told) or 'missing'}, not {expected}")
    check(len(found) == 1, f"{len(found)} entries, not one")
    outside = _CALL.search(text)
    words = outside[0].strip("; {}\t\n") if outside else ""
    check(outside is None, f"it calls what it does not define: {words}")
    entry, params, directives = found[0]
    check(entry == label.entry, f"its entry is {entry}")
    check(*same_parameters(_parameters(params), label))
    x, y, z = label.workgroup
    named = f".reqntid {x}, {y}, {z}" in directives.splitlines()
    check(named, f"its directives are {directives.strip()}")


def same_parameters(found: tuple[tuple[int, int], ...], label: Label) -> tuple[bool, str]:
    """Whether an artifact has the parameters of its label, and what to say where not."""
    expected = label.parameters
    odd = [f"{a}, not {b}" for a, b in zip_longest(found, expected) if a != b]
    return not odd, f"its parameters (place, bytes) are {'; '.join(odd)}"


def _parameters(text: str) -> tuple[tuple[int, int], ...]:
    found, at = [], 0
    for align, bits, count in _PARAM.findall(text):
        natural = int(bits) // 8
        unit = int(align) if align and count else natural
        at = -(-at // unit) * unit
        found.append((at, natural * int(count or 1)))
        at += found[-1][1]
    return tuple(found)
