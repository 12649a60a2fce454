"""Kernels of one warp around one intrinsic, as LLVM IR that no emitter has written.

`x` and `y` are i32 buffers: register r of lane l is element 32 r + l.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gristmill.ir.core import Kernel
from kernel_text import kernel

LANES = 32


def one_warp() -> Kernel:
    """A kernel to put code into."""
    params = "x: i32 buffer read, y: i32 buffer readwrite"
    return kernel(params, "return", "32 1 1", "subgroup 32")


def with_body(
    lines: Sequence[str], declarations: Sequence[str], tile: int = 0
) -> Callable[[str], str]:
    """Replace the code of a kernel; `%lane` is the lane as i64. tile: words of `@tile`."""
    array = f"@tile = internal addrspace(3) global [{tile} x i32] undef, align 16\n"

    def edit(text: str) -> str:
        found = re.search(r"^(.*define [^\n]*\{\n).*?\n\}\n", text, re.S)
        assert found
        tid = "llvm.nvvm.read.ptx.sreg.tid.x"
        code = [f"  %tid = call i32 @{tid}()", "  %lane = zext i32 %tid to i64", *lines]
        tail = "\n".join([*code, "  ret void", "}", f"declare i32 @{tid}()", *declarations])
        return f"{array if tile else ''}{found[1]}entry:\n{tail}\n!0 = !{{}}\n"

    return edit


def at(n: int, buffer: int = 0) -> list[str]:
    """The address of register n: `%pB.n`."""
    base, name = f"ptr addrspace(1) %buffer{buffer}", f"%p{buffer}.{n}"
    return [
        f"  {name}.i = add i64 %lane, {LANES * n}",
        f"  {name} = getelementptr inbounds i32, {base}, i64 {name}.i",
    ]


def load(n: int) -> list[str]:
    """Register n of x as `%x.n`."""
    return [*at(n), f"  %x.{n} = load i32, ptr addrspace(1) %p0.{n}, align 4"]


def store(n: int, value: str) -> list[str]:
    return [*at(n, 1), f"  store i32 {value}, ptr addrspace(1) %p1.{n}, align 4"]


def unpack(result: str, types: Sequence[str]) -> list[str]:
    """Members of a struct into the registers of y."""
    whole = f"{{ {', '.join(types)} }}"
    lines = []
    for n, t in enumerate(types):
        lines.append(f"  %m.{n} = extractvalue {whole} {result}, {n}")
        value = f"%m.{n}"
        if t != "i32":
            lines.append(f"  %w.{n} = bitcast {t} %m.{n} to i32")
            value = f"%w.{n}"
        lines += store(n, value)
    return lines


def mma(
    name: str, operand: str, count: int, accumulator: str, sums: int = 4
) -> Callable[[str], str]:
    """`llvm.nvvm.mma.NAME`: y = the results; x: operands, then the registers of C."""
    types = [operand] * count + [accumulator] * sums
    result = f"{{ {', '.join([accumulator] * sums)} }}"
    lines, given = [], []
    for n, t in enumerate(types):
        lines += load(n)
        value = f"%x.{n}"
        if t != "i32":
            lines.append(f"  %a.{n} = bitcast i32 %x.{n} to {t}")
            value = f"%a.{n}"
        given.append(f"{t} {value}")
    lines.append(f"  %r = call {result} @llvm.nvvm.mma.{name}({', '.join(given)})")
    lines += unpack("%r", [accumulator] * sums)
    return with_body(lines, [f"declare {result} @llvm.nvvm.mma.{name}({', '.join(types)})"])


def ldmatrix(count: int, transposed: bool) -> Callable[[str], str]:
    """x (16 words of 32 lanes: 2048 bytes) into the tile; y = what `ldmatrix` gives for the rows
    that begin at 16 * (x[512 + lane])."""
    word = ".trans" if transposed else ""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{word}.b16.p3"
    result = "i32" if count == 1 else f"{{ {', '.join(['i32'] * count)} }}"
    lines = []
    for n in range(16):
        lines += load(n)
        lines.append(
            f"  %s.{n} = getelementptr inbounds i32, ptr addrspace(3) @tile, i64 %p0.{n}.i"
        )
        lines.append(f"  store i32 %x.{n}, ptr addrspace(3) %s.{n}, align 4")
    lines.append("  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")
    lines += load(16)
    lines.append("  %row = zext i32 %x.16 to i64")
    lines.append("  %at = getelementptr inbounds [4 x i32], ptr addrspace(3) @tile, i64 %row")
    lines.append(f"  %r = call {result} @{name}(ptr addrspace(3) %at)")
    lines += store(0, "%r") if count == 1 else unpack("%r", ["i32"] * count)
    return with_body(
        lines,
        [
            f"declare {result} @{name}(ptr addrspace(3))",
            "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)",
        ],
        tile=512,
    )


def copies(early: bool, given: int = 16, left: int = 0) -> Callable[[str], str]:
    """Each lane copies 16 bytes of x into the tile twice, in two groups, and then y = its own 8
    words. early: read before the wait. given: bytes that the second copy is given. left: groups
    that the wait leaves out."""
    copy = "llvm.nvvm.cp.async.cg.shared.global.16.s"
    lines = []
    for n in range(2):
        lines += [
            f"  %i.{n} = add i64 %lane, {LANES * n}",
            f"  %g.{n} = getelementptr inbounds [4 x i32], ptr addrspace(1) %buffer0, i64 %i.{n}",
            f"  %s.{n} = getelementptr inbounds [4 x i32], ptr addrspace(3) @tile, i64 %i.{n}",
            f"  call void @{copy}(ptr addrspace(3) %s.{n}, ptr addrspace(1) %g.{n}, "
            f"i32 {given if n else 16})",
            "  call void @llvm.nvvm.cp.async.commit.group()",
        ]
    wait = f"  call void @llvm.nvvm.cp.async.wait.group(i32 {left})"
    lines += [] if early else [wait]
    for n in range(8):
        lines += [
            f"  %e.{n} = getelementptr inbounds i32, ptr addrspace(3) %s.{n // 4}, i64 {n % 4}",
            f"  %v.{n} = load i32, ptr addrspace(3) %e.{n}, align 4",
            *store(n, f"%v.{n}"),
        ]
    lines += [wait] if early else []
    lines += ["  call void @llvm.nvvm.cp.async.wait.all()"] if left else []
    return with_body(
        lines,
        [
            f"declare void @{copy}(ptr addrspace(3), ptr addrspace(1), i32)",
            "declare void @llvm.nvvm.cp.async.commit.group()",
            "declare void @llvm.nvvm.cp.async.wait.group(i32)",
            "declare void @llvm.nvvm.cp.async.wait.all()",
        ],
        tile=256,
    )


def stmatrix(count: int, transposed: bool) -> Callable[[str], str]:
    """Register n of x, n < count, through `stmatrix` into the rows of 16 bytes 0, 1, ... of the
    tile; y = its words."""
    name = f"llvm.nvvm.stmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.b16.p3"
    lines = [line for n in range(count) for line in load(n)]
    given = ", ".join(f"i32 %x.{n}" for n in range(count))
    barrier = "call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"
    lines += [
        "  %row = getelementptr inbounds [4 x i32], ptr addrspace(3) @tile, i64 %lane",
        f"  call void @{name}(ptr addrspace(3) %row, {given})",
        f"  {barrier}",
    ]
    for n in range(count):
        lines += at(n, 1)
        lines += [
            f"  %s.{n} = getelementptr inbounds i32, ptr addrspace(3) @tile, i64 %p1.{n}.i",
            f"  %v.{n} = load i32, ptr addrspace(3) %s.{n}, align 4",
            f"  store i32 %v.{n}, ptr addrspace(1) %p1.{n}, align 4",
        ]
    types = ", ".join(["i32"] * count)
    return with_body(
        lines,
        [
            f"declare void @{name}(ptr addrspace(3), {types})",
            "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)",
        ],
        tile=LANES * 4,
    )


def bulk(announced: int = 128, waits: bool = True, parity: int = 0) -> Callable[[str], str]:
    """One elected lane copies 128 bytes of x into the tile in bulk; all wait; y = the tile.

    announced: bytes that the barrier is told of. waits: for the phase. parity: of that phase.
    """
    barrier = "ptr addrspace(3) @tile"
    data = "ptr addrspace(3) %data"
    go = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"
    try_wait = "llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta"
    copy = "llvm.nvvm.cp.async.bulk.global.to.shared.cluster"
    expect = "llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta"
    wait = [
        "  br label %waiting",
        "waiting:",
        f"  %over = call i1 @{try_wait}({barrier}, i32 {parity})",
        "  br i1 %over, label %through, label %waiting",
        "through:",
    ]
    lines = [
        "  %data = getelementptr inbounds i32, ptr addrspace(3) @tile, i64 4",
        "  %e = call { i32, i1 } @llvm.nvvm.elect.sync(i32 -1)",
        "  %one = extractvalue { i32, i1 } %e, 1",
        "  br i1 %one, label %first, label %all",
        "first:",
        f"  call void @llvm.nvvm.mbarrier.init.shared({barrier}, i32 1)",
        "  call void @llvm.nvvm.fence.mbarrier_init.release.cluster()",
        f"  %token = call i64 @{expect}({barrier}, i32 {announced})",
        f"  %there = addrspacecast {data} to ptr addrspace(7)",
        f"  call void @{copy}(ptr addrspace(7) %there, {barrier}, ptr addrspace(1) %buffer0, "
        "i32 128, i16 0, i64 0, i1 0, i1 0)",
        "  br label %all",
        "all:",
        go,
        *(wait if waits else []),
        "  %mine = getelementptr inbounds i32, ptr addrspace(3) %data, i64 %lane",
        "  %v = load i32, ptr addrspace(3) %mine, align 4",
        *store(0, "%v"),
    ]
    return with_body(
        lines,
        [
            "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)",
            "declare { i32, i1 } @llvm.nvvm.elect.sync(i32)",
            "declare void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3), i32)",
            "declare void @llvm.nvvm.fence.mbarrier_init.release.cluster()",
            f"declare i64 @{expect}(ptr addrspace(3), i32)",
            f"declare i1 @{try_wait}(ptr addrspace(3), i32)",
            f"declare void @{copy}(ptr addrspace(7), ptr addrspace(3), ptr addrspace(1), i32, i16, "
            "i64, i1, i1)",
        ],
        tile=4 + LANES,
    )
