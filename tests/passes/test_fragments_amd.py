"""Fragments as AMD's matrix instructions, run on the interpreter's model of their registers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from fragment_kernels import KINDS, LAYOUTS, Product, attention_case, make_product, swizzled_case
from gristmill.backends.cpu.emit import support
from gristmill.ir.dtypes import FragmentType
from gristmill.ir.interp import run
from gristmill.ir.passes import as_held, fragments_amd, standard
from gristmill.ir.passes import run as apply
from gristmill.ir.passes.effects import op_names, value_types
from gristmill.ir.passes.fragments_amd import AmdFragments, Products, multiplies
from gristmill.ir.verify import verify
from pass_check import check_valid

PRODUCTS = {n.lower(): v for n, v in vars(fragments_amd).items() if isinstance(v, Products)}
every = pytest.mark.parametrize("products", PRODUCTS.values(), ids=PRODUCTS)


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
