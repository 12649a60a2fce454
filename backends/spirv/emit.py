"""From kernel IR to a SPIR-V module for Vulkan.

Archs: `vulkan1.1` (SPIR-V 1.3) and `vulkan1.3` (SPIR-V 1.6), each with optional suffixes that allow
native instructions where a portable form exists: `vulkan1.3:atomic_f32_add:dot4` (`native.NATIVE`
lists them); the artifact then requires those features. `emit` does not validate; `validate` does.

Subgroups: the kernel's size is to be demanded of the device, and full subgroups where the device
can promise them (VK_EXT_subgroup_size_control). The declared LocalSize allows that: its x is a
multiple of the size. Vulkan does not say which invocations form a subgroup; all drivers known take
them in the order of LocalInvocationIndex, which is what the kernel language defines.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Kernel, Loc, Op
from ..compile import CompileError, Emitted, Options
from ..divisors import divisors
from ..folds import folds
from ..usage import ID_OPS, id_key, scan
from ..zeros import zeros
from . import arithmetic, conversions, cooperative, sync, vectors
from .control import Flow
from .emitter import Emitter
from .ids import Ids, bind_scalars
from .memory import Memories
from .module import VERSIONS
from .native import FLOAT_CONTROLS, NATIVE
from .opcodes import Cap, Mode
from .opcodes import Op as S
from .subgroup import METHODS, Subgroups
from .validate import InvalidModuleError, check, instruction_offsets

__all__ = ["emit", "validate"]

SHARED_BYTES = 64 << 10  # what the largest Vulkan devices have; many have 32 KiB
INVOCATIONS = 1024

_PURE: dict[str, Callable[[Emitter, Op], int]] = {
    **arithmetic.LOWERINGS,
    **conversions.LOWERINGS,
    **vectors.LOWERINGS,
}
_ARITHMETIC_CAPS = {
    "f16": Cap.FLOAT16,
    "i16": Cap.INT16,
    "u16": Cap.INT16,
    "i8": Cap.INT8,
    "u8": Cap.INT8,
}
_WIDE_FEATURES = {Cap.INT64: "i64", Cap.FLOAT64: "f64"}


def split_arch(kernel: str, arch: str) -> tuple[str, frozenset[str]]:
    """An arch as (base, allowed native features). CompileError names what is known."""
    base, *suffixes = arch.split(":")
    if base not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise CompileError(kernel, f"spirv-{arch}", f"unknown arch {base!r}; known: {known}")
    odd = sorted(set(suffixes) - NATIVE)
    if odd:
        known = ", ".join(sorted(NATIVE))
        message = f"unknown suffix {', '.join(odd)}; known: {known}"
        raise CompileError(kernel, f"spirv-{arch}", message)
    return base, frozenset(suffixes)


def emit(kernel: Kernel, arch: str, options: Options) -> Emitted:
    """The module of a kernel: passes, then words. CompileError for what cannot be expressed."""
    base, native = split_arch(kernel.name, arch)
    matrices = cooperative.wanted(kernel) and not options.checks
    if matrices and (odd := cooperative.refused(kernel)):
        raise CompileError(kernel.name, f"spirv-{arch}", odd[1], odd[0].loc)
    return emit_lowered(prepare(kernel, options), base, native, arch)


def validate(
    blob: bytes, arch: str, kernel: Kernel | None = None, options: Options | None = None
) -> None:
    """Check a module with SPIRV-Tools; CompileError with the validator's words.

    Given the kernel that the module was emitted from, the error names its source line.
    """
    try:
        check(blob, arch.partition(":")[0])
    except InvalidModuleError as error:
        name, loc = error.entry, None
        if kernel is not None:
            name = kernel.name
            loc = _place(kernel, arch, options or Options(), blob, error.instruction)
        message = f"spirv-val refuses the module: {error.message}"
        raise CompileError(name, f"spirv-{arch}", message, loc) from error


def prepare(kernel: Kernel, options: Options) -> Kernel:
    """The kernel after the passes of this target."""
    from ...ir import passes
    from ...ir.passes.chains import CutChains
    from ...ir.passes.fragments import Fragments
    from ...ir.passes.fragments_hidden import HiddenFragments
    from ...ir.passes.unroll import Unroll
    from .support import support

    unroll = Unroll(max_trips=4, budget=48)  # drivers do it themselves
    native = cooperative.wanted(kernel) and not options.checks  # whose bounds cannot be checked
    steps = passes.standard(
        support(kernel, native and cooperative.of_bytes(kernel)),
        checks=options.checks,
        unroll=unroll,
        renumber=False,
        fragments=HiddenFragments() if native else Fragments(),
    )
    return passes.run(kernel, (*steps, CutChains()))


def _place(
    kernel: Kernel, arch: str, options: Options, blob: bytes, instruction: int
) -> Loc | None:
    """The source place of the n-th instruction (from 0) of the module of a kernel; None where
    another module comes of it, or where the instruction is not of the kernel's code."""
    base, native = split_arch(kernel.name, arch)
    marks: list[tuple[int, Loc]] = []
    again = emit_lowered(prepare(kernel, options), base, native, arch, marks)
    offsets = instruction_offsets(blob)
    if again.blob != blob or not 0 <= instruction < len(offsets):
        return None
    found = [loc for offset, loc in marks if offset <= offsets[instruction]]
    return found[-1] if found else None


