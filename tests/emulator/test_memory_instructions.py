"""Loads, stores and atomics of every width and space, compiled by LLVM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from amdgpu_emulator import CodeObject
from emulator_tools import FOOTER, GROUP, HEADER, Case, check_all, compile_ir, launch, module

Array = np.ndarray[Any, Any]
PROCESSORS = ["gfx1100", "gfx1201", "gfx942"]

VECTORS = ["i8", "i16", "i32", "i64", "half", "double", "<2 x i32>", "<4 x i32>"]
VECTORS += ["<4 x i8>", "<2 x i16>", "<8 x i16>", "<2 x i64>"]


def through(space: int, kind: str) -> str:
    """IR that writes %a to a cell of its own in LDS (3) or private memory (5), then reads the
    neighbour's from LDS, its own from private memory."""
    if space == 3:
        return (
            f"%w = getelementptr [64 x {kind}], ptr addrspace(3) @lds_NAME, i32 0, i32 %thread\n"
            f"store {kind} %a, ptr addrspace(3) %w\n"
            'fence syncscope("workgroup") release\n call void @llvm.amdgcn.s.barrier()\n'
            'fence syncscope("workgroup") acquire\n'
            "%other = xor i32 %thread, 1\n"
            f"%v = getelementptr [64 x {kind}], ptr addrspace(3) @lds_NAME, i32 0, i32 %other\n"
            f"%r = load {kind}, ptr addrspace(3) %v"
        )
    return (
        f"%m = alloca [8 x {kind}], addrspace(5)\n %k = and i32 %thread, 7\n"
        f"%w = getelementptr [8 x {kind}], ptr addrspace(5) %m, i32 0, i32 %k\n"
        f"store volatile {kind} %a, ptr addrspace(5) %w\n"
        f"%r = load volatile {kind}, ptr addrspace(5) %w"
    )


def _neighbour(x: Array) -> Array:
    return x.reshape(-1, 2, *x.shape[1:])[:, ::-1].reshape(x.shape)


def name_of(kind: str) -> str:
    return kind.replace("<", "v").replace(">", "").replace(" ", "")


def cases(space: int) -> list[tuple[Case, Any]]:
    found = []
    for kind in VECTORS:
        name = f"move{space}_{name_of(kind)}"
        body = "%r = select i1 true, T %a, T %a" if space == 1 else through(space, kind)
        body = body.replace("T ", f"{kind} ").replace("NAME", name)
        wanted = _neighbour if space == 3 else lambda x: x
        found.append((Case(name, kind, (kind,), body), wanted))
    return found


