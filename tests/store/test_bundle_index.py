"""bundle.json: canonical, covered by its digest, readable by the runtime."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from gristmill import runtime
from gristmill.store.bundle import Entry, Place, bundle_json, write_bundle
from gristmill.store.manifest import Manifest

BLOB = b"kernel k f32\n"
MANIFEST = Manifest(
    kernel="k",
    specialization="f32",
    target="interp-kir",
    entry="k",
    params=(),
    workgroup=(1, 1, 1),
    index="i32",
    key="0" * 64,
    sha256=hashlib.sha256(BLOB).hexdigest(),
    size=len(BLOB),
    sites=("a", "b"),
)
ENTRY = Entry(MANIFEST, "interp-kir/k/f32.kir", (Place("kernels/k.py", 3, 5), None))


def test_the_runtime_reads_what_the_build_writes(tmp_path: Path) -> None:
    file = tmp_path / ENTRY.path
    file.parent.mkdir(parents=True)
    file.write_bytes(BLOB)
    write_bundle(tmp_path, [ENTRY])
    (artifact,) = runtime.open_bundle(tmp_path)
    assert artifact.manifest == MANIFEST
    assert artifact.read() == BLOB
    assert [str(loc) if loc else None for loc in artifact.locs] == ["kernels/k.py:3:5", None]


def test_equal_entries_give_equal_bytes() -> None:
    assert bundle_json([ENTRY]) == bundle_json([ENTRY])
    assert json.dumps(json.loads(bundle_json([ENTRY])), sort_keys=True, separators=(",", ":")) == (
        bundle_json([ENTRY])
    )


def test_the_digest_is_that_of_the_entries() -> None:
    data = json.loads(bundle_json([ENTRY]))
    canonical = json.dumps(data["entries"], sort_keys=True, separators=(",", ":"))
    assert data["digest"] == hashlib.sha256(canonical.encode()).hexdigest()
    assert bundle_json([]) != bundle_json([ENTRY])
