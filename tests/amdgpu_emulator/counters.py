"""Waits: a register that a load will write is not touched before a wait that covers the load.

Loads and stores go on after they are issued; each is counted in a counter of its wave until it is
done, and `s_waitcnt` and its kin wait until a counter is low enough. What a counter says depends on
the order in which operations are done: those of one kind in the order of issue, but scalar loads,
and operations of different kinds, in any, so that only 0 tells anything then. "Data dependency
resolution" in AMD's instruction set manuals; counters in LLVM's "User Guide for AMDGPU Backend".

Store data need no wait on these generations: they are read when a store is issued.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping

from .decode import Instruction
from .errors import MissingWait
from .flow import Ledger, State, analyse
from .state import Arch
from .uses import Uses, is_cache, is_lds, is_vector_memory, name, returns, uses

# counters by generation; expcnt counts exports and GDS, which no compute code here has
COUNTERS = {
    9: ("vmcnt", "lgkmcnt"),
    10: ("vmcnt", "lgkmcnt", "vscnt"),
    11: ("vmcnt", "lgkmcnt", "vscnt"),
    12: ("loadcnt", "dscnt", "storecnt", "kmcnt"),
}
# Keys of what loads or stores, and of what does so in LDS; kinds of operations are strings.
_MOVES, _SHARES = ("moves",), ("shares",)
SCALAR, MESSAGE, LDS, VECTOR, FLAT = "scalar", "message", "LDS", "vector", "flat"
_FIELD = re.compile(r"(\w+cnt)\((\d+)\)")
BARRIERS = ("s_barrier", "s_barrier_signal")
_NEAR = 12  # instructions between a barrier and the invalidation that belongs to it
_EXCHANGES = ("ds_bpermute", "ds_permute", "ds_swizzle")  # by the paths of LDS, not its memory
_JOINT = {"s_wait_loadcnt_dscnt": "loadcnt", "s_wait_storecnt_dscnt": "storecnt"}
_SCALAR = ("s_load_", "s_buffer_load_", "s_scratch_load_", "s_memtime", "s_memrealtime", "s_atomic")


def operations(i: Instruction, generation: int) -> tuple[tuple[str, str], ...]:
    """(counter, kind of operation) of each counter that an instruction counts in."""
    m = i.mnemonic
    new = generation == 12
    if m.startswith(_SCALAR):
        return (("kmcnt" if new else "lgkmcnt", SCALAR),)
    if m.startswith(("s_sendmsg", "s_dcache", "s_get_waveid")):
        return (("kmcnt" if new else "lgkmcnt", MESSAGE),)
    if is_lds(i):
        return (("dscnt" if new else "lgkmcnt", LDS),)
    loads = "loadcnt" if new else "vmcnt"
    stores = {9: "vmcnt", 12: "storecnt"}.get(generation, "vscnt")
    if is_cache(i):
        # Write-backs are counted, and with gfx12 invalidations.
        if m == "global_inv":
            return ((loads, VECTOR),)
        return ((stores, VECTOR),) if m.startswith(("buffer_wbl2", "global_wb")) else ()
    if not is_vector_memory(i):
        return ()
    counter = loads if returns(i) else stores
    if not m.startswith("flat_"):
        return ((counter, VECTOR),)
    # In LDS or not: counted in both. gfx9 does the two in any order.
    kind = FLAT if generation == 9 else VECTOR
    return ((counter, kind), ("dscnt" if new else "lgkmcnt", FLAT if generation == 9 else LDS))


def waited(i: Instruction, generation: int) -> dict[str, int]:
    """Counter -> what it is waited down to."""
    m, text = i.mnemonic, i.operands[0].text if i.operands else ""
    if m == "s_waitcnt":
        return {counter: int(n) for counter, n in _FIELD.findall(text)}
    if m == "s_wait_idle":
        return dict.fromkeys(COUNTERS[generation], 0)
    if m in _JOINT:
        both = int(text, 0)
        return {_JOINT[m]: both >> 8 & 63, "dscnt": both & 63}
    if m.startswith(("s_waitcnt_", "s_wait_")) and m.endswith("cnt"):
        return {m.rpartition("_")[2]: int(text.rpartition(",")[2], 0)}
    return {}


def _unordered(ledger: Ledger[Hashable]) -> bool:
    kinds = [k for k in ledger.last if isinstance(k, str)]
    return len(kinds) > 1 or bool({SCALAR, FLAT} & set(kinds))


def wait(ledger: Ledger[Hashable], count: int) -> None:
    """What is surely done after a wait."""
    if count == 0:
        ledger.last.clear()
    elif not _unordered(ledger):
        ledger.forget(count)


class Waits:
    """The check of one program.

    paired: every wait for stores right before a barrier belongs to that barrier, which then orders
    buffers. It may belong to the end of a loop before it, which LLVM has unrolled.
    """

    def __init__(self, arch: Arch, paired: bool = True) -> None:
        self.generation, self.paired = arch.generation, paired
        self.counters = COUNTERS[arch.generation]

    def run(self, instructions: Mapping[int, Instruction], entries: Iterable[int]) -> None:
        """MissingWait for the first instruction that touches what is not there yet."""
        self.instructions = instructions
        analyse(instructions, entries, len(self.counters), self._step)

    def _step(self, i: Instruction, state: State, final: bool) -> None:
        waits = waited(i, self.generation)
        for counter, count in waits.items():
            if counter in self.counters:
                wait(state[self.counters.index(counter)], count)
        if waits:
            return
        used = uses(i, self.generation)
        if final:
            self._check(i, used, state)
            self._barrier(i, state)
        if i.mnemonic == "s_swappc_b64":  # who is called waits for everything first
            for ledger in state:
                ledger.last.clear()
        results = used.writes if returns(i) or i.mnemonic.startswith("s_") else frozenset[int]()
        for counter, kind in operations(i, self.generation):
            ledger = state[self.counters.index(counter)]
            ledger.clock += 1
            moves = () if is_cache(i) else (_MOVES,)
            shares = (_SHARES,) if kind == LDS and not i.mnemonic.startswith(_EXCHANGES) else ()
            for key in (kind, *moves, *shares, *results):
                ledger.note(key, i.address)

    def _check(self, i: Instruction, used: Uses, state: State) -> None:
        own = dict(operations(i, self.generation))
        for counter, ledger in zip(self.counters, state, strict=True):
            touched = used.all & ledger.last.keys()
            if touched and own.get(counter) == VECTOR and not self._in_turn(ledger):
                touched = touched & used.reads
            for register in sorted(touched):
                raise self._error(i, register, counter, ledger, register in used.reads)

    def _in_turn(self, ledger: Ledger[Hashable]) -> bool:
        """Whether loads of lanes may overwrite each other's results out of turn."""
        return self.generation == 12 or _unordered(ledger)

    def _error(
        self, i: Instruction, register: int, counter: str, ledger: Ledger[Hashable], read: bool
    ) -> MissingWait:
        then, address = ledger.last[register]
        most = 0 if _unordered(ledger) else ledger.clock - then
        return _at(
            i,
            f"{name(register)} is {'read' if read else 'overwritten'} without a wait for"
            f" {counter} {most}: `{self.instructions[address].text}` at {address:#x} may still"
            " write it",
        )

    def _barrier(self, i: Instruction, state: State) -> None:
        """What others are to see once they have passed a barrier is done before it is reached."""
        if i.mnemonic not in BARRIERS:
            return
        ordered: dict[str, Hashable] = {"lgkmcnt": _SHARES, "dscnt": _SHARES}
        invalidates = self.generation > 9 and self._invalidates(i)
        if invalidates:
            ordered |= dict.fromkeys(("vmcnt", "vscnt", "loadcnt", "storecnt"), _MOVES)
        for counter, ledger in zip(self.counters, state, strict=True):
            key = ordered.get(counter)
            if key in ledger.last:
                address = ledger.last[key][1]
                raise _at(
                    i,
                    f"the barrier is reached without a wait for {counter} 0:"
                    f" `{self.instructions[address].text}` at {address:#x} may not be done",
                )
        if self.paired and self.generation > 9 and self._stores_waited(i) and not invalidates:
            raise _at(
                i,
                "stores are waited for before the barrier, but behind it nothing invalidates the"
                " cache that may hold what the others stored",
            )

    def _invalidates(self, i: Instruction) -> bool:
        """From gfx10 on, the waves of a workgroup may run on two compute units: a barrier that
        orders buffers, and not LDS alone, is followed by an invalidation of their caches."""
        at, left, passed = i.next, _NEAR, "signal" not in i.mnemonic
        while left:
            follows = self.instructions.get(at)
            if follows is None or follows.mnemonic.startswith(("s_branch", "s_cbranch")):
                break
            if follows.mnemonic in BARRIERS:  # what stands behind belongs to that one
                break
            if follows.mnemonic in ("buffer_gl0_inv", "global_inv"):
                return True
            left -= passed  # what stands between a signal and its wait is no matter
            passed = passed or follows.mnemonic == "s_barrier_wait"
            at = follows.next
        return False

    def _stores_waited(self, i: Instruction) -> bool:
        found = []
        for back in range(4, 4 * _NEAR + 4, 4):
            before = self.instructions.get(i.address - back)
            if before is not None:
                if before.next not in (i.address, *found):
                    break
                if not before.mnemonic.startswith("s_wait"):
                    break
                found.append(before.address)
                stores = {"vscnt", "storecnt"} & waited(before, self.generation).keys()
                if stores:
                    return True
        return False


def _at(i: Instruction, text: str) -> MissingWait:
    error = MissingWait(text)
    error.place("", f"{i.address:#x}: {i.text}")
    return error
