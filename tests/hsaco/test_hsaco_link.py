"""The linker's code objects are ld.lld's in all that a loader reads, and damage is refused."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from code_objects import PLAIN, TABLE, built
from gristmill.backends.hsaco import code_object, link
from gristmill.backends.hsaco.link import LinkError
from gristmill.backends.hsaco.processors import PROCESSORS
from gristmill.backends.link import link as link_for_cpu
from gristmill.backends.llvm.toolchain import Machine, emit_object

SETTINGS = ("gfx90a:sramecc+:xnack-", "gfx942:xnack+")


class Parsed:
    """What the tests look at, read apart from the code under test."""

    def __init__(self, blob: bytes) -> None:
        self.blob, self.ident = blob, blob[:16]
        self.type, self.machine = struct.unpack_from("<HH", blob, 16)
        (self.flags,) = struct.unpack_from("<I", blob, 48)
        phoff, shoff = struct.unpack_from("<QQ", blob, 32)
        phnum, shent, shnum, names = struct.unpack_from("<HHHH", blob, 56)
        self.programs = [
            struct.unpack_from("<IIQQQQQQ", blob, phoff + 56 * n) for n in range(phnum)
        ]
        headers = [struct.unpack_from("<IIQQQQIIQQ", blob, shoff + shent * n) for n in range(shnum)]
        self.headers = headers
        self.sections = {self.text(headers[names], h[0]): h for h in headers}

    def text(self, table: tuple[int, ...], at: int) -> str:
        start = table[4] + at
        return self.blob[start : self.blob.index(b"\0", start)].decode()

    def data(self, name: str) -> bytes:
        h = self.sections[name]
        return self.blob[h[4] : h[4] + h[5]]

    def symbols(self, table: str) -> dict[str, tuple[int, ...]]:
        """name: (info, visibility, section, value, size)"""
        rows = struct.iter_unpack("<IBBHQQ", self.data(table))
        strings = self.headers[self.sections[table][6]]
        return {self.text(strings, row[0]): row[1:] for row in rows}

    def at(self, address: int, size: int) -> bytes:
        for kind, _, offset, start, _, stored, _, _ in self.programs:
            if kind == 1 and start <= address and address + size <= start + stored:
                return self.blob[offset + address - start :][:size]
        raise AssertionError(f"{address:#x} is not loaded")


def fields(obj: Parsed, linked: Parsed) -> list[tuple[int, int, int, int]]:
    """(place, type, what the field holds as a signed distance, addend) of each relocation."""
    found = []
    for name, header in obj.sections.items():
        if header[1] != 4:
            continue
        section = name.removeprefix(".rela")
        base = linked.sections[section][3]
        for offset, info, addend in struct.iter_unpack("<QQq", obj.data(name)):
            kind = info & 0xFFFFFFFF
            form = "<q" if kind == 5 else "<i"
            value = struct.unpack(form, linked.at(base + offset, struct.calcsize(form)))[0]
            found.append((base + offset, kind, value, addend))
    return found


@pytest.mark.parametrize("target", [*PROCESSORS, *SETTINGS])
def test_all_that_a_loader_reads_is_as_lld_has_it(target: str, require: Any) -> None:
    require("ld.lld")
    obj = built(TABLE, target)
    own, other = Parsed(link.link(obj, ["pick"])), Parsed(link.lld(obj)[0])
    assert (own.ident, own.type, own.machine) == (other.ident, other.type, other.machine)
    assert own.flags == other.flags == Parsed(obj).flags
    assert own.data(".note") == other.data(".note")
    (note,) = [p for p in own.programs if p[0] == 4]
    assert own.blob[note[2] : note[2] + note[5]] == own.data(".note")
    for table in (".dynsym", ".symtab"):
        mine, theirs = own.symbols(table), other.symbols(table)
        ours = {n: (s[0], s[1], s[4]) for n, s in mine.items()}
        assert ours == {n: (s[0], s[1], s[4]) for n, s in theirs.items() if n in mine}
        assert {"pick", "pick.kd"} <= set(mine)
        for name in ("pick", "far") if table == ".symtab" else ("pick",):
            code, same = own.at(*mine[name][3:]), other.at(*theirs[name][3:])
            assert without_addresses(code, obj, name) == without_addresses(same, obj, name)
        kd, same = own.at(*mine["pick.kd"][3:]), other.at(*theirs["pick.kd"][3:])
        assert kd[:16] + kd[24:] == same[:16] + same[24:]
        (entry,) = struct.unpack_from("<q", kd, 16)
        assert mine["pick.kd"][3] + entry == mine["pick"][3]
    local = own.sections[".symtab"][7]
    bindings = [s[0] >> 4 for s in own.symbols(".symtab").values()]
    assert bindings == sorted(bindings)
    assert bindings.count(0) == local


def without_addresses(code: bytes, obj: bytes, name: str) -> bytes:
    """Code with the fields of relocations blanked."""
    parsed = Parsed(obj)
    start = parsed.symbols(".symtab")[name][3]
    blank = bytearray(code)
    for offset, _, _ in struct.iter_unpack("<QQq", parsed.data(".rela.text")):
        if start <= offset < start + len(code):
            blank[offset - start : offset - start + 4] = bytes(4)
    return bytes(blank)


@pytest.mark.parametrize("target", ["gfx1100", "gfx942", "gfx12-generic"])
def test_every_relocation_leads_to_what_it_is_about(target: str) -> None:
    obj = built(TABLE, target)
    linked = Parsed(link.link(obj, ["pick"]))
    symbols = linked.symbols(".symtab")
    table = struct.pack("<4f", 1, 2, 4, 8)
    found = fields(Parsed(obj), linked)
    assert sorted(kind for _, kind, _, _ in found) == [5, 10, 10, 11, 11]
    lows = {place + value - addend for place, kind, value, addend in found if kind == 10}
    (entry,) = [place + value - addend for place, kind, value, addend in found if kind == 5]
    # The entry's addend is that of its own place: the distance is from the descriptor on.
    assert entry == symbols["pick"][3]
    assert symbols["far"][3] in lows
    (constants,) = lows - {symbols["far"][3]}
    assert linked.at(constants, 16) == table
    assert all(value in (0, -1) for _, kind, value, _ in found if kind == 11)


def test_layout_is_what_the_loader_maps() -> None:
    parsed = Parsed(link.link(built(TABLE), ["pick"]))
    end = 0
    for kind, flags, offset, address, physical, stored, reserved, align in parsed.programs:
        if kind != 1:
            continue
        assert align == 4096
        assert offset % align == address % align
        assert physical == address
        assert stored <= reserved
        assert address // align * align >= end
        assert flags & 3 != 3
        end = -(-(address + reserved) // align) * align
    for name, header in parsed.sections.items():
        if header[2] & 2:
            assert parsed.at(header[3], header[5]) == parsed.data(name), name
    assert ".text" in parsed.sections


def test_a_link_takes_less_than_a_millisecond_and_gives_equal_bytes() -> None:
    obj = built(TABLE)
    taken: list[float] = []
    while len(taken) < 1000 and min(taken, default=1) >= 0.001:  # a busy machine disturbs most
        start = time.perf_counter()
        blob = link.link(obj, ["pick"])
        taken.append(time.perf_counter() - start)
        assert blob == link.link(obj, ["pick"])
    assert min(taken) < 0.001


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("declare void @out()\n" + PLAIN.replace("ret", "call void @out()\n  ret"), "undefined"),
        (
            "@w = internal addrspace(1) global i64 3\n"
            + PLAIN.replace("ret", "store volatile i64 4, ptr addrspace(1) @w\n  ret"),
            "no writable data",
        ),
        (PLAIN + PLAIN.replace("plain", "more"), "exports more, more.kd, plain, plain.kd"),
        (
            PLAIN + "@g = addrspace(4) constant i32 7\n",
            "exports g, plain, plain.kd; expected plain, plain.kd",
        ),
    ],
    ids=["undefined symbol", "writable data", "two kernels", "global data"],
)
def test_what_no_kernel_holds_is_refused(text: str, words: str) -> None:
    with pytest.raises(LinkError, match=words):
        link.link(built(text), ["plain"])


def test_a_kernel_of_another_name_is_missed() -> None:
    for entries in (["other"], [], ["plain", "other"]):
        with pytest.raises(LinkError, match=r"exports plain, plain\.kd; expected"):
            link.link(built(PLAIN), entries)


def test_a_kernel_that_llvm_dropped_is_missed() -> None:
    # `#1`: a size of waves that the processor does not have.
    text = PLAIN.replace("#0", "#1") + 'attributes #1 = { "target-features"="+wavefrontsize32" }\n'
    with pytest.raises(LinkError, match=r"exports nothing; expected plain, plain.kd.*LLVM drops"):
        link.link(built(text, "gfx942"), ["plain"])


def test_an_object_of_another_machine_or_version_is_refused() -> None:
    machine = Machine("x86_64-unknown-linux-gnu", "x86-64-v3")
    x86 = emit_object("define void @plain() { ret void }", machine)
    with pytest.raises(LinkError, match="machine 62"):
        link.link(x86, ["plain"])
    amd = built(PLAIN)
    with pytest.raises(LinkError, match="type 0x7 has no place"):
        link_for_cpu(amd)
    for place, value in ((7, 0), (8, 2), (8, 5)):
        with pytest.raises(LinkError, match="e_ident"):
            link.link(amd[:place] + bytes([value]) + amd[place + 1 :], ["plain"])


def retyped(kind: int, absolute: bool, addend: int = 0) -> bytes:
    """An object whose first relocation of code has this type, and a symbol without a section."""
    blob = bytearray(built(TABLE))
    parsed = Parsed(bytes(blob))
    at = parsed.sections[".rela.text"][4]
    offset, info, _ = struct.unpack_from("<QQq", blob, at)
    struct.pack_into("<QQq", blob, at, offset, info >> 32 << 32 | kind, addend)
    if absolute:
        symbol = parsed.sections[".symtab"][4] + 24 * (info >> 32)
        struct.pack_into("<HQ", blob, symbol + 6, 0xFFF1, 0x1122334455667788)
    return bytes(blob)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (1, "88776655"), (2, "44332211"), (3, "8877665544332211"), (6, None), (4, None),
        (7, None), (8, None), (9, None), (13, None), (99, None),
    ],
)  # fmt: skip
def test_relocations_against_absolute_symbols(kind: int, expected: str | None) -> None:
    obj = retyped(kind, absolute=True)
    place = struct.unpack_from("<Q", obj, Parsed(obj).sections[".rela.text"][4])[0]
    if expected is None:
        with pytest.raises(LinkError, match=r"does not fit|AMDGPU relocation"):
            link.link(obj, ["pick"])
        return
    text = Parsed(link.link(obj, ["pick"])).data(".text")
    assert text[place:][: len(expected) // 2].hex() == expected


def test_addends_count_in_all_their_bits() -> None:
    addend = 0x700000005
    for kind, absolute in ((1, True), (2, True), (10, False), (11, False)):
        values = []
        for n in (0, addend):
            obj = retyped(kind, absolute, n)
            place = struct.unpack_from("<Q", obj, Parsed(obj).sections[".rela.text"][4])[0]
            text = Parsed(link.link(obj, ["pick"])).data(".text")
            values.append(struct.unpack_from("<i", text, place)[0])
        assert values[1] - values[0] == (5 if kind in (1, 10) else 7), kind


@pytest.mark.parametrize("kind", [1, 2, 3, 6])
def test_the_address_of_what_is_loaded_is_refused(kind: int) -> None:
    with pytest.raises(LinkError, match="only the loader knows"):
        link.link(retyped(kind, absolute=False), ["pick"])


def test_branches_count_words_from_behind_themselves() -> None:
    obj = Parsed(retyped(14, absolute=False, addend=8))
    place, _, _ = struct.unpack_from("<QQq", obj.blob, obj.sections[".rela.text"][4])
    linked = Parsed(link.link(obj.blob, ["pick"]))
    table = linked.sections[".rodata.cst16"][3] + 8
    here = linked.sections[".text"][3] + place
    assert struct.unpack_from("<h", linked.data(".text"), place)[0] == (table - here - 4) // 4
    for addend, words in ((6, "no multiple of 4"), (1 << 20, "does not fit")):
        with pytest.raises(LinkError, match=words):
            link.link(retyped(14, absolute=False, addend=addend), ["pick"])


def test_what_the_own_linker_does_not_know_goes_to_lld(require: Any) -> None:
    require("ld.lld")
    obj = built(TABLE)
    assert link.link_or_lld(obj, ["pick"]) == (link.link(obj, ["pick"]), {})

    def refuse(*_: object) -> bytes:
        raise LinkError("not this one")

    blob, facts = link.link_or_lld(obj, ["pick"], refuse)
    assert blob == link.lld(obj)[0]
    assert facts["linker"].startswith("ld.lld 22.1.")
    assert code_object.read(blob).kernels.keys() == {"pick"}


def test_an_lld_that_does_not_tell_its_version_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hangs = tmp_path / "ld.lld"
    hangs.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    hangs.chmod(0o755)
    assert link._VERSION_SECONDS <= 5
    monkeypatch.setattr(link, "_VERSION_SECONDS", 0.2)
    monkeypatch.setenv("PATH", str(tmp_path))
    link._program.cache_clear()
    with pytest.raises(LinkError, match=r"ld.lld does not tell its version within 0\.2 seconds"):
        link.lld(b"")
    link._program.cache_clear()


def test_without_lld_both_reasons_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    obj = built("declare void @out()\n" + PLAIN.replace("ret", "call void @out()\n  ret"))
    monkeypatch.setenv("PATH", str(tmp_path))
    link._program.cache_clear()
    with pytest.raises(LinkError, match=r"undefined symbol out.*no ld.lld 22.1 on PATH$"):
        link.link_or_lld(obj, ["plain"])
    old = tmp_path / "ld.lld"
    old.write_text("#!/bin/sh\necho 'LLD 14.0.6 (compatible with GNU linkers)'\n")
    old.chmod(0o755)
    with pytest.raises(LinkError, match=r"PATH: ld.lld is 14.0.6$"):
        link.link_or_lld(obj, ["plain"])
    link._program.cache_clear()


def test_what_lld_refuses_is_told(require: Any) -> None:
    require("ld.lld")
    obj = built("declare void @out()\n" + PLAIN.replace("ret", "call void @out()\n  ret"))
    with pytest.raises(LinkError, match=r"(?s)refuses it: .*undefined symbol: out"):
        link.link_or_lld(obj, ["plain"])


def meaning(blob: bytes) -> tuple[object, ...]:
    """All that the kernel of a code object is, wherever its parts lie."""
    read = code_object.read(blob)
    k = read.kernels["plain"]
    d = k.descriptor
    same = (d.lds_bytes, d.scratch_bytes, d.kernarg_bytes, d.vgprs, d.wavefront)
    return read.target, read.version, k.info, same, k.code


def headers(blob: bytes) -> list[int]:
    """The bytes of the headers of a file, its program and section headers, names and relocations:
    all but contents, of which the sizes of symbols are a part."""
    parsed = Parsed(blob)
    phoff, shoff = struct.unpack_from("<QQ", blob, 32)
    places = [(0, 64), (phoff, 56 * len(parsed.programs)), (shoff, 64 * len(parsed.headers))]
    for header in parsed.headers:
        if header[1] in (3, 4):  # names, relocations
            places.append((header[4], header[5]))
    return [n for start, size in places for n in range(start, start + size)]


@pytest.mark.parametrize("target", ["gfx1100", "gfx90a:sramecc+:xnack-"])
def test_a_damaged_header_of_an_object_is_refused_or_means_the_same(target: str) -> None:
    obj = built(PLAIN, target)
    expected = meaning(link.link(obj, ["plain"]))
    refused = same = 0
    for n in headers(obj):
        for bit in range(8):
            changed = bytearray(obj)
            changed[n] ^= 1 << bit
            try:
                found = meaning(link.link(bytes(changed), ["plain"]))
            except (LinkError, code_object.CodeObjectError):
                refused += 1
                continue
            assert found == expected, (n, bit)
            same += 1
    assert refused > 500
    assert same > 500


@pytest.mark.parametrize("target", ["gfx1100", "gfx90a:sramecc+:xnack-"])
def test_a_damaged_header_of_a_code_object_is_refused_or_means_the_same(target: str) -> None:
    blob = link.link(built(PLAIN, target), ["plain"])
    expected = meaning(blob)
    refused = same = 0
    for n in headers(blob):
        for bit in range(8):
            changed = bytearray(blob)
            changed[n] ^= 1 << bit
            try:
                found = meaning(bytes(changed))
            except code_object.CodeObjectError:
                refused += 1
                continue
            assert found == expected, (n, bit)
            same += 1
    assert refused > 500
    assert same > 500


def test_no_damage_is_another_error(rng: np.random.Generator) -> None:
    obj = built(TABLE)
    blob = link.link(obj, ["pick"])
    typed = (LinkError, code_object.CodeObjectError)
    for n in range(max(len(obj), len(blob))):
        for source in (obj, blob):
            if n >= len(source):
                continue
            changed = bytearray(source)
            changed[n] ^= int(rng.integers(1, 256))
            for data in (bytes(changed), source[:n]):
                try:
                    code_object.read(link.link(data, ["pick"]) if source is obj else data)
                except typed:
                    continue
                assert len(data) == len(source)  # a file that is cut off is never taken
