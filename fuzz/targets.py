"""The ways to run a program: a device of the runtime, or a function of any importable module.

A target is named as `runtime.open_device` takes it ("cpu", "vulkan:llvmpipe", ...), "scalar" (the
interpreter, judged by an evaluator that shares no code with it), "python" (the tracer, judged by
Python itself), or "python:MODULE.FUNCTION": what the function gives is a `Runner`, such as a model
of a machine that is not there.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import itertools
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .. import runtime
from ..backends.compile import (
    CompileError,
    CompilerCrashError,
    Options,
    backend,
    compile_kernel,
)
from ..ir.dtypes import DTYPES
from ..ir.targets import Capabilities
from ..ir.text import print_kernel
from ..runtime.registry import DRIVERS
from ..store.bundle import Entry, write_bundle
from .judge import GRAPHICS, IEEE, Numerics
from .program import Program

ALL_TYPES = frozenset(DTYPES)
_OWN = ("python", "scalar")  # targets that are no devices


class RefusedError(Exception):
    """A target cannot run a program, and said so by type; the reason, without names and places."""


class NoTargetError(ValueError):
    """A name that is no target's."""


class CrashError(Exception):
    """What compiles for a target broke over a program."""


class InvalidError(Exception):
    """What was made of a program is no valid artifact, or a driver does not take it."""


@dataclass(frozen=True)
class Traits:
    """What programs for a target may hold.

    types: of buffers. scarce: types whose arithmetic is rare, because a driver takes exponential
    time for chains of it. special: infinities and NaNs are promised. fences: their scopes.
    diverging: fences may stand where invocations have gone apart. near: ops with a bound.
    invocations: the most of a launch, roughly.
    """

    types: frozenset[str] = ALL_TYPES
    subgroups: tuple[int, ...] = (8,)
    atomics64: bool = True
    scarce: frozenset[str] = frozenset()
    special: bool = True
    fences: tuple[str, ...] = ("workgroup", "device")
    diverging: bool = True
    fragments: bool = True
    near: bool = True
    buffers: int = 64
    invocations: int = 1024
    numerics: Numerics = field(default=IEEE)


class Faults(tuple[int, int]):
    """The first fault site that was hit (-1: none), and how many were."""

    __slots__ = ()

    @staticmethod
    def of(sites: Sequence[int] | frozenset[int] | set[int]) -> Faults:
        return Faults((min(sites, default=-1), len(sites)))


class Runner(Protocol):
    """Runs programs on one target."""

    name: str
    traits: Traits

    def run(self, program: Program) -> tuple[list[Any], Faults]:
        """Arguments after the run, and the faults. `program.variant` chooses among several forms,
        such as with bounds checks. RefusedError, CrashError, InvalidError."""
        ...

    def close(self) -> None: ...


class DeviceRunner:
    """A device of the runtime: compile, write a bundle, load, launch."""

    def __init__(self, spec: str, timeout: float = 600.0, **options: Any) -> None:
        self.device = runtime.open_device(spec, timeout=timeout, **options)
        has = self.device.capabilities
        self.name = f"{has.device}: {has.name}"
        self.traits = traits_of(has)
        self.folder = Path(tempfile.mkdtemp(prefix="gristmill-fuzz-"))
        self.numbers = itertools.count()

    def run(self, program: Program) -> tuple[list[Any], Faults]:
        targets = self.device.capabilities.targets
        target = targets[program.variant % len(targets)]
        folder = self.folder / str(next(self.numbers))
        folder.mkdir()
        try:
            build(program, target, Options(checks=program.variant % 4 == 3), folder)
            return self.launch(program, runtime.open_bundle(folder))
        finally:
            shutil.rmtree(folder)

    def launch(self, program: Program, bundle: runtime.Bundle) -> tuple[list[Any], Faults]:
        kernel, device = program.kernel, self.device
        try:
            loaded = device.load(bundle, kernel.name, kernel.specialization)
        except runtime.Refused as error:
            raise RefusedError(_reason(error)) from error
        except runtime.DriverError as error:
            raise InvalidError(str(error)) from error
        arguments: list[Any] = []
        for param, value in zip(kernel.params, program.inputs, strict=True):
            if param.kind == "slot":
                assert isinstance(value, np.ndarray)
                arguments.append(device.slot(param.dtype, 0))
                device.write(arguments[-1], value)
            elif param.is_memory:
                assert isinstance(value, np.ndarray)
                arguments.append(device.upload(value, param.dtype))
            else:
                arguments.append(value)
        faults = Faults.of(())
        try:
            device.launch(loaded, *arguments, grid=program.grid)
            device.synchronize()
        except runtime.KernelFault as fault:
            faults = Faults((kernel.sites.index(fault.site), fault.others + 1))
        except runtime.LimitExceeded as error:
            raise RefusedError(error.what) from error
        results = [a.numpy() if isinstance(a, runtime.Buffer) else a for a in arguments]
        return results, faults

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(runtime.GristmillError):
            self.device.close()


