"""From kernel IR to a shared object for a host CPU.

The artifact exports

    void NAME(const uint64_t *args, uint32_t first, uint32_t last, void *scratch)

which runs the workgroups first .. last-1 (linear numbers) with the argument array of
`ir.abi.cpu_words`. `scratch` has the manifest's `scratch_bytes`, is aligned to 64 bytes and belongs
to one call at a time. The code calls nothing outside itself.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import passes
from ...ir.core import Kernel, walk
from ...ir.dtypes import MemType, Space
from ...ir.passes.support import ROUNDINGS, Support
from ...ir.runs import longest_run
from ..compile import CompileError, Emitted, Options, tool_error
from ..link import LinkError, link
from ..llvm import toolchain
from ..llvm.machine import Machine
from .arch import ARCHS, Arch
from .kernel import lanes_for, write_kernel
from .lowering import LoweringError

SHARED_BYTES = 1 << 24  # of the host's memory, so a bound against mistakes only
INVOCATIONS = 1 << 16
_LONG = 1500  # ops without a branch

_NATIVE = frozenset(
    (
        *(
            "fma",
            "rsqrt",
            "sign",
            "copysign",
            "isnan",
            "isinf",
            "isfinite",
            "mul_high",
            "dot4",
        ),
        *ROUNDINGS,
        *("popcount", "clz", "ctz", "reverse_bits", "subgroup_reduce", "subgroup_scan"),
        *("subgroup_shuffle_xor", "subgroup_shuffle_up", "subgroup_shuffle_down"),
        "subgroup_broadcast",
    )
)


def emit(kernel: Kernel, arch: str, options: Options) -> Emitted:
    """The shared object of a kernel. CompileError for what this target cannot run."""
    level = find_arch(kernel.name, arch)
    if not kernel.name.isascii():
        message = (
            f"a shared object has no kernel of the name {kernel.name!r}: a name is made of ASCII "
            "letters, digits and underscores"
        )
        raise CompileError(kernel.name, f"cpu-{arch}", message)
    kernel = prepare(kernel, options)
    text, scratch = write(kernel, level)
    try:
        code = toolchain.emit_object(text, machine_for(kernel, level), options.llvm)
        blob = link(code, exports=(kernel.name,))
    except (LinkError, toolchain.LlvmError) as error:
        raise tool_error(kernel.name, f"cpu-{arch}", error) from error
    return Emitted(
        blob,
        kernel.name,
        shared_bytes=_shared(kernel),
        scratch_bytes=scratch,
        sites=kernel.sites,
        facts={"lanes": lanes_for(kernel, level)},
    )


def machine_for(kernel: Kernel, arch: Arch) -> Machine:
    """What LLVM does for a prepared kernel: for long code without a branch, of which its passes
    take a time that grows with the square, none of them."""
    if longest_run(kernel) <= _LONG:
        return arch.machine
    return replace(arch.machine, speed=0, opt=1)


def find_arch(kernel: str, name: str) -> Arch:
    """The architecture of this name. CompileError names the known ones."""
    if name not in ARCHS:
        known = ", ".join(ARCHS)
        raise CompileError(kernel, f"cpu-{name}", f"unknown architecture {name!r}; known: {known}")
    return ARCHS[name]


def prepare(kernel: Kernel, options: Options) -> Kernel:
    """The kernel after the passes of this target."""
    return passes.run(kernel, passes.standard(support(), checks=options.checks))


def support() -> Support:
    """What this emitter has code for; legalization expands the rest. A fused multiply-add is never
    replaced by an unfused one: where a level lacks f64's, the emitter refuses it."""
    return Support(native=_NATIVE)


def write(kernel: Kernel, arch: Arch) -> tuple[str, int]:
    """The LLVM module of a prepared kernel and its scratch bytes."""
    try:
        return write_kernel(kernel, arch)
    except LoweringError as error:
        raise CompileError(kernel.name, f"cpu-{arch.name}", error.message, error.loc) from error


def _shared(kernel: Kernel) -> int:
    types = (op.result.type for op in walk(kernel.body) if op.name == "alloc")
    arrays = (t for t in types if isinstance(t, MemType) and t.space is Space.WORKGROUP)
    return sum((t.count or 0) * t.element.bytes for t in arrays)
