"""Private arrays: how many bytes of them an invocation may have."""

from __future__ import annotations

from ...ir.core import walk
from ...ir.dtypes import MemType, Space
from .lowering import Lowering


def check_private(x: Lowering) -> None:
    """LoweringError, at the array that does not fit any more, with the bytes that there are.

    LLVM ends its process on some of them, and makes an empty kernel where bytes of a wave do not
    fit 32 bits.
    """
    taken, limit = 0, x.arch.processor.private_bytes(x.lanes)
    for op in walk(x.kernel.body):
        memory = op.result.type if op.name == "alloc" else None
        if not isinstance(memory, MemType) or memory.space is not Space.PRIVATE:
            continue
        assert memory.count is not None
        taken += memory.count * memory.element.bytes
        if taken > limit:
            message = (
                f"private arrays of {taken} bytes exceed the limit of {limit} bytes of an "
                f"invocation of {x.arch.cpu} in waves of {x.lanes}; use smaller arrays"
            )
            raise x.fail(op, message)
