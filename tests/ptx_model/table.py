"""The intrinsics that the model has, each a C function of `runtime/`.

`llvm.nvvm.a.b` is `nv_a_b` there. Arguments are passed as in C: an i1 as a byte, a pair of halves
as a 32-bit word. A result of several values goes through a pointer, the first argument of all.

To add one: a function in `runtime/`, a row here, and a test that knows its result from elsewhere.
What an emitter begins to use moves from `AHEAD` to `NVVM`.

LLVM is told as much of each function as it knows of the intrinsic when it makes PTX, so that it may
move the same code here as there.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """How LLVM may treat a function. placed: it is told the place of its call, for messages."""

    attributes: str
    placed: bool = True


PURE = Row("nounwind willreturn memory(none)", placed=False)
# Other lanes see a value, not memory.
WARP = Row("convergent nounwind memory(argmem: readwrite, inaccessiblemem: readwrite)")
BLOCK = Row("convergent nounwind")
COPY = Row("nounwind memory(argmem: readwrite, inaccessiblemem: readwrite)")
WAIT = Row("nounwind")

NVVM: dict[str, Row] = {
    "read.ptx.sreg.tid.{x,y,z}": PURE,
    "read.ptx.sreg.ctaid.{x,y,z}": PURE,
    "read.ptx.sreg.nctaid.{x,y,z}": PURE,
    "barrier.cta.sync.aligned.all": BLOCK,
    "shfl.sync.{idx,up,down,bfly}.{i32,f32}": WARP,
    "redux.sync.{add,min,max,umin,umax,and,or,xor}": WARP,
    "vote.ballot.sync": WARP,
    "vote.{any,all}.sync": WARP,
    "idp4a.{s,u}.{s,u}": PURE,
    "fma.rn.f16{,x2}": PURE,
    "prmt": PURE,
    "ex2.approx.ftz.f": PURE,
    "lg2.approx.ftz.f": PURE,
    "sin.approx.ftz.f": PURE,
    "cos.approx.ftz.f": PURE,
    "rsqrt.approx.ftz.f": PURE,
    "mma.m16n8k{8,16}.row.col.{f32.f32,bf16}": WARP,
    "mma.m16n8k{8,16}.row.col.f16.f16": WARP,
    "mma.m8n8k16.row.col.{s8,u8,s8.u8,u8.s8}": WARP,
    "mma.m16n8k32.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32": WARP,
    "mma.m16n8k{4,8}.row.col.tf32": WARP,
    "mma.m16n8k{16,32}.row.col.{s8,u8,s8.u8,u8.s8}": WARP,
    "ldmatrix.sync.aligned.m8n8.{x1,x2,x4}{,.trans}.b16.p3": WARP,
    "cp.async.ca.shared.global.{4,8,16}{,.s}": COPY,
    "cp.async.cg.shared.global.16{,.s}": COPY,
    "cp.async.commit.group": WAIT,
    "cp.async.wait.{group,all}": WAIT,
    "f2tf32.rna": PURE,
    "ff2{f16,bf16}x2.rn": PURE,
    "e{4m3,5m2}x2.to.f16x2.rn": PURE,
    "ff.to.e{4m3,5m2}x2.rn": PURE,
    "mbarrier.init.shared": BLOCK,
    "mbarrier.arrive{,.expect.tx}.scope.cta.space.cta": BLOCK,
    "mbarrier.try.wait.parity.scope.cta.space.cta": BLOCK,
    "fence.mbarrier_init.release.cluster": WAIT,
    "fence.proxy.async.shared_cta": WAIT,
    "cp.async.bulk.global.to.shared.cluster": BLOCK,
    "cp.async.bulk.shared.cta.to.global": WAIT,
    "cp.async.bulk.tensor.g2s.tile.{1,2,3,4,5}d": BLOCK,
    "cp.async.bulk.tensor.s2g.tile.{1,2,3,4,5}d": WAIT,
    "cp.async.bulk.tensor.prefetch.tile.{1,2,3,4,5}d": WAIT,
    "cp.async.bulk.commit.group": WAIT,
    "cp.async.bulk.wait.group{,.read}": WAIT,
    "wgmma.{fence,commit_group}.sync.aligned": BLOCK,
    "wgmma.wait_group.sync.aligned": BLOCK,
    "setmaxnreg.{inc,dec}.sync.aligned.u32": BLOCK,
    "barrier.cta.{sync,arrive}.aligned.count": BLOCK,
    "read.ptx.sreg.cluster.ctarank": PURE,
    "barrier.cluster.{arrive,wait}": BLOCK,
    "mapa.shared.cluster": BLOCK,
    "mbarrier.arrive.scope.cta.space.cluster": BLOCK,
    "griddepcontrol.{wait,launch.dependents}": WAIT,
}

# Modelled before an emitter uses it.
AHEAD: dict[str, Row] = {
    "stmatrix.sync.aligned.m8n8.{x1,x2,x4}{,.trans}.b16.p3": WARP,
    "mbarrier.inval.shared": BLOCK,
    "elect.sync": WARP,
    "bar.warp.sync": BLOCK,
    "read.ptx.sreg.ntid.{x,y,z}": PURE,
    "read.ptx.sreg.laneid": PURE,
}

# Intrinsics of any target which the host's code generator gets wrong.
OWN: dict[str, tuple[str, Row]] = {"llvm.fma.f16": ("model_fma_f16", PURE)}


class NotModelledError(Exception):
    """Code that the model cannot run: which."""


def names(pattern: str) -> list[str]:
    """`a.{b,c}` as `a.b` and `a.c`."""
    parts = re.split(r"\{(.*?)\}", pattern)
    choices = [p.split(",") if n % 2 else [p] for n, p in enumerate(parts)]
    return ["".join(words) for words in itertools.product(*choices)]


_ROWS = {name: row for pattern, row in (NVVM | AHEAD).items() for name in names(pattern)}


def symbol(name: str) -> str:
    """The C function of `a.b`, without `llvm.nvvm.`."""
    return "nv_" + re.sub(r"\W", "_", name)


def find(intrinsic: str) -> tuple[str, Row] | None:
    """C function and row of an intrinsic; None where the host has it itself. NotModelledError."""
    name = intrinsic.removeprefix("llvm.nvvm.")
    if name == intrinsic:
        return OWN.get(intrinsic)
    if name not in _ROWS:
        raise NotModelledError(f"the model lacks the intrinsic {intrinsic}: see tests/ptx_model")
    return symbol(name), _ROWS[name]