@pytest.mark.parametrize("wave", [None, 64])
@pytest.mark.parametrize("space", [1, 3, 5])
@pytest.mark.parametrize("processor", PROCESSORS)
def test_values_of_every_width_pass_through_memory(
    processor: str, space: int, wave: int | None, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    if wave and processor == "gfx942":
        wave = None
    chosen = cases(space)
    arrays = "\n".join(
        f"@lds_{c.name} = internal addrspace(3) global [64 x {c.result}] poison, align 16"
        for c, _ in chosen
    )
    data = compile_ir(module([c for c, _ in chosen], arrays + "\n", wave), processor)
    check_all(data, chosen, rng, count=512)


# Atomics: every lane adds its value to one of a few cells.

OPERATIONS = {
    "add": np.add.at, "sub": np.subtract.at, "and": np.bitwise_and.at, "or": np.bitwise_or.at,
    "xor": np.bitwise_xor.at, "max": np.maximum.at, "min": np.minimum.at,
    "umax": np.maximum.at, "umin": np.minimum.at,
}  # fmt: skip
CELLS = 16


def atomic_kernel(name: str, operation: str, kind: str, space: int, returns: bool) -> str:
    """out[k] op= values[i] for k = i % 16, old values to `old`; through LDS if `space` is 3."""
    cell = "%cell" if space == 1 else "%local"
    scope = "agent" if space == 1 else "workgroup"
    load = store = ""
    if space == 3:  # lanes 0-15 bring the cells to LDS and back
        load = f"""
  %in = icmp ult i32 %thread, {CELLS}
  %mine = getelementptr [{CELLS} x {kind}], ptr addrspace(3) @{name}_lds, i32 0, i32 %k
  br i1 %in, label %fill, label %go
fill:
  %old_cell = load {kind}, ptr addrspace(1) %cell
  store {kind} %old_cell, ptr addrspace(3) %mine
  br label %go
go:
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %local = getelementptr [{CELLS} x {kind}], ptr addrspace(3) @{name}_lds, i32 0, i32 %k"""
        store = f"""
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  br i1 %in, label %spill, label %end
spill:
  %new_cell = load {kind}, ptr addrspace(3) %mine
  store {kind} %new_cell, ptr addrspace(1) %cell
  br label %end
end:"""
    keep = (
        f"  %q = getelementptr {kind}, ptr addrspace(1) %old, i64 %i\n"
        f"  store {kind} %r, ptr addrspace(1) %q\n"
        if returns
        else ""
    )
    notes = ", !amdgpu.no.fine.grained.memory !1, !amdgpu.no.remote.memory !1"
    notes += ", !amdgpu.ignore.denormal.mode !1"
    lds = f"@{name}_lds = internal addrspace(3) global [{CELLS} x {kind}] poison, align 16\n"
    return f"""{lds if space == 3 else ""}
define amdgpu_kernel void @{name}(ptr addrspace(1) noalias %values, ptr addrspace(1) noalias %out,
    ptr addrspace(1) noalias %old) #0 {{
  %thread = call i32 @llvm.amdgcn.workitem.id.x()
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %first = mul i32 %group, {GROUP}
  %index = add i32 %first, %thread
  %i = zext i32 %index to i64
  %p = getelementptr {kind}, ptr addrspace(1) %values, i64 %i
  %v = load {kind}, ptr addrspace(1) %p
  %k = and i32 %thread, {CELLS - 1}
  %k64 = zext i32 %k to i64
  %cell = getelementptr {kind}, ptr addrspace(1) %out, i64 %k64{load}
  %r = atomicrmw {operation} ptr addrspace({space}) {cell}, {kind} %v
    syncscope("{scope}") monotonic{notes}
{keep}{store}
  ret void
}}
"""


DTYPES = {"i32": np.int32, "i64": np.int64, "float": np.float32, "double": np.float64}


def atomic_module() -> tuple[str, list[tuple[str, str, str, int, bool]]]:
    rows = []
    for kind in ("i32", "i64"):
        for operation in (*OPERATIONS, "xchg", "uinc_wrap", "udec_wrap"):
            rows += [
                (f"{operation}_{kind}_{space}_{int(r)}", operation, kind, space, r)
                for space in (1, 3)
                for r in (False, True)
            ]
    for kind in ("float", "double"):
        for operation in ("fadd", "fmax", "fmin"):
            rows += [
                (f"{operation}_{kind}_{space}_{int(r)}", operation, kind, space, r)
                for space in (1, 3)
                for r in (False, True)
            ]
    text = HEADER + "".join(atomic_kernel(*row) for row in rows)
    return text + FOOTER.format(size=GROUP, extra="") + "!1 = !{}\n", rows


def step(operation: str, old: Any, value: Any) -> Any:
    """One atomic on numpy scalars; unsigned where the operation is."""
    plain = {
        "add": lambda: old + value, "fadd": lambda: old + value, "sub": lambda: old - value,
        "and": lambda: old & value, "or": lambda: old | value, "xor": lambda: old ^ value,
        "max": lambda: max(old, value), "min": lambda: min(old, value),
        "umax": lambda: max(old, value), "umin": lambda: min(old, value),
        "fmax": lambda: max(old, value), "fmin": lambda: min(old, value),
        "xchg": lambda: value,
        "uinc_wrap": lambda: old * 0 if old >= value else old + old.dtype.type(1),
        "udec_wrap": lambda: value if old == 0 or old > value else old - old.dtype.type(1),
    }  # fmt: skip
    return plain[operation]()


@pytest.mark.parametrize("processor", PROCESSORS)
def test_atomics_take_turns(processor: str, rng: np.random.Generator, require: Any) -> None:
    """In some order of the lanes: the old values of each cell are the steps of that order."""
    require("llc")
    text, rows = atomic_module()
    data = compile_ir(text, processor)
    for name, operation, kind, space, returns in rows:
        groups = 4 if space == 1 else 1
        n = groups * GROUP
        dtype = DTYPES[kind]
        if operation[0] == "u":
            dtype = np.dtype(dtype).str.replace("i", "u")
        values = rng.integers(1, 100, n).astype(dtype)
        out = rng.integers(1, 100, CELLS).astype(dtype)
        before, old = out.copy(), np.zeros(n, dtype)
        launch(data, name, (n, 1, 1), (GROUP, 1, 1), [values, out, old], rng)
        _check_atomics(name, operation, values, before, out, old if returns else None)


def _check_atomics(
    name: str, operation: str, values: Array, before: Array, after: Array, old: Array | None
) -> None:
    for k in range(CELLS):
        mine = values[k::CELLS]
        if operation in ("xchg", "uinc_wrap", "udec_wrap"):
            if old is not None:  # a chain: each old value was left by another lane
                seen = old[k::CELLS]
                left = [step(operation, o, v) for o, v in zip(seen, mine, strict=True)]
                assert sorted([before[k], *left]) == sorted([after[k], *seen]), name
            continue
        wanted = before[k]
        for v in mine:
            wanted = step(operation, wanted, v)
        assert after[k] == wanted, name
        if old is not None:
            seen = old[k::CELLS]
            left = [step(operation, o, v) for o, v in zip(seen, mine, strict=True)]
            assert sorted([before[k], *left]) == sorted([after[k], *seen]), name


EXCHANGE = (
    HEADER
    + """
define amdgpu_kernel void @increment(ptr addrspace(1) noalias %count) #0 {
entry:
  %start = load i32, ptr addrspace(1) %count
  br label %again
again:
  %seen = phi i32 [%start, %entry], [%now, %again]
  %next = add i32 %seen, 1
  %pair = cmpxchg ptr addrspace(1) %count, i32 %seen, i32 %next
    syncscope("agent") monotonic monotonic
  %now = extractvalue {i32, i1} %pair, 0
  %done = extractvalue {i32, i1} %pair, 1
  br i1 %done, label %end, label %again
end:
  ret void
}
"""
)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_compare_and_swap_loop_counts_every_lane(
    processor: str, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    data = compile_ir(EXCHANGE + FOOTER.format(size=GROUP, extra=""), processor)
    count = np.array([5], np.uint32)
    launch(data, "increment", (2 * GROUP, 1, 1), (GROUP, 1, 1), [count], rng)
    assert count[0] == 5 + 2 * GROUP


FLAT = (
    HEADER
    + """
@cells = internal addrspace(3) global [64 x i32] poison, align 16
declare void @llvm.amdgcn.s.barrier()
define amdgpu_kernel void @generic(ptr addrspace(1) noalias %in, ptr addrspace(1) noalias %out) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %t64 = zext i32 %t to i64
  %lds = getelementptr [64 x i32], ptr addrspace(3) @cells, i32 0, i32 %t
  %private = alloca i32, addrspace(5)
  %f0 = addrspacecast ptr addrspace(3) %lds to ptr
  %f1 = addrspacecast ptr addrspace(5) %private to ptr
  %p = getelementptr i32, ptr addrspace(1) %in, i64 %t64
  %v = load i32, ptr addrspace(1) %p
  %w = add i32 %v, 7
  store volatile i32 %v, ptr %f0
  store volatile i32 %w, ptr %f1
  %x = load volatile i32, ptr %f0
  %y = load volatile i32, ptr %f1
  %s = mul i32 %x, %y
  %q = getelementptr i32, ptr addrspace(1) %out, i64 %t64
  %g = addrspacecast ptr addrspace(1) %q to ptr
  store volatile i32 %s, ptr %g
  ret void
}
"""
)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_generic_pointers_reach_lds_private_and_global_memory(
    processor: str, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    data = compile_ir(FLAT + FOOTER.format(size=GROUP, extra=""), processor)
    x = rng.integers(-1000, 1000, GROUP).astype(np.int32)
    out = np.zeros_like(x)
    launch(data, "generic", (GROUP, 1, 1), (GROUP, 1, 1), [x, out], rng)
    assert (out == x * (x + 7)).all()


def test_pairs_of_words_far_apart(rng: np.random.Generator, require: Any) -> None:
    """LLVM joins accesses 64 words apart to one instruction with two offsets."""
    require("llc")
    fence = 'fence syncscope("workgroup") '
    stores, loads = "", ""
    for k, name in enumerate("abc"):
        stores += (
            f"%i{k} = add i32 %thread, {64 * k}\n"
            f"%w{k} = getelementptr [192 x i32], ptr addrspace(3) @far, i32 0, i32 %i{k}\n"
            f"store i32 %{name}, ptr addrspace(3) %w{k}\n"
        )
        loads += (
            f"%j{k} = add i32 %other, {64 * k}\n"
            f"%v{k} = getelementptr [192 x i32], ptr addrspace(3) @far, i32 0, i32 %j{k}\n"
            f"%x{k} = load i32, ptr addrspace(3) %v{k}\n"
        )
    body = (
        f"{stores}{fence}release\n call void @llvm.amdgcn.s.barrier()\n{fence}acquire\n"
        f"%other = xor i32 %thread, 1\n{loads}"
        "%y = mul i32 %x1, 3\n %z = mul i32 %x2, 5\n %s = add i32 %x0, %y\n %r = add i32 %s, %z"
    )
    case = Case("pairs", "i32", ("i32", "i32", "i32"), body)
    array = "@far = internal addrspace(3) global [192 x i32] poison, align 16\n"
    for processor in PROCESSORS:
        data = compile_ir(module([case], array), processor)
        texts = [i.mnemonic for i in CodeObject.read(data).instructions.values()]
        assert any("stride64" in t or "st64" in t for t in texts)
        check_all(
            data,
            [(case, lambda x, y, z: _neighbour(x) + _neighbour(y) * 3 + _neighbour(z) * 5)],
            rng,
            count=256,
        )
