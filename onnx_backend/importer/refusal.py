"""Why a model is not imported: frozen values that a caller can act on."""

from __future__ import annotations

import enum
from typing import NamedTuple

from ..refusal import Missing


class Reason(enum.Enum):
    """What kind of thing is missing, or wrong."""

    OPERATOR = "operator"  # no operator of this name and opset is known
    TYPE = "type"  # no such element type, or the graph's ops do not come in it
    DATA = "data"  # a value decides the shapes, and is not known before the model runs
    DIMENSION = "dimension"  # a size that the model leaves open, and the caller did not give
    GRAPH = "graph"  # the graph IR has no such op
    MODEL = "model"  # the model is none: ONNX's rules are broken
    EXTERNAL = "external"  # a file of weights cannot be read, or must not be


class ImportRefusal(NamedTuple):
    """node: its name, or what else of the model is meant. op: "" where it is no node. missing: what
    there would have to be, or what is expected there and what was found."""

    node: str
    op: str
    reason: Reason
    missing: str

    def __str__(self) -> str:
        what = f"{self.op} {self.node or '(unnamed)'}" if self.op else self.node
        return f"{what} is refused ({self.reason.value}): {self.missing}"


class Lacking(Missing):
    """Raised by what imports an op; the walk makes a refusal of it."""

    def __init__(self, reason: Reason, what: str) -> None:
        super().__init__(what)
        self.reason = reason
