"""The local store: verified on every read, whole or not at all, shared by processes."""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill.store import entries, files
from gristmill.store.files import WriteError, write_atomic
from gristmill.store.local import LocalStore, default_root
from need import Need

KEY = hashlib.sha256(b"an action").hexdigest()
OUTPUTS = {"artifact": b"\x7fELF...", "manifest": b"{}"}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def all_files(store: LocalStore) -> list[Path]:
    return [p for kind in ("ac", "cas") for p in (store.root / kind).rglob("*") if p.is_file()]


def test_what_was_put_comes_back(store: LocalStore) -> None:
    assert store.get(KEY) is None
    store.put(KEY, OUTPUTS)
    assert store.get(KEY) == OUTPUTS
    assert (store.counts.hits, store.counts.misses, store.counts.mismatches) == (1, 1, 0)


def test_any_flipped_byte_is_a_miss_and_heals(store: LocalStore) -> None:
    """Nothing damaged is ever served, wherever in the store the damage lies."""
    store.put(KEY, OUTPUTS)
    for path in all_files(store):
        good = path.read_bytes()
        for n in range(len(good)):
            store.put(KEY, OUTPUTS)
            path.write_bytes(good[:n] + bytes([good[n] ^ 0x10]) + good[n + 1 :])
            assert store.get(KEY) is None, (path, n)
            assert not path.exists()
    store.put(KEY, OUTPUTS)
    assert store.get(KEY) == OUTPUTS


@pytest.mark.parametrize(
    "form",
    [
        "[]",
        "null",
        "7",
        "{}",
        '{"key": KEY}',
        '{"key": KEY, "outputs": []}',
        '{"key": KEY, "outputs": {"artifact": 7}}',
        '{"key": KEY, "outputs": {"artifact": {"sha256": 7}}}',
        '{"key": KEY, "outputs": {"artifact": {"sha256": "../../victim"}}}',
        "not JSON",
        "[" * 100_000,
    ],
    ids=range(11),
)
def test_an_entry_of_another_form_is_a_miss_and_heals(store: LocalStore, form: str) -> None:
    """Its digest is right: somebody wrote it so."""
    store.put(KEY, OUTPUTS)
    victim = store.root / "victim"
    victim.write_bytes(b"left alone")
    body = form.replace("KEY", f'"{KEY}"').encode()
    path = store.root / "ac" / KEY[:2] / KEY
    path.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    assert store.get(KEY) is None
    assert not path.exists()
    assert store.counts.mismatches == 1
    assert victim.exists()
    store.put(KEY, OUTPUTS)
    assert store.get(KEY) == OUTPUTS


def test_a_truncated_file_is_a_miss(store: LocalStore) -> None:
    store.put(KEY, OUTPUTS)
    for path in all_files(store):
        store.put(KEY, OUTPUTS)
        path.write_bytes(b"")
        assert store.get(KEY) is None
    assert store.counts.mismatches == 3


def test_damage_is_overwritten_by_the_next_put(store: LocalStore) -> None:
    store.put(KEY, OUTPUTS)
    for path in all_files(store):
        path.write_bytes(b"garb")
    store.put(KEY, OUTPUTS)
    assert store.get(KEY) == OUTPUTS


def test_an_entry_under_the_wrong_name_is_not_served(store: LocalStore) -> None:
    other = hashlib.sha256(b"another action").hexdigest()
    store.put(KEY, OUTPUTS)
    entry = store.root / "ac" / KEY[:2] / KEY
    target = store.root / "ac" / other[:2] / other
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(entry.read_bytes())
    assert store.get(other) is None


def test_equal_outputs_are_stored_once(store: LocalStore) -> None:
    for name in ("one", "two"):
        store.put(hashlib.sha256(name.encode()).hexdigest(), OUTPUTS)
    assert len(list((store.root / "cas").rglob("*/*"))) == 2


def _work(root: str, worker: int, count: int) -> None:
    store = LocalStore(Path(root))
    for n in np.random.default_rng(worker).permutation(count):
        key = hashlib.sha256(b"%d" % n).hexdigest()
        outputs = {"artifact": bytes([n]) * 5000, "manifest": b"%d" % n}
        found = store.get(key)
        assert found in (None, outputs)
        store.put(key, outputs)
        assert store.get(key) == outputs
    assert store.counts.mismatches == 0


