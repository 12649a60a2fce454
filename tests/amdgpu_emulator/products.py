"""Wait states around matrix products (MFMA) and dot products, by the tables that `hazards` names.

A product takes a number of passes, by its shape. gfx908 keeps results in accumulation registers of
their own; gfx90a and later have one file of registers.
"""

from __future__ import annotations

import functools

from .decode import Instruction
from .matrix_layout import Shape, parse
from .uses import registers

LONGEST = 20  # wait states that anything takes


def is_product(i: Instruction) -> bool:
    return i.mnemonic.startswith("v_mfma_")


def is_dot(i: Instruction) -> bool:
    return i.mnemonic.startswith("v_dot")


@functools.cache
def _shape(mnemonic: str) -> Shape:
    found = parse(mnemonic)
    assert found is not None
    return found


def passes(mnemonic: str, processor: str) -> int:
    """Of four cycles each. `llvm-mca -instruction-info` shows them as latencies, four more."""
    s = _shape(mnemonic)
    if s.m == 4:
        return 4 if s.d == "f64" else 2
    if s.d == "f64":
        return 16 if processor == "gfx950" else 8
    if processor in ("gfx908", "gfx90a"):
        return 8 if s.m == 16 else 16
    slow = s.blocks > 1 or s.a == "f32"
    return (8 if slow else 4) * (1 if s.m == 16 else 2)


def _double(mnemonic: str) -> bool:
    return _shape(mnemonic).d == "f64"


def _fast(mnemonic: str, processor: str) -> bool:
    """It is done by the units for narrow types (XDL), which f32 is of until gfx90a."""
    s = _shape(mnemonic)
    return s.d != "f64" and (s.a != "f32" or processor in ("gfx908", "gfx90a"))


def _cdna3(processor: str) -> bool:
    return processor not in ("gfx908", "gfx90a")


def _after(before: str, processor: str) -> int:
    """Between a product, not of f64, and the use of its result other than as a summand."""
    n = passes(before, processor)
    if not _fast(before, processor):
        return n + 2
    return n + 3 + (processor == "gfx950" and n > 2)


def needs_unified(
    processor: str, i: Instruction, position: int, memory: bool, kind: str, before: Instruction
) -> int:
    """Wait states between `before`, which left `kind` in a register, and instruction `i`, in whose
    operand `position` it stands (-1: EXEC). gfx90a and later."""
    if is_product(i):
        return _product_needs(processor, i, position, kind, before)
    if position < 0:
        return 2 if kind == "matrix product" and "fma" in i.mnemonic and "f64" in i.mnemonic else 0
    written = _is_written(i, position)
    if kind == "matrix product":
        if not _double(before.mnemonic):
            return _after(before.mnemonic, processor)
        small = passes(before.mnemonic, processor) == 4
        if memory and not written:
            return 9 if small else 18
        return 6 if small else 11
    if kind == "dot product":
        if before.mnemonic != i.mnemonic:
            return 3
        return 3 if position in (1, 2) else 0
    if kind == "summand" and written and _fast(before.mnemonic, processor):
        return {2: 1, 4: 3, 8: 7}.get(passes(before.mnemonic, processor), 15)
    return 0


def _is_written(i: Instruction, position: int) -> bool:
    """Whether a vector operand is a result; of stores none is."""
    stores = "_store_" in i.mnemonic or i.mnemonic.startswith("ds_write")
    return position == 0 and not stores


def _product_needs(
    processor: str, i: Instruction, position: int, kind: str, before: Instruction
) -> int:
    if position < 0:
        return 4 if kind == "vector ALU" else 0
    if position == 0:
        return 0
    if kind == "vector ALU":
        return 0 if is_dot(before) else 2
    if kind != "matrix product":
        return 0
    mnemonic, first = i.mnemonic, before.mnemonic
    small = passes(first, processor) == 4
    if position < 3:
        if _double(first):
            return 6 if small else 11
        return _after(first, processor)
    if _double(first) and not _double(mnemonic) and not _cdna3(processor):
        return 0
    if registers(i.operands[3]) == registers(before.operands[0]):
        return _same_sum(processor, mnemonic, first)
    if _double(first):
        if _fast(mnemonic, processor):
            return 0
        return 4 if small else 9
    return _other_sum(processor, mnemonic, first)


def _same_sum(processor: str, mnemonic: str, first: str) -> int:
    """The summand is just the result of the product before."""
    if _double(mnemonic) and _double(first):
        return 4 if _shape(mnemonic).m == _shape(first).m == 4 else 0
    return 2 if _cdna3(processor) and passes(first, processor) == 2 else 0


def _other_sum(processor: str, mnemonic: str, first: str) -> int:
    """The summand overlaps the result of the product before."""
    n = passes(first, processor)
    if not _cdna3(processor):
        return n + _double(mnemonic)
    if not _fast(first, processor):
        return 0 if _fast(mnemonic, processor) else n
    return n + 1 + (processor == "gfx950" and n > 2)


def needs_separate(
    processor: str, i: Instruction, position: int, memory: bool, kind: str, before: Instruction
) -> int:
    """The same for gfx908."""
    read = i.mnemonic.startswith("v_accvgpr_read")
    write = i.mnemonic.startswith("v_accvgpr_write")
    if memory:
        accumulated = before.mnemonic.startswith("v_accvgpr_read")
        stored = position >= 0 and not _is_written(i, position)
        return 2 if kind == "vector ALU" and accumulated and stored else 0
    if not (is_product(i) or read or write):
        return 0
    if kind == "vector ALU":
        if before.mnemonic.startswith("v_accvgpr_write") or read or position == 0:
            return 0
        return 4 if position < 0 else 2
    if position < 0:
        return 0
    if kind == "v_accvgpr_write" and not write:
        return 1 if position == 3 else 3 if position else 0
    if kind == "summand" and write and position == 0:
        return {2: 0, 8: 5}.get(passes(before.mnemonic, processor), 13)
    if kind != "matrix product" or (position == 0 and not write):
        return 0
    if registers(i.operands[position]) == registers(before.operands[0]):
        return 0
    if position == 3:
        return 2
    n = passes(before.mnemonic, processor)
    return n + 2 if read else n - 1 if write else 4
