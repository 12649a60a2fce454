"""Why a node is not run: a frozen value that a caller can act on, and the errors around it."""

# ruff: noqa: N818 (these are nouns of the field; a suffix would say nothing more)

from __future__ import annotations

from typing import NamedTuple

from ..runtime.errors import GristmillError


class Refusal(NamedTuple):
    """A node that no kernel of the bundle computes on this device.

    dtypes: of the node's inputs, "-" for one that is left out. missing: what there would have to
    be, such as "kernel unary floor_f64"; it names no tensor and no device, so that equal gaps read
    equally.
    """

    node: str
    op: str
    dtypes: tuple[str, ...]
    device: str
    missing: str

    def __str__(self) -> str:
        where = f"node {self.node or '(unnamed)'}: {self.op}({', '.join(self.dtypes)})"
        return f"{where} is refused on {self.device}: {self.missing}"


class NodeRefused(GristmillError):
    """A node that is not run; `refusal` says why. Nothing was launched for it."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(
            f"{refusal.op} is refused",
            where=f"node {refusal.node or '(unnamed)'} on {refusal.device}",
            expected="a kernel for it",
            got=f"inputs of {', '.join(refusal.dtypes) or 'no type'}; missing: {refusal.missing}",
            do="build the kernel, or run this node elsewhere",
        )


class Missing(Exception):
    """Raised by what computes an op; the executor makes a refusal of it. `what` is `missing`."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(what)


class InvalidNode(GristmillError):
    """A node whose attributes or inputs do not fit the operator: an error of the model."""
