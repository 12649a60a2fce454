"""Opening a bundle: its entries, and artifacts whose bytes are checked.

A bundle is a pack (`packs`), a directory of packs, or a directory with `bundle.json`:
    {"schema": 1, "digest": sha256 of the canonical JSON of entries, "entries": [entry...]}
    entry: {"manifest": {...}, "path": relative to the bundle, "sites": [{file,line,column}...]}
Entries of one kernel, specialization and target stand in the declared order of preference. The
digest is checked when the bundle is opened, size and sha256 of an artifact before its bytes are
handed to a driver.
"""

from __future__ import annotations

import json
import os.path
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..store.schema import SCHEMA, ManifestError
from .errors import ArtifactCorrupt, ArtifactMissing, ManifestInvalid, expect

if TYPE_CHECKING:
    from pathlib import Path

    from ..ir.interface import Loc
    from ..ir.targets import Capabilities
    from ..store.manifest import Manifest
    from .refusal import Refusal

INDEX = "bundle.json"
_LONGEST = 255  # characters of a name
_OWN = "gristmill."  # what a device loads for itself, such as the loop that replays (ir.replay_abi)


class Artifact(NamedTuple):
    """An entry of a bundle. file: where it lies, below a pack's own path for one of a pack. locs:
    places of the fault sites in the kernel source, or empty. packed: what reads it out of a pack.
    """

    manifest: Manifest
    file: Path
    locs: tuple[Loc | None, ...] = ()
    packed: Callable[[], bytes] | None = None

    def read(self) -> bytes:
        """The artifact's bytes; ArtifactMissing or ArtifactCorrupt where they are not as stated."""
        if self.packed is not None:
            return self.packed()
        try:
            blob = self.file.read_bytes()
        except FileNotFoundError as error:
            raise ArtifactMissing(
                "no such file", where=str(self.file), do="rebuild the bundle with scons"
            ) from error
        except OSError as error:
            raise ArtifactMissing(f"cannot be read: {error}", where=str(self.file)) from error
        manifest = self.manifest
        if len(blob) != manifest.size:
            raise ArtifactCorrupt(
                "artifact of wrong size",
                where=str(self.file),
                expected=f"{manifest.size} bytes",
                got=f"{len(blob)} bytes",
                do="rebuild or fetch the bundle again",
            )
        digest = _sha256(blob)
        if digest != manifest.sha256:
            raise ArtifactCorrupt(
                "artifact with wrong content",
                where=str(self.file),
                expected=f"sha256 {manifest.sha256}",
                got=digest,
                do="rebuild or fetch the bundle again",
            )
        return blob


class Bundle:
    """An opened bundle: its entries by kernel and specialization.

    entries: in order, each what `artifact` makes an artifact of when it is first asked for.
    signers: names of the keys whose signatures were found right.
    """

    def __init__(
        self,
        root: str,
        entries: Mapping[tuple[str, str], Sequence[Any]],
        artifact: Callable[[Any], Artifact],
        digest: str,
        signers: tuple[str, ...] = (),
    ) -> None:
        self.digest, self.signers, self._root = digest, signers, root
        self._entries, self._artifact = entries, artifact
        self._artifacts: dict[tuple[str, str], tuple[Artifact, ...]] = {}

    @property
    def root(self) -> Path:
        """The folder, the pack, or the folder of packs."""
        from pathlib import Path

        return Path(self._root)

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def __iter__(self) -> Iterator[Artifact]:
        """Every artifact, grouped by kernel and specialization."""
        for kernel, specialization in self._entries:
            yield from self.artifacts(kernel, specialization)

    def kernels(self) -> dict[str, tuple[str, ...]]:
        """The specializations of each kernel."""
        found: dict[str, list[str]] = {}
        for kernel, specialization in self._entries:
            if not kernel.startswith(_OWN):
                found.setdefault(kernel, []).append(specialization)
        return {kernel: tuple(names) for kernel, names in found.items()}

    def artifacts(self, kernel: str, specialization: str) -> tuple[Artifact, ...]:
        """All artifacts of one specialization; ArtifactMissing names what there is."""
        key = (kernel, specialization)
        if key not in self._artifacts:
            if key not in self._entries:
                raise self._missing(kernel, specialization)
            self._artifacts[key] = tuple(self._artifact(e) for e in self._entries[key])
        return self._artifacts[key]

    def specialization(self, kernel: str) -> str:
        """The only specialization of a kernel; ArtifactMissing where there are none or several."""
        names = self.kernels().get(kernel, ())
        if len(names) != 1:
            raise self._missing(kernel, "")
        return names[0]

    def select(
        self,
        kernel: str,
        specialization: str,
        capabilities: Capabilities,
        sizes: Mapping[str, int] | None = None,
    ) -> Artifact | Refusal:
        """The first variant, in the device's order of targets, that the device can run; with the
        sizes of a problem (parameter -> value, or elements of a buffer), the best one for it."""
        from ..ir.targets import Capabilities  # whoever has some has imported it
        from .selection import choose

        expect(capabilities, Capabilities, f"select {kernel}")
        return choose(self.artifacts(kernel, specialization), capabilities, sizes)

    def _missing(self, kernel: str, specialization: str) -> ArtifactMissing:
        names = self.kernels()
        if kernel not in names:
            known = ", ".join(sorted(names)) or "nothing"
            return ArtifactMissing(f"no kernel {kernel!r}; it has {known}", where=self._root)
        known = ", ".join(names[kernel])
        what = (
            f"no specialization {specialization!r}" if specialization else "several specializations"
        )
        return ArtifactMissing(
            f"{what} of kernel {kernel}", where=self._root, expected=f"one of {known}"
        )