def emit_lowered(
    kernel: Kernel,
    base: str,
    native: frozenset[str] = frozenset(),
    arch: str = "",
    marks: list[tuple[int, Loc]] | None = None,
) -> Emitted:
    """Emit a legalized kernel. `marks` gains the word of the module from which on its code comes
    from a source place."""
    usage = scan(kernel)
    e = Emitter(kernel, base, native, usage)
    e.marks = marks
    for dtype in sorted(usage.arithmetic):
        e.module.capabilities.add(_ARITHMETIC_CAPS[dtype])
        e.requires.add(dtype.replace("u", "i"))
    if cooperative.wanted(kernel):
        cooperative.declare(e)
    body = _Body(e)
    body.run()
    _float_controls(e)
    for capability, feature in _WIDE_FEATURES.items():
        if capability in e.module.capabilities:
            e.requires.add(feature)
    start = [2 << 16 | S.LABEL, e.first, *e.variables, *e.prologue]
    blob = e.module.assemble([*start, *e.code], body.ids.size)
    if marks is not None:  # from offsets in the code to those in the module, before its last word
        head = len(blob) // 4 - 1 - len(e.code)
        marks[:] = [(offset + head, loc) for offset, loc in marks]
    facts = {"loop_turns": usage.turns.bound, "open_loops": usage.turns.open}
    return Emitted(
        blob,
        kernel.name,
        requires=tuple(sorted(e.requires)),
        shared_bytes=body.memories.shared_bytes,
        sites=kernel.sites,
        facts=facts,
    )


