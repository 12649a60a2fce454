"""Fragments as AMD's matrix instructions, run on the interpreter's model of their registers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from fragment_kernels import KINDS, LAYOUTS, Product, attention_case, make_product, swizzled_case
from gristmill.backends.cpu.emit import support
from gristmill.ir.core import walk
from gristmill.ir.dtypes import FragmentType
from gristmill.ir.interp import run
from gristmill.ir.passes import as_held, standard
from gristmill.ir.passes import run as apply
from gristmill.ir.passes.amd_products import PRODUCTS, Products, multiplies
from gristmill.ir.passes.effects import op_names, value_types
from gristmill.ir.passes.fragments_amd import AmdFragments
from gristmill.ir.passes.fragments_pairs import PairProducts
from gristmill.ir.text import parse_kernel
from gristmill.ir.verify import verify
from pass_check import check_valid

EVERY = {**PRODUCTS, "mfma90a_flushed": PRODUCTS["mfma90a"].flushed()}
every = pytest.mark.parametrize("products", EVERY.values(), ids=EVERY)


def products_of(rng: np.random.Generator, size: int) -> Iterator[Product]:
    """Every kind of product, each in two layouts and from both kinds of memory."""
    for n, kinds in enumerate(KINDS):
        for m, shared in ((0, False), (3, True)):
            yield make_product(rng, kinds, LAYOUTS[(n + m) % 4], size, shared)


@every
def test_products(products: Products, rng: np.random.Generator) -> None:
    done = set()
    for case in products_of(rng, products.size):
        if not multiplies(case.kernel, products):
            assert AmdFragments(products)(case.kernel) is case.kernel
            continue
        lowered = AmdFragments(products)(case.kernel)
        verify(lowered)
        check_valid(lowered)
        assert not any(isinstance(t, FragmentType) for t in value_types(lowered))
        assert "amd_mma" in op_names(lowered)
        report = run(lowered, case.args, (1, 1, 1))
        assert report.problems == ()
        assert not case.wrong(case.args[-1])
        done.add(str(dict(case.kernel.constexprs)["TA"]))
    assert done == {k[0] for k in KINDS} - ({"f32"} if products.family != "mfma" else set())


@every
def test_attention_after_all_passes(products: Products, rng: np.random.Generator) -> None:
    case = attention_case(rng, 48, products.size)
    steps = standard(support(), fragments=AmdFragments(products))
    lowered = as_held(apply(case.kernel, steps))
    check_valid(lowered)
    report = run(lowered, case.args, (3, 1, 1))
    assert report.problems == ()
    assert not case.wrong(case.args[3])


@every
def test_swizzled_rows(products: Products, rng: np.random.Generator) -> None:
    for t in ("f16", "bf16", "i8", "u8", "f8e4m3"):
        case, read = swizzled_case(rng, t, products.size)
        lowered = AmdFragments(products)(case.kernel)
        verify(lowered)
        assert run(lowered, case.args, (1, 1, 1)).problems == ()
        assert not case.wrong(case.args[2])
        assert (case.args[3] == read).all()


@pytest.mark.parametrize(
    "kinds",
    [k for k in KINDS if k[0] in ("f16", "bf16", "i8") and k[0] == k[1]],
    ids=lambda k: f"{k[0]}-{k[2]}",
)
def test_products_that_follow_each_other_are_one(
    kinds: tuple[str, str, str, int], rng: np.random.Generator
) -> None:
    case = make_product(rng, kinds, ("row", "column"), 64, True)
    steps = (
        *standard(support(), fragments=AmdFragments(PRODUCTS["mfma950"])),
        PairProducts(PRODUCTS["mfma950"].paired),
    )
    lowered = as_held(apply(case.kernel, steps))
    verify(lowered)
    check_valid(lowered)
    depths = [op.attr("depth") for op in walk(lowered.body) if op.name == "amd_mma"]
    # Sums in f16 are rounded in between.
    assert depths == ([16, 16] if kinds[2] == "f16" else [2 * kinds[3]])
    assert run(lowered, case.args, (1, 1, 1)).problems == ()
    assert not case.wrong(case.args[-1])


PAIR = """kernel k t
param x: u32 buffer readwrite
workgroup 64 1 1
index i32
subgroup 64
body(%x.0: buffer<u32,readwrite>) {
  %1 = const 0.0 : f32
  %2 = const 0 : u32
  %3 = vector %1, %1, %1, %1 : f32x4
  %4 = vector %2, %2 : u32x2
  %5 = amd_mma %4, %4, %3 {a="f16", b="f16", depth=16, family="mfma"} : f32x4
  %6 = amd_mma %4, %4, %5 {a="OTHER", b="OTHER", depth=16, family="mfma"} : f32x4
  %7 = extract %USED {lane=0} : f32
  %8 = extract %6 {lane=1} : f32
  %9 = add %7, %8 : f32
  %10 = bitcast %9 : u32
  store %0, %2, %10
  return
}
"""


@pytest.mark.parametrize(("other", "used", "joined"), [
    ("f16", "6", True), ("bf16", "6", False), ("f16", "5", False),
])  # fmt: skip
def test_what_is_used_in_between_stays_apart(other: str, used: str, joined: bool) -> None:
    text = PAIR.replace("OTHER", other).replace("USED", used)
    kernel = parse_kernel(text.replace("index i32\nsubgroup 64", "subgroup 64\nindex i32"))
    found = PairProducts((("f16", 16), ("bf16", 16)))(kernel)
    verify(found)
    depths = [op.attr("depth") for op in walk(found.body) if op.name == "amd_mma"]
    assert depths == ([32] if joined else [16, 16])
