"""Asynchronous copies in the kernel language: what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gristmill.ir.lang import Diagnostic

HEAD = (
    "@kernel(workgroup=lambda: 32)\n"
    "def k(x: Read[f32], h: Read[f16], y: Write[f32], n: i32):\n"
    "    tile = workgroup_array(f32, (4, 32))\n    own = private_array(f32, 32)\n"
)
REFUSED = {
    "copy_async(y, 0, x, 0, 4)": "copy_async fills a workgroup array, found the buffer 'y'",
    "copy_async(own, 0, x, 0, 4)": "copy_async fills a workgroup array, found the private array",
    "copy_async(tile, (0, 0), tile, (0, 0), 4)": "copy_async reads a buffer",
    "copy_async(tile, (0, 0), y, 0, 4)": "'y' is write-only",
    "copy_async(tile, (0, 0), h, 0, 4)": "copy_async moves elements as they are, not f16 to f32",
    "copy_async(tile, (0, 0), x, 0, 3)": "4, 8 or 16 bytes: 1, 2, 4 elements of f32, not 3",
    "copy_async(tile, (0, 0), x, 0, n)": "the number of elements of a copy must be an int constant",
    "copy_async(tile, (0, 2), x, 0, 4)": "the target index of a copy is a multiple of 4, found 2",
    "copy_async(tile, (0, 0), x, 6, 4)": "the source index of a copy is a multiple of 4, found 6",
    "copy_async(tile, 0, x, 0, 4)": "takes 2 indices, found 1",
    "copy_async(tile, (0, 0), x, 0, 4, 1.5)": "the number of given elements is an integer",
    "copy_wait(n)": "the number of pending groups must be an int constant",
    "copy_wait(-1)": "copy_wait leaves 0 to 63 groups pending, found -1",
}


@pytest.mark.parametrize("source", REFUSED, ids=range(len(REFUSED)))
def test_refused(source: str, load: Any) -> None:
    with pytest.raises(Diagnostic) as caught:
        load(HEAD + f"    {source}\n").k.trace("test")
    assert REFUSED[source] in caught.value.message
