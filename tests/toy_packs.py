"""Packs of toy artifacts, and packs that no writer writes, with digests that are right."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gristmill.store.bundle import Entry, Place
from gristmill.store.manifest import Manifest, ParamInfo
from gristmill.store.pack import codecs, format
from gristmill.store.pack.reading import Pack
from gristmill.store.pack.writing import Item, pack_bytes

LINES = "".join(f"  %r.{n} = add %r.{n}, {n} : i32\n" for n in range(40))


def item(kernel: str = "shift", specialization: str = "i32", **changes: Any) -> Item:
    """An entry with its artifact: `blob`, `path` and `sites` are the item's, the rest is of the
    manifest."""
    blob = changes.pop("blob", f"kernel {kernel} {specialization}\n{LINES}".encode())
    target = changes.setdefault("target", "interp-kir")
    path = changes.pop("path", f"{target}/{kernel}/{specialization}.kir")
    sites = changes.pop("sites", (Place(f"kernels/{kernel}.py", 12, 5), None))
    manifest = Manifest(
        **{
            "kernel": kernel,
            "specialization": specialization,
            "entry": kernel,
            "params": (ParamInfo("x", "buffer", "i32", "readwrite"),),
            "workgroup": (64, 1, 1),
            "index": "i32",
            "key": hashlib.sha256(path.encode()).hexdigest(),
            "sha256": hashlib.sha256(blob).hexdigest(),
            "size": len(blob),
            "sites": ("first", "second"),
            "grid": (("ceil_div", ("count", "x"), 64), 1, 1),
            **changes,
        }
    )
    return Item(Entry(manifest, path, sites), blob)


def items(count: int = 40) -> list[Item]:
    """Entries of several kernels in several specializations, in the order of a pack."""
    return [item(f"kernel{n // 4:02}", f"s{n % 4}") for n in range(count)]


def altered(
    data: bytes, change: Callable[[format.Table], dict[str, Any]], tail: bytes = b""
) -> bytes:
    """A pack whose table was changed and whose header fits again. tail: added behind the blobs."""
    table_bytes, _ = format.read_header(data, len(data), "pack")
    end = format.HEADER_BYTES + table_bytes
    table = format.read_table(data[format.HEADER_BYTES : end], len(data) - end, "pack")
    made = format.table(dataclasses.replace(table, **change(table)))
    blobs = data[end:] + tail
    size = format.HEADER_BYTES + len(made) + len(blobs)
    return format.header(format.ABI, size, made) + made + blobs


def text(data: bytes) -> tuple[format.Part, bytes]:
    """Names or a block of manifests, as the table has them."""
    packed = codecs.encode(codecs.DEFLATE, data)
    return format.Part(len(packed), len(data)), packed


def single(blob: bytes, raw: int, codec: int, content: bytes) -> bytes:
    """A pack of one entry whose blob is stored as given, declared as `raw` bytes of `content`."""
    base = pack_bytes([item(blob=b"x" * 8)])
    table_bytes, _ = format.read_header(base, len(base), "pack")
    end = format.HEADER_BYTES + table_bytes
    table = format.read_table(base[format.HEADER_BYTES : end], len(base) - end, "pack")
    filled = blob.ljust(format.padded(len(blob)), b"\0")
    made = format.table(
        dataclasses.replace(
            table,
            stored=(len(blob),),
            raw=(raw,),
            codecs=bytes([codec]),
            digests=hashlib.sha256(filled).digest(),
            contents=hashlib.sha256(content).digest(),
        )
    )
    size = format.HEADER_BYTES + len(made) + len(filled)
    return format.header(format.ABI, size, made) + made + filled


def opened(path: Path, data: bytes) -> Pack:
    """The pack of these bytes, written to a file and opened."""
    path.write_bytes(data)
    return Pack.open(path)
