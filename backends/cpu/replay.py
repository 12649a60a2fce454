"""The replay loop as an artifact: see `ir.replay_abi` for what it promises.

State and command number share one 64-bit word, so that a worker which takes workgroups learns in
the same step which command they belong to: one that comes late cannot act on the wrong command.
"""

from __future__ import annotations

import hashlib

from ...ir import replay_abi as abi
from ...store.manifest import Manifest
from ..compile import tool_error
from ..link import LinkError, link
from ..llvm import toolchain
from .arch import Arch
from .emit import find_arch

_LOOP = """
%command = type {{ ptr, ptr, i32, i32, i64 }}

define i32 @{entry}(
    ptr noalias readonly %commands, i32 %count, ptr %control, ptr %scratch, i32 %workers,
    i64 %budget
) nounwind "no-builtins" {{
entry:
  %alone = icmp eq i32 %workers, 1
  br i1 %alone, label %solo.head, label %look

solo.head:
  %i = phi i32 [ 0, %entry ], [ %i.next, %solo ]
  %more = icmp ult i32 %i, %count
  br i1 %more, label %solo, label %done
solo:
  %c = getelementptr %command, ptr %commands, i32 %i
  %c.f = load ptr, ptr %c
  %c.ap = getelementptr %command, ptr %c, i32 0, i32 1
  %c.a = load ptr, ptr %c.ap
  %c.gp = getelementptr %command, ptr %c, i32 0, i32 2
  %c.g = load i32, ptr %c.gp
  call void %c.f(ptr %c.a, i32 0, i32 %c.g, ptr %scratch)
  %i.next = add nuw i32 %i, 1
  br label %solo.head

look:
  %spins = phi i64 [ 0, %entry ], [ 0, %finish ], [ 0, %run ], [ %spins.next, %spin ]
  %state = load atomic i64, ptr %control acquire, align 64
  %position64 = lshr i64 %state, 32
  %position = trunc i64 %position64 to i32
  %over = icmp uge i32 %position, %count
  br i1 %over, label %done, label %check
check:
  %p = getelementptr %command, ptr %commands, i64 %position64
  %gp = getelementptr %command, ptr %p, i32 0, i32 2
  %groups.seen = load i32, ptr %gp
  %next.seen = trunc i64 %state to i32
  %left = icmp ult i32 %next.seen, %groups.seen
  br i1 %left, label %take, label %idle
take:
  %np = getelementptr %command, ptr %p, i32 0, i32 3
  %grain = load i32, ptr %np
  %step = zext i32 %grain to i64
  %got = atomicrmw add ptr %control, i64 %step acq_rel, align 64
  %at64 = lshr i64 %got, 32
  %at = trunc i64 %at64 to i32
  %at.over = icmp uge i32 %at, %count
  br i1 %at.over, label %done, label %taken
taken:
  %q = getelementptr %command, ptr %commands, i64 %at64
  %qgp = getelementptr %command, ptr %q, i32 0, i32 2
  %groups = load i32, ptr %qgp
  %first = trunc i64 %got to i32
  %some = icmp ult i32 %first, %groups
  br i1 %some, label %run.it, label %idle
run.it:
  %end = add nuw i32 %first, %grain
  %last = call i32 @llvm.umin.i32(i32 %end, i32 %groups)
  %f = load ptr, ptr %q
  %ap = getelementptr %command, ptr %q, i32 0, i32 1
  %a = load ptr, ptr %ap
  call void %f(ptr %a, i32 %first, i32 %last, ptr %scratch)
  br label %run
run:
  %mine = sub i32 %last, %first
  %fp = getelementptr i8, ptr %control, i64 {finished}
  %before = atomicrmw add ptr %fp, i32 %mine acq_rel, align 64
  %sum = add i32 %before, %mine
  %all = icmp eq i32 %sum, %groups
  br i1 %all, label %finish, label %look
finish:
  store atomic i32 0, ptr %fp monotonic, align 64
  %following = add i64 %at64, 1
  %fresh = shl i64 %following, 32
  store atomic i64 %fresh, ptr %control release, align 64
  br label %look

idle:
  %tired = icmp uge i64 %spins, %budget
  br i1 %tired, label %wait, label %spin
spin:
  {pause}
  %spins.next = add i64 %spins, 1
  br label %look
wait:
  ret i32 {waiting}
done:
  ret i32 {done}
}}
declare i32 @llvm.umin.i32(i32, i32)
"""
_PAUSES = {
    "x86_64": ("call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()\n"),
    "aarch64": ("call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)\n"),
}


def write_replay(arch: Arch) -> str:
    """The LLVM module of the replay loop."""
    pause, declaration = _PAUSES[arch.machine.triple.partition("-")[0]]
    loop = _LOOP.format(
        entry=abi.ENTRY, finished=abi.FINISHED, waiting=abi.WAITING, done=abi.DONE, pause=pause
    )
    return loop + declaration


def replay_artifact(arch: str, key: str = "", llvm: str = "llvmlite") -> tuple[bytes, Manifest]:
    """The replay loop for an architecture, with its manifest. Runs LLVM: call it in a worker.

    llvm: how LLVM is reached (`compile.Options`).
    """
    level = find_arch(abi.KERNEL, arch)
    try:
        code = toolchain.emit_object(write_replay(level), level.machine, llvm)
        blob = link(code, exports=(abi.ENTRY,))
    except (LinkError, toolchain.LlvmError) as error:
        raise tool_error(abi.KERNEL, f"cpu-{arch}", error) from error
    manifest = Manifest(
        kernel=abi.KERNEL,
        specialization=abi.SPECIALIZATION,
        target=f"cpu-{arch}",
        entry=abi.ENTRY,
        params=(),
        workgroup=(1, 1, 1),
        index="i32",
        key=key,
        sha256=hashlib.sha256(blob).hexdigest(),
        size=len(blob),
    )
    return blob, manifest
