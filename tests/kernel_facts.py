"""What the pages of the kernels are made of: specializations, and what their results depend on.

`reproducible` says it of a specialization by the operations that its IR has.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.ir.core import Kernel, Op, walk
from gristmill.ir.dtypes import DType, VectorType
from gristmill.ir.ops import ROWS
from gristmill.kernels import Family, families

ROOT = Path(__file__).parents[1]

FIXED, ORDER, DEVICE, HARDWARE, ANY = "fixed", "order", "device", "hardware", "any"
CLASSES = {
    FIXED: "There is one right result, and every device gives it.",
    ORDER: "Sums, differences and products, each rounded once, in an order that the constexprs fix:"
    " the same bits on every target but WGSL, where the constexprs are the same.",
    DEVICE: "As `order`, and functions, divisions, roots and fused products within their bounds:"
    " the same bits from run to run of an artifact on a device.",
    HARDWARE: "Products of fragments, which a device adds up in its own order and precision: the"
    " same bits from run to run of an artifact on a device.",
    ANY: "Atomic sums of floats, in the order in which invocations come: bits may differ from run"
    " to run, within the bound.",
}


@functools.cache
def configuration() -> Any:
    """configs/, as the build reads it."""
    sys.path.append(str(ROOT / "site_scons"))
    from gristmill_build import config

    return config.load(ROOT)


@dataclass(frozen=True, eq=False)
class Specialization:
    """One of a kernel, as the oracle has it: without variants."""

    family: Family
    name: str
    kernel: Kernel

    @property
    def constexprs(self) -> dict[str, Any]:
        return dict(self.kernel.constexprs)


@functools.cache
def specializations(kernel: str) -> tuple[Specialization, ...]:
    """Those of a kernel that ships, in the order of its configuration."""
    family, row = families()[kernel], configuration().kernels[kernel]
    return tuple(
        Specialization(family, name, family.kernel.trace(name, **constexprs))
        for name, constexprs in row.specializations.items()
    )


def _is_float(op: Op) -> bool:
    types = [value.type for value in (*op.operands, *op.results)]
    scalars = [t.element if isinstance(t, VectorType) else t for t in types]
    return any(isinstance(t, DType) and t.is_float for t in scalars)


def exact(spec: Specialization) -> bool:
    """Whether its reference allows no error, on all of its inputs."""
    given = spec.family.inputs(np.random.default_rng(0), spec.constexprs)
    expected = [
        found for args in given for found in spec.family.reference(args, spec.constexprs).values()
    ]
    return not any(np.nan_to_num(np.asarray(found.tolerance)).any() for found in expected)


@functools.cache
def reproducible(spec: Specialization) -> str:
    """Which of CLASSES."""
    ops = list(walk(spec.kernel.body))
    names = {op.name for op in ops}
    if any(op.name == "atomic" and _is_float(op) for op in ops):
        return ANY
    if names & {"fragment_mma", "fragment_reduce", "nv_wgmma"}:
        return HARDWARE
    bounded = any(op.name in ROWS and ROWS[op.name].ulp and _is_float(op) for op in ops)
    if bounded or spec.kernel.fast:
        return DEVICE
    return FIXED if exact(spec) else ORDER


def every() -> Iterator[Specialization]:
    """All of them, by kernel."""
    for kernel in sorted(configuration().kernels):
        yield from specializations(kernel)
