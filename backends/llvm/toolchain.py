"""LLVM behind one function: IR text in, relocatable object out.

Runs in a worker process of `backends.pool`: a fatal error of LLVM ends the process it runs in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

# The LLVM that the supported line of llvmlite (configs/toolchain.yaml) carries. Keys hold the
# package's version alone, so a package that was built with another LLVM is refused.
LLVM_VERSION = (22, 1)


@dataclass(frozen=True, slots=True)
class Machine:
    """What code is generated for. cpu: a fixed level name, never that of the build machine.

    speed: the level of the pass pipeline. opt: that of the code generator.
    """

    triple: str
    cpu: str
    features: str = ""
    speed: int = 1
    opt: int = 2
    reloc: str = "pic"
    codemodel: str = "small"


class LlvmError(Exception):
    """IR that LLVM does not accept, which is a bug of an emitter, or an LLVM of another version."""


def emit_object(ir: str, machine: Machine) -> bytes:
    """Verify, optimise and assemble a module."""
    return _compile(ir, machine, lambda target, module: target.emit_object(module))


def emit_assembly(ir: str, machine: Machine) -> str:
    """As `emit_object`, but the assembly text, for people and tests."""
    return _compile(ir, machine, lambda target, module: target.emit_assembly(module))


def _compile(ir: str, machine: Machine, finish: Any) -> Any:
    binding, target = _target(machine)
    try:
        # A context of its own: names and types of earlier modules cannot leak into this one.
        module = binding.parse_assembly(ir, binding.create_context())
        module.triple = machine.triple
        module.data_layout = str(target.target_data)
        module.verify()
    except RuntimeError as error:
        raise LlvmError(f"LLVM refuses the module: {error}") from error
    _optimize(binding, target, module, machine.speed)
    return finish(target, module)


def _optimize(binding: Any, target: Any, module: Any, speed: int) -> None:
    # The code is vectorised already, or is scalar on purpose: LLVM's own vectorisers have nothing
    # to find.
    options = binding.create_pipeline_tuning_options(speed_level=speed)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_interleaving = False
    builder = binding.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)


@lru_cache
def _target(machine: Machine) -> tuple[Any, Any]:
    from llvmlite import binding

    if binding.llvm_version_info[:2] != LLVM_VERSION:
        expected, found = (".".join(map(str, v)) for v in (LLVM_VERSION, binding.llvm_version_info))
        raise LlvmError(
            f"llvmlite was built with LLVM {found}, but artifacts are made with {expected}; "
            "install it from its wheel: pip install --force-reinstall 'gristmill[build]'"
        )
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(machine.triple).create_target_machine(
        cpu=machine.cpu,
        features=machine.features,
        opt=machine.opt,
        reloc=machine.reloc,
        codemodel=machine.codemodel,
    )
    return binding, target


def versions() -> tuple[str, ...]:
    """What shapes the output besides the project's own sources."""
    import llvmlite
    from llvmlite import binding

    return (
        f"llvmlite {llvmlite.__version__}",
        "llvm " + ".".join(map(str, binding.llvm_version_info)),
    )
