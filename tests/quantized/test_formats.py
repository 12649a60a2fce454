"""What blocks mean and which tensors fit: held against another implementation, and refusals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gristmill.ir import quantized
from gristmill.ir.quantized import (
    BLOCKS,
    GROUPED,
    ActOrderError,
    BlockFormat,
    LayoutError,
    UnknownFormatError,
)
from gristmill.ir.quantized.grouped import AWQ_ORDER
from quantized_runs import extremes, same_bits

by_format = pytest.mark.parametrize("form", BLOCKS.values(), ids=lambda f: f.name)


@by_format
def test_blocks_mean_what_the_reference_decoder_says(
    form: BlockFormat, rng: np.random.Generator, require: Callable[[str], None]
) -> None:
    require("gguf")
    import gguf

    kind = gguf.GGMLQuantizationType(form.ggml_type)
    assert kind.name.lower() == form.name
    assert gguf.GGML_QUANT_SIZES[kind] == (form.block, form.bytes)
    data = np.concatenate([extremes(form), rng.integers(0, 256, (500, form.bytes), np.uint8)])
    with np.errstate(all="ignore"):
        theirs = gguf.quants.dequantize(data, kind)
    assert same_bits(quantized.decode(data, form), theirs)


@by_format
def test_planes_hold_the_same_bytes(form: BlockFormat, rng: np.random.Generator) -> None:
    data = rng.integers(0, 256, (3, 5 * form.bytes), np.uint8)
    if "planes" not in form.layouts:
        assert form.bytes % 4 == 0
        with pytest.raises(LookupError, match=rf"{form.name} has the layouts \('blocks',\)"):
            quantized.planes(data, form)
        return
    parts = quantized.planes(data, form)
    blocks = data.reshape(-1, form.bytes)
    assert sum(p.size for p in parts) - data.size < 8
    for f in form.fields:
        place = form.places("planes")[f.name]
        assert place.part == (f.name == form.apart)
        assert place.part or place.stride % 4 == place.offset % 4 == 0
        for n, block in enumerate(blocks):
            first = n * place.stride + place.offset
            held = parts[place.part][first : first + f.bytes]
            assert held.tobytes() == block[f.offset : f.offset + f.bytes].tobytes()


@by_format
def test_planes_of_bytes_that_are_no_whole_blocks_are_refused(form: BlockFormat) -> None:
    if "planes" not in form.layouts:
        return  # refused by its layout, above
    for shape in ((3, form.bytes - 1), (2, form.bytes + 1), (form.bytes, 2), (0,)):
        with pytest.raises(LayoutError, match=f"(a row in|bytes of a) {form.name}"):
            quantized.planes(np.zeros(shape, np.uint8), form)


@by_format
def test_a_tensor_of_another_size_is_refused_with_both_figures(form: BlockFormat) -> None:
    cols = 4 * form.block
    form.check((2, 3, cols), 24 * form.bytes)
    for size in (24 * form.bytes - 1, 24 * form.bytes + form.bytes, 0):
        with pytest.raises(LayoutError, match=rf"expected {24 * form.bytes}, got {size};") as found:
            form.check((2, 3, cols), size)
        assert (found.value.expected, found.value.got) == (24 * form.bytes, size)
    for wrong in (cols - 1, cols + 16, 0):
        with pytest.raises(LayoutError, match=f"elements of a row in {form.name}: .* got {wrong};"):
            form.check((2, wrong), 1)


def test_an_unknown_format_is_refused_by_name() -> None:
    assert quantized.find("Q4_K") is BLOCKS["q4_k"]
    with pytest.raises(UnknownFormatError, match=r"'iq2_xxs'; known are q4_0, .*, int8") as found:
        quantized.find("iq2_xxs")
    assert found.value.name == "iq2_xxs"
    assert "mxfp4" in found.value.known


def pack(q: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """Eight neighbours along the last axis as a word, element order[i] as nibble i."""
    words = np.zeros((*q.shape[:-1], q.shape[-1] // 8), np.int64)
    for nibble, element in enumerate(order):
        words |= q[..., element::8].astype(np.int64) << (4 * nibble)
    return words.astype(np.uint32).view(np.int32)


def checkpoint(
    name: str, rng: np.random.Generator, rows: int, cols: int, group: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Tensors as GPTQ or AWQ store them, and the matrix that they stand for."""
    q = rng.integers(0, 16, (cols, rows))
    z = rng.integers(0, 16, (-(-cols // group), rows))
    s = rng.standard_normal(z.shape).astype(np.float16)
    straight = tuple(range(8))
    if name == "gptq":
        parts = {"qweight": pack(q.T, straight).T, "qzeros": pack(z, straight), "scales": s}
        shift = 1
    else:
        parts = {"qweight": pack(q, AWQ_ORDER), "qzeros": pack(z, AWQ_ORDER), "scales": s}
        shift = 0
    scale, zero = (a.repeat(group, 0)[:cols] for a in (s.astype(np.float64), z + shift))
    return parts, (scale * (q - zero)).T


@pytest.mark.parametrize(("cols", "group"), [(256, 32), (256, 128), (160, 128), (160, 0)])
@pytest.mark.parametrize("name", ["gptq", "awq"])
def test_checkpoints_of_four_bits_are_read_and_repacked(
    name: str, cols: int, group: int, rng: np.random.Generator
) -> None:
    """A group of 0 is the format's own; the last group of 160 columns is not full."""
    parts, want = checkpoint(name, rng, 24, cols, group or 128)
    assert np.array_equal(quantized.decode_parts(parts, name, group), want)
    packed = quantized.repack(parts, name, group)
    assert np.array_equal(quantized.decode_parts(packed, "u4", group), want)


@pytest.mark.parametrize("name", GROUPED)
def test_a_part_that_is_missing_is_named(name: str) -> None:
    form = GROUPED[name]
    storage = {"f8e4m3": np.uint8}
    whole = {
        p.name: np.zeros(p.shape(16, 256, form.group), storage.get(p.dtype.name, p.dtype.storage))
        for p in form.parts
    }
    quantized.decode_parts(whole, name)
    for part in whole:
        rest = {n: a for n, a in whole.items() if n != part}
        with pytest.raises(LayoutError, match=f"parts of {name}: .*missing: {part}$") as found:
            quantized.decode_parts(rest, name)
        assert (found.value.expected, found.value.got) == (len(whole), len(rest))
        if name in ("gptq", "awq"):
            with pytest.raises(LayoutError, match=f"missing: {part}$"):
                quantized.repack(rest, name)


@pytest.mark.parametrize(("cols", "group"), [(256, 32), (160, 0)])
def test_gptq_with_groups_out_of_order_is_refused(
    cols: int, group: int, rng: np.random.Generator
) -> None:
    parts, want = checkpoint("gptq", rng, 24, cols, group or 128)
    index = np.arange(cols, dtype=np.int32) // (group or 128)
    straight = parts | {"g_idx": index}
    assert np.array_equal(quantized.decode_parts(straight, "gptq", group), want)
    assert quantized.repack(straight, "gptq", group).keys() == {"quants", "groups"}
    swapped = index.copy()
    swapped[[3, -1]] = swapped[[-1, 3]]
    got = index[-1]
    place = f"at column 3: expected group 0, got {got};"
    for read in (quantized.decode_parts, quantized.repack):
        with pytest.raises(ActOrderError, match=place) as found:
            read(parts | {"g_idx": swapped}, "gptq", group)
        assert (found.value.column, found.value.expected, found.value.got) == (3, 0, got)
        with pytest.raises(LayoutError, match=f"g_idx .* expected {cols}, got {cols - 1}"):
            read(parts | {"g_idx": index[:-1]}, "gptq", group)


def test_parts_of_a_format_that_has_none_are_refused_by_name() -> None:
    for read, name in ((quantized.decode_parts, "q4_0"), (quantized.repack, "u4")):
        with pytest.raises(UnknownFormatError, match=f"'{name}'; known are gptq, awq"):
            read({}, name)


@pytest.mark.parametrize("name", GROUPED)
def test_tensors_of_a_grouped_format_that_do_not_fit_are_refused(name: str) -> None:
    form = GROUPED[name]
    sizes = {}
    for part in form.parts:
        dims = part.shape(16, 256, form.group or 256)
        sizes[part.name] = int(np.prod(dims)) * part.dtype.bytes
    form.check((16, 256), sizes)
    for part in form.parts:
        with pytest.raises(LayoutError, match=f"bytes of {part.name} of a {name} matrix") as found:
            form.check((16, 256), {**sizes, part.name: 12})
        assert (found.value.expected, found.value.got) == (sizes[part.name], 12)
    with pytest.raises(LayoutError, match=f"columns in {name}: expected 256, got 260"):
        form.check((16, 260), sizes)


@pytest.mark.parametrize("name", sorted(GROUPED))
def test_tensors_of_the_right_bytes_and_another_shape_are_refused(name: str) -> None:
    form = GROUPED[name]
    parts = {}
    for part in form.parts:
        stored = np.uint8 if part.dtype.name == "f8e4m3" else part.dtype.storage
        parts[part.name] = np.zeros(part.shape(32, 256, form.group or 256), stored)
    quantized.decode_parts(parts, name)
    for part, held in parts.items():
        for other in (held.reshape(-1, 1), held.reshape(1, -1), held.T.copy(), held[None]):
            if other.shape != held.shape:
                with pytest.raises(
                    LayoutError, match=rf"(dimensions|extent \d|columns|rows) .*{name}"
                ):
                    quantized.decode_parts({**parts, part: other}, name)
    first = next(iter(parts))
    with pytest.raises(LayoutError, match=f"dimensions of {first} .*expected 2, got 1"):
        quantized.decode_parts({**parts, first: parts[first].reshape(-1)}, name)


def test_float8_scales_belong_to_rows_or_to_tiles() -> None:
    weight = np.full((130, 160), 0x38, np.uint8)  # ones
    scale = np.array([[1, 2], [3, 4]], np.float32)
    tiles = quantized.decode_parts({"weight": weight, "scale": scale}, "fp8_block")
    assert tiles[0, [0, 127, 128, 159]].tolist() == [1, 1, 2, 2]
    assert tiles[[127, 128, 129], 159].tolist() == [2, 4, 4]
    rows = {"weight": weight[:2], "scale": np.array([0.5, 3], np.float32)}
    assert quantized.decode_parts(rows, "fp8_channel")[:, 7].tolist() == [0.5, 3]
    rows["weight"] = np.array([[1] * 32, [-128] * 32], np.int8)
    assert quantized.decode_parts(rows, "int8")[:, 7].tolist() == [0.5, -384]


@pytest.mark.parametrize("kind", [np.uint16, np.int8, np.float32])
def test_blocks_of_other_elements_are_refused(kind: type) -> None:
    """Not taken by their values."""
    form = quantized.FORMATS["q8_0"]
    for function in (quantized.decode, quantized.planes):
        with pytest.raises(TypeError, match="expected uint8"):
            function(np.zeros(form.bytes, kind), form)
