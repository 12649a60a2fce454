"""Plans on any device: weights in, entries stepped by record and replay, results out.

    engine = Engine(device, bundle)
    model = engine.load(plan, weights)
    model.step("decode")
    token = model.read("decode", "token")

A failure leaves a model in one of three ways: as it was, so that the call may be made again; in
need of `reset`, as its states may hold half a step; or on a poisoned device.
"""

from .engine import Engine
from .errors import NeedsReset, PlanMismatch, PlanTooLarge, WeightsInvalid
from .kernels import BundleKernels
from .model import Model
from .weights import Weights

__all__ = [
    "BundleKernels",
    "Engine",
    "Model",
    "NeedsReset",
    "PlanMismatch",
    "PlanTooLarge",
    "Weights",
    "WeightsInvalid",
]
