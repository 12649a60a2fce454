"""Small graphs, from single ops to blocks of models, judged on a device by the graph oracle.

    for result in check(device, bundle):
        print(result)

Each fixture is planned, loaded and stepped as a model is; the oracle shares no code with planner,
engine and kernels. Nothing here needs a compiler.
"""

from .fixture import Bound, Fixture, Step
from .mutation import Drop, Mutation, Put, Respecialize, Swap
from .run import Result, check, judge
from .table import FIXTURES

__all__ = [
    "FIXTURES",
    "Bound",
    "Drop",
    "Fixture",
    "Mutation",
    "Put",
    "Respecialize",
    "Result",
    "Step",
    "Swap",
    "check",
    "judge",
]
