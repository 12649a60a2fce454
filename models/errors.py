"""What a model, its checkpoint or its configuration cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from .problems import Problem

# Problems that the text of an error lists; a file of another model differs in every tensor.
SHOWN = 50


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


class CheckpointError(ValueError):
    """A checkpoint that is not what it should be. path: the file. problems: all that were found."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.path, self.problems = path, tuple(problems)
        shown = [f"\n  {problem}" for problem in self.problems[:SHOWN]]
        if len(self.problems) > SHOWN:
            shown.append(f"\n  and {len(self.problems) - SHOWN} more (`problems` has all)")
        super().__init__(f"{path}: {len(self.problems)} problem(s){''.join(shown)}")


class CheckpointFormatError(CheckpointError):
    """A file whose header cannot be read as a checkpoint."""


class CheckpointMissingError(CheckpointError, FileNotFoundError):
    """A checkpoint that is not on this machine."""


class TokenizerError(ValueError):
    """A vocabulary, or a text or id that it has no place for. expected, got: in words."""

    def __init__(self, where: str, expected: str, got: str, hint: str) -> None:
        super().__init__(f"{where}: expected {expected}, got {got}; {hint}")
        self.where, self.expected, self.got, self.hint = where, expected, got, hint


class ChatTemplateError(ValueError):
    """A chat template that is missing, is no template, or refuses its messages. what: which."""

    def __init__(self, what: str, got: str, hint: str) -> None:
        super().__init__(f"{what}: {got}; {hint}")
        self.what, self.got, self.hint = what, got, hint
