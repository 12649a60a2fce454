"""From kernel IR to PTX.

The artifact is PTX text with one entry, named as the kernel, whose parameters `ir.abi.gpu_layout`
lays out. `write` gives the LLVM IR text before optimisation: what a model of the hardware runs.
"""

from __future__ import annotations

import re

from ...ir import passes
from ...ir.core import Kernel, ops_named
from ...ir.dtypes import MemType, Space
from ...ir.passes.copies import PlainCopies
from ...ir.passes.float8 import Float8
from ...ir.passes.fragments import Fragments
from ...ir.passes.fragments_nv import NvFragments, multiplies
from ...ir.passes.support import ROUNDINGS, Support
from ...ir.passes.unroll import Unroll
from ...ir.verify import VerifyError, check_limits
from ..compile import CompileError, Emitted, Options, tool_error
from ..llvm import toolchain
from . import driver_faults, fast, nv, shared
from .arch import ARCHS, SUBGROUP, Arch
from .effort import thorough
from .kernel import write_kernel
from .lowering import LoweringError
from .validate import check_label, entry_name, validate

__all__ = [
    "check_label",
    "emit",
    "entry_name",
    "find_arch",
    "prepare",
    "validate",
    "write",
]

SHARED_BYTES = None  # as the architecture has it, and arrays may share bytes
INVOCATIONS = 1024
EXTENSIONS = nv.FEATURES
_WORKGROUP = (1024, 1024, 64)

# PTX takes more, but no other that is a Python name too: not `_` alone, and no constant of its own.
_NAME = re.compile(r"(?!WARP_SZ$)(?:[A-Za-z]|_(?=\w))\w*", re.ASCII)

_NATIVE = frozenset(
    (
        *("fma", "rsqrt", "sign", "copysign", "isnan", "isinf", "isfinite", "mul_high"),
        *ROUNDINGS,
        *("dot4", "popcount", "clz", "ctz", "reverse_bits", "subgroup_reduce", "subgroup_scan"),
        *("subgroup_shuffle_xor", "subgroup_shuffle_up", "subgroup_shuffle_down"),
        "subgroup_broadcast",
    )
)
_EXACT = Support(native=_NATIVE)
_FAST = Support(native=_NATIVE | {f"{name}:f32" for name in fast.FUNCTIONS})


def emit(kernel: Kernel, arch: str, options: Options) -> Emitted:
    """The PTX of a kernel. CompileError for what this target cannot run."""
    level = find_arch(kernel.name, arch)
    nv.check(kernel, f"ptx-{arch}", arch)
    kernel = prepare(kernel, options, level)
    level = nv.suited(kernel, level)
    block = shared.place_arrays(kernel)
    text = write(kernel, level, block)
    try:
        made = toolchain.emit_assembly(text, level.machine(thorough(kernel)), options.llvm)
    except toolchain.LlvmError as error:
        raise tool_error(kernel.name, f"ptx-{arch}", error) from error
    facts: dict[str, object] = {"ptx_isa": level.isa}
    if dynamic := shared.dynamic_bytes(block):
        facts["dynamic_shared_bytes"] = dynamic
    facts |= nv.facts(kernel)
    return Emitted(
        driver_faults.avoided(made).encode("ascii"),
        kernel.name,
        requires=nv.requires(kernel),
        shared_bytes=block.bytes,
        sites=kernel.sites,
        facts=facts,
    )


def find_arch(kernel: str, name: str) -> Arch:
    """The architecture of this name. CompileError names the known ones."""
    if name not in ARCHS:
        known = ", ".join(ARCHS)
        raise CompileError(kernel, f"ptx-{name}", f"unknown architecture {name!r}; known: {known}")
    return ARCHS[name]


def prepare(kernel: Kernel, options: Options, arch: Arch = ARCHS["sm_80"]) -> Kernel:
    """The kernel after the passes of this target."""
    support = _FAST if "approximate" in kernel.fast else _EXACT
    native = kernel.subgroup == SUBGROUP and multiplies(kernel, arch.products)
    fragments = NvFragments(arch.products, not options.checks) if native else Fragments()
    copies = None if arch.copies and not options.checks else PlainCopies()
    # The assembler unrolls loops itself, but makes no vectors, and LLVM makes private arrays into
    # registers before, where it sees that every index is a constant.
    unroll = Unroll(neighbours=not _has_private(kernel))
    steps = passes.standard(
        support,
        checks=options.checks,
        unroll=unroll,
        renumber=False,
        fragments=fragments,
        copies=copies,
        float8=Float8(arch.float8),
    )
    return passes.run(kernel, steps)


def _has_private(kernel: Kernel) -> bool:
    memories = (op.result.type for op in ops_named(kernel.body, "alloc"))
    return any(isinstance(m, MemType) and m.space is Space.PRIVATE for m in memories)


def write(kernel: Kernel, arch: Arch, block: shared.Block | None = None) -> str:
    """The LLVM IR text of a prepared kernel. CompileError at the source line that is refused.

    block: where its workgroup arrays lie, where that is known already.
    """
    target = f"ptx-{arch.name}"
    if not _NAME.fullmatch(kernel.name):
        message = (
            f"PTX has no kernel of the name {kernel.name!r}: a name is made of ASCII letters, "
            "digits and underscores, and is neither `_` nor `WARP_SZ`"
        )
        raise CompileError(kernel.name, target, message)
    if kernel.subgroup not in (None, 1, SUBGROUP):
        message = (
            f"a subgroup has {SUBGROUP} invocations here, not {kernel.subgroup}; "
            f"give a variant with SUBGROUP: {SUBGROUP}"
        )
        raise CompileError(kernel.name, target, message)
    try:
        check_limits(kernel, None, INVOCATIONS, _WORKGROUP)
        return write_kernel(kernel, arch, block or shared.place_arrays(kernel))
    except (VerifyError, LoweringError) as error:
        raise CompileError(kernel.name, target, error.message, error.loc) from error
