"""LLVM behind one function: IR text in, relocatable object out.

Runs in a worker process of `backends.pool`: a fatal error of LLVM ends the process it runs in.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from . import external
from .machine import LLVM_VERSION, LlvmError, Machine

# Passes that a machine may name -> how llvmlite adds them. A function is combined once: whether
# once more would change it is not asked.
_PASSES = {
    "sroa": "add_sroa_pass",
    "loop-unroll": "add_loop_unroll_pass",
    "instcombine<no-verify-fixpoint>": "add_instruction_combine_pass",
    "simplifycfg": "add_simplify_cfg_pass",
}

# A module that reads well and is wrong all the same is a bug of an emitter: tests look for it.
_VERIFIES = ("1", "llvm")

__all__ = ["LLVM_VERSION", "LlvmError", "Machine", "emit_assembly", "emit_object"]


def emit_object(ir: str, machine: Machine, route: str = "llvmlite") -> bytes:
    """Optimise and assemble a module. route: one of `machine.ROUTES`; equal bytes in the
    sections of both."""
    if route != "llvmlite":
        return external.emit(ir, machine, "obj", route)
    blob: bytes = _compile(ir, machine, lambda target, module: target.emit_object(module))
    return blob


def emit_assembly(ir: str, machine: Machine, route: str = "llvmlite") -> str:
    """As `emit_object`, but the assembly text."""
    if route != "llvmlite":
        return external.emit(ir, machine, "asm", route).decode()
    text: str = _compile(ir, machine, lambda target, module: target.emit_assembly(module))
    return text


def _compile(ir: str, machine: Machine, finish: Any) -> Any:
    binding, target, layout = _target(machine)
    try:
        # A context of its own: names and types of earlier modules cannot leak into this one.
        module = binding.parse_assembly(ir, binding.create_context())
        module.triple = machine.triple
        module.data_layout = layout
        if os.environ.get("GRISTMILL_VERIFY") in _VERIFIES:
            module.verify()
    except RuntimeError as error:
        raise LlvmError(f"LLVM refuses the module: {error}") from error
    if machine.passes or machine.speed:
        _optimize(binding, target, module, machine)
    return finish(target, module)


def _optimize(binding: Any, target: Any, module: Any, machine: Machine) -> None:
    # The code is vectorised already, or is scalar on purpose: LLVM's own vectorisers have nothing
    # to find.
    options = binding.create_pipeline_tuning_options(speed_level=machine.speed)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_interleaving = False
    builder = binding.create_pass_builder(target, options)
    if not machine.passes:
        builder.getModulePassManager().run(module, builder)
        return
    manager = binding.create_new_module_pass_manager()
    for name in machine.passes:
        getattr(manager, _PASSES[name])()
    manager.run(module, builder)


@lru_cache
def _target(machine: Machine) -> tuple[Any, Any, str]:
    """LLVM's binding, its code generator and the layout of data."""
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
    return binding, target, str(target.target_data)
