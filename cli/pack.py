"""`gristmill pack`: list, verify, extract, merge and sign packs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..runtime.signed import required
from ..store.bundle import NAME as INDEX
from ..store.bundle import bundle_json
from ..store.files import write_atomic
from ..store.message import printable
from ..store.pack.errors import PackError, PackMissing
from ..store.pack.names import folder_and_file
from ..store.pack.reading import Pack
from ..store.pack.writing import Item, merged, write_pack
from ..store.trust import provenance
from ..store.trust.errors import TrustError
from ..store.trust.keys import Key, private_key, stated_keys, trusted_keys
from ..store.trust.signing import check_file, sign_pack, signature_file, verify_open
from .errors import CHECK_FAILED, CommandError
from .table import table


def pack(arguments: Namespace) -> int:
    """The command. CommandError, PackError, TrustError."""
    jobs = {"list": _list, "verify": _verify, "extract": _extract, "merge": _merge, "sign": _sign}
    return jobs[arguments.job](arguments)


@contextlib.contextmanager
def opened(paths: Sequence[str]) -> Iterator[list[Pack]]:
    """The packs of some files, closed in the end."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Pack.open(path)) for path in paths]


def _list(arguments: Namespace) -> int:
    with opened(arguments.packs) as packs:
        found = [_described(pack) for pack in packs]
    if arguments.json:
        print(json.dumps(found, indent=2))
        return 0
    rows = [["kernel", "specialization", "target", "bytes", "packed", "codec", "path"]]
    names = ("kernel", "specialization", "target", "size", "packed", "codec", "path")
    rows += [[str(entry[name]) for name in names] for pack in found for entry in pack["entries"]]
    print(table(rows, right=(3, 4)))
    print()
    for pack in found:
        print(f"{pack['pack']}: {len(pack['entries'])} entries, {pack['bytes']} bytes")
        print(f"digest {pack['digest']}, {'signed' if pack['signed'] else 'not signed'}")
    return 0


def _described(pack: Pack) -> dict[str, Any]:
    entries = []
    for number, entry in enumerate(pack):
        manifest = entry.manifest
        _, packed, codec = pack.sizes(number)
        entries.append(
            {
                "path": entry.path,
                "kernel": manifest.kernel,
                "specialization": manifest.specialization,
                "target": manifest.target,
                "size": manifest.size,
                "packed": packed,
                "codec": codec,
                "sha256": manifest.sha256,
                "key": manifest.key,
            }
        )
    return {
        "pack": str(pack.path),
        "digest": pack.digest,
        "bytes": pack.path.stat().st_size,
        "signed": signature_file(pack.path).exists(),
        "entries": entries,
    }


def trust(paths: Sequence[str]) -> tuple[Key, ...]:
    """The keys to require a signature of: those given, else those of the environment; none where
    nothing asks for signatures."""
    given = [*paths] or stated_keys()
    return trusted_keys(given) if given or required(None) else ()


def _verify(arguments: Namespace) -> int:
    keys = trust(arguments.keys)
    results = [_verified(path, keys) for path in arguments.packs]
    wrong = [result for result in results if "error" in result]
    if arguments.json:
        print(json.dumps(results, indent=2))
        return CHECK_FAILED if wrong else 0
    for result in results:
        if "error" in result:
            print(f"wrong: {printable(result['error'])}")
            continue
        by = f"signed by {result['signer']}" if keys else "signatures not asked for"
        print(f"{result['pack']}: {result['entries']} entries, every byte is right; {by}")
        for line in result.get("record", ()):
            print(f"  {printable(line)}")
    return CHECK_FAILED if wrong else 0


def _verified(path: str, keys: tuple[Key, ...]) -> dict[str, Any]:
    """What there is to say of a pack; `error` where it or its signature is wrong. PackMissing."""
    try:
        with Pack.open(path) as pack:
            result: dict[str, Any] = {"pack": path, "digest": pack.digest}
            if keys:
                found = verify_open(pack, keys)
                check_file(pack, found)
                result |= {"signer": found.key.name, "key": found.key.id}
                result["record"] = provenance.told(found.statement)
            return {**result, "entries": pack.verify()}
    except PackMissing:
        raise
    except (PackError, TrustError) as error:
        return {"pack": path, "error": str(error)}


