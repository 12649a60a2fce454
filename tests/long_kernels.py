"""Kernels as large as one likes, as text: long code, many values at once, deep nesting."""

from __future__ import annotations

from collections.abc import Iterable

HEAD = "kernel {name} f32\n{params}workgroup 64 1 1\nindex i32\nbody({args}) {{\n"


def _kernel(name: str, buffers: int, lines: Iterable[str], scalars: str = "") -> str:
    params = "".join(f"param x{n}: f32 buffer readwrite\n" for n in range(buffers))
    params += "".join(f"param {s}: i32 scalar\n" for s in scalars.split())
    args = [f"%{n}: buffer<f32,readwrite>" for n in range(buffers)]
    args += [f"%{buffers + n}: i32" for n, _ in enumerate(scalars.split())]
    head = HEAD.format(name=name, params=params, args=", ".join(args))
    return head + "\n".join(f"  {line}" for line in [*lines, "return"]) + "\n}\n"


def long_code(ops: int) -> str:
    """x[i] becomes the last of so many sums and products, one after the other."""
    lines = ["%1 = global_id {dim=0} : i32", "%2 = load %0, %1 : f32"]
    for n in range(ops):
        name = "mul" if n % 2 else "sub"
        lines.append(f"%{n + 3} = {name} %{n + 2}, %{max(2, n)} : f32")
    return _kernel("long_code", 1, [*lines, f"store %0, %1, %{ops + 2}"])


def many_values(count: int) -> str:
    """Reads x0[64 k + i] for all k below `count`; then writes x1[64 k + i], the product of the
    k-th from the front and the k-th from the back."""
    lines, at = ["%2 = global_id {dim=0} : i32"], 3
    places, values = [], []
    for n in range(count):
        lines += [f"%{at} = const {64 * n} : i32", f"%{at + 1} = add %2, %{at} : i32"]
        lines.append(f"%{at + 2} = load %0, %{at + 1} : f32")
        places.append(at + 1)
        values.append(at + 2)
        at += 3
    for place, a, b in zip(places, values, reversed(values), strict=True):
        lines += [f"%{at} = mul %{a}, %{b} : f32", f"store %1, %{place}, %{at}"]
        at += 1
    return _kernel("many_values", 2, lines)


def nested_ifs(depth: int) -> str:
    """x[i] becomes 0 where it is over 0.5, 1.5 ... depth - 0.5."""
    lines = ["%1 = global_id {dim=0} : i32", "%2 = load %0, %1 : f32", "%3 = const 0.0 : f32"]
    for n in range(depth):
        lines += [f"%{2 * n + 4} = const {n}.5 : f32", f"%{2 * n + 5} = gt %2, %{2 * n + 4} : bool"]
        lines.append(f"if %{2 * n + 5} {{")
    return _kernel(
        "nested_ifs", 1, [*lines, "store %0, %1, %3", *["yield", "} else {", "yield", "}"] * depth]
    )


def nested_loops(depth: int) -> str:
    """x[i] grows n**depth times by what it was."""
    lines = ["%2 = global_id {dim=0} : i32", "%3 = const 0 : i32", "%4 = load %0, %2 : f32"]
    inner = 4
    for n in range(5, 5 + 3 * depth, 3):
        lines.append(f"%{n} = for %3, %1, %{inner} : f32 body(%{n + 1}: i32, %{n + 2}: f32) {{")
        inner = n + 2
    last = 5 + 3 * depth
    lines.append(f"%{last} = add %{inner}, %4 : f32")
    for n in range(2 + 3 * depth, 4, -3):
        lines += [f"continue %{last}", "}"]
        last = n
    return _kernel("nested_loops", 1, [*lines, f"store %0, %2, %{last}"], "n")


def many_buffers(count: int) -> str:
    """x1[i] = x0[i], x2[i] = x1[i], ..."""
    lines = [f"%{count} = global_id {{dim=0}} : i32"]
    for n in range(1, count):
        lines += [f"%{count + n} = load %{n - 1}, %{count} : f32"]
        lines += [f"store %{n}, %{count}, %{count + n}"]
    return _kernel("many_buffers", count, lines)
