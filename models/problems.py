"""What is wrong with a checkpoint: one value a fault, so that all of them can be told at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault of a checkpoint. name: of the tensor, or of the part of the file. expected, got: in
    words. hint: what to do."""

    name: str
    expected: str
    got: str
    hint: str = ""

    kind: ClassVar[str] = "problem"
    advice: ClassVar[str] = ""

    def __str__(self) -> str:
        said = f"{self.kind}: {self.name}: expected {self.expected}, got {self.got}"
        return f"{said}; {self.hint or self.advice}"


class Missing(Problem):
    """A tensor that the model has and the file has not."""

    __slots__ = ()
    kind = "missing"
    advice = "take a checkpoint of this model, or the configuration of that one"


class Extra(Problem):
    """A tensor that the file has and the model has not."""

    __slots__ = ()
    kind = "extra"
    advice = (
        "take the configuration of this checkpoint; a model that ignores weights is another one"
    )


class Misshapen(Problem):
    """A tensor of another shape."""

    __slots__ = ()
    kind = "shape"
    advice = "take a checkpoint whose sizes are those of the configuration"


class WrongForm(Problem):
    """A tensor of another element type or block format."""

    __slots__ = ()
    kind = "type"
    advice = "convert the tensor, or let the configuration allow its type"


class NonFinite(Problem):
    """A tensor with infinities, or with what is no number, among its values or scales."""

    __slots__ = ()
    kind = "non-finite"
    advice = "fetch or convert the file again"


class Truncated(Problem):
    """A part that ends behind the end of the file."""

    __slots__ = ()
    kind = "truncated"
    advice = "fetch the file again: it is shorter than it says"


class Geometry(Problem):
    """A tensor whose bytes are not those of its shape and type."""

    __slots__ = ()
    kind = "geometry"
    advice = "write the file again: its header contradicts itself"


class Unsupported(Problem):
    """A format, a version or an element type that is not read here."""

    __slots__ = ()
    kind = "unsupported"
    advice = "convert the file to one of those"


class Malformed(Problem):
    """Bytes that are no header of such a file."""

    __slots__ = ()
    kind = "malformed"
    advice = "fetch the file again: it is damaged, or no checkpoint"


class Absent(Problem):
    """A file or package that is not there."""

    __slots__ = ()
    kind = "absent"
    advice = "install it or give its path"
