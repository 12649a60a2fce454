"""What a graph computes, in numpy: what plans on devices are compared with."""

from .evaluate import DECLARED, WIDE, GraphFault, Results, WorkBudgetError, evaluate, work
from .precision import Precision

__all__ = [
    "DECLARED",
    "WIDE",
    "GraphFault",
    "Precision",
    "Results",
    "WorkBudgetError",
    "evaluate",
    "work",
]
