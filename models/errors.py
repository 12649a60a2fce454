"""What a model, its checkpoint or its configuration cannot be."""

from __future__ import annotations

from collections.abc import Iterable


class ModelError(ValueError):
    """Sizes, types or weights that no graph of the family is made of. expected, got: in words."""

    def __init__(self, where: str, expected: str, got: str, hint: str = "") -> None:
        end = f"; {hint}" if hint else ""
        super().__init__(f"{where}: expected {expected}, got {got}{end}")
        self.where, self.expected, self.got = where, expected, got


class UnknownArchitectureError(LookupError):
    """A checkpoint of a family that has no graphs here. got: its name, or that of a part."""

    def __init__(self, got: object, known: Iterable[str]) -> None:
        self.got, self.known = got, tuple(known)
        super().__init__(
            f"the checkpoint is of architecture {got!r}; there are graphs of"
            f" {', '.join(map(repr, self.known))}"
        )


class ConfigurationError(ValueError):
    """A file of `configs/models` that does not describe a model. place: file and line."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(f"{place}: {what}")
        self.place, self.what = place, what


class CheckpointMissingError(FileNotFoundError):
    """A checkpoint that is not on this machine."""
