"""Checkpoints hold what the formats' own packages read in them, and say all that is wrong."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file, save, save_file

import checkpoint_files as files
from gristmill.ir.dtypes import DTYPES, DType
from gristmill.ir.quantized import BLOCKS, decode
from gristmill.models import problems
from gristmill.models.checkpoints import ExpectedTensor, finite, gguf_file, open_checkpoint
from gristmill.models.errors import (
    CheckpointError,
    CheckpointFormatError,
    CheckpointMissingError,
)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def kinds(found: list[problems.Problem]) -> list[tuple[str, str]]:
    return [(p.kind, p.name) for p in found]


def test_a_gguf_file_reads_as_its_own_package_reads_it(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    tensors = {name: files.random_blocks(rng, name, 3, 512) for name in BLOCKS}
    tensors |= {"f32": rng.normal(size=(2, 3, 5)).astype(np.float32)}
    tensors |= {"f16": rng.normal(size=7).astype(np.float16), "i8": np.arange(4, dtype=np.int8)}
    path = files.packed(tmp_path / "a.gguf", tensors, {name: name for name in BLOCKS})
    checkpoint, theirs = open_checkpoint(path), gguf.GGUFReader(path)
    assert checkpoint.names() == tuple(t.name for t in theirs.tensors)
    for other in theirs.tensors:
        own = checkpoint.tensor(other.name)
        assert own.shape == tuple(other.shape.tolist()[::-1])
        assert own.form.name.upper() == other.tensor_type.name
        np.testing.assert_array_equal(own.data, other.data)
        assert not own.data.flags.writeable
        assert not own.data.flags.owndata
    for key, kept in theirs.fields.items():
        if not key.startswith("GGUF."):
            held = checkpoint.metadata[key]
            told = held.tolist() if isinstance(held, np.ndarray) else held
            assert (list(told) if isinstance(told, tuple) else told) == kept.contents()
    wanted = {n: ExpectedTensor(checkpoint.tensor(n).shape) for n in checkpoint.names()}
    assert checkpoint.require(wanted) == []


def test_a_safetensors_file_reads_as_its_own_package_reads_it(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    names = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8")
    tensors = {n: rng.integers(-9, 99, (3, 4)).astype(n) for n in (*names, "uint16", "uint64")}
    tensors["scalar"] = np.array(2.5, np.float32)
    path = tmp_path / "a.safetensors"
    save_file(tensors, path, {"format": "np", "of": "tests"})
    checkpoint = open_checkpoint(path)
    assert checkpoint.metadata == {"format": "np", "of": "tests"}
    theirs = load_file(path)
    assert set(checkpoint.names()) == set(theirs)
    for name, other in theirs.items():
        own = checkpoint.tensor(name)
        assert (own.shape, own.data.dtype) == (other.shape, other.dtype)
        np.testing.assert_array_equal(own.data, other)
        assert not own.data.flags.writeable


def test_bf16_and_8_bit_floats_come_as_their_bits_at_any_alignment(tmp_path: Path) -> None:
    header = {
        "b": {"dtype": "BF16", "shape": [2], "data_offsets": [1, 5]},
        "e": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]},
    }
    for pad in range(4):
        text = files.raw_safetensors({**header, "__metadata__": {"p": "x" * pad}}, bytes(range(5)))
        checkpoint = open_checkpoint(written(tmp_path / f"{pad}", text))
        assert checkpoint.tensor("b").form is DTYPES["bf16"]
        assert checkpoint.tensor("b").data.tolist() == [0x0201, 0x0403]
        assert checkpoint.tensor("e").data.tolist() == [0]


def test_numbers_of_ggml_types_are_those_of_its_package() -> None:
    known = {t.name: int(t) for t in gguf.GGMLQuantizationType}
    for number, form in gguf_file.FORMS.items():
        assert known[form.name.upper()] == number
        block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)]
        own = (1, form.bytes) if isinstance(form, DType) else (form.block, form.bytes)
        assert own == (block, size)
    for number, name in gguf_file.UNREAD.items():
        assert known.get(name, number) == number
    assert set(known.values()) - {int(t) for t in gguf_file.FORMS} <= {*gguf_file.UNREAD, 41, 42}


def three(tmp_path: Path) -> Path:
    tensors = {
        "a": np.ones((2, 4), np.float32),
        "b": np.ones((3,), np.float16),
        "q": np.zeros((2, 40), np.uint8),
    }
    return files.packed(tmp_path / "three.gguf", tensors, {"q": "q4_1"})


def test_all_problems_of_a_checkpoint_are_told_at_once(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(three(tmp_path))
    found = checkpoint.require(
        {
            "a": ExpectedTensor((4, 2), ("f32",)),
            "c": ExpectedTensor((5,)),
            "maybe": ExpectedTensor((5,), optional=True),
            "q": ExpectedTensor((2, 64), ("f16", "q8_0")),
        }
    )
    assert kinds(found) == [("shape", "a"), ("missing", "c"), ("type", "q"), ("extra", "b")]
    assert (found[0].expected, found[0].got) == ("[4, 2]", "[2, 4]")
    assert (found[2].expected, found[2].got) == ("f16 or q8_0", "q4_1")
    text = str(CheckpointError(checkpoint.path, found))
    assert all(f"{p.name}: expected {p.expected}, got {p.got}" in text for p in found)


def test_a_tensor_that_is_missing_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere"):
        open_checkpoint(three(tmp_path)).tensor("nowhere")


@pytest.mark.parametrize("name", ["f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("negative", [False, True])
def test_one_value_that_is_no_number_is_found(
    tmp_path: Path, rng: np.random.Generator, name: str, negative: bool
) -> None:
    bits = {"f8e4m3": 0x7F, "f8e5m2": 0x7C, "f16": 0x7C00, "bf16": 0x7F81}
    bits |= {"f32": 0x7F800000, "f64": 0x7FF0000000000001}
    form = DTYPES[name]
    unsigned = np.dtype(f"u{form.bytes}")
    values = rng.integers(0, bits[name] & ~(bits[name] & -bits[name]), (9, 40)).astype(unsigned)
    exponent = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF << 52}
    values &= unsigned.type(exponent.get(name, 0x3F) | 7)
    assert finite.first_non_finite(values.view(form.storage), form) == ""
    sign = 1 << (form.bits - 1)
    row, column = int(rng.integers(9)), int(rng.integers(40))
    values[row, column] = bits[name] | (sign if negative else 0)
    got = finite.first_non_finite(values.view(form.storage), form)
    assert got == f"1 of 360 values that are not, the first at [{row}, {column}]"


@pytest.mark.parametrize("form", sorted(BLOCKS))
def test_one_scale_that_is_no_number_is_found_in_any_portion(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, form: str
) -> None:
    monkeypatch.setattr(finite, "PORTION", 3)
    of = BLOCKS[form]
    data = files.random_blocks(rng, form, 4, 1024)
    assert finite.first_non_finite(data, of) == ""
    scales = [f for f in of.fields if f.name in ("d", "m", "dmin", "e")]
    assert scales
    for part in scales:
        broken = data.copy()
        block = int(rng.integers(data.size // of.bytes))
        view = broken.reshape(-1, of.bytes)[block]
        view[part.offset : part.offset + part.bytes] = [0xFF] if part.name == "e" else [0, 0xFC]
        per_row = 1024 // of.block
        place = [block // per_row, block % per_row * of.block]
        got = finite.first_non_finite(broken, of)
        assert got.endswith(f"the first at {place}")
        assert f"`{part.name}`" in got
        values = decode(broken, of)
        assert not np.isfinite(values[place[0], place[1] : place[1] + of.block]).all()


def test_a_non_finite_value_is_a_problem_unless_it_is_not_asked_for(tmp_path: Path) -> None:
    tensors = {"a": np.array([1, np.inf, np.nan], np.float32)}
    checkpoint = open_checkpoint(files.packed(tmp_path / "a.gguf", tensors, {}))
    wanted = {"a": ExpectedTensor((3,))}
    (found,) = checkpoint.require(wanted)
    assert isinstance(found, problems.NonFinite)
    assert found.got.startswith("2 of 3 values")
    assert checkpoint.require(wanted, finite=False) == []


def test_a_truncated_file_names_the_tensors_behind_its_end(tmp_path: Path) -> None:
    whole = three(tmp_path).read_bytes()
    checkpoint = open_checkpoint(written(tmp_path / "cut.gguf", whole[:-40]))
    wanted = {"a": ExpectedTensor((2, 4)), "b": ExpectedTensor((3,)), "q": ExpectedTensor((2, 64))}
    assert kinds(checkpoint.require(wanted)) == [("truncated", "q")]
    with pytest.raises(CheckpointError, match="truncated: q"):
        checkpoint.tensor("q")
    assert checkpoint.tensor("a").data.sum() == 8


def test_every_cut_of_a_header_is_told_as_such(tmp_path: Path) -> None:
    whole = three(tmp_path).read_bytes()
    end = gguf.GGUFReader(tmp_path / "three.gguf").data_offset
    for size in range(0, end - 31):
        with pytest.raises(CheckpointFormatError) as caught:
            open_checkpoint(written(tmp_path / "cut", whole[:size]))
        assert isinstance(caught.value.problems[0], problems.Truncated | problems.Unsupported)


@pytest.mark.parametrize(
    ("tensor", "kind", "got"),
    [
        (("t", (256,), 16, 0), problems.Unsupported, "IQ2_XXS"),
        (("t", (256,), 4, 0), problems.Unsupported, "ggml's type 4"),
        (("t", (33,), 2, 0), problems.Geometry, "33"),
        (("t", (0, 4), 0, 0), problems.Malformed, "[4, 0]"),
        (("t", (4,), 0, 33), problems.Malformed, "33 from the start of the data"),
        (("t", (4,), 0, 1 << 60), problems.Truncated, "352 bytes"),
        (("t", (1 << 62, 1 << 62, 1 << 62, 1 << 62), 0, 0), problems.Truncated, "352 bytes"),
    ],
)
def test_a_damaged_tensor_of_gguf_is_a_problem_of_its_own(
    tmp_path: Path, tensor: files.RawTensor, kind: type[problems.Problem], got: str
) -> None:
    text = files.raw_gguf([tensor, ("good", (2,), 0, 0)] if tensor[3] else [tensor], bytes(256))
    text += bytes(max(352 - len(text), 0))
    checkpoint = open_checkpoint(written(tmp_path / "bad.gguf", text))
    found = [p for p in checkpoint.require({}) if p.kind != "extra"]
    assert [(type(p), p.name.split(":")[0], p.got) for p in found] == [(kind, "t", got)]
    with pytest.raises(CheckpointError):
        checkpoint.tensor("t")


def test_tensors_that_share_bytes_are_told_with_whom(tmp_path: Path) -> None:
    tensors = [("wide", (64,), 0, 0), ("in", (8,), 0, 32), ("too", (8,), 0, 128)]
    text = files.raw_gguf([*tensors, ("free", (8,), 0, 256)], bytes(288))
    found = open_checkpoint(written(tmp_path / "o.gguf", text)).require({})
    shared = [p for p in found if isinstance(p, problems.Geometry)]
    assert [p.name for p in shared] == ["in", "too"]
    assert all("which wide has too" in p.got for p in shared)


def test_a_part_of_a_split_model_is_told_to_be_one(tmp_path: Path) -> None:
    pair = files.pair("split.count", 2, b"\x03\x00")
    checkpoint = open_checkpoint(written(tmp_path / "p", files.raw_gguf([], pairs=[pair])))
    assert kinds(checkpoint.require({})) == [("unsupported", "split.count")]


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 7]}}, "geometry"),
        ({"t": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}, "truncated"),
        ({"t": {"dtype": "F4", "shape": [2], "data_offsets": [0, 8]}}, "unsupported"),
        ({"t": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}, "malformed"),
        ({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, "malformed"),
    ],
)
def test_a_damaged_tensor_of_safetensors_is_a_problem(
    tmp_path: Path, header: object, kind: str
) -> None:
    checkpoint = open_checkpoint(written(tmp_path / "b", files.raw_safetensors(header, bytes(8))))
    assert kind in [p.kind for p in checkpoint.require({})]


HUGE = 1 << 60
F32 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GGUF",
        b"nonsense that is long enough",
        files.raw_gguf([], version=1),
        files.raw_gguf([], version=0x03000000),
        files.raw_gguf([], counts=(HUGE, 0)),
        files.raw_gguf([], counts=(0, HUGE)),
        files.raw_gguf([], pairs=[files.pair("k", 8, HUGE.to_bytes(8, "little"))]),
        files.raw_gguf([], pairs=[files.pair("k", 9, b"\0\0\0\0" + HUGE.to_bytes(8, "little"))]),
        files.raw_gguf([], pairs=[files.pair("k", 9, b"\x09\0\0\0" + HUGE.to_bytes(8, "little"))]),
        files.raw_gguf([], pairs=[files.pair("k", 9, b"\x09\0\0\0" + b"\1" + bytes(7))] * 9),
        files.raw_gguf([], pairs=[files.pair("k", 13, bytes(8))]),
        files.raw_gguf([], pairs=[files.pair("k", 7, b"\1")] * 2),
        files.raw_gguf([], pairs=[files.pair("k", 8, b"\1" + bytes(7) + b"\xff")]),
        files.raw_gguf([], pairs=[files.pair("general.alignment", 4, bytes(4))]),
        files.raw_gguf([("t", (1,), 0, 0)] * 2, bytes(64)),
        files.raw_gguf([("t", (1,) * 5, 0, 0)], bytes(64)),
        files.raw_gguf([("t", (), 0, 0)], bytes(64)),
        files.raw_safetensors({}, size=HUGE),
        files.raw_safetensors({}, size=(1 << 64) - 1),
        files.raw_safetensors({}, size=3),
        files.raw_safetensors(b"{" * 100_000),
        files.raw_safetensors(b'{"a":' * 100_000),
        files.raw_safetensors(b'{"a":' + b"9" * 9999 + b"}"),
        files.raw_safetensors(b'{"a": "\xff"}'),
        files.raw_safetensors(b'{"a": {}, "a": {}}'),
        files.raw_safetensors({"__metadata__": {"a": 1}}),
        files.raw_safetensors({"t": 3}),
        files.raw_safetensors({"t": {**F32, "shape": [1.0]}}, bytes(4)),
        files.raw_safetensors({"t": {**F32, "shape": [-1]}}, bytes(4)),
        files.raw_safetensors({"t": {**F32, "shape": [1 << 63]}}, bytes(4)),
        files.raw_safetensors({"t": {**F32, "dtype": []}}, bytes(4)),
        files.raw_safetensors({"t": {**F32, "data_offsets": [-4, 0]}}, bytes(4)),
        files.raw_safetensors({"t": {**F32, "data_offsets": [4, 0]}}, bytes(4)),
        files.raw_safetensors({"t": {**F32, "data_offsets": [0, 4, 8]}}, bytes(8)),
        files.raw_safetensors({"t": {**F32, "data_offsets": [0, True]}}, bytes(8)),
    ],
)
def test_a_hostile_header_ends_in_the_error_of_checkpoints(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(CheckpointFormatError) as caught:
        open_checkpoint(written(tmp_path / "hostile", data))
    assert all(p.name and p.expected and p.got for p in caught.value.problems)


def used(path: Path) -> None:
    """Whatever the file is: opened, checked and read, or refused as a checkpoint."""
    try:
        checkpoint = open_checkpoint(path)
    except CheckpointError:
        return
    str(CheckpointError(path, checkpoint.require({})))
    for name in checkpoint.names():
        try:
            stored = checkpoint.tensor(name)
        except CheckpointError:
            continue
        checkpoint.require({name: ExpectedTensor(stored.shape)})
        stored.data.tobytes()


def test_random_damage_never_ends_in_another_error(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    other = save({"a": np.ones((2, 3), np.float32), "b": np.ones(4, np.int8)})
    wholes = [three(tmp_path).read_bytes(), other]
    numbers = [0, 1, HUGE, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 32]
    path = tmp_path / "damaged"
    for _ in range(1500):
        data = bytearray(wholes[int(rng.integers(2))])
        for _ in range(int(rng.integers(1, 4))):
            place = int(rng.integers(len(data) if rng.random() < 0.2 else min(len(data), 700)))
            match int(rng.integers(5)):
                case 0:
                    data[place] = int(rng.integers(256))
                case 1:
                    data[place : place + 8] = numbers[int(rng.integers(7))].to_bytes(8, "little")
                case 2:
                    data[place : place + 4] = rng.bytes(4)
                case 3:
                    del data[place : place + int(rng.integers(20))]
                case _:
                    data[place:place] = data[: int(rng.integers(40))]
            data = data or bytearray(b"G")
        used(written(path, bytes(data)))
    for _ in range(300):
        start = [b"", b"GGUF\3\0\0\0", b"\x40" + bytes(7) + b"{"][int(rng.integers(3))]
        used(written(path, start + rng.bytes(int(rng.integers(200)))))


def test_a_file_that_is_not_there_is_told_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(CheckpointMissingError, match="not-here"):
        open_checkpoint(tmp_path / "not-here")
    with pytest.raises(CheckpointFormatError, match="can be mapped"):
        open_checkpoint(tmp_path)
