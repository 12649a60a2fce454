"""From kernel IR to a code object of AMD's GPUs.

The artifact is the linked code object with one kernel, named as the kernel, whose arguments
`ir.abi.gpu_layout` lays out. The architecture is AMD's target id: `gfx1100`, `gfx90a:xnack-`.
`write` gives the LLVM IR text before optimisation.
"""

from __future__ import annotations

import re
from typing import Any

from ...ir import passes
from ...ir.core import Kernel
from ...ir.extensions import used
from ...ir.passes.copies import PlainCopies
from ...ir.passes.float8 import Float8
from ...ir.passes.support import ROUNDINGS, Support
from ...ir.verify import VerifyError, check_limits
from ..compile import CompileError, Emitted, Options, tool_error
from ..llvm import toolchain
from . import arch as archs
from . import fast, fragments, lds
from .arch import Arch
from .effort import effort
from .kernel import write_kernel
from .link import LinkError, link_or_lld
from .lowering import LoweringError
from .validate import check_label, validate

__all__ = ["check_label", "emit", "find_arch", "prepare", "validate", "write"]

SHARED_BYTES = None  # as the processor has it, and arrays may share bytes
INVOCATIONS = 1024
EXTENSIONS = ("grid_barrier",)
_WORKGROUP = (1024, 1024, 1024)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

_NATIVE = frozenset(
    (
        *("fma", "rsqrt", "sign", "copysign", "isnan", "isinf", "isfinite", "mul_high"),
        *ROUNDINGS,
        *("dot4", "popcount", "clz", "ctz", "reverse_bits", "subgroup_reduce", "subgroup_scan"),
        *("subgroup_shuffle_xor", "subgroup_shuffle_up", "subgroup_shuffle_down"),
        *("subgroup_broadcast", *(f"{name}:f32" for name in sorted(fast.NATIVE))),
    )
)
_EXACT = Support(native=_NATIVE)
_FAST = Support(native=_NATIVE | {f"{name}:f32" for name in fast.FUNCTIONS})


def emit(kernel: Kernel, arch: str, options: Options) -> Emitted:
    """The code object of a kernel. CompileError for what this target cannot run."""
    chosen = find_arch(kernel, arch)
    kernel = prepare(kernel, options, chosen)
    blob, facts = assemble(kernel, chosen, options)
    if "grid_barrier" in used(kernel):
        facts["grid_barrier"] = True
    return Emitted(
        blob,
        kernel.name,
        requires=tuple(sorted(used(kernel))),
        shared_bytes=facts["lds_bytes"],
        sites=kernel.sites,
        facts=facts,
    )


def assemble(kernel: Kernel, arch: Arch, options: Options) -> tuple[bytes, dict[str, Any]]:
    """The code object of a prepared kernel, and its facts. CompileError as `emit`."""
    text = write(kernel, arch, lds.place_arrays(kernel))
    try:
        made = toolchain.emit_object(text, arch.machine(effort(kernel)), options.llvm)
        blob, linker = link_or_lld(made, [kernel.name])
    except (toolchain.LlvmError, LinkError) as error:
        raise tool_error(kernel.name, f"hsaco-{arch.target}", error) from error
    return blob, {**validate(blob, arch.target, kernel), **linker}


def find_arch(kernel: Kernel, target: str) -> Arch:
    """The processor of a target id, with the waves that a kernel needs. CompileError names the
    known processors, or the sizes of subgroups."""
    try:
        return archs.find(target, kernel.subgroup)
    except ValueError as error:
        raise CompileError(kernel.name, f"hsaco-{target}", str(error)) from error


def prepare(kernel: Kernel, options: Options, arch: Arch) -> Kernel:
    """The kernel after the passes of this target."""
    support = _FAST if "approximate" in kernel.fast else _EXACT
    steps = passes.standard(
        support,
        checks=options.checks,
        renumber=False,
        fragments=fragments.lowering(kernel, arch),
        copies=PlainCopies(joined=True),
        float8=Float8(pairs=True),
    )
    return passes.run(kernel, (*steps, *fragments.pairing(arch)))


def write(kernel: Kernel, arch: Arch, block: lds.Block | None = None) -> str:
    """The LLVM IR text of a prepared kernel. CompileError at the source line that is refused.

    block: where its workgroup arrays lie, where that is known already.
    """
    target = f"hsaco-{arch.target}"
    if not _NAME.fullmatch(kernel.name):
        message = (
            f"a code object has no kernel of the name {kernel.name!r}: a name is made of ASCII "
            "letters, digits and underscores"
        )
        raise CompileError(kernel.name, target, message)
    try:
        check_limits(kernel, None, INVOCATIONS, _WORKGROUP)
        return write_kernel(kernel, arch, block or lds.place_arrays(kernel))
    except (VerifyError, LoweringError) as error:
        raise CompileError(kernel.name, target, error.message, error.loc) from error
