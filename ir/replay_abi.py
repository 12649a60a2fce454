"""The replay loop of the cpu device: what its artifact and the runtime agree on.

A recording on the cpu is an array of commands that an emitted function walks, so that a replay is
one foreign call per worker. The artifact is the kernel `KERNEL`, specialization `SPECIALIZATION`,
one for each cpu target; it exports

    uint32_t gristmill_replay(const command *commands, uint32_t count, void *control,
                              void *scratch, uint32_t workers, uint64_t budget)

commands: `count` records of `COMMAND_WORDS` 64-bit words, laid out as `command` packs them.
control: `CONTROL_BYTES` bytes, aligned to 64, all zero when a replay begins and shared by its
workers. scratch: this worker's own memory, large enough for every kernel of the recording, aligned
to 64. workers: how many threads call the function for this replay; with 1 no atomic is used.

Commands run in order; workers take `grain` workgroups of a command at a time, and none starts on
the next command before the last workgroup is done. A worker that finds nothing to do spins, at
most `budget` times in a row (a pause of some 10 to 100 ns each).

The result is `DONE` when all commands are done. It is `WAITING` when the budget ran out: the
worker has left nothing unfinished, the others go on without it, and it may call again with the
same arguments to go on helping, or to learn whether all is done. No worker waits for one that has
not started. control may be cleared for the next replay when every call has returned.
"""

from __future__ import annotations

import struct

KERNEL, SPECIALIZATION = "gristmill.replay", "loop"
ENTRY = "gristmill_replay"
COMMAND_WORDS = 4
CONTROL_BYTES = 192
WAITING, DONE = 0, 1
MAX_GROUPS = (1 << 31) - 1

# Offsets in the control block, each on a cache line of its own. STATE: the current command in the
# upper half, the next workgroup to take in the lower. FINISHED: workgroups done of that command.
STATE, FINISHED = 0, 64

_COMMAND = struct.Struct("<QQIIQ")


def command(function: int, args: int, groups: int, grain: int) -> bytes:
    """One record: the kernel's address, that of its arguments, its workgroups (at least 1) and how
    many of them a worker takes at a time. ValueError where a number is out of range."""
    if not 1 <= groups <= MAX_GROUPS or not 1 <= grain <= MAX_GROUPS >> 8:
        raise ValueError(f"{groups} workgroups in steps of {grain}: not within 1 .. {MAX_GROUPS}")
    return _COMMAND.pack(function, args, groups, grain, 0)
