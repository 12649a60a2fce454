"""AQL packets: 64 bytes each, as the HSA standard and `hsa_kernel_dispatch_packet_t` have them.

A packet's first 32 bits publish it: its header with type, barrier bit and scopes of its fences, and
the setup. A packet of type INVALID stops the packet processor until it is published.
"""

from __future__ import annotations

import struct

BYTES = 64
INVALID, DISPATCH, BARRIER_AND = 1, 2, 3
BARRIER = 1 << 8  # waits for everything before it
AGENT, SYSTEM = 1, 2
# Behind the first 32 bits: workgroup x y z, reserved, grid x y z in work-items, private and group
# bytes, kernel object, kernarg address, reserved, completion signal.
DISPATCH_BODY = struct.Struct("<4H5I4Q")
SIGNAL = 56  # its offset in a packet of either kind
_BARRIER_BODY = struct.Struct("<I7Q")


def header(kind: int, barrier: bool, acquire: int, release: int) -> int:
    """The first 16 bits."""
    return kind | (BARRIER if barrier else 0) | acquire << 9 | release << 11


def acquiring(head: int, scope: int) -> int:
    """A first word whose packet acquires at another scope."""
    return head & ~(3 << 9) | scope << 9


def barrier_body(after: int, signal: int) -> bytes:
    """Behind the first 32 bits of a packet that waits until signal `after` (0: none) is 0, and then
    counts `signal` (0: none) down."""
    return _BARRIER_BODY.pack(0, after, 0, 0, 0, 0, 0, signal)


DIMENSIONS = 3 << 16  # of a dispatch's grid: its setup, above the header
# Everything before it is done, and what it wrote is seen by everybody.
FENCE = header(BARRIER_AND, True, SYSTEM, SYSTEM)