def _extract(arguments: Namespace) -> int:
    folder = Path(arguments.output)
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise CommandError(f"{folder} exists and is not an empty folder; name a new one")
    keys = trust(arguments.keys)
    with opened(arguments.packs) as packs:
        for found in packs if keys else ():
            verify_open(found, keys)
        items = merged(packs)
    if arguments.kernel:
        items = _of_kernels(items, arguments.kernel)
    manifests = {str(Path(item.entry.path).with_suffix(".json")) for item in items}
    paths = [item.entry.path for item in items]
    odd = folder_and_file([*paths, *manifests, INDEX])
    if odd or len(manifests) < len(items):
        raise CommandError(f"the entries cannot lie in one folder: {odd or 'two of one stem'}")
    if twice := manifests & {*paths, INDEX}:
        raise CommandError(f"the entries cannot lie in one folder: {min(twice)} is a manifest")
    for entry, blob in items:
        write_atomic(folder / entry.path, blob)
        text = entry.manifest.to_json().encode()
        write_atomic((folder / entry.path).with_suffix(".json"), text)
    write_atomic(folder / INDEX, bundle_json([item.entry for item in items]).encode())
    if arguments.json:
        print(json.dumps({"folder": str(folder), "entries": paths}, indent=2))
    else:
        print(f"{folder}: {len(items)} artifacts, their manifests and bundle.json")
    return 0


def _of_kernels(items: list[Item], names: Sequence[str]) -> list[Item]:
    """The items of the kernels that are named as KERNEL[/SPECIALIZATION]. CommandError."""
    words = [
        {m.kernel, f"{m.kernel}/{m.specialization}"} for m in (i.entry.manifest for i in items)
    ]
    for name in names:
        if not any(name in both for both in words):
            known = ", ".join(sorted({i.entry.manifest.kernel for i in items}))
            raise CommandError(f"no kernel {name!r} in the packs; they have {known}")
    return [item for item, both in zip(items, words, strict=True) if both.intersection(names)]


def _merge(arguments: Namespace) -> int:
    with opened(arguments.packs) as packs:
        items = merged(packs)
        sources = [
            (p.path.name, {provenance.FILE: p.file_digest(), provenance.TABLE: p.digest}, {})
            for p in packs
        ]
    digest = write_pack(arguments.output, items, arguments.codec)
    origin = provenance.Origin(
        provenance.MERGE,
        {"codec": arguments.codec},
        sources,
        os.environ.get(provenance.BUILDER) or provenance.LOCAL,
        {"gristmill": __version__},
    )
    record = provenance.statement(arguments.output, origin)
    write_atomic(provenance.statement_file(arguments.output), record)
    if arguments.json:
        told = {"pack": arguments.output, "digest": digest, "entries": len(items)}
        print(json.dumps(told, indent=2))
    else:
        print(f"{arguments.output}: {len(items)} entries, digest {digest}")
    return 0


def _sign(arguments: Namespace) -> int:
    key = private_key(arguments.key)
    made = []
    for path in arguments.packs:
        file = provenance.statement_file(path)
        if not file.exists():
            raise CommandError(
                f"{file}: no provenance record to sign; scons pack and gristmill pack merge "
                "write it beside the pack"
            )
        record = provenance.record_bytes(file)
        subject = provenance.read_statement(record, file)["subject"][0]["digest"]
        if hashlib.sha256(Path(path).read_bytes()).hexdigest() != subject.get(provenance.FILE):
            raise CommandError(f"{file} is the record of another pack than {path}; pack it again")
        made.append(str(sign_pack(path, record, key)))
    if arguments.json:
        print(json.dumps({"key": key.id, "name": key.name, "signatures": made}, indent=2))
    else:
        print("\n".join(f"{file}: signed by {key.name}" for file in made))
    return 0
