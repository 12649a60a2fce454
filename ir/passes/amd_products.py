"""The matrix instructions that AMD's processors have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from ..core import Kernel
from ..ops.amd import FAMILIES
from .fragment_operands import product_kinds

# The depth of one instruction, by the kind of its operands (`product_kind`).
Depths = tuple[tuple[str, int], ...]
# What holds all values of a kind, and can stand in for it.
_WIDER = {"f8": ("f16", "f32"), "f16": ("f32",), "bf16": ("f32",)}


@dataclass(frozen=True)
class Products:
    """The matrix instructions of a processor. family: as `ir.ops.amd` has it. signed: bytes are
    signed only. rounds: products of f32 round their operands in a way that is not documented.
    flushes: of kinds that take denormals for zero, which only matters where f32 does not. paired:
    of types that an instruction of twice the depth multiplies in the same time."""

    family: str
    depths: Depths
    signed: bool = False
    rounds: bool = False
    flushes: Depths = ()
    paired: Depths = ()

    def flushed(self) -> Products:
        """Those for a kernel whose denormals may be zero."""
        return replace(self, depths=(*self.flushes, *self.depths), flushes=())

    @property
    def size(self) -> int:
        """Lanes of the subgroups that multiply."""
        return FAMILIES[self.family].size

    def instead(self, kind: str) -> str | None:
        """The kind whose instruction does a product; None where none can."""
        known = dict(self.depths)
        return next((k for k in (kind, *_WIDER.get(kind, ())) if k in known), None)


_MFMA: Depths = (("f16", 16), ("bf16", 16), ("f32", 4), ("i8", 32))
_mfma = partial(Products, "mfma", signed=True)
PRODUCTS = {
    "wmma11": Products("wmma11", (("f16", 16), ("bf16", 16), ("i8", 16))),
    "wmma12": Products("wmma12", (("f16", 16), ("bf16", 16), ("i8", 16), ("f8", 16))),
    "mfma908": _mfma((("f16", 16), ("bf16", 8), ("f32", 4), ("i8", 16))),
    # Denormals of f16 are not small for f16.
    "mfma90a": _mfma((("bf16", 16), ("f32", 4), ("i8", 16)), flushes=(("f16", 16),)),
    "mfma94": _mfma(_MFMA),
    # The 8-bit floats of gfx942 are others than the language's, those of gfx950 are the same.
    "mfma942": _mfma((("f16", 16), ("bf16", 16), ("f32", 8), ("i8", 32)), rounds=True),
    "mfma950": _mfma((*_MFMA, ("f8", 32)), paired=(("f16", 16), ("bf16", 16), ("i8", 32))),
}


def multiplies(kernel: Kernel, products: Products) -> bool:
    """Whether these instructions do all products of a kernel."""
    fits = kernel.subgroup == products.size
    return fits and all(products.instead(kind) for kind in product_kinds(kernel))