def build(program: Program, target: str, options: Options, folder: Path) -> None:
    """Compile for a target and write a bundle of it. RefusedError, CrashError, InvalidError."""
    text = print_kernel(program.kernel)
    try:
        blob, manifest = compile_kernel(text, target, options)
    except CompileError as error:
        raise refusal(error) from error
    name, _, arch = target.partition("-")
    module = backend(name)
    try:
        if hasattr(module, "check_label"):
            module.check_label(blob, manifest)
        elif hasattr(module, "validate"):
            module.validate(blob, arch, program.kernel, options)
    except CompileError as error:
        raise InvalidError(error.message) from error
    (folder / "artifact").write_bytes(blob)
    write_bundle(folder, [Entry(manifest, "artifact", (None,) * len(manifest.sites))])


def refusal(error: CompileError) -> RefusedError | CrashError:
    """What an error of compiling is to the fuzzer."""
    return (CrashError if isinstance(error, CompilerCrashError) else RefusedError)(error.message)


def _reason(error: runtime.Refused) -> str:
    lacks = {missing for lack in error.refusal.lacks for missing in lack.missing}
    return ", ".join(sorted(lacks)) or "loads none of its targets"


# The features that types need, of Vulkan and WebGPU; and what Vulkan needs besides.
_NEEDS = {"f64": ("f64",), "i64": ("i64",), "u64": ("i64",)}
_NARROW = {
    **dict.fromkeys(("bool", "f8e4m3", "f8e5m2"), ("storage8",)),
    **dict.fromkeys(("i8", "u8"), ("storage8", "i8")),
    **dict.fromkeys(("i16", "u16"), ("storage16", "i16")),
    "f16": ("storage16", "f16", "float_controls_rte16"),
    "bf16": ("storage16",),
}


def traits_of(has: Capabilities) -> Traits:
    """What a device of the runtime takes, from what it says of itself."""
    kind, features = has.device.partition(":")[0], has.features
    if kind in ("vulkan", "wgpu"):
        needs = _NEEDS | (_NARROW if kind == "vulkan" else {})
        lacking = {t for t, wanted in needs.items() if not features.issuperset(wanted)}
        fences = ("workgroup", *(("device",) if "memory_model" in features else ()))
        return Traits(
            types=ALL_TYPES - lacking,
            subgroups=has.subgroup_sizes,
            atomics64={"atomic_i64", "atomic_shared_i64"} <= features,
            scarce=frozenset({"f16"}),
            special="float_controls_signed_zero_inf_nan" in features,
            fences=fences if kind == "vulkan" else (),
            # Mesa 22.3 lets invocations wait at a memory barrier, and forgets who was away.
            diverging="llvmpipe" not in has.name,
            # A product as plain code takes software drivers minutes to compile.
            fragments=not re.search("llvmpipe|SwiftShader", has.name),
            buffers=has.limits.buffers,
            numerics=GRAPHICS,
        )
    subgroups = tuple(n for n in has.subgroup_sizes if n in (2, 4, 8, 16, 32, 64))
    return Traits(subgroups=subgroups)


def open_runner(spec: str, timeout: float = 600.0) -> Runner:
    """The target of that name. Raises what opening a device raises, NoTargetError, ImportError,
    AttributeError."""
    kind, _, name = spec.partition(":")
    if kind == "null":
        raise NoTargetError("the device null computes nothing that could be compared; name another")
    if kind not in DRIVERS and spec not in _OWN and not (kind == "python" and "." in name):
        near = difflib.get_close_matches(kind, (*_OWN, *DRIVERS), 1)
        meant = f" (did you mean {near[0]!r}?)" if near and near[0] != kind else ""
        names = ", ".join((*sorted(set(DRIVERS) - {"null"}), *_OWN))
        raise NoTargetError(
            f"no device {spec!r}{meant}; expected one of {names} or python:MODULE.FUNCTION"
        )
    if spec == "scalar":
        from .scalar_runner import ScalarRunner

        return ScalarRunner()
    if spec == "interp":  # in other portions than the oracle, to which all else is the same
        from ..ir.interp import InterpOptions

        return DeviceRunner(spec, timeout, options=InterpOptions(lanes=40))
    if spec == "python":
        from .source_runner import SourceRunner

        return SourceRunner()
    if kind == "python":
        module, _, function = name.rpartition(".")
        made: Runner = getattr(importlib.import_module(module), function)()
        return made
    return DeviceRunner(spec, timeout)


__all__ = [
    "CrashError",
    "Faults",
    "InvalidError",
    "NoTargetError",
    "RefusedError",
    "Runner",
    "Traits",
    "open_runner",
    "refusal",
]
