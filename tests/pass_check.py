"""Kernels before and after passes, run by the interpreter and compared bit for bit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from gristmill.ir import float8, interp
from gristmill.ir.abi import scalar_bits
from gristmill.ir.core import Kernel, Op, Value, map_region, walk
from gristmill.ir.ops import ROWS, infer
from gristmill.ir.passes import Pass, as_held, run
from gristmill.ir.text import parse_kernel, print_kernel


def check_valid(kernel: Kernel) -> None:
    """Dominance, types and terminators, without the verifier: tests of passes trust nothing."""
    seen: dict[int, Value] = {}
    objects: set[int] = set()

    def region(r, scope: set[int]) -> None:
        scope = set(scope)
        for v in r.args:
            assert v.id not in seen, f"%{v.id} is defined twice"
            seen[v.id] = v
            scope.add(v.id)
        assert r.ops, "an empty region"
        for n, op in enumerate(r.ops):
            assert id(op) not in objects or not op.operands, f"one object twice: {op}"
            objects.add(id(op))
            for v in op.operands:
                assert v.id in scope, f"%{v.id} does not dominate its use in {op.name}\n" + text()
                assert seen[v.id].type == v.type, f"%{v.id} changes its type"
            if not op.regions:
                types = tuple(v.type for v in op.results)
                infer(op.name, tuple(v.type for v in op.operands), dict(op.attrs), types)
            for inner in op.regions:
                region(inner, scope)
            for v in op.results:
                assert v.id not in seen, f"%{v.id} is defined twice"
                seen[v.id] = v
                scope.add(v.id)
            last = op.name in ("yield", "continue", "break", "condition", "return")
            assert last == (n == len(r.ops) - 1), f"{op.name} at {n} of {len(r.ops)}\n" + text()

    def text() -> str:
        return print_kernel(kernel)

    region(kernel.body, set())
    for op in walk(kernel.body):
        assert op.name in ROWS
        if op.name in ("if", "switch"):
            for r in op.regions:
                if r.terminator.name == "yield":
                    assert_types(r.terminator.operands, op.results, op)
        elif op.name in ("for", "while"):
            init = op.operands[2:] if op.name == "for" else op.operands
            assert_types(init, op.results, op)
            for r in op.regions:
                args = r.args[1:] if op.name == "for" else r.args
                assert_types(args, op.results, op)
            exits(op)


def exits(loop: Op) -> None:
    def visit(region) -> None:
        for op in region.ops:
            if op.name in ("break", "continue"):
                assert_types(op.operands, loop.results, op)
            elif op.name not in ("for", "while"):
                for inner in op.regions:
                    visit(inner)

    for r in loop.regions:
        visit(r)


def assert_types(values: Iterable[Value], expected: Iterable[Value], op: Op) -> None:
    got, want = [str(v.type) for v in values], [str(v.type) for v in expected]
    assert got == want, f"{op.name}: {got}, expected {want}"


def known_counts(kernel: Kernel, counts: dict[int, int]) -> Kernel:
    """`count` of these buffers as constants: words in memory, elements in the manifest."""

    def visit(op: Op) -> Op:
        if op.name == "count" and op.operands[0].id in counts:
            return replace(
                op, name="const", operands=(), attrs=(("bits", counts[op.operands[0].id]),)
            )
        return op

    return replace(kernel, body=map_region(kernel.body, visit)) if counts else kernel


def execute(kernel: Kernel, original: Kernel, args: list, grid: tuple[int, int, int]) -> list:
    """Run a kernel on copies of `args` (in the form of `original`'s parameters)."""
    bound = []
    counts = {}
    for p, q, a, v in zip(original.params, kernel.params, args, kernel.body.args, strict=True):
        if isinstance(a, np.ndarray) and q.dtype.bytes == p.dtype.bytes:
            bound.append(np.frombuffer(a.tobytes(), q.dtype.storage).copy())
        elif isinstance(a, np.ndarray):
            data = a.tobytes() + bytes(-a.nbytes % 16)
            bound.append(np.frombuffer(data, q.dtype.storage).copy())
            counts[v.id] = len(a)
        elif p.dtype != q.dtype:
            bits = a.pattern if isinstance(a, interp.Bits) else scalar_bits(a, p.dtype)
            bound.append(interp.Bits(bits))
        else:
            bound.append(a)
    report = interp.run(known_counts(kernel, counts), bound, grid)
    problems = [str(p) for p in report.problems]
    if counts:  # neighbours share words, which the race check takes for their memory
        problems = [p for p in problems if "race" not in p]
    assert not problems, "\n".join([*problems, print_kernel(kernel)])
    out = []
    for p, a, b in zip(original.params, args, bound, strict=True):
        if isinstance(a, np.ndarray):
            b = np.frombuffer(b.tobytes()[: a.nbytes], p.dtype.storage)
        out.append(b)
    return out


def same(kernel: Kernel, passes: Iterable[Pass], args: list, grid=(1, 1, 1)) -> Kernel:
    """Apply passes and compare results with the original's bit for bit; the new kernel."""
    after = run(kernel, passes)
    check_valid(after)
    assert print_kernel(parse_kernel(print_kernel(after))) == print_kernel(after)
    expected = execute(kernel, kernel, args, grid)
    actual = execute(as_held(after), kernel, args, grid)
    for p, a, b in zip(kernel.params, actual, expected, strict=True):
        if isinstance(a, np.ndarray):
            if p.dtype.name == "bf16":
                a, b = ((v.astype(np.uint32) << 16).view(np.float32) for v in (a, b))
            if not p.dtype.computes:
                a, b = (float8.decode(v, p.dtype.name) for v in (a, b))
            # The op table leaves the sign of a zero from min and max open.
            signs = not count(kernel, "min", "max")
            assert equal_bits(a, b, signs), (
                f"{p.name}: got {a}, expected {b}\n" + print_kernel(kernel) + print_kernel(after)
            )
    return after


def equal_bits(a: np.ndarray, b: np.ndarray, signs: bool = True) -> bool:
    """Equal bit patterns, but for NaNs, which are all equal; zeros too without `signs`."""
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind != "f":
        return False
    whole = f"u{a.itemsize}"
    equal = (a.view(whole) == b.view(whole)) | (np.isnan(a) & np.isnan(b))
    return bool(np.all(equal if signs else equal | (a == b)))


def count(kernel: Kernel, *names: str) -> int:
    """How many ops of these names a kernel has."""
    return sum(op.name in names for op in walk(kernel.body))
