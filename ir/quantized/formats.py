"""Formats of quantized weights: the one description that layout check, decoder and oracle share.

A *block format* cuts each row of a matrix into blocks of `block` elements, each stored in `bytes`
bytes with its scales inside: the formats of GGUF files. Two layouts hold the same bits:

    blocks   block after block, as a file has them
    planes   two parts: the blocks without one field (`apart`, a scale of 1 or 2 bytes, which puts
             everything behind it off any alignment), and those fields in a row

A *grouped format* has its scales in tensors of their own, as checkpoints for GPU runtimes do; its
parts are named with their shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..dtypes import DTYPES, DType

Shape = tuple[int, ...]


class UnknownFormatError(LookupError):
    """A name of no format here. name: what was asked for. known: the names that there are."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no quantized format {name!r}; known are {', '.join(known)}")
        self.name, self.known = name, known


class LayoutError(ValueError):
    """A tensor that its format's geometry does not fit. expected, got: bytes or elements."""

    def __init__(self, what: str, expected: int, got: int, why: str) -> None:
        super().__init__(f"{what}: expected {expected}, got {got}; {why}")
        self.expected, self.got = expected, got


class ActOrderError(ValueError):
    """Columns that are not in the order of their groups. column: the first of them. expected, got:
    its group."""

    def __init__(self, name: str, column: int, expected: int, got: int) -> None:
        super().__init__(
            f"g_idx of a {name} matrix at column {column}: expected group {expected}, got {got}; "
            "groups out of order (act-order) are not read: quantize without it (desc_act=False)"
        )
        self.column, self.expected, self.got = column, expected, got