class _Body:
    """The lowering of one kernel's ops, with the tables that need state."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        self.ids = Ids(e)
        self.memories = Memories(e)
        self.atomics = sync.Atomics(e, self.memories)
        self.subgroups = Subgroups(e, self.ids)
        self.matrices = cooperative.Matrices(e, self.memories) if e.module.vulkan_memory else None

    def run(self) -> None:
        bind_scalars(self.e, self.ids)
        self.ids.prepare(self.e.usage.ids)
        usage = self.e.usage
        if usage.divides or usage.folds or usage.wide_flags:
            self.hide_operands()
        # Not kept here: a cycle would leave all of the emission to the collector.
        Flow(self.e, self.lower).region(self.e.kernel.body)

    def hide_operands(self) -> None:
        e = self.e
        if e.usage.divides:
            e.zeros = zeros(e.kernel)
        e.folds = folds(e.kernel, e.zeros if e.usage.divides else None)
        if e.folds and not e.usage.divides:
            e.zeros = zeros(e.kernel)
        e.divisors = divisors(e.kernel)
        divided = e.usage.divides and bool(e.zeros or e.divisors or e.usage.lanes)
        if divided or e.folds or e.usage.wide_flags:
            # No launch has 2**31 workgroups in x and in y.
            first = self.ids.layout.grid
            both = e.early(S.BITWISE_AND, e.module.u32, *map(self.ids.word, (first, first + 1)))
            high = e.module.word(31)
            e.nothing = e.early(S.SHIFT_RIGHT_LOGICAL, e.module.u32, both, high)

    def lower(self, e: Emitter, op: Op) -> None:
        """Emit one op that is not control flow."""
        e.at(op.loc)
        name, results = op.name, op.results
        pure = _PURE.get(name)
        if self.matrices is not None and cooperative.has_fragment(op):
            self.matrices.lower(op)
        elif pure is not None:
            e.define(results[0], pure(e, op))
        elif name in _EFFECTS:
            _EFFECTS[name](self, op)
        elif name in ID_OPS:
            e.define(op.results[0], self.ids.get(*id_key(op)))
        elif name in METHODS:
            e.define(op.results[0], METHODS[name](self.subgroups, op))
        elif name not in ("print", "breakpoint"):
            raise e.fail(f"op {name} has no SPIR-V form: legalize expands it")

    def count(self, op: Op) -> None:
        memory, e = op.operands[0], self.e
        number = self.memories.buffer_number(memory)
        if number is not None:
            e.define(op.results[0], self.ids.count(number))
            return
        size = getattr(memory.type, "count", None)
        assert isinstance(size, int)
        e.define(op.results[0], e.int_const(size, e.kernel.index.bits))

    def check(self, op: Op) -> None:
        base = self.ids.word(self.ids.layout.fault_base)
        self.atomics.check(op, base, self.ids.binding + 1)

    def load(self, op: Op) -> None:
        self.e.define(op.results[0], self.memories.load(op))

    def atomic(self, op: Op) -> None:
        self.e.define(op.results[0], self.atomics.atomic(op))

    def compare_exchange(self, op: Op) -> None:
        self.e.define(op.results[0], self.atomics.compare_exchange(op))


_EFFECTS: dict[str, Callable[[_Body, Op], None]] = {
    "load": _Body.load,
    "store": lambda body, op: body.memories.store(op),
    "alloc": lambda body, op: body.memories.allocate(op),
    "count": _Body.count,
    "assert": _Body.check,
    "atomic": _Body.atomic,
    "compare_exchange": _Body.compare_exchange,
    "barrier": lambda body, op: sync.barrier(body.e, op),
    "fence": lambda body, op: sync.fence(body.e, op),
    "subgroup_barrier": lambda body, op: sync.subgroup_barrier(body.e, op),
}

_CONTROLS = {
    "float_controls_rte": (Cap.ROUNDING_MODE_RTE, Mode.ROUNDING_MODE_RTE),
    "float_controls_denorm": (Cap.DENORM_PRESERVE, Mode.DENORM_PRESERVE),
    "float_controls_signed_zero_inf_nan": (
        Cap.SIGNED_ZERO_INF_NAN_PRESERVE,
        Mode.SIGNED_ZERO_INF_NAN_PRESERVE,
    ),
}


def _float_controls(e: Emitter) -> None:
    """Execution modes for f32 that the target's name asks for, and to nearest even for f16 where
    anything rounds to it: without the mode, drivers may as well round to zero."""
    modes = [(feature, 32) for feature in sorted(e.native & FLOAT_CONTROLS)]
    if e.usage.rounds_half:
        modes.append(("float_controls_rte", 16))
    for feature, bits in modes:
        capability, mode = _CONTROLS[feature]
        e.module.capabilities.add(capability)
        e.module.extension_in("SPV_KHR_float_controls", 0x00010400)
        e.module.mode(mode, bits)
        e.requires.add(feature if bits == 32 else "float_controls_rte16")
