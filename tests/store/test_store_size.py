"""A store keeps within its limit: what was used longest ago goes first, nothing that is in use."""

from __future__ import annotations

import fcntl
import hashlib
import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from gristmill.store import eviction, locks
from gristmill.store.interface import StoreError
from gristmill.store.local import LIMIT, LocalStore, default_limit

SIZE = 10_000


def key_of(n: int) -> str:
    return hashlib.sha256(b"key %d" % n).hexdigest()


def outputs_of(n: int) -> dict[str, bytes]:
    return {"artifact": (b"%09d " % n) * (SIZE // 10)}


def age(root: Path, seconds: float) -> None:
    """As if everything had been used so much longer ago."""
    for kind in eviction.KINDS:
        for path in (root / kind).rglob("*"):
            dated = path.stat().st_mtime - seconds
            os.utime(path, (dated, dated))


def filled(root: Path, count: int) -> None:
    """A store with so many entries, each used two hours after the one before it, all of a build
    that is over."""
    store = LocalStore(root, limit=0)
    for n in range(count):
        age(root, 7200)
        store.put(key_of(n), outputs_of(n))
    store.close()
    age(root, 7200)


def held(root: Path) -> int:
    return sum(p.stat().st_size for k in eviction.KINDS for p in (root / k).glob("*/*"))


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    filled(tmp_path, 10)
    reader = LocalStore(tmp_path)
    assert reader.get(key_of(0))  # which makes it the last one used
    reader.close()
    writer = LocalStore(tmp_path, limit=6 * SIZE)
    writer.put(key_of(10), outputs_of(10))
    writer.close()
    assert held(tmp_path) <= 6 * SIZE
    assert writer.counts.evicted >= 8
    kept = [n for n in range(11) if LocalStore(tmp_path).get(key_of(n)) == outputs_of(n)]
    assert kept == [0, *range(11 - len(kept) + 1, 11)]
    assert len(kept) >= 4


def test_it_stays_within_its_limit_while_much_more_is_written(tmp_path: Path) -> None:
    limit = 8 * SIZE
    for n in range(40):  # forty builds
        store = LocalStore(tmp_path, limit)
        store.put(key_of(n), outputs_of(n))
        store.close()
        assert held(tmp_path) <= limit
    assert LocalStore(tmp_path).get(key_of(39))


def test_a_build_that_wrote_too_much_leaves_the_store_within_its_limit(tmp_path: Path) -> None:
    """While it runs, its own lease protects all that it wrote."""
    store = LocalStore(tmp_path, limit=3 * SIZE)
    for n in range(9):
        store.put(key_of(n), outputs_of(n))
    assert held(tmp_path) >= 9 * SIZE
    store.close()
    assert held(tmp_path) <= 3 * SIZE


def test_what_others_write_meanwhile_is_counted(tmp_path: Path) -> None:
    """Each sixteenth of the limit: what a process believes that there is may be long past."""
    filled(tmp_path, 4)
    build = LocalStore(tmp_path, limit=160 * SIZE)
    build.put(key_of(300), outputs_of(300))
    other = LocalStore(tmp_path, limit=0)
    for n in range(4, 200):
        other.put(key_of(n), outputs_of(n), sync=False)
    other.close()
    age(tmp_path, 7200)
    for n in range(301, 312):
        build.put(key_of(n), outputs_of(n))
    assert held(tmp_path) <= 160 * SIZE
    build.close()


def test_claims_of_killed_builders_do_not_pile_up(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    process = holder(tmp_path)
    store = LocalStore(tmp_path, limit=1)
    store.put(key_of(8), outputs_of(8))
    assert [p.name for p in (tmp_path / "claims").iterdir()] == [key_of(5)]
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    store.put(key_of(9), outputs_of(9))
    assert list((tmp_path / "claims").iterdir()) == []


def test_nothing_that_a_build_in_progress_used_is_evicted(tmp_path: Path) -> None:
    """Neither what it wrote nor what it read; not even for a limit that is passed by it."""
    filled(tmp_path, 3)
    build = LocalStore(tmp_path, limit=0)
    assert build.get(key_of(0))
    build.put(key_of(7), outputs_of(7))
    other = LocalStore(tmp_path, limit=1)
    other.put(key_of(8), outputs_of(8))
    other.close()
    assert {n for n in range(9) if LocalStore(tmp_path).get(key_of(n))} == {0, 7, 8}
    build.close()
    third = LocalStore(tmp_path, limit=1)
    third.put(key_of(9), outputs_of(9))
    third.close()
    assert [n for n in range(9) if LocalStore(tmp_path).get(key_of(n))] == []


def _hold(root: str, ready: Connection) -> None:
    store = LocalStore(Path(root), limit=0)
    assert store.get(key_of(0))
    with store.claim(key_of(5)):
        ready.send(True)
        time.sleep(60)


def holder(root: Path) -> multiprocessing.process.BaseProcess:
    """A process that uses entry 0 and builds entry 5, until it is killed."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_hold, args=(str(root), there), daemon=True)
    process.start()
    assert here.recv()
    return process


def test_what_a_killed_build_used_is_not_protected_any_more(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    process = holder(tmp_path)
    LocalStore(tmp_path, limit=1).put(key_of(8), outputs_of(8))
    assert LocalStore(tmp_path).get(key_of(0))
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    age(tmp_path, 10)
    store = LocalStore(tmp_path, limit=2 * SIZE)
    store.put(key_of(9), outputs_of(9))
    store.close()
    assert LocalStore(tmp_path).get(key_of(0)) is None
    assert LocalStore(tmp_path).get(key_of(9))
    assert list((tmp_path / eviction.LEASES).iterdir()) == []


def test_a_builder_is_waited_for_and_a_dead_one_is_not(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    process = holder(tmp_path)
    store = LocalStore(tmp_path)
    begin = time.monotonic()
    with store.claim(key_of(5), patience=0.3) as found:
        assert found is None
    assert time.monotonic() - begin >= 0.3
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    begin = time.monotonic()
    with store.claim(key_of(5), patience=60) as found:
        assert found is None
    assert time.monotonic() - begin < 30
    assert list((tmp_path / "claims").iterdir()) == []


def test_what_another_builder_made_meanwhile_is_taken(tmp_path: Path) -> None:
    store, other = LocalStore(tmp_path), LocalStore(tmp_path)
    assert store.get(key_of(1)) is None
    other.put(key_of(1), outputs_of(1))
    with store.claim(key_of(1)) as found:
        assert found == outputs_of(1)
    assert (store.counts.hits, store.counts.misses, store.counts.waited) == (1, 0, 1)


def _hold_and_fork(path: str, ready: Connection) -> None:
    lock = locks.take(Path(path))
    assert lock  # and kept
    child = os.fork()
    if child:
        ready.send(child)
    time.sleep(60)
    os._exit(0)


def test_the_lock_of_a_killed_process_is_free_although_its_child_lives(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    path = tmp_path / "lock"
    process = context.Process(target=_hold_and_fork, args=(str(path), there), daemon=True)
    process.start()
    child = here.recv()
    try:
        assert locks.take(path) is None
        process.kill()
        process.join()
        lock = locks.take(path, patience=10)
        assert lock
        lock.release()
    finally:
        os.kill(child, signal.SIGKILL)


def test_what_is_used_while_others_are_evicted_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, 4)

    def used_meanwhile(root: Path) -> int:
        assert LocalStore(tmp_path).get(key_of(0)) == outputs_of(0)
        return time.time_ns()

    monkeypatch.setattr(eviction, "_protected", used_meanwhile)
    eviction.evict(tmp_path, 1)
    assert [n for n in range(4) if LocalStore(tmp_path).get(key_of(n))] == [0]


def test_an_eviction_makes_room_for_some_time(tmp_path: Path) -> None:
    filled(tmp_path, 20)
    before = held(tmp_path)
    total, removed = eviction.evict(tmp_path, before - 1)
    assert total == held(tmp_path) <= 0.9 * before
    assert removed >= 2
    assert eviction.evict(tmp_path, before - 1) == (total, 0)


def test_a_lease_protects_what_was_used_within_a_day(tmp_path: Path) -> None:
    """One forgotten process must not keep a store from ever shrinking."""
    filled(tmp_path, 2)
    forgotten = LocalStore(tmp_path)
    assert forgotten.get(key_of(0))
    (lease,) = (tmp_path / eviction.LEASES).iterdir()
    for path in (lease, *(p for k in eviction.KINDS for p in (tmp_path / k).glob("*/*"))):
        os.utime(path, (time.time() - 2 * 86_400,) * 2)
    fresh = LocalStore(tmp_path, limit=0)
    fresh.put(key_of(5), outputs_of(5))
    fresh.close()
    eviction.evict(tmp_path, 1)
    assert [n for n in range(6) if LocalStore(tmp_path).get(key_of(n))] == [5]
    forgotten.close()


def test_what_a_long_build_uses_is_dated_each_hour(tmp_path: Path) -> None:
    """Its lease may be forgotten by others, as of another machine."""
    store = LocalStore(tmp_path)
    store.put(key_of(0), outputs_of(0))
    lease = store._leased()
    assert lease.since_ns
    lease.since_ns -= 5 * 3600 * 10**9
    age(tmp_path, 1800)
    for seconds, dated_anew in ((0, False), (3600, True)):
        age(tmp_path, seconds)
        assert store.get(key_of(0))
        dates = [p.stat().st_mtime for k in eviction.KINDS for p in (tmp_path / k).glob("*/*")]
        assert [time.time() - date < 600 for date in dates] == [dated_anew] * len(dates)
    store.close()


def test_a_count_of_bytes_is_as_old_as_it_is(tmp_path: Path) -> None:
    """Adding to it does not make it younger: after an hour the store is counted again."""
    filled(tmp_path, 1)
    usage = tmp_path / eviction.USAGE
    old = time.time() - 3000
    usage.write_text("7\n")
    os.utime(usage, (old, old))
    assert eviction.add_used(tmp_path, 5) == 12
    assert abs(usage.stat().st_mtime - old) < 1
    os.utime(usage, (old - 3600, old - 3600))
    assert eviction.used_bytes(tmp_path) == held(tmp_path)


def test_a_lock_whose_file_was_removed_meanwhile_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by its last holder, between opening and locking: the next one makes a new file."""
    path, right, calls = tmp_path / "lock", fcntl.flock, []

    def removing(descriptor: int, operation: int) -> None:
        if not calls:
            path.unlink()
        calls.append(1)
        right(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removing)
    lock = locks.take(path)
    assert lock
    assert path.exists()
    assert locks.take(path) is None
    lock.release()


def test_a_store_that_cannot_lock_still_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network file system without its lock service."""

    def refused(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", refused)
    store = LocalStore(tmp_path, limit=SIZE)
    for n in range(3):
        with store.claim(key_of(n)) as found:
            assert found is None
        store.put(key_of(n), outputs_of(n))
        assert store.get(key_of(n)) == outputs_of(n)


def test_a_limit_is_a_size() -> None:
    assert default_limit({}) == LIMIT
    sizes = {"500M": 500 << 20, "2g": 2 << 30, "1.5 GiB": 3 << 29, "0": 0, "4096": 4096}
    for text, expected in sizes.items():
        assert default_limit({"GRISTMILL_STORE_LIMIT": text}) == expected
    for text in ("much", "-1", "5 parsecs"):
        with pytest.raises(StoreError, match="is no size; expected such as 500M"):
            default_limit({"GRISTMILL_STORE_LIMIT": text})
