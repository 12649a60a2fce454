"""From kernel IR to an artifact: one pure function over all backends.

`compile_kernel(text, target, options)` parses the IR text, runs the backend's passes and emitter
and returns the artifact's bytes with its manifest. It reads nothing but its arguments, keeps no
state between calls and never writes a file; the build calls it through the worker pool.
`compile_traced` does it for a kernel that was traced in the same process.

A backend is a package `backends.<name>` whose module `emit` has
    emit(kernel: Kernel, arch: str, options: Options) -> Emitted
    EXTENSIONS                             the features of `ir.extensions` that it knows; none
                                           where there is no such name
    SHARED_BYTES, INVOCATIONS              most workgroup memory and invocations of a workgroup
                                           that any device of the target has; None: no limit
and, where it can judge its output,
    check_label(blob, manifest)            CompileError for an artifact that does not hold what
                                           its manifest says; else
    validate(blob, arch, kernel, options)  CompileError for a wrong artifact
The build's keys hold the versions of the packages that configs/toolchain.yaml lists.
"""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ..ir import extensions
from ..ir.core import Kernel, Loc
from ..ir.garbage import uncollected
from ..ir.limits import MAX_ARTIFACT
from ..ir.recursion import deep
from ..ir.targets import Target
from ..ir.text import parse_kernel
from ..ir.verify import VerifyError, check_limits
from ..store.manifest import Manifest, ParamInfo
from .stages import stage


class CompileError(Exception):
    """A kernel that a target cannot be given: kernel, target, source place and reason."""

    def __init__(self, kernel: str, target: str, message: str, loc: Loc | None = None) -> None:
        place = f"{loc}: " if loc else ""
        super().__init__(f"{place}kernel {kernel} for {target}: {message}")
        self.kernel, self.target, self.message, self.loc = kernel, target, message, loc

    def __reduce__(self) -> tuple[Any, ...]:  # crosses process borders
        return type(self), (self.kernel, self.target, self.message, self.loc)


class CompileLimitError(CompileError):
    """A kernel that asks for more than the compiler takes on: time, memory, size, nesting."""


class CompilerCrashError(CompileError):
    """A kernel over which the compiler broke, or was ended: no word on whether a target can run
    it."""


def tool_error(kernel: str, target: str, error: Exception) -> CompileError:
    """The error of a kernel with which a tool failed: `error` is its own, `crashed` where the tool
    broke."""
    kind = CompilerCrashError if getattr(error, "crashed", False) else CompileError
    return kind(kernel, target, str(error))


@dataclass(frozen=True, slots=True)
class Options:
    """What a build may choose. checks: bounds-check every access (DESIGN: Faults). llvm: how LLVM
    is reached, `llvmlite` or the programs of `llc` or `clang`; the bytes are the same.
    spirv_codegen: what makes SPIR-V, the emitter here (`direct`) or LLVM's (`llc`)."""

    checks: bool = False
    llvm: str = "llvmlite"
    spirv_codegen: str = "direct"


@dataclass(frozen=True, slots=True)
class Emitted:
    """What an emitter gives back. `sites` are the kernel's fault sites after all passes."""

    blob: bytes
    entry: str
    requires: tuple[str, ...] = ()
    shared_bytes: int = 0
    scratch_bytes: int = 0
    sites: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


def backend(name: str, options: Options | None = None) -> ModuleType:
    """The emit module of a backend, imported on demand."""
    if options is not None:
        name = stage(name, {"spirv_codegen": options.spirv_codegen})
    return importlib.import_module(f"gristmill.backends.{name}.emit")


@uncollected()
def compile_kernel(
    text: str, target: str, options: Options, key: str = "", file: str = "<kernel IR>"
) -> tuple[bytes, Manifest]:
    """The artifact of one kernel for one target, and its manifest.

    Raises ParseError (bad IR text), UnknownTargetError, CompileError.
    """
    with deep():
        return _compile(parse_kernel(text, file), target, options, key, file)


@uncollected()
def compile_traced(
    kernel: Kernel, target: str, options: Options, key: str = "", file: str = "<kernel>"
) -> tuple[bytes, Manifest]:
    """The same of a kernel that this process has traced: without its text, which a build keeps
    between its steps. Errors are placed in the author's source. The bytes are the same.

    Raises UnknownTargetError, CompileError.
    """
    with deep():
        return _compile(kernel, target, options, key, file)


def _compile(
    kernel: Kernel, target: str, options: Options, key: str, file: str
) -> tuple[bytes, Manifest]:
    parsed = Target.parse(target)
    module = backend(parsed.backend, options)
    try:
        check_limits(kernel, module.SHARED_BYTES, module.INVOCATIONS)
    except VerifyError as error:
        raise CompileError(kernel.name, target, error.message, error.loc) from error
    known = getattr(module, "EXTENSIONS", ())
    for feature, op in extensions.used(kernel).items():
        if feature not in known:
            message = f"{op.name} needs {feature}, which this target does not have"
            raise CompileError(kernel.name, target, message, op.loc)
    try:
        emitted: Emitted = module.emit(kernel, parsed.arch, options)
    except CompileError as error:
        if error.loc is not None:
            raise
        # What concerns the kernel as a whole stands at its first line.
        raise type(error)(kernel.name, target, error.message, Loc(file, 1, 1)) from error
    except RecursionError as error:
        message = "statements nest too deeply for the compiler"
        raise CompileLimitError(kernel.name, target, message, Loc(file, 1, 1)) from error
    if len(emitted.blob) > MAX_ARTIFACT:
        message = f"an artifact of {len(emitted.blob)} bytes exceeds {MAX_ARTIFACT}; unroll less"
        raise CompileLimitError(kernel.name, target, message, Loc(file, 1, 1))
    return emitted.blob, _manifest(kernel, target, options, emitted, key)


def _manifest(kernel: Kernel, target: str, options: Options, out: Emitted, key: str) -> Manifest:
    return Manifest(
        kernel=kernel.name,
        specialization=kernel.specialization,
        target=target,
        entry=out.entry,
        params=tuple(
            ParamInfo(p.name, p.kind, str(p.dtype), p.access.value, p.may_alias)
            for p in kernel.params
        ),
        workgroup=kernel.workgroup,
        index=str(kernel.index),
        key=key,
        sha256=hashlib.sha256(out.blob).hexdigest(),
        size=len(out.blob),
        subgroup=kernel.subgroup,
        shared_bytes=out.shared_bytes,
        scratch_bytes=out.scratch_bytes,
        requires=tuple(sorted(out.requires)),
        sites=out.sites,
        grid=kernel.grid,
        constexprs=dict(kernel.constexprs),
        checks=options.checks,
        facts=out.facts,
    )
