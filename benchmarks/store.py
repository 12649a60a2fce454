"""The store and its caches: reading, null builds, and many builders of one store at once.

    python benchmarks/store.py [local|s3|reapi|null|crowd ...]      (all of them; extra `test`)

The project that is built is saxpy with many workgroup sizes as kernel IR: nothing is slow to
compile, so that what remains is the store and SCons. `reads` are of the store alone, 1,000 actions
with an artifact of 8 kB and a manifest of 800 bytes; `build` is a whole scons from a clean folder
and a clean local store (for `local`: a full one), 1,000 artifacts and their traces. The crowd is 8
processes that want the same 200 kernels of one empty store, one of them killed in the middle.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gristmill.store.local import LocalStore
from gristmill.store.opening import open_remote

ROOT = Path(__file__).parents[1]
ARTIFACTS, NODES = 1000, 3600
TARGETS = ("one", "two", "three", "four", "five")
PARTS = ("local", "s3", "reapi", "null", "crowd")
LOCAL_S, REMOTE_S, NULL_S = 1.5, 4.0, 3.0
PROCESSES, KERNELS, ROUNDS = 8, 200, 10


@dataclass(frozen=True)
class Took:
    """Seconds by the clock, and of processors."""

    wall: float
    processor: float


def row(what: str, took: Took, bound: float) -> bool:
    """Print a time beside its bound; whether it is kept."""
    print(
        f"{what:<44}{took.wall:7.2f} s (bound {bound:g}), processor {took.processor:.2f} s",
        flush=True,
    )
    return took.wall <= bound


# --- the store alone


def key_of(number: int) -> str:
    return hashlib.sha256(b"action %d" % number).hexdigest()


def outputs_of(number: int) -> dict[str, bytes]:
    noise = random.Random(number)
    return {"artifact": noise.randbytes(8192), "manifest": noise.randbytes(800)}


def reads(url: str) -> Took:
    """How long a new client takes to read all actions, in one go, from a store that has them."""
    wanted = {key_of(n): outputs_of(n) for n in range(ARTIFACTS)}
    writer = open_remote(url)
    for key, outputs in wanted.items():
        writer.put(key, outputs)
    writer.close()
    reader = open_remote(url)
    begin, before = time.perf_counter(), time.process_time()
    found = reader.get_many(wanted)
    took = Took(time.perf_counter() - begin, time.process_time() - before)
    if found != wanted:
        raise SystemExit(f"{url}: not what was written")
    reader.close()
    return took


# --- whole builds


def project(folder: Path, specializations: int, targets: tuple[str, ...]) -> Path:
    """A project with saxpy for so many workgroup sizes and targets."""
    folder.mkdir()
    for name in ("SConstruct", "site_scons", "kernels"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "configs/kernels").mkdir(parents=True)
    rows = "".join(f"  interp-{name}: {{default: true}}\n" for name in targets)
    (folder / "configs/targets.yaml").write_text(f"targets:\n{rows}")
    (folder / "configs/toolchain.yaml").write_text("backends:\n  interp: []\n")
    sizes = "".join(f"  b{n}: {{T: f32, BLOCK: {n}}}\n" for n in range(1, specializations + 1))
    text = f"kernel: saxpy\nmodule: elementwise\nspecializations:\n{sizes}"
    (folder / "configs/kernels/saxpy.yaml").write_text(text)
    return folder


def scons(folder: Path, store: Path, *words: str) -> tuple[Took, str]:
    """How long a whole scons took, and what it said."""
    environment = {**os.environ, "GRISTMILL_STORE": str(store), "PYTHONPATH": str(ROOT / "src")}
    begin, before = time.perf_counter(), os.times()
    done = subprocess.run(
        [sys.executable, "-m", "SCons", "-s", *words],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    after = os.times()
    used = sum(after[2:4]) - sum(before[2:4])
    return Took(time.perf_counter() - begin, used), done.stdout + done.stderr


def from_store(folder: Path, work: Path, url: str) -> Took:
    """How long it takes to build 1,000 artifacts of a clean folder from a full store: the local
    one, or a cache behind an empty one."""
    words = [f"cache={url}"] if url else []
    shutil.rmtree(folder / "artifacts", ignore_errors=True)
    scons(folder, work / "first", *words)
    shutil.rmtree(folder / "artifacts")
    took, said = scons(folder, work / ("second" if url else "first"), *words)
    if "gristmill: 0 steps built" not in said:
        raise SystemExit(said)
    return took


def null_build(work: Path) -> Took:
    """A build of 3,600 nodes with nothing to do, the best of three."""
    folder = project(work / "null", NODES // (len(TARGETS) + 1), TARGETS)
    scons(folder, work / "null-store")
    return min((scons(folder, work / "null-store")[0] for _ in range(3)), key=lambda t: t.wall)


# --- many builders


def build_all(root: Path, log: Path, worker: int, kernels: int) -> None:
    """What one of the crowd does: want every kernel, in an order of its own; make what nobody has.
    Each one made is a line of the log, written when it is begun and when it is kept."""
    store = LocalStore(root)
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    order = list(range(kernels))
    random.Random(worker % 2).shuffle(order)  # they meet at most kernels
    for number in order:
        key = key_of(number)
        outputs = store.get(key)
        if outputs is None:
            with store.claim(key) as outputs:
                if outputs is None:
                    os.write(descriptor, b"begin %d %d\n" % (number, os.getpid()))
                    time.sleep(0.01)
                    outputs = outputs_of(number)
                    store.put(key, outputs)
                    os.write(descriptor, b"end %d %d\n" % (number, os.getpid()))
        if outputs != outputs_of(number):
            raise SystemExit(f"kernel {number}: wrong bytes")
    store.close()
    if store.counts.mismatches:
        raise SystemExit(f"{store.counts.mismatches} damaged entries")


@dataclass
class Crowd:
    """What a round came to. errors: survivors that failed. wrong: entries with other bytes than
    they should have. twice: kernels made again although they had been kept or were being made by
    one that lived. lost: kernels that the killed one had begun."""

    errors: int
    wrong: int
    twice: int
    lost: int


def crowd(work: Path, number: int, processes: int = PROCESSES, kernels: int = KERNELS) -> Crowd:
    """One round: all of them at once, one killed once a quarter of the work is done."""
    root, log = work / f"crowd{number}", work / f"log{number}"
    log.touch()
    words = [sys.executable, __file__, "--worker", str(root), str(log)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    started = [
        subprocess.Popen([*words, str(n), str(kernels)], env=environment) for n in range(processes)
    ]
    victim = started.pop(number % processes)
    while log.read_bytes().count(b"end") < kernels // 4 and victim.poll() is None:
        time.sleep(0.002)
    begun = [line.split() for line in log.read_text().splitlines()]
    # At best while it makes something: that one has a claim, and is made again.
    while begun and ["begin", str(victim.pid)] not in [[b[0], b[2]] for b in begun[-processes:]]:
        if victim.poll() is not None:
            break
        begun = [line.split() for line in log.read_text().splitlines()]
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    errors = sum(process.wait() != 0 for process in started)
    lines = [line.split() for line in log.read_text().splitlines()]
    ended = {(n, who) for what, n, who in lines if what == "end"}
    begun = [(n, who) for what, n, who in lines if what == "begin"]
    lost = [n for n, who in begun if (n, who) not in ended and int(who) == victim.pid]
    made = Counter(n for n, _ in begun)
    twice = sum(max(0, made[n] - 1 - lost.count(n)) for n in made)
    store = LocalStore(root)
    wrong = sum(store.get(key_of(n)) != outputs_of(n) for n in range(kernels))
    return Crowd(errors, wrong + store.counts.mismatches, twice, len(lost))


def crowds(work: Path) -> bool:
    """All rounds; whether each of them is as it should be."""
    found = [crowd(work, number) for number in range(ROUNDS)]
    total = {name: sum(getattr(c, name) for c in found) for name in Crowd.__annotations__}
    print(f"{ROUNDS} rounds of {PROCESSES} processes x {KERNELS} kernels: {json.dumps(total)}")
    return total["errors"] == total["wrong"] == total["twice"] == 0


@contextlib.contextmanager
def server(part: str, folder: Path) -> Iterator[str]:
    """A running cache of that kind; gives its URL."""
    sys.path.insert(0, str(ROOT / "tests"))
    import cache_servers

    if part == "reapi":
        with cache_servers.reapi(folder) as url:
            yield url
    else:
        with cache_servers.s3() as environment:
            os.environ.update(environment)
            yield "s3://bucket/benchmark"


def measure(part: str, work: Path) -> bool:
    """Print the rows of one part; whether all bounds are kept."""
    if part == "crowd":
        return crowds(work)
    if part == "null":
        return row(f"null build of {NODES:,} nodes", null_build(work), NULL_S)
    name = "warm local store" if part == "local" else f"{part} on loopback"
    folder = project(work / "project", ARTIFACTS // len(TARGETS), TARGETS)
    if part == "local":
        fine = row(f"1,000 actions read, {name}", reads(str(work / "reads")), LOCAL_S)
        return row(f"1,000 artifacts built, {name}", from_store(folder, work, ""), LOCAL_S) and fine
    with server(part, work) as url:
        fine = row(f"1,000 actions read, {name}", reads(url), REMOTE_S)
        took = from_store(folder, work, url)
        return row(f"1,000 artifacts built, {name}", took, REMOTE_S) and fine


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        root, log, worker, kernels = sys.argv[2:]
        build_all(Path(root), Path(log), int(worker), int(kernels))
        return 0
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parts = words.parse_args().parts or list(PARTS)
    fine = True
    for part in parts:
        with tempfile.TemporaryDirectory() as name:
            fine = measure(part, Path(name)) and fine
    print("all bounds kept" if fine else "NOT all bounds kept")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
