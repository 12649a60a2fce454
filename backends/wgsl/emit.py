"""From kernel IR to WGSL.

Archs: `webgpu`, optionally with suffixes that allow what a device may lack where a portable form
exists: `webgpu:f16:dot4:atomic_f32_add`; the artifact then requires those features. The bindings
are those of SPIR-V (`ir.abi`). 64-bit types are not WebGPU's but of wgpu's native form; an artifact
that uses them requires `i64` or `f64`, which no browser has.

Subgroups: the kernel's size is to be demanded of the device, whose subgroups must take invocations
in the order of local_invocation_index, as all known devices do.
"""

from __future__ import annotations

from ...ir import abi, passes
from ...ir.core import Kernel, Op
from ...ir.passes.chains import CutChains
from ...ir.passes.unroll import Unroll
from ..compile import CompileError, Emitted, Options
from ..usage import ID_OPS, Usage, scan
from .arithmetic import LOWERINGS
from .control import Flow
from .ids import Ids
from .memory import Memories
from .subgroup import METHODS, Subgroups
from .support import support
from .writer import Writer

__all__ = ["ENTRY", "emit", "emit_lowered", "prepare", "split_arch"]

SHARED_BYTES = 64 << 10
INVOCATIONS = 1024
ENTRY = "main"
NATIVE = frozenset({"f16", "dot4", "atomic_f32_add", "component_stores"})


def split_arch(kernel: str, arch: str) -> frozenset[str]:
    """The native features that an arch allows. CompileError names what is known."""
    base, *suffixes = arch.split(":")
    if base != "webgpu" or not NATIVE.issuperset(suffixes):
        known = ", ".join(sorted(NATIVE))
        message = f"unknown arch {arch!r}; known: webgpu, with suffixes out of {known}"
        raise CompileError(kernel, f"wgsl-{arch}", message)
    return frozenset(suffixes)


def emit(kernel: Kernel, arch: str, options: Options) -> Emitted:
    """The module of a kernel. CompileError for what cannot be expressed."""
    native = split_arch(kernel.name, arch)
    return emit_lowered(prepare(kernel, options, native), native, f"wgsl-{arch}")


def prepare(kernel: Kernel, options: Options, native: frozenset[str] = frozenset()) -> Kernel:
    """The kernel after the passes of this target."""
    unroll = Unroll(max_trips=4, budget=48)  # drivers do it themselves
    steps = passes.standard(
        support(kernel, native), checks=options.checks, unroll=unroll, renumber=False
    )
    return passes.run(kernel, (*steps, CutChains()))


def emit_lowered(
    kernel: Kernel, native: frozenset[str] = frozenset(), target: str = "wgsl-webgpu"
) -> Emitted:
    """Write a legalized kernel."""
    usage = scan(kernel)
    w = Writer(kernel, target, native)
    w.sees_lanes = usage.lanes
    body = _Body(w, usage)
    Flow(w, body.lower).region(kernel.body)
    text = w.module(ENTRY, body.ids.size, body.ids.builtins(), body.ids.depth())
    return Emitted(
        text.encode("utf-8"),
        ENTRY,
        requires=tuple(sorted(w.requires)),
        shared_bytes=body.memories.shared_bytes,
        sites=kernel.sites,
        facts={"loop_turns": usage.turns.bound, "open_loops": usage.turns.open},
    )


class _Body:
    """The lowering of one kernel's ops."""

    def __init__(self, w: Writer, usage: Usage) -> None:
        self.w = w
        self.memories = Memories(w, usage)
        self.ids = Ids(w, usage)
        self.subgroups = Subgroups(w, self.ids)
        self.ids.bind_scalars()
        self.ids.prepare()
        self.counts = self.ids.counts()
        if w.kernel.sites:
            number = len(abi.memory_params(w.kernel.params)) + 1
            w.globals.append(
                f"@group(0) @binding({number}) var<storage, read_write> faults: array<atomic<u32>>;"
            )

    def lower(self, op: Op) -> None:
        """Write one op that is not control flow."""
        name, w = op.name, self.w
        if (pure := LOWERINGS.get(name)) is not None:
            pure(w, op)
        elif name in ID_OPS:
            w.bind(op.results[0], self.ids.get(op))
        elif name in METHODS:
            METHODS[name](self.subgroups, op)
        elif name == "load":
            self.memories.load(op)
        elif name == "store":
            self.memories.store(op)
        elif name == "alloc":
            self.memories.allocate(op)
        elif name == "count":
            self.memories.count(op, self.counts)
        elif name == "atomic":
            self.memories.atomic(op)
        elif name == "compare_exchange":
            self.memories.compare_exchange(op)
        elif name == "barrier":
            w.line("storageBarrier();")
            w.line("workgroupBarrier();")
        elif name == "assert":
            self.check(op)
        else:
            raise w.fail(f"op {name} has no WGSL form")

    def check(self, op: Op) -> None:
        """Set the site's fault bit where the condition does not hold."""
        w, site = self.w, op.attr("site")
        with w.block(f"if !({w.use(op.operands[0])}) {{"):
            place = w.let(f"{self.ids.word(self.ids.layout.fault_base)} + {site}u", "site")
            w.line(f"atomicOr(&faults[{place} >> 5u], 1u << ({place} & 31u));")
