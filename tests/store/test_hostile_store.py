"""Stores whose folder somebody else wrote to: odd names, odd files, dates ahead of the clock."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from gristmill.store import eviction
from gristmill.store.interface import StoreError
from gristmill.store.local import LocalStore, default_limit

KEY = hashlib.sha256(b"an action").hexdigest()
OUTPUTS = {"artifact": b"\x7fELF...", "manifest": b"{}"}
DAY = 86400.0


def paths(root: Path) -> list[Path]:
    return [p for kind in ("ac", "cas") for p in sorted((root / kind).glob("*/*"))]


def dated(root: Path, seconds: float) -> None:
    """As if everything had last been used so many seconds from now."""
    for path in paths(root):
        os.utime(path, (time.time() + seconds,) * 2)


@pytest.mark.parametrize(
    "name", ["{}", "../../{}", "../../../store/../victim", "", ".", "..", KEY.upper(), f"{KEY}\n"]
)
def test_a_name_that_is_no_digest_deletes_no_file(tmp_path: Path, name: str) -> None:
    """Manifests of others say a key, which need not be one."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"somebody's work")
    store = LocalStore(tmp_path / "store")
    store.put(KEY, OUTPUTS)
    name = name.format(victim)
    assert (store.get(name), store.action(name), store.content(name)) == (None, None, None)
    with pytest.raises(ValueError, match="not a key"):
        store.put(name, OUTPUTS)
    with pytest.raises(ValueError, match="not a key"), store.claim(name):
        pass
    assert victim.read_bytes() == b"somebody's work"
    assert store.counts.mismatches == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["store", "victim"]


def test_a_pipe_in_a_store_does_not_hang_the_build(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put(KEY, OUTPUTS)
    for path in paths(tmp_path):
        path.unlink()
        os.mkfifo(path)
        assert store.get(KEY) is None
        store.put(KEY, OUTPUTS)
        assert store.get(KEY) == OUTPUTS


def test_a_link_to_what_has_no_end_is_a_miss(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put(KEY, OUTPUTS)
    for path in paths(tmp_path):
        path.unlink()
        path.symlink_to("/dev/zero")
        assert store.get(KEY) is None
        store.put(KEY, OUTPUTS)
        assert store.get(KEY) == OUTPUTS
    assert not any(path.is_symlink() for path in paths(tmp_path))


def test_a_file_of_terabytes_is_not_read(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put(KEY, OUTPUTS)
    for number, path in enumerate(paths(tmp_path), 1):
        os.truncate(path, 1 << 42)
        assert store.get(KEY) is None
        assert store.counts.mismatches == number
        store.put(KEY, OUTPUTS)
        assert store.get(KEY) == OUTPUTS


def test_dates_ahead_of_the_clock_do_not_keep_a_store_from_shrinking(tmp_path: Path) -> None:
    """As of a machine whose clock was years ahead, and was set right."""
    old = LocalStore(tmp_path, limit=0)
    for n in range(8):
        old.put(hashlib.sha256(b"%d" % n).hexdigest(), {"artifact": b"%d" % n * 10_000})
    old.close()
    dated(tmp_path, 1000 * DAY)
    for _ in range(3):  # builds
        store = LocalStore(tmp_path, limit=20_000)
        store.put(KEY, OUTPUTS)
        store.close()
    assert sum(p.stat().st_size for p in paths(tmp_path)) <= 20_000
    assert LocalStore(tmp_path).get(KEY) == OUTPUTS


def test_a_clock_that_is_set_back_unprotects_nothing_in_use(tmp_path: Path) -> None:
    build = LocalStore(tmp_path, limit=0)
    build.put(KEY, OUTPUTS)
    (lease,) = (tmp_path / eviction.LEASES).iterdir()
    os.utime(lease, (time.time() + 7200,) * 2)  # it began two hours ago, by the clock of then
    dated(tmp_path, -60)
    other = LocalStore(tmp_path, limit=1)
    other.put(hashlib.sha256(b"other").hexdigest(), {"artifact": b"x" * 100})
    other.close()
    assert LocalStore(tmp_path).get(KEY) == OUTPUTS
    build.close()


def test_what_a_killed_writer_left_goes_although_it_is_dated_ahead(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put(KEY, OUTPUTS)
    left = paths(tmp_path)[0].with_name(f".x.{os.getpid()}.0123abcd.tmp")
    left.write_bytes(b"half")
    os.utime(left, (time.time() + 2 * DAY,) * 2)
    eviction.evict(tmp_path, 0)
    assert not left.exists()


def test_a_limit_of_any_number_of_digits_is_told() -> None:
    for text in ("9" * 400, "9" * 400 + "T", "1" * 5000, "\u0665M"):
        with pytest.raises(StoreError, match="is no size"):
            default_limit({"GRISTMILL_STORE_LIMIT": text})
