"""Kernels in LLVM IR for the emulator's tests of gfx9: a frame around a body, and its parts."""

from __future__ import annotations

from emulator_tools import FOOTER, HEADER, compile_ir

PROCESSORS = ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx9-4-generic"]
DECLARATIONS = """
declare i32 @llvm.amdgcn.workitem.id.y()
declare i32 @llvm.amdgcn.workitem.id.z()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare void @llvm.amdgcn.s.barrier()
declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32 immarg, i32 immarg, i32 immarg, i1 immarg)
declare i32 @llvm.amdgcn.readlane.i32(i32, i32)
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
declare i64 @llvm.amdgcn.ballot.i64(i1)
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare i32 @llvm.amdgcn.mbcnt.lo(i32, i32)
declare i32 @llvm.amdgcn.mbcnt.hi(i32, i32)
@lds = internal addrspace(3) global [256 x i32] poison, align 16
@sum = internal addrspace(3) global i32 poison, align 4
"""
BARRIER = """
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
"""


def module(body: str, arguments: str, size: int = 256, version: int = 500) -> str:
    """A kernel `k` whose body has %thread, %group, %index32 and %index (64 bits)."""
    start = f"""
define amdgpu_kernel void @k({arguments}) #0 {{
entry:
  %thread = call i32 @llvm.amdgcn.workitem.id.x()
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %first = mul i32 %group, {size}
  %index32 = add i32 %first, %thread
  %index = zext i32 %index32 to i64
"""
    tail = FOOTER.format(size=size, extra="").replace("i32 500", f"i32 {version}")
    return HEADER + DECLARATIONS + start + body + "\n}\n" + tail


def compiled(processor: str, body: str, arguments: str, size: int = 256) -> bytes:
    version = 600 if "generic" in processor else 500
    return compile_ir(module(body, arguments, size, version), processor)


POINTERS = "ptr addrspace(1) noalias %a, ptr addrspace(1) noalias %out"
