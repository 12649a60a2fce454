"""Whether the parts of a quantized matrix have its size: what kernels check before they read them.

Parts of another size are of another matrix, or of groups of another length, whose scales would be
taken for these.
"""

from __future__ import annotations

from ..ir.lang import device, u8, u16
from ..ir.quantized import BLOCKS
from .quantized_formats import *
from .quantized_superblocks import *


def _bytes(name: str, layout: str) -> tuple[int, ...]:
    """Bytes of a block in each part."""
    strides = {p.part: p.stride for p in BLOCKS[name].places(layout).values()}
    return tuple(strides[part] for part in sorted(strides))


# Of each decoder of blocks: weights of a block, and its bytes in each part.
_PLAIN = (q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4)
_PLANES = (
    *(q4_0_planes, q5_0_planes, q8_0_planes, q3_k_planes, q6_k_planes, iq4_nl_planes),
    mxfp4_planes,
)
BLOCKED = tuple((f, BLOCKS[f.name].block, _bytes(f.name, "blocks")) for f in _PLAIN)
BLOCKED += tuple(
    (f, BLOCKS[name].block, _bytes(name, "planes"))
    for f in _PLANES
    for name in (f.name.removesuffix("_planes"),)
)
DECODERS = (*_PLAIN, *_PLANES, u4, fp8_channel, fp8_block, int8)


@device
def words_of(part, count, BYTES):
    """Whether a part has `count` times BYTES bytes, padded to whole elements."""
    SIZE = 1 if part.dtype == u8 else 2 if part.dtype == u16 else 4
    if BYTES % SIZE == 0:
        return len(part) == count * (BYTES // SIZE)
    return len(part) == (count * BYTES + (SIZE - 1)) // SIZE


@device
def groups_of(rows, cols, FORMAT, GROUP):
    """Elements of the second part of a format of several tensors."""
    across = (cols + (GROUP - 1)) // GROUP
    if FORMAT == u4:
        return rows * across
    if FORMAT == fp8_block:
        return (rows + (GROUP - 1)) // GROUP * across
    return rows


@device
def is_matrix(w, rows, cols, FORMAT, GROUP):
    """Whether `w` has the parts of rows x cols weights, and cols is a multiple of a block, or of
    the 32 that a decoder takes. The same in all invocations."""
    BLOCK = 32
    PARTS = ()
    for form, block, sizes in BLOCKED:
        if form == FORMAT:
            BLOCK = block
            PARTS = sizes
    whole = cols > 0 and cols % BLOCK == 0
    if len(PARTS) == 0:
        QUANTS = 8 if FORMAT == u4 else 4  # of a word
        sized = len(w[0]) == rows * (cols // QUANTS)
        return whole and sized and len(w[1]) == groups_of(rows, cols, FORMAT, GROUP)
    sized = words_of(w[0], rows * (cols // BLOCK), PARTS[0])
    if len(PARTS) > 1:
        sized = sized and words_of(w[1], rows * (cols // BLOCK), PARTS[1])
    return whole and sized