def test_eight_processes_share_one_store_and_a_ninth_is_killed(tmp_path: Path) -> None:
    root = str(tmp_path / "store")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_work, args=(root, n, 50)) for n in range(9)]
    for worker in workers:
        worker.start()
    time.sleep(0.05)
    victim = workers.pop()
    if victim.pid:
        os.kill(victim.pid, signal.SIGKILL)
    for worker in workers:
        worker.join(300)
        assert worker.exitcode == 0
    victim.join()
    _work(root, 99, 50)


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(WriteError, match="No space left on device; nothing was changed"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_put_is_on_the_disk_before_its_name(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a machine that loses power keeps whole files; what can be fetched again need not."""
    done: list[str] = []
    for name in ("fsync", "replace"):
        right = getattr(os, name)

        def noted(*args: Any, name: str = name, right: Any = right) -> None:
            done.append(name)
            right(*args)

        monkeypatch.setattr(os, name, noted)
    store.put(KEY, OUTPUTS)
    # The two outputs, the entry; the count of bytes, which is counted again where it is lost.
    assert [n for n in done if n == "fsync"] == ["fsync"] * 3
    assert all(done[at + 1] == "replace" for at, name in enumerate(done) if name == "fsync")
    done.clear()
    store.put(hashlib.sha256(b"other").hexdigest(), {"artifact": b"fetched"}, sync=False)
    assert "fsync" not in done


def test_outputs_are_there_before_their_entry(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads the entry finds them; whoever is killed in between leaves nothing wrong."""
    seen: list[str] = []
    right = os.replace

    def noted(source: Any, target: Any) -> None:
        right(source, target)
        seen.append(Path(target).parent.parent.name)

    monkeypatch.setattr(os, "replace", noted)
    store.put(KEY, OUTPUTS)
    assert [kind for kind in seen if kind in ("ac", "cas")] == ["cas", "cas", "ac"]


def test_an_entry_that_lies_about_a_size_is_a_miss(store: LocalStore) -> None:
    store.put(KEY, OUTPUTS)
    listed = entries.contents_of(OUTPUTS)
    digest = listed["artifact"].sha256
    for size in (0, len(OUTPUTS["artifact"]) + 1, entries.LARGEST + 1, -1, True, 1.5):
        body = entries.encode_body(KEY, {**listed, "artifact": entries.Content(digest, size)})
        path = store.root / "ac" / KEY[:2] / KEY
        path.write_bytes(entries.digest(body).encode() + b"\n" + body)
        assert store.get(KEY) is None, size
        store.put(KEY, OUTPUTS)


def test_what_killed_writers_left_is_swept_and_nothing_else(store: LocalStore) -> None:
    """A writer that still runs, another's fresh file and entries stay."""
    store.put(KEY, OUTPUTS)
    kept = set(all_files(store))
    worker = multiprocessing.get_context("fork").Process(target=int)
    worker.start()
    worker.join()
    gone, alive, folder = worker.pid, os.getpid(), store.root / "cas" / "ab"
    folder.mkdir(exist_ok=True)
    minutes, days = time.time() - 120, time.time() - 100_000
    ages = {
        f".x.{gone}.0123abcd.tmp": minutes,
        f".y.{alive}.0123abcd.tmp": days,
        f".z.{gone}.0123abcd.tmp": None,
        f".z.{alive}.0123abcd.tmp": minutes,
        ".mine.tmp": days,
    }
    for name, age in ages.items():
        (folder / name).write_bytes(b"half")
        if age:
            os.utime(folder / name, (age, age))
    counted = store.root / "usage"
    os.utime(counted, (days, days))
    again = LocalStore(store.root)
    again.put(KEY, OUTPUTS)
    assert set(all_files(again)) - kept == {folder / name for name in list(ages)[2:]}
    assert again.get(KEY) == OUTPUTS


def test_a_disk_that_refuses_is_counted_and_the_work_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = LocalStore(tmp_path / "file" / "store")
    for _ in range(2):
        store.keep(KEY, OUTPUTS)
    assert store.counts.unkept == 2
    assert "cannot write" in store.refusal
    with pytest.raises(WriteError):
        store.put(KEY, OUTPUTS)
    assert store.get(KEY) is None


def test_a_folder_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WriteError, match="File exists"):
        write_atomic(tmp_path / "file" / "inner", b"")


def test_the_place_of_the_store() -> None:
    assert default_root({"GRISTMILL_STORE": "/s", "XDG_CACHE_HOME": "/c"}) == Path("/s")
    assert default_root({"XDG_CACHE_HOME": "/c"}) == Path("/c/gristmill/store")
    assert default_root({}) == Path.home() / ".cache/gristmill/store"


def test_the_text_of_an_action_is_kept_under_its_key(store: LocalStore) -> None:
    text = b"gristmill action 2\n..."
    key = hashlib.sha256(text).hexdigest()
    assert store.action(key) is None
    store.put(key, OUTPUTS, text)
    assert (store.get(key), store.action(key)) == (OUTPUTS, text)
    with pytest.raises(ValueError, match="whose key is not"):
        store.put(KEY, OUTPUTS, text)


def test_a_store_may_be_moved_and_linked_to(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    store.put(KEY, OUTPUTS)
    store.close()
    for path in all_files(store):
        assert str(tmp_path).encode() not in path.read_bytes()
    (tmp_path / "store").rename(tmp_path / "moved")
    (tmp_path / "link").symlink_to("moved")
    assert LocalStore(tmp_path / "moved").get(KEY) == OUTPUTS
    assert LocalStore(tmp_path / "link").get(KEY) == OUTPUTS


def test_a_read_only_store_is_read_and_a_full_one_too(tmp_path: Path, require: Need) -> None:
    require("mount")
    root = tmp_path / "disk"
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(root)]
    if subprocess.run(mount, capture_output=True).returncode:
        require("mount", "mounting a small file system takes root")
    try:
        filled = LocalStore(root / "store")
        filled.put(KEY, OUTPUTS)
        filled.close()
        other = hashlib.sha256(b"other").hexdigest()
        with open(root / "ballast", "wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while ballast.write(bytes(4096)):
                pass
        for words in ([], ["mount", "-o", "remount,ro", str(root)]):
            if words:
                subprocess.run(words, check=True)
            store = LocalStore(root / "store", limit=1)
            assert store.get(KEY) == OUTPUTS
            with store.claim(other) as found:
                assert found is None
            store.keep(other, {"artifact": bytes(100_000)})
            assert (store.counts.unkept, store.counts.evicted) == (1, 0)
            store.close()
            assert LocalStore(root / "store").get(KEY) == OUTPUTS
            assert not list(root.rglob("*.tmp"))
    finally:
        subprocess.run(["umount", str(root)], check=True)
