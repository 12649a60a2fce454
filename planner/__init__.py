"""Graphs and a device's capabilities to a plan, or to the list of what the device lacks for it."""

from .kernels import Kernels
from .plan import plan
from .refusal import Refusal

__all__ = ["Kernels", "Refusal", "plan"]
