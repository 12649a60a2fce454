"""From kernel IR to a SPIR-V module for Vulkan through LLVM.

The architectures and the calling convention are those of `backends.spirv`. What LLVM does not take,
or makes an invalid module of, is a `RouteError`: the kernel, the stage and the first words of the
tool.
"""

from __future__ import annotations

from ...ir import abi, passes
from ...ir.core import Kernel
from ...ir.passes.fragments import Fragments, has_fragments
from ...ir.passes.unroll import Unroll
from ..compile import CompileError, Emitted, Options, tool_error
from ..llvm.machine import LlvmError
from ..spirv.module import VERSIONS
from ..spirv.validate import InvalidModuleError, check
from ..usage import scan
from . import binary, interface, llc
from .corrections import correct
from .errors import RouteError, describe
from .kernel import write_kernel
from .lowering import LoweringError
from .support import SUPPORT

__all__ = ["INVOCATIONS", "SHARED_BYTES", "RouteError", "emit", "emit_lowered", "validate", "write"]

SHARED_BYTES = 64 << 10  # as `backends.spirv`
INVOCATIONS = 1024


def emit(kernel: Kernel, arch: str, options: Options) -> Emitted:
    """The module of a kernel. CompileError for what this target cannot run, RouteError for what
    LLVM cannot."""
    if arch not in VERSIONS:
        message = f"unknown arch {arch!r}; known by way of LLVM: {', '.join(VERSIONS)}"
        raise CompileError(kernel.name, f"spirv-{arch}", message)
    if dict(kernel.constexprs).get("COOPERATIVE") and has_fragments(kernel) and not options.checks:
        words = describe("llc", "LLVM 22 has no loads and stores of cooperative matrices")
        raise RouteError(kernel.name, f"spirv-{arch}", words)
    return emit_lowered(prepare(kernel, options), arch)


def prepare(kernel: Kernel, options: Options) -> Kernel:
    """The kernel after the passes of this target."""
    steps = passes.standard(
        SUPPORT,
        checks=options.checks,
        unroll=Unroll(max_trips=4, budget=48),  # drivers do it themselves
        renumber=False,
        fragments=Fragments(),
    )
    return passes.run(kernel, steps)


def write(kernel: Kernel) -> str:
    """The LLVM IR text of a prepared kernel, without its triple."""
    return write_kernel(kernel, scan(kernel))[0]


def emit_lowered(kernel: Kernel, arch: str) -> Emitted:
    """The module of a prepared kernel for `vulkan1.1` or `vulkan1.3`, valid."""
    usage, target = scan(kernel), f"spirv-{arch}"
    if usage.subgroups and kernel.subgroup is None:
        message = "subgroup ops need a subgroup size: give the kernel a SUBGROUP constexpr"
        raise CompileError(kernel.name, target, message)
    try:
        text, x = write_kernel(kernel, usage)
    except LoweringError as error:
        raise CompileError(kernel.name, target, error.message, error.loc) from error
    stage = "llc"
    try:
        module = binary.parse(llc.compile_module(text, arch))
        stage = "corrections"
        correct(module, arch, kernel.name, "contract" in kernel.fast)
        needs = interface.requires(module)
        blob = module.bytes()
        stage = "spirv-val"
        check(blob, arch)
        stage = "interface"
        buffers = len(abi.memory_params(kernel.params))
        interface.check_interface(module, kernel.name, x.size, buffers)
    except LlvmError as error:  # no llc, or not left alone: not for want of a way through it
        raise tool_error(kernel.name, target, error) from error
    except llc.LlcTimeoutError as error:
        raise RouteError(kernel.name, target, describe("timeout", error)) from error
    except (llc.LlcError, ValueError) as error:  # InvalidModuleError is one
        raise RouteError(kernel.name, target, describe(stage, error)) from error
    facts = {"loop_turns": usage.turns.bound, "open_loops": usage.turns.open, "codegen": "llc"}
    return Emitted(
        blob,
        kernel.name,
        requires=needs,
        shared_bytes=x.memories.shared_bytes,
        sites=kernel.sites,
        facts=facts,
    )


def validate(
    blob: bytes, arch: str, kernel: Kernel | None = None, options: Options | None = None
) -> None:
    """Check a module with SPIRV-Tools once more, as the build does with every artifact."""
    try:
        check(blob, arch)
    except InvalidModuleError as error:
        words = describe("spirv-val", error.message)
        raise RouteError(error.entry, f"spirv-{arch}", words) from error
