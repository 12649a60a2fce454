"""Errors of a farm."""

from __future__ import annotations


class FarmError(Exception):
    """A farm that cannot be used as it was asked for: what, where and what to do."""


class PoisonedWorkerError(FarmError):
    """A worker that gave wrong results after right ones, so that others of its results may be
    wrong: the worker, the action, and how many of its results were taken."""


class LostError(Exception):
    """A cluster that answers no more, or that has nobody to work. Its work is done here."""


class WrongResultError(Exception):
    """A result that is none of its action: what was expected and found."""
