"""Packs: size, opening and loading one kernel, of the artifacts that a build made.

    scons target=default,ptx,hsaco-gfx1100,wgsl && python benchmarks/packs.py

Sizes are of the real artifacts, a pack for each target, against every artifact compressed by
itself (equal ones once). Times are of a pack with 1,000 entries: the artifacts of the target with
the most bytes, and again under other names with 16 bytes of noise behind them. A load is the
manifest and the bytes of one kernel; wall times of one process, files in the page cache.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gristmill import runtime
from gristmill.store.bundle import read_bundle
from gristmill.store.pack import codecs
from gristmill.store.pack.reading import Pack
from gristmill.store.pack.writing import Item, write_pack

ENTRIES, TRIES = 1000, 100
OPEN_MS, LOAD_MS, RATIO = 5.0, 1.0, 1.05


def read(folder: Path) -> dict[str, list[Item]]:
    """The entries of a bundle by target."""
    found: dict[str, list[Item]] = {}
    for entry in read_bundle(folder / "bundle.json"):
        item = Item(entry, (folder / entry.path).read_bytes())
        found.setdefault(entry.manifest.target, []).append(item)
    return found


def many(items: Sequence[Item], count: int) -> list[Item]:
    """So many entries: these, and again under other names."""
    noise, made = random.Random(1), list(items[:count])
    while len(made) < count:
        entry, blob = items[len(made) % len(items)]
        turn = len(made) // len(items)
        blob += noise.randbytes(16)
        manifest = dataclasses.replace(
            entry.manifest,
            kernel=f"{entry.manifest.kernel}_{turn}",
            key=noise.randbytes(32).hex(),
            sha256=hashlib.sha256(blob).hexdigest(),
            size=len(blob),
        )
        path = f"{turn}/{entry.path}"
        made.append(Item(dataclasses.replace(entry, manifest=manifest, path=path), blob))
    return made


def sizes(targets: dict[str, list[Item]], folder: Path, codec: str) -> float:
    """Print the packs of all targets; the largest ratio."""
    worst = 0.0
    print(f"{'codec ' + codec:<30}{'entries':>8}{'artifacts':>12}{'by itself':>12}{'pack':>12}")
    for target, items in targets.items():
        blobs = dict.fromkeys(item.blob for item in items)
        alone = sum(
            min(len(blob), len(codecs.encode(codecs.CODECS[codec], blob))) for blob in blobs
        )
        write_pack(folder / "a.pack", items, codec)
        size = (folder / "a.pack").stat().st_size
        worst = max(worst, size / alone)
        plain = sum(map(len, blobs))
        print(f"{target:<30}{len(items):>8}{plain:>12}{alone:>12}{size:>12}  {size / alone:.3f}x")
    return worst


def milliseconds(work: Callable[[], object], tries: int = TRIES) -> tuple[float, float]:
    """Median and worst of several runs."""
    found = []
    for _ in range(tries):
        start = time.perf_counter()
        work()
        found.append((time.perf_counter() - start) * 1e3)
    return statistics.median(found), max(found)


def loads(path: Path) -> tuple[tuple[float, float], tuple[float, float]]:
    """The first load of a pack, at kernels all over it, and later ones."""
    first, later = [], []
    names = list(runtime.open_bundle(path).kernels().items())
    for kernel, specializations in names[:: max(1, len(names) // TRIES)]:
        bundle = runtime.open_bundle(path)
        for times, name in ((first, specializations[0]), (later, specializations[-1])):
            start = time.perf_counter()
            bundle.artifacts(kernel, name)[0].read()
            times.append((time.perf_counter() - start) * 1e3)
    return (statistics.median(first), max(first)), (statistics.median(later), max(later))


def row(what: str, found: tuple[float, float], bound: float) -> None:
    """Print the median and the worst of some times."""
    print(f"{what:<44}{found[0]:9.3f} ms, worst {found[1]:.3f} (bound {bound:g})")


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--bundle", type=Path, default=Path("artifacts"))
    words.add_argument("--codec", choices=list(codecs.CODECS), default="deflate")
    options = words.parse_args()
    targets = read(options.bundle)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        worst = sizes(targets, folder, options.codec)
        path = folder / "many.pack"
        most = max(targets, key=lambda t: sum(len(item.blob) for item in targets[t]))
        items = many(targets[most], ENTRIES)
        write_pack(path, items, options.codec)
        print(f"\n{len(items)} entries of {most}, {path.stat().st_size} bytes")
        opened = milliseconds(lambda: Pack.open(path).close())
        row("open a pack", opened, OPEN_MS)
        bundle = milliseconds(lambda: runtime.open_bundle(path))
        row("open it as a bundle", bundle, OPEN_MS)
        first, later = loads(path)
        row("load a kernel, the first of a pack", first, LOAD_MS)
        row("load another", later, LOAD_MS)
        verified, _ = milliseconds(lambda: Pack.open(path).verify(), 5)
        print(f"{'verify every byte':<44}{verified:9.3f} ms")
    small = worst <= RATIO or options.codec == "none"
    reached = max(opened[0], bundle[0]) <= OPEN_MS and first[0] <= LOAD_MS and small
    print(f"largest pack {worst:.3f}x (bound {RATIO}); {'reached' if reached else 'NOT reached'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