class _Folder:
    """The artifacts of a folder, by their entries in bundle.json."""

    def __init__(self, root: str) -> None:
        self.root = root

    def artifact(self, entry: dict[str, Any]) -> Artifact:
        from pathlib import Path  # opening a bundle needs none of these

        from ..ir.interface import Loc
        from ..store.manifest import Manifest

        file = Path(self.root, entry["path"])
        try:
            manifest = Manifest.from_dict(entry["manifest"], str(file))
        except ManifestError as error:
            raise ManifestInvalid(str(error)) from error
        check_types(manifest, file)
        locs = tuple(
            Loc(site["file"], site["line"], site["column"]) if site else None
            for site in entry["sites"]
        )
        return Artifact(manifest, file, locs)


def check_types(manifest: Manifest, file: Path) -> None:
    """ManifestInvalid if a parameter is of a type that there is not."""
    from ..ir.dtypes import DTYPES

    odd = [p.dtype for p in manifest.params if p.dtype not in DTYPES]
    if odd:
        raise ManifestInvalid(
            "parameter of an unknown type",
            where=str(file),
            expected=f"one of {', '.join(DTYPES)}",
            got=odd[0],
        )


def _sha256(data: bytes) -> str:
    import hashlib  # a tenth of the import time of `runtime`, and needed only from here on

    return hashlib.sha256(data).hexdigest()


def canonical(entries: list[dict[str, Any]]) -> bytes:
    """The bytes over which a bundle's digest is taken."""
    return json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()


def open_bundle(
    path: str | Path | None = None,
    *,
    verify: str | None = None,
    keys: str | Path | Sequence[str | Path] | None = None,
) -> Bundle:
    """Open a bundle and check its digest: a pack, a directory with `bundle.json` (or that file), or
    a directory of packs. Without a path, the packs of all installed wheels with kernels;
    "installed:NAME" is those of one, such as "installed:ptx".

    verify: "require" refuses all but packs that a trusted key has signed, "off" takes any; by
    default what the environment variable GRISTMILL_VERIFY_PACKS says, else "off". A variable that
    says "require" wins over "off". keys: files of public keys, or folders of .pub files; by default
    those that GRISTMILL_TRUSTED_KEYS names.

    Raises ArtifactMissing (no such file), ArtifactCorrupt (not JSON, not a pack, wrong digest),
    ManifestInvalid (another schema, missing or unknown fields), VersionMismatch (a pack of another
    ABI, a wheel of another version), CodecMissing, Untrusted, ArgumentError (no such verify).
    """
    from .signed import required, unsigned_folder

    signed = required(verify)
    name = "installed:" if path is None else str(path).rstrip("/") or str(path)
    index = name if os.path.basename(name) == INDEX else os.path.join(name, INDEX)
    if not os.path.exists(index):
        from . import packs  # what packs need is imported where there may be some

        bundle = packs.opened(name, signed, keys)
        if bundle is not None:
            return bundle
    if signed:
        raise unsigned_folder(index)
    return _open_folder(index)


