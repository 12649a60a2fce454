"""DPP forms: the first source comes from other lanes, and some lanes may not be written."""

from __future__ import annotations

from dataclasses import replace

from . import lanes
from .decode import Instruction
from .operands import vector_index
from .registry import Build, Step, form
from .state import TEMPORARIES, TEMPORARY, Arch, Machine

_AMOUNTS = frozenset(
    [
        "row_shl",
        "row_shr",
        "row_ror",
        "row_bcast",
        "row_share",
        "row_newbcast",
        "row_xmask",
        "wave_shl",
        "wave_shr",
        "wave_rol",
        "wave_ror",
    ]
)
_MIRRORS = frozenset(("row_mirror", "row_half_mirror"))
_LISTS = frozenset(("quad_perm", "dpp8"))
_OTHERS = frozenset(("row_mask", "bank_mask", "bound_ctrl", "fi"))
MODIFIERS = _AMOUNTS | _MIRRORS | _LISTS | _OTHERS


def control(i: Instruction) -> tuple[str, int | tuple[int, ...]]:
    """(name, number or selectors) of the one DPP control."""
    found: list[tuple[str, int | tuple[int, ...]]] = []
    found += [(name, i.number(name)) for name in i.modifiers if name in _AMOUNTS]
    found += [(name, i.bits(name, ())) for name in i.modifiers if name in _LISTS]
    words = [o.text for o in i.operands if o.kind == "name"] + list(i.modifiers)
    found += [(word, 0) for word in words if word in _MIRRORS]
    if len(found) != 1:
        raise i.unknown(f"{len(found)} DPP controls")
    return found[0]


def first_source(i: Instruction) -> int:
    """Position of src0: behind the destination, and behind the mask that a carry goes to."""
    if i.mnemonic.startswith("v_cmpx"):
        raise i.unknown("a compare into EXEC of other lanes' values")
    return 2 if "_co_" in i.mnemonic else 1


def writes_mask(i: Instruction) -> bool:
    """Whether a result goes to a mask of lanes, where 'not written' has no documented meaning."""
    return i.operands[0].kind == "s" or "_co_" in i.mnemonic


def inner(i: Instruction, position: int) -> Instruction:
    """The instruction without DPP, src0 in the temporary registers."""
    operands = list(i.operands)
    operands[position] = replace(operands[position], kind="v", index=TEMPORARY)
    operands = [o for o in operands if o.text not in _MIRRORS]
    rest = {name: value for name, value in i.modifiers.items() if name not in MODIFIERS}
    return replace(i, operands=tuple(operands), modifiers=rest, suffix="e64")


@form("dpp", "e64_dpp", modifiers=MODIFIERS)
def dpp(i: Instruction, arch: Arch, build: Build) -> Step:
    kind, amount = control(i)
    position = first_source(i)
    moved_operand = i.operands[position]
    if not moved_operand.is_vector or moved_operand.count > TEMPORARIES:
        raise i.unknown(f"{moved_operand.text} has no lanes to move")
    first, count = vector_index(moved_operand), moved_operand.count
    try:
        source, inside = lanes.dpp_source(kind, amount, arch.lanes)
    except lanes.UnknownPatternError as error:
        raise i.unknown(str(error)) from None
    zero, fetch_inactive = "bound_ctrl" in i.modifiers, i.number("fi") == 1
    allowed = lanes.dpp_lanes(i.number("row_mask", 15), i.number("bank_mask", 15), arch.lanes)
    execute, masks = build(inner(i, position), arch), writes_mask(i)

    def step(m: Machine) -> object:
        mask, full = m.mask, m.full
        written = mask
        for k in range(count):
            value = m.read(first + k)
            moved, written = lanes.dpp(value, mask, source, inside, zero, fetch_inactive)
            m.write_all(TEMPORARY + k, moved)
        written = written & allowed
        if masks and (written != mask).any():
            raise i.unknown("a mask of lanes, some of which DPP disables")
        m.mask, m.full = written, bool(written.all())
        result = execute(m)
        m.mask, m.full = mask, full
        return result

    return step
