"""Objects and code objects of AMD's for tests: from LLVM IR, and from assembly that says about
itself whatever a test wants."""

from __future__ import annotations

import atexit
import functools
import subprocess
from dataclasses import dataclass, field

from gristmill.backends.hsaco.processors import PROCESSORS
from gristmill.backends.llvm.toolchain import Machine
from gristmill.backends.pool import Pool
from need import llvm_tool

VERSIONS = {name: 6 if p.generic else 5 for name, p in PROCESSORS.items()}

# A table of constants that is reached by relocations, and a function that is called by them.
TABLE = """
@table = private unnamed_addr addrspace(4) constant [4 x float] [float 1.0, float 2.0, float 4.0, float 8.0]
define internal float @far(float %x) noinline {
  %y = fmul float %x, 3.0
  ret float %y
}
define amdgpu_kernel void @pick(ptr addrspace(1) %out, i32 %i, i64 %n) #0 {
  %q = getelementptr [4 x float], ptr addrspace(4) @table, i32 0, i32 %i
  %v = load float, ptr addrspace(4) %q
  %w = call float @far(float %v)
  store float %w, ptr addrspace(1) %out
  ret void
}
"""  # noqa: E501

PLAIN = """
define amdgpu_kernel void @plain(ptr addrspace(1) %out, i64 %n) #0 {
  store i64 %n, ptr addrspace(1) %out
  ret void
}
"""

_TAIL = """
attributes #0 = {{ nounwind "amdgpu-flat-work-group-size"="{size},{size}"
  "uniform-work-group-size"="true" }}
!llvm.module.flags = !{{!0}}
!0 = !{{i32 1, !"amdhsa_code_object_version", i32 {version}}}
"""


@functools.cache
def _pool() -> Pool:
    made = Pool(1, timeout=120)
    atexit.register(made.close)
    return made


@functools.cache
def built(text: str, target: str = "gfx1100", size: int = 256) -> bytes:
    """The object of LLVM IR, its kernels with the attributes #0. size: of their workgroups."""
    name, *settings = target.split(":")
    features = ",".join(s[-1] + s[:-1] for s in settings)
    machine = Machine("amdgcn-amd-amdhsa", name, features, speed=2)
    text += _TAIL.format(size=size, version=100 * VERSIONS[name])
    return _pool().run("gristmill.backends.llvm.toolchain:emit_object", text, machine)


@dataclass(frozen=True)
class Assembly:
    """A kernel `k` of one instruction, and what it says about itself in the descriptor and in the
    metadata. extra: lines of the kernel's metadata."""

    target: str = "gfx1100"
    lds: tuple[int, int] = (0, 0)
    scratch: tuple[int, int] = (0, 0)
    kernarg: tuple[int, int] = (36, 36)
    vgprs: tuple[int, int] = (8, 8)
    agprs: int | None = None
    spills: tuple[int, int] = (0, 0)  # of vector and of scalar registers, in the metadata
    wave32: tuple[bool, int] = (True, 32)
    dynamic_stack: tuple[int, int] = (0, 0)
    workgroup: int = 64
    arguments: tuple[tuple[int, int, str], ...] = field(
        default=(
            (0, 8, "global_buffer"), (8, 4, "by_value"), (16, 8, "by_value"),
            (24, 4, "by_value"), (28, 4, "by_value"), (32, 4, "by_value"),
        )
    )  # fmt: skip
    more: str = ""  # behind the descriptor

    def text(self) -> str:
        gfx9 = PROCESSORS[self.target.split(":")[0]].wavefront == 64
        accum = f"  .amdhsa_accum_offset {min(self.vgprs[0], 256)}\n" if self.unified() else ""
        wave = "" if gfx9 else f"  .amdhsa_wavefront_size32 {int(self.wave32[0])}\n"
        args = "".join(
            f"\n      - {{.offset: {at}, .size: {size}, .value_kind: {kind}}}"
            for at, size, kind in self.arguments
        )
        agprs = "" if self.agprs is None else f"\n    .agpr_count: {self.agprs}"
        mode = "" if gfx9 else "\n    .workgroup_processor_mode: 1"
        return f""".amdgcn_target "amdgcn-amd-amdhsa--{self.target}"
.amdhsa_code_object_version {VERSIONS[self.target.split(":")[0]]}
.text
.globl k
.p2align 8
.type k,@function
k:
  s_endpgm
.Lend:
.size k, .Lend-k
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_group_segment_fixed_size {self.lds[0]}
  .amdhsa_private_segment_fixed_size {self.scratch[0]}
  .amdhsa_kernarg_size {self.kernarg[0]}
  .amdhsa_uses_dynamic_stack {self.dynamic_stack[0]}
  .amdhsa_next_free_vgpr {self.vgprs[0] + (self.agprs or 0) * self.unified()}
  .amdhsa_next_free_sgpr 8
{accum}{wave}.end_amdhsa_kernel
{self.more}.amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.target: 'amdgcn-amd-amdhsa--{self.target}'
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: {self.kernarg[1]}
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {self.lds[1]}
    .private_segment_fixed_size: {self.scratch[1]}
    .uses_dynamic_stack: {"true" if self.dynamic_stack[1] else "false"}
    .wavefront_size: {self.wave32[1]}
    .max_flat_workgroup_size: {self.workgroup}
    .sgpr_count: 8
    .sgpr_spill_count: {self.spills[1]}
    .vgpr_spill_count: {self.spills[0]}
    .vgpr_count: {self.vgprs[1]}{agprs}{mode}
    .args:{args if self.arguments else " []"}
...
.end_amdgpu_metadata
"""

    def unified(self) -> bool:
        return PROCESSORS[self.target.split(":")[0]].unified

    def object(self) -> bytes:
        """The object that llvm-mc makes of it."""
        name, *settings = self.target.split(":")
        features = ",".join(s[-1] + s[:-1] for s in settings)
        command = [llvm_tool("llvm-mc") or "llvm-mc", "--triple=amdgcn-amd-amdhsa", "-filetype=obj"]
        command += [f"--mcpu={name}", f"--mattr={features}", "-o", "-", "-"]
        done = subprocess.run(command, input=self.text().encode(), capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode() + self.text()
        return done.stdout