def _open_folder(file: str) -> Bundle:
    """The bundle of a folder, by its bundle.json."""
    try:
        with open(file, "rb") as stream:
            text = stream.read()
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        reason = getattr(error, "strerror", None) or error
        raise ArtifactMissing(
            f"no bundle: {reason}", where=file, do="build it with scons"
        ) from error
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:  # also bytes that are not UTF-8
        raise ArtifactCorrupt(f"not JSON ({error})", where=file) from error
    entries = _entries(data, file)
    try:
        digest = _digest(text, data)
    except RecursionError as error:
        raise ArtifactCorrupt("nested too deep", where=file) from error
    if digest != data["digest"]:
        raise ArtifactCorrupt(
            "bundle with wrong content",
            where=file,
            expected=f"digest {data['digest']}",
            got=digest,
            do="rebuild or fetch the bundle again",
        )
    index: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in entries:
        manifest = entry["manifest"]
        key = (manifest["kernel"], manifest["specialization"])
        index.setdefault(key, []).append(entry)
    folder = os.path.dirname(file) or "."
    return Bundle(folder, index, _Folder(folder).artifact, digest)


def _digest(text: bytes, data: dict[str, Any]) -> str:
    """The digest of a decoded bundle. As the build writes it, the text holds the bytes over which
    it is taken; to write those again takes longer than all else."""
    head = f'{{"digest":"{data["digest"]}","entries":'.encode(errors="replace")
    tail = f',"schema":{SCHEMA}}}'.encode()
    if text.startswith(head) and text.endswith(tail):
        digest = _sha256(text[len(head) : -len(tail)])
        if digest == data["digest"]:
            return digest
    return _sha256(canonical(data["entries"]))


def _entries(data: Any, where: str) -> list[dict[str, Any]]:
    """The entries of a decoded bundle, once their outer form is right."""
    if not isinstance(data, dict) or "schema" not in data:
        raise ManifestInvalid("not a bundle: expected an object with a schema", where=where)
    if data["schema"] != SCHEMA:
        raise ManifestInvalid(
            "bundle of another schema",
            where=where,
            expected=str(SCHEMA),
            got=repr(data["schema"]),
            do="rebuild the bundle or install the matching gristmill",
        )
    if data.keys() != {"schema", "entries", "digest"} or not isinstance(data["entries"], list):
        raise ManifestInvalid(
            "wrong fields of a bundle",
            where=where,
            expected="schema, entries, digest",
            got=", ".join(sorted(data)),
        )
    for number, entry in enumerate(data["entries"]):
        _check_entry(entry, f"{where}: entry {number}")
    return list(data["entries"])


def _check_entry(entry: Any, where: str) -> None:
    if not isinstance(entry, dict) or entry.keys() != {"manifest", "path", "sites"}:
        raise ManifestInvalid("wrong fields", where=where, expected="manifest, path, sites")
    manifest, path, sites = entry["manifest"], entry["path"], entry["sites"]
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        got = manifest.get("schema") if isinstance(manifest, dict) else type(manifest).__name__
        raise ManifestInvalid(
            "manifest of another schema",
            where=where,
            expected=str(SCHEMA),
            got=repr(got),
            do="rebuild the bundle or install the matching gristmill",
        )
    for name in ("kernel", "specialization"):
        word = manifest.get(name)
        if not isinstance(word, str) or not word.isprintable() or len(word) > _LONGEST:
            raise ManifestInvalid(f"manifest without a {name}", where=where, got=repr(word))
    inside = isinstance(path, str) and not path.startswith("/") and ".." not in path.split("/")
    if not inside or not path.isprintable():
        raise ManifestInvalid("path must be relative and inside", where=where, got=repr(path))
    if not isinstance(sites, list) or not all(map(_is_site, sites)):
        raise ManifestInvalid("sites must be a list of file, line and column", where=where)


def _is_site(site: Any) -> bool:
    return site is None or (
        isinstance(site, dict)
        and site.keys() == {"file", "line", "column"}
        and isinstance(site["file"], str)
        and isinstance(site["line"], int)
        and isinstance(site["column"], int)
    )
