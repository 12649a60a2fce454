"""Which of a driver's devices the second half of "cuda:1" or "vulkan:llvmpipe" means."""

from __future__ import annotations

from collections.abc import Sequence

_DIGITS = 9  # of a number that could be an index


def chosen(selector: str, names: Sequence[str]) -> int | None:
    """The index of a device: a number is its index, other text a part of its name, in any case.
    None where there is no such device."""
    if selector.isdecimal():
        number = int(selector) if len(selector) <= _DIGITS else len(names)
        return number if number < len(names) else None
    wanted = selector.casefold()
    return next((n for n, name in enumerate(names) if wanted in name.casefold()), None)