@dataclass(frozen=True, slots=True)
class Field:
    """A part of a block: `bytes` bytes at `offset`."""

    name: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field lies on a device: in which part, how many bytes from block to block, and at
    which byte of a part's block."""

    part: int
    stride: int
    offset: int


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """A format of blocks. block: elements. fields: in the order of a file, without gaps. scale: how
    a value follows from them. apart: the field that planes hold by itself, "" without planes.
    ggml_type: its number in GGUF files.
    """

    name: str
    ggml_type: int
    block: int
    fields: tuple[Field, ...]
    scale: str
    apart: str = ""

    @property
    def bytes(self) -> int:
        """Bytes of a block."""
        return self.fields[-1].offset + self.fields[-1].bytes

    @property
    def bits(self) -> float:
        """Bits of an element, scales included."""
        return 8 * self.bytes / self.block

    @property
    def word(self) -> DType:
        """The widest element, up to u32, that divides blocks evenly: what kernels read."""
        return DTYPES[f"u{8 * math.gcd(self.bytes, 4)}"]

    @property
    def layouts(self) -> tuple[str, ...]:
        return ("blocks", "planes") if self.apart else ("blocks",)

    def row_bytes(self, cols: int) -> int:
        """Bytes of a row of `cols` elements. LayoutError unless blocks fill it."""
        if cols <= 0 or cols % self.block:
            near = max(round(cols / self.block), 1) * self.block
            raise LayoutError(
                f"elements of a row in {self.name}", near, cols, f"blocks are {self.block} long"
            )
        return cols // self.block * self.bytes

    def check(self, shape: Shape, size: int) -> None:
        """Refuse a tensor of `shape` elements whose `size` in bytes is not that of its blocks.

        LayoutError names both figures.
        """
        rows = math.prod(shape[:-1])
        expected = rows * self.row_bytes(shape[-1])
        if size != expected:
            raise LayoutError(
                f"bytes of a {self.name} tensor of shape {shape}",
                expected,
                size,
                f"{self.block} elements take {self.bytes} bytes",
            )

    def places(self, layout: str) -> dict[str, Place]:
        """Where each field lies in a layout. LookupError names no layout of this format."""
        if layout not in self.layouts:
            raise LookupError(f"{self.name} has the layouts {self.layouts}, not {layout!r}")
        if layout == "blocks":
            return {f.name: Place(0, self.bytes, f.offset) for f in self.fields}
        (alone,) = (f for f in self.fields if f.name == self.apart)
        rest = self.bytes - alone.bytes
        found = {
            f.name: Place(0, rest, f.offset - alone.bytes * (f.offset > alone.offset))
            for f in self.fields
        }
        return found | {alone.name: Place(1, alone.bytes, 0)}


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor of a grouped format. shape: from rows (outputs), columns (inputs) and group."""

    name: str
    dtype: DType
    shape: Callable[[int, int, int], Shape]


@dataclass(frozen=True, slots=True)
class GroupedFormat:
    """A format of several tensors. group: columns that share a scale; 0: all of a row.
    divides: what rows and columns are multiples of."""

    name: str
    parts: tuple[Part, ...]
    scale: str
    group: int = 0
    divides: tuple[int, int] = (1, 1)

    def check(
        self,
        shape: Shape,
        sizes: Mapping[str, int],
        group: int = 0,
        shapes: Mapping[str, Shape] | None = None,
    ) -> None:
        """Refuse tensors whose sizes in bytes, by name, are not those of a matrix of `shape`; or
        their shapes, where they are given: as many bytes may be a transposed matrix.

        LayoutError names the first tensor that does not fit and both figures.
        """
        rows, cols = shape
        group = group or self.group or cols
        for what, got, unit in (
            ("rows", rows, self.divides[0]),
            ("columns", cols, self.divides[1]),
            ("columns of a group", group, self.divides[1]),
        ):
            if got <= 0 or got % unit:
                near = max(round(got / unit), 1) * unit
                raise LayoutError(f"{what} in {self.name}", near, got, f"a multiple of {unit}")
        for part in self.parts:
            dims = part.shape(rows, cols, group)
            told = f"it is {' x '.join(map(str, dims))} of {part.dtype.name}"
            held = (shapes or {}).get(part.name, dims)
            what = f"{part.name} of a {self.name} matrix of {rows} x {cols}"
            if len(held) != len(dims):
                raise LayoutError(f"dimensions of {what}", len(dims), len(held), told)
            for axis, (size, wanted) in enumerate(zip(held, dims, strict=True)):
                if size != wanted:
                    raise LayoutError(f"extent {axis} of {what}", wanted, size, told)
            expected = math.prod(dims) * part.dtype.bytes
            if sizes.get(part.name, -1) != expected:
                raise LayoutError(f"bytes of {what}", expected, sizes.get(part.name, 0), told)


Format = BlockFormat | GroupedFormat


def _fields(**sizes: int) -> tuple[Field, ...]:
    found, offset = [], 0
    for name, size in sizes.items():
        found.append(Field(name, offset, size))
        offset += size
    return tuple(found)


def _up(a: int, b: int) -> int:
    return -(-a // b)


_I32, _F16, _F32, _U32 = (DTYPES[n] for n in ("i32", "f16", "f32", "u32"))

_BLOCKS = (
    BlockFormat("q4_0", 2, 32, _fields(d=2, qs=16), "d * (q - 8)", "d"),
    BlockFormat("q4_1", 3, 32, _fields(d=2, m=2, qs=16), "d * q + m"),
    BlockFormat("q5_0", 6, 32, _fields(d=2, qh=4, qs=16), "d * (q - 16)", "d"),
    BlockFormat("q5_1", 7, 32, _fields(d=2, m=2, qh=4, qs=16), "d * q + m"),
    BlockFormat("q8_0", 8, 32, _fields(d=2, qs=32), "d * q", "d"),
    BlockFormat(
        "q2_k", 10, 256, _fields(scales=16, qs=64, d=2, dmin=2), "(d * s) * q - (dmin * m)"
    ),
    BlockFormat(
        "q3_k", 11, 256, _fields(hmask=32, qs=64, scales=12, d=2), "(d * (s - 32)) * (q - 4)", "d"
    ),
    BlockFormat(
        "q4_k", 12, 256, _fields(d=2, dmin=2, scales=12, qs=128), "(d * s) * q - (dmin * m)"
    ),
    BlockFormat(
        "q5_k", 13, 256, _fields(d=2, dmin=2, scales=12, qh=32, qs=128), "(d * s) * q - (dmin * m)"
    ),
    BlockFormat("q6_k", 14, 256, _fields(ql=128, qh=64, scales=16, d=2), "(d * s) * (q - 32)", "d"),
    BlockFormat("iq4_nl", 20, 32, _fields(d=2, qs=16), "d * table[q]", "d"),
    BlockFormat(
        "iq4_xs",
        23,
        256,
        _fields(d=2, scales_h=2, scales_l=4, qs=128),
        "(d * (s - 32)) * table[q]",
    ),
    BlockFormat("mxfp4", 39, 32, _fields(e=1, qs=16), "2**(e - 128) * table[q]", "e"),
)
_GROUPED = (
    GroupedFormat(
        "gptq",
        (
            Part("qweight", _I32, lambda rows, cols, _: (cols // 8, rows)),
            Part("qzeros", _I32, lambda rows, cols, g: (_up(cols, g), rows // 8)),
            Part("scales", _F16, lambda rows, cols, g: (_up(cols, g), rows)),
        ),
        "s * (q - (z + 1))",
        128,
        (8, 32),
    ),
    GroupedFormat(
        "awq",
        (
            Part("qweight", _I32, lambda rows, cols, _: (cols, rows // 8)),
            Part("qzeros", _I32, lambda rows, cols, g: (_up(cols, g), rows // 8)),
            Part("scales", _F16, lambda rows, cols, g: (_up(cols, g), rows)),
        ),
        "s * (q - z)",
        128,
        (8, 32),
    ),
    # What gptq and awq become for kernels: rows of the matrix, one word for a group's s and z.
    GroupedFormat(
        "u4",
        (
            Part("quants", _U32, lambda rows, cols, _: (rows, cols // 8)),
            Part("groups", _U32, lambda rows, cols, g: (rows, _up(cols, g))),
        ),
        "s * (q - z)",
        128,
        (1, 32),
    ),
    GroupedFormat(
        "fp8_channel",
        (
            Part("weight", DTYPES["f8e4m3"], lambda rows, cols, _: (rows, cols)),
            Part("scale", _F32, lambda rows, _, __: (rows,)),
        ),
        "s * q",
        0,
        (1, 32),
    ),
    GroupedFormat(
        "fp8_block",
        (
            Part("weight", DTYPES["f8e4m3"], lambda rows, cols, _: (rows, cols)),
            Part("scale", _F32, lambda rows, cols, g: (_up(rows, g), _up(cols, g))),
        ),
        "s * q",
        128,
        (1, 32),
    ),
    GroupedFormat(
        "int8",
        (
            Part("weight", DTYPES["i8"], lambda rows, cols, _: (rows, cols)),
            Part("scale", _F32, lambda rows, _, __: (rows,)),
        ),
        "s * q",
        0,
        (1, 32),
    ),
)

BLOCKS: dict[str, BlockFormat] = {f.name: f for f in _BLOCKS}
GROUPED: dict[str, GroupedFormat] = {f.name: f for f in _GROUPED}
FORMATS: dict[str, Format] = {**BLOCKS, **GROUPED}


def find(name: str) -> Format:
    """The format of that name, in either case. UnknownFormatError lists those that there are."""
    found = FORMATS.get(name.lower())
    if found is None:
        raise UnknownFormatError(name, tuple(FORMATS))
    return found
