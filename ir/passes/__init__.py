"""Passes over kernel IR: each a frozen value that turns a kernel into an equivalent one.

A pass is callable and has a `name`; its fields are its options. It keeps source locations and a
valid kernel valid, gives equal output for equal input, and returns the very object it was given
where it changes nothing. What a kernel computes stays the same bit for bit, except where it
declares `fast`. An `Op` object stands at one place of a kernel only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

from ..core import Kernel
from ..dtypes import MemType, element_of
from .support import Support

__all__ = ["Pass", "Support", "as_held", "run", "standard", "verified"]


class Pass(Protocol):
    """What every pass is."""

    @property
    def name(self) -> str: ...

    def __call__(self, kernel: Kernel) -> Kernel: ...


def run(kernel: Kernel, passes: Iterable[Pass]) -> Kernel:
    """Apply passes in order. Under GRISTMILL_VERIFY=1 the result of each is verified."""
    for step in passes:
        changed = step(kernel)
        if changed is not kernel:
            verified(changed, step.name)
        kernel = changed
    return kernel


def verified(kernel: Kernel, after: str) -> None:
    """Under GRISTMILL_VERIFY=1: verify a kernel; the error names the pass that gave it."""
    if os.environ.get("GRISTMILL_VERIFY") != "1":
        return
    from ..verify import verify

    try:
        verify(as_held(kernel))
    except Exception as error:
        error.add_note(f"found after pass {after} of kernel {kernel.name} {kernel.specialization}")
        raise


def as_held(kernel: Kernel) -> Kernel:
    """The kernel with parameters of the types that its body has.

    Legalization leaves `params` as the caller sees them (`narrow`); the verifier and the
    interpreter want both to agree.
    """
    params = []
    for param, value in zip(kernel.params, kernel.body.args, strict=True):
        t = value.type
        access = t.access if isinstance(t, MemType) and param.kind == "buffer" else param.access
        params.append(replace(param, dtype=element_of(t), access=access))
    return replace(kernel, params=tuple(params))


def standard(support: Support, **options: Any) -> tuple[Pass, ...]:
    """The passes for a target (`pipeline.standard`)."""
    from .pipeline import standard as passes

    return passes(support, **options)
