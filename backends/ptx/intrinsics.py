"""The intrinsics of LLVM that this emitter may use, and no other.

LLVM ends its process on one that the target cannot select (every transcendental function is such)
and takes an unknown name for a function of another module, so a name is looked up here before the
text reaches LLVM. What is not `nvvm` any target of LLVM can run; the `nvvm` ones are what a model
of the hardware has to provide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..simt.intrinsics import COMMON, alternatives

NVVM: dict[str, str] = {
    "read.ptx.sreg.tid.{x,y,z}": "local id",
    "read.ptx.sreg.ctaid.{x,y,z}": "group id",
    "read.ptx.sreg.nctaid.{x,y,z}": "groups of the launch",
    "barrier.cta.sync.aligned.all": "all threads of a workgroup wait; orders all memory",
    "shfl.sync.{idx,up,down,bfly}.{i32,f32}": "mask, value, lane operand, clamp",
    "redux.sync.{add,min,max,umin,umax,and,or,xor}": "value, mask; i32, sm_80 on",
    "vote.ballot.sync": "mask, vote; i32",
    "vote.{any,all}.sync": "mask, vote",
    "idp4a.{s,u}.{s,u}": "four 8-bit products added to the third operand",
    "mma.m16n8k{8,16}.row.col.{f32.f32,bf16}": "registers of a, b and the sum; sm_80 on",
    "mma.m16n8k{8,16}.row.col.f16.f16": "the same with a sum in f16; k8 of f16: sm_75 on",
    "mma.m16n8k{4,8}.row.col.tf32": "the same of f32 with 11 significant bits",
    "mma.m16n8k{16,32}.row.col.{s8,u8,s8.u8,u8.s8}": "the same of bytes, with a sum in i32",
    "mma.m8n8k16.row.col.{s8,u8,s8.u8,u8.s8}": "the same of 8 rows; sm_75 on",
    "mma.m16n8k32.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32": "of 8-bit floats; sm_89 on",
    "ldmatrix.sync.aligned.m8n8.{x1,x2,x4}{,.trans}.b16.p3": "address of this lane's row",
    "cp.async.ca.shared.global.{4,8,16}{,.s}": "to, from and bytes that are not zeroed; sm_80 on",
    "cp.async.cg.shared.global.16{,.s}": "the same past the L1 cache",
    "cp.async.commit.group": "what was issued since the last one becomes a group",
    "cp.async.wait.{group,all}": "all groups but the last so many are done",
    "e{4m3,5m2}x2.to.f16x2.rn": "two 8-bit floats as f16; sm_89 on",
    "ff.to.e{4m3,5m2}x2.rn": "two f32, the upper one first, as 8-bit floats; saturates; sm_89 on",
    "ff2{f16,bf16}x2.rn": "two f32, the upper one first, as a pair; sm_80 on",
    "f2tf32.rna": "f32 rounded to 11 significant bits; sm_80 on",
    "prmt": "bytes of two words, chosen by four bits each",
    "fma.rn.f16{,x2}": "whether or not f32 flushes denormals, which `llvm.fma` goes by",
    "ex2.approx.ftz.f": "2**x, `fast` only",
    "lg2.approx.ftz.f": "log2(x), `fast` only",
    "sin.approx.ftz.f": "`fast` only",
    "cos.approx.ftz.f": "`fast` only",
    "rsqrt.approx.ftz.f": "`fast` only",
    "mbarrier.init.shared": "mbarrier, arrivals of a phase; sm_90 on, as all that follow",
    "mbarrier.arrive{,.expect.tx}.scope.cta.space.cta": "mbarrier, arrivals or bytes",
    "mbarrier.try.wait.parity.scope.cta.space.cta": "mbarrier, parity; may wait for a while",
    "fence.mbarrier_init.release.cluster": "initialised mbarriers are seen",
    "fence.proxy.async.shared_cta": "writes are seen by the copy engine and by products",
    "cp.async.bulk.global.to.shared.cluster": "to, mbarrier, from, bytes, mask, hint, flags",
    "cp.async.bulk.shared.cta.to.global": "to, from, bytes, hint, flag",
    "cp.async.bulk.tensor.g2s.tile.{1,2,3,4,5}d": "to, mbarrier, map, coordinates, mask, hint, ...",
    "cp.async.bulk.tensor.s2g.tile.{1,2,3,4,5}d": "from, map, coordinates, hint, flag",
    "cp.async.bulk.tensor.prefetch.tile.{1,2,3,4,5}d": "map, coordinates, hint, flag",
    "cp.async.bulk.commit.group": "stores since the last one become a group",
    "cp.async.bulk.wait.group{,.read}": "all groups but the last so many are done",
    "wgmma.{fence,commit_group}.sync.aligned": "sm_90a alone",
    "wgmma.wait_group.sync.aligned": "all groups but the last so many are done",
    "setmaxnreg.{inc,dec}.sync.aligned.u32": "registers of a thread from here on; sm_90a alone",
    "barrier.cta.{sync,arrive}.aligned.count": "barrier and threads",
    "read.ptx.sreg.cluster.ctarank": "number of the workgroup in its cluster",
    "barrier.cluster.{arrive,wait}": "the two halves of a barrier of a cluster",
    "mapa.shared.cluster": "address, rank: the same place of another workgroup of the cluster",
    "mbarrier.arrive.scope.cta.space.cluster": "mbarrier anywhere in the cluster, arrivals",
    "griddepcontrol.{wait,launch.dependents}": "dependent launches",
}

_ALLOWED = re.compile(
    "|".join(
        (
            *COMMON,
            r"llvm\.memset\.p0\.i64",
            *(r"llvm\.nvvm\." + alternatives(name) for name in NVVM),
        )
    )
)


def unknown(names: Iterable[str]) -> list[str]:
    """Those of the names that the tables lack."""
    return sorted(name for name in names if not _ALLOWED.fullmatch(name))
