"""What tracing makes of a kernel: types, names, structure, independence of earlier traces."""

# ruff: noqa: E501  (tables of cases and kernel sources)
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill.ir.core import walk
from gristmill.ir.lang import Diagnostic, f16, f64
from gristmill.ir.text import print_kernel


def names(kernel: Any) -> list[str]:
    return [op.name for op in walk(kernel.body)]


def test_faults_prints_and_names(load: Any, run: Any) -> None:
    module = load("""
@kernel(workgroup=lambda: 4)
def k(x: Read[i32], y: Write[i32]):
    i = local_id(0)
    for j in static_range(3):
        assert x[i] < 3, "x is small"
    assert x[i] >= 0
    y[i] = x[i]
    print("y", y is None, x[i], "{}")
    breakpoint()
""")
    kernel = module.k.trace("test")
    assert kernel.sites == ("x is small", "assert x[i] >= 0")
    ops = {op.name: op for op in walk(kernel.body)}
    assert ops["print"].attr("format") == "y False {} {{}}"
    assert "i" in ops["breakpoint"].attr("names")
    assert ops["load"].loc.file.endswith(module.__name__ + ".py")
    assert ops["store"].loc.line == 13


def test_types_and_index_by_constexpr(load: Any) -> None:
    module = load("""
SCALE = (1.0, np.float32(2.0))
@kernel(workgroup=lambda: (B, 2), grid=lambda: (ceil_div(len(x), B) + n, max(n, 3)), fast=("contract",))
def k(x: Read[T], y: Write[T], n: i32, *, T: DType = f32, B: int = 8, INDEX: DType = i32, FLAG: bool = False):
    i = global_id(0)
    if T is f64 and FLAG:
        static_assert(False, "unreachable unless T is f64")
    if i < len(x):
        y[i + n] = x[i] * SCALE[1] + T.bits
""")
    for dtype in ("f16", f16):
        kernel = module.k.trace("s", T=dtype, INDEX="i64")
        assert str(kernel.params[0].dtype) == "f16"
        assert str(kernel.index) == "i64"
    assert kernel.workgroup == (8, 2, 1)
    assert kernel.fast == ("contract",)
    assert kernel.grid == (
        ("add", ("ceil_div", ("count", "x"), 8), ("scalar", "n")),
        ("max", ("scalar", "n"), 3),
        1,
    )
    assert dict(kernel.constexprs)["T"] == "f16"
    with pytest.raises(Diagnostic, match="unreachable unless"):
        module.k.trace("s", T=f64, FLAG=True)
    assert module.k.constexprs["B"] == ("int", 8)


def test_a_constexpr_chooses_between_grid_sizes(load: Any) -> None:
    module = load("""
@kernel(workgroup=lambda: (8,), grid=lambda: (m if DOWN else n, n if DOWN else m))
def k(y: Write[i32], n: i32, m: i32, *, DOWN: bool = False):
    y[0] = n
""")
    assert module.k.trace("s").grid == (("scalar", "n"), ("scalar", "m"), 1)
    assert module.k.trace("s", DOWN=True).grid == (("scalar", "m"), ("scalar", "n"), 1)


def test_tracing_leaves_no_state(load: Any) -> None:
    module = load("""
@kernel()
def a(y: ReadWrite[f32], n: i32, *, B: int = 3):
    r = registers(f32, B)
    for k in range(n):
        r[0] += y[k]
    y[0] = r[0]
@kernel()
def b(y: ReadWrite[f32]):
    t = 0.0
    for k in range(3):
        t += y[k]
    y[0] = t
""")
    alone = print_kernel(module.b.trace("s"))
    first = print_kernel(module.a.trace("s", B=2))
    with pytest.raises(Diagnostic):
        module.a.trace("s", B=0)
    assert print_kernel(module.a.trace("s", B=2)) == first
    assert print_kernel(module.b.trace("s")) == alone


def test_unchanged_registers_are_not_carried(load: Any) -> None:
    module = load("""
@kernel()
def k(y: ReadWrite[f32], n: i32):
    r = registers(f32, 4, 1.0)
    q = 2
    for k in range(n):
        r[1] += y[k] * r[0]
        t = y[k] * f32(q)
        y[k] = t
    t = n
    y[t] = r[1]
""")
    (loop,) = [op for op in walk(module.k.trace("s").body) if op.name == "for"]
    assert [str(v.type) for v in loop.results] == ["f32"]


def test_pure_conditions_become_logic_and_choices_become_selects(load: Any) -> None:
    module = load("""
@kernel()
def k(x: Read[f32], y: Write[f32], n: i32):
    a = n > 1 and n < 5 or n == 9
    y[0] = 1.0 if a else x[0]
    y[1] = f32(n) if a else 2.0
""")
    found = names(module.k.trace("s"))
    assert found.count("if") == 1  # the load of x[0] stays conditional
    assert found.count("select") == 1
    assert {"and", "or"} <= set(found)


def test_kernels_in_nested_scopes_and_behind_decorators(load: Any, run: Any) -> None:
    module = load('''
def make(factor):
    @device
    def scale(x):
        return x * factor

    if True:
        @kernel(
            workgroup=lambda: (4, 1, 1),  # a lambda, (brackets)
            grid=lambda: (
                1, 1, 1),
        )
        def k(y: ReadWrite[i32]):
            """Multi
line docstring."""
            y[local_id(0)] = scale(y[local_id(0)])
    return k
two, five = make(2), make(5)
''')
    for kernel, factor in ((module.two, 2), (module.five, 5)):
        y = np.arange(4, dtype=np.int32)
        run(kernel, y)
        assert y.tolist() == [0, factor, 2 * factor, 3 * factor]


def test_what_is_fast_may_depend_on_constexprs(load):
    module = load("""
@kernel(workgroup=lambda: 32, fast=lambda: ("approximate", "contract") if FAST else ())
def k(x: ReadWrite[f32], *, FAST: bool = False):
    x[global_id(0)] = exp(x[global_id(0)])

@kernel(workgroup=lambda: 32, fast=lambda: ("wild",))
def wrong(x: ReadWrite[f32]):
    x[global_id(0)] = 1.0
""")
    assert module.k.trace("exact").fast == ()
    assert module.k.trace("fast", FAST=True).fast == ("approximate", "contract")
    with pytest.raises(Diagnostic, match="fast knows approximate, contract, reassociate"):
        module.wrong.trace("x")


def test_constants_and_ids_stand_once_per_scope(load: Any) -> None:
    module = load("""
@kernel(workgroup=lambda: 4)
def k(x: ReadWrite[i32], y: ReadWrite[i32]):
    if x[global_id(0) + 7] < 7:
        x[local_id(0) + 7] = y[global_id(0) + 9]
    else:
        y[local_id(0) + 9] = 7
    for j in range(len(x)):
        y[j] = len(x) + len(y)
""")
    kernel = module.k.trace("test")
    outer = [(op.name, op.attrs) for op in kernel.body.ops]
    assert len(outer) == len(set(outer)), "something stands twice around the regions"
    assert names(kernel).count("global_id") == 1
    assert names(kernel).count("local_id") == 2, "arms do not see each other's values"
    assert names(kernel).count("count") == 2, "of each of two buffers"
    bits = [op.attr("bits") for op in walk(kernel.body) if op.name == "const"]
    assert sorted(bits)[-3:] == [7, 9, 9]
