"""Products by warpgroups: wgmma, as inline assembly, for LLVM has no intrinsic of it.

The registers of a sum are tied: an instruction takes them and gives them back; one that begins a
sum gives them only. A product is one statement of all its steps, so that nothing comes between
them.

A tile is described by 64 bits: its address, the distances between its parts, and its swizzle. Rows
along the depth: eight rows of 128 bytes are 1024 apart. Rows along the columns of b: a tile of 64
columns has a row of 128 bytes for each step along the depth, eight of them are 1024 apart, and the
next 64 columns lie a whole tile further on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.core import Op, Value
from ...ir.dtypes import DTYPES, element_of, f16
from ...ir.ops.nv import STEP_BYTES
from ..simt.memory import place
from .lowering import SHARED, Lowering

_SWIZZLE_128 = 1 << 62
_NAMES = {"f16": "f16", "bf16": "bf16", "f32": "tf32", "i8": "s8", "u8": "u8"}
_NAMES |= {"f8e4m3": "e4m3", "f8e5m2": "e5m2"}
_SUMS = {"f32": "f32", "f16": "f16", "i32": "s32"}
_UNIT = 16  # bytes, in a description
_ROW = 128
_PAIR = "<2 x i16>"


def _description(x: Lowering, memory: Value, index: Value, leading: int) -> str:
    """leading: bytes between the parts of a tile with rows along its columns."""
    f = x.f
    pointer = place(x, x.memory[memory.id], index)
    address = f.value(f"ptrtoint {SHARED} {pointer} to i64")
    low = f.value(f"and i64 {f.value(f'lshr i64 {address}, 4')}, {0x3FFF}")
    rest = _SWIZZLE_128 | 8 * _ROW // _UNIT << 32 | leading // _UNIT << 16
    return f.value(f"or i64 {low}, {rest}")


def emit_wgmma(x: Lowering, op: Op) -> None:
    element = str(op.attr("element"))
    columns, depth = int(op.attr("columns")), int(op.attr("depth"))  # type: ignore[arg-type]
    transposed, registers = bool(op.attr("transposed")), bool(op.attr("registers"))
    width = DTYPES[element].bytes
    steps = depth * width // STEP_BYTES
    deep = depth // steps
    inputs: list[tuple[str, str, str]] = []  # constraint, type, value
    lefts: list[list[int]] = []  # of each step: numbers of its inputs
    first = 2
    if registers:
        first = 4 * steps
        for step in range(steps):
            lefts.append(list(range(4 * step, 4 * step + 4)))
        inputs += [("r", "i32", x.scalar(v)) for v in op.operands[:first]]
    else:
        start = _description(x, op.operands[0], op.operands[1], _UNIT)
        for step in range(steps):
            lefts.append([len(inputs)])
            inputs.append(("l", "i64", _moved(x, start, step * STEP_BYTES)))
    leading = depth * _ROW if transposed else _UNIT
    start = _description(x, op.operands[first], op.operands[first + 1], leading)
    rights = []
    for step in range(steps):
        rights.append(len(inputs))
        away = step * deep * _ROW if transposed else step * STEP_BYTES
        inputs.append(("l", "i64", _moved(x, start, away)))
    sums = op.operands[first + 2 :]
    kept, name = element_of(sums[0].type), _NAMES[element]
    count = len(sums) // 2 if kept == f16 else len(sums)
    total = "{" + ", ".join(f"${n}" for n in range(count)) + "}"
    kind = f"m64n{columns}k{deep}.{_SUMS[kept.name]}.{name}.{name}"
    tail = ""
    if kept.is_float:
        tail += ", 1, 1"  # neither operand negated
        if width == 2:
            tail += f", {int(transposed)}" if registers else f", 0, {int(transposed)}"
    lines = []
    accumulate = bool(op.attr("accumulate"))
    added = int(accumulate)
    for left, right in zip(lefts, rights, strict=True):
        a = ", ".join(f"${count + n}" for n in left)
        a = f"{{{a}}}" if registers else a
        b = f"${count + right}, {added}"
        lines.append(f"wgmma.mma_async.sync.aligned.{kind} {total}, {a}, {b}{tail};")
        added = 1
    _tied(x, op, " ".join(lines), sums, inputs, accumulate)


def _moved(x: Lowering, description: str, away: int) -> str:
    return x.f.value(f"add i64 {description}, {away // _UNIT}") if away else description


def _tied(
    x: Lowering,
    op: Op,
    text: str,
    sums: Sequence[Value],
    inputs: list[tuple[str, str, str]],
    takes: bool = True,
) -> None:
    """Assembly that gives the registers of a sum, and takes them before; two elements of f16 share
    one."""
    f, kept = x.f, element_of(sums[0].type)
    given = [x.scalar(v) for v in sums] if takes else []
    count = len(sums) // 2 if kept == f16 else len(sums)
    t = "float" if kept.is_float and kept != f16 else "i32"
    letter = "=f" if t == "float" else "=r"
    if kept == f16:
        given = [_pair(x, *given[n : n + 2]) for n in range(0, len(given), 2)]
    if not given:
        letter = letter.replace("=", "=&")  # written while inputs are still read
    constraints = [letter] * count + [c for c, _, _ in inputs]
    constraints += [*map(str, range(len(given))), "~{memory}"]
    arguments = [f"{ty} {v}" for _, ty, v in inputs] + [f"{t} {v}" for v in given]
    group = "{ " + ", ".join([t] * count) + " }"
    done = f.value(
        f'call {group} asm sideeffect "{text}", "{",".join(constraints)}"'
        f"({', '.join(arguments)}) convergent"
    )
    words = [f.value(f"extractvalue {group} {done}, {n}") for n in range(count)]
    if kept == f16:
        pairs = [f.value(f"bitcast i32 {w} to {_PAIR}") for w in words]
        words = [f.value(f"extractelement {_PAIR} {p}, i32 {n}") for p in pairs for n in range(2)]
    for value, word in zip(op.results, words, strict=True):
        x.set(value, [word])


def _pair(x: Lowering, low: str, high: str) -> str:
    """Two elements of f16, which are held as their bits, as a word."""
    pair = x.f.value(f"insertelement {_PAIR} poison, i16 {low}, i32 0")
    pair = x.f.value(f"insertelement {_PAIR} {pair}, i16 {high}, i32 1")
    return x.f.value(f"bitcast {_PAIR} {pair} to i32")


def emit_fence(x: Lowering, op: Op) -> None:
    x.f.call("llvm.nvvm.wgmma.fence.sync.aligned", "void")


def emit_commit(x: Lowering, op: Op) -> None:
    x.f.call("llvm.nvvm.wgmma.commit_group.sync.aligned", "void")


def emit_wait(x: Lowering, op: Op) -> None:
    """With registers, tied: what reads them stays behind the wait."""
    if not op.operands:
        number = ("i64", str(op.attr("pending")))
        x.f.call("llvm.nvvm.wgmma.wait_group.sync.aligned", "void", number)
        return
    text = f"wgmma.wait_group.sync.aligned {op.attr('pending')};"
    _tied(x, op, text, op.operands, [])


EMIT: dict[str, Callable[[Lowering, Op], None]] = {
    "nv_wgmma": emit_wgmma,
    "nv_wgmma_fence": emit_fence,
    "nv_wgmma_commit": emit_commit,
    "nv_wgmma_wait": emit_wait,
}
