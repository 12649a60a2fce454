"""Where a plan's weights come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from .errors import WeightsInvalid

if TYPE_CHECKING:
    import numpy as np

    from ...ir.plan import Storage


class Weights(Protocol):
    """A checkpoint. identity: equal for equal contents, such as a digest of the file or its path
    and date: models of one identity share what they have on a device."""

    @property
    def identity(self) -> str: ...

    def weight(self, name: str) -> np.ndarray[Any, Any]:
        """The elements as they lie in memory (bf16 as uint16, packed rows as uint8), a view of a
        mapped file if possible. Raises KeyError."""
        ...


def checked(weights: Weights, storage: Storage) -> np.ndarray[Any, Any]:
    """A weight of the type and shape that the plan says. Raises WeightsInvalid."""
    try:
        array = weights.weight(storage.name)
    except KeyError as error:
        raise WeightsInvalid(
            "a weight is missing",
            where=storage.name,
            expected=f"{storage.dtype}{list(storage.shape)}",
            do="load the checkpoint that the plan was made for",
        ) from error
    wanted = storage.dtype.storage, storage.shape
    if (array.dtype, array.shape) != wanted:
        raise WeightsInvalid(
            "a weight does not fit the plan",
            where=storage.name,
            expected=f"{storage.dtype}{list(storage.shape)}",
            got=f"{array.dtype}{list(array.shape)}",
            do="load the checkpoint that the plan was made for",
        )
    return array
