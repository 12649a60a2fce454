"""Actions on a cluster of real processes: what is right, and whatever may go wrong."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from farm_cluster import STEP, Loopback, work
from gristmill.backends.farm import cluster as cluster_client
from gristmill.backends.farm import parcels
from gristmill.backends.farm.errors import FarmError, PoisonedWorkerError
from gristmill.backends.farm.farm import Farm
from gristmill.backends.steps import compile_step
from gristmill.store.local import LocalStore
from need import Need

# What a worker executes before it serves: its `done` is told of each job.
WRAPPED = """
from gristmill.backends.farm import worker
right = worker.right = getattr(worker, "right", worker.done)  # Dask executes this twice
def done(job):
    {body}
worker.done = done
"""
WRONG_BYTES = """kind, (how, outputs) = right(job)
    import dataclasses, hashlib
    from gristmill.store.manifest import Manifest
    wrong = outputs["artifact"] + b" "
    manifest = dataclasses.replace(Manifest.from_json(outputs["manifest"]), size=len(wrong),
                                   sha256=hashlib.sha256(wrong).hexdigest())
    return kind, (how, {"artifact": wrong, "manifest": manifest.to_json().encode()})"""


def wrapped(body: str) -> str:
    return WRAPPED.replace("{body}", body)


def run(farm: Farm, size: int) -> dict[str, bytes]:
    """A result by a farm, which must be the right one."""
    action, args = work(size)
    outputs: dict[str, bytes] = farm.run(STEP, *args, action=action)
    assert outputs == compile_step(*args)
    return outputs


def test_a_cluster_does_what_the_local_pool_does(cluster: Loopback) -> None:
    cluster.worker()
    warnings: list[str] = []
    with cluster.farm(warnings) as farm, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: run(farm, n), range(1, 33)))
        assert farm.run(STEP, *work(1)[1]) == run(farm, 1)  # without an action: here
        assert farm.counts == {"farmed": 33, "audited": 1, "local": 1}
        assert not warnings
    with pytest.raises(RuntimeError, match="the pool is closed"):
        run(farm, 1)


def test_equal_work_is_done_once_for_all_clients(cluster: Loopback, tmp_path: Path) -> None:
    log = tmp_path / "log"
    body = f"import time\n    open({str(log)!r}, 'a').write('x')\n    time.sleep(1)"
    cluster.worker(wrapped(f"{body}\n    return right(job)"))
    with cluster.farm([]) as one, cluster.farm([]) as other, ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda n: run((one, other)[n % 2], 7), range(8)))
        assert [farm.counts["farmed"] for farm in (one, other)] == [4, 4]
    assert results == results[:1] * 8
    assert log.read_text() == "x"


def test_what_a_killed_worker_had_begun_another_one_does(cluster: Loopback, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    body = f"import time\n    open({str(begun)!r}, 'w').close()\n    time.sleep(600)"
    victim = cluster.worker(wrapped(body))
    warnings: list[str] = []
    with cluster.farm(warnings) as farm, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(run, farm, 3)
        cluster.wait(begun.exists, "the action")
        cluster.worker()
        victim.kill()
        waiting.result(timeout=60)
        assert farm.counts == {"farmed": 1, "audited": 1, "local": 0}
    assert not warnings


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_scheduler_costs_one_warning(
    how: signal.Signals, cluster: Loopback, tmp_path: Path
) -> None:
    """All that waits for it, and all that comes after, is done here."""
    begun = tmp_path / "begun"
    body = f"import time\n    open({str(begun)!r}, 'w').close()\n    time.sleep(600)"
    cluster.worker(wrapped(body))
    warnings: list[str] = []
    with cluster.farm(warnings, patience=6.0) as farm, ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(run, farm, n) for n in range(1, 5)]
        cluster.wait(begun.exists, "the action")
        cluster.scheduler.send_signal(how)
        for future in waiting:
            future.result(timeout=60)
        run(farm, 9)
        assert farm.counts == {"farmed": 0, "audited": 0, "local": 5}
    (warning,) = warnings
    assert warning.startswith(f"farm {cluster.address}: ")
    assert warning.endswith("; what is left is compiled here")


def test_a_cluster_that_is_not_there_costs_one_warning(
    require: Need, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("distributed")
    monkeypatch.setattr(cluster_client, "CONNECT", 1.0)
    warnings: list[str] = []
    with Farm("tcp://127.0.0.1:9", 1, warn=warnings.append) as farm:
        run(farm, 1)
        run(farm, 2)
    (warning,) = warnings
    assert warning.startswith("farm tcp://127.0.0.1:9: no scheduler answers")


def test_a_cluster_without_workers_is_left(cluster: Loopback) -> None:
    warnings: list[str] = []
    with cluster.farm(warnings, patience=4.0) as farm:
        run(farm, 1)
    (warning,) = warnings
    assert "it has had no worker for 4 s" in warning


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('return "done", ("here", {"artifact": b"", "manifest": b"{}"})', "gave a wrong result: "),
        ('return "done", ("here", {"artifact": b""})', "expected outputs ['artifact', 'manifest']"),
        ('return "done", ("here", 3)', "expected outputs"),
        ('return "done", 3', "gave a wrong result"),
        (WRONG_BYTES, "gave other bytes than this machine for the action "),
        ('return "failed", ("OSError: no disk", False)', "failed at what can be done here: OSE"),
        ('return "failed", 3', "failed at what can be done here: 3"),
        ('return "refused", "it has no llvmlite \\x1b1"', "it has no llvmlite \\x1b1"),
    ],
)
def test_a_poisoned_worker_is_refused(body: str, said: str, cluster: Loopback) -> None:
    """By name, and once; its work is done by others, or here."""
    cluster.worker(wrapped(body))
    poisoned = cluster.last
    warnings: list[str] = []
    with cluster.farm(warnings, patience=3.0) as farm:
        cluster.wait(lambda: bool(run(farm, 1)) and poisoned in farm.refused, "a refusal")
        cluster.worker()
        for n in range(2, 6):
            run(farm, n)
    refusals = [text for text in warnings if text.startswith(f"farm worker {poisoned} is refused")]
    assert len(refusals) == 1
    assert said in refusals[0]


@pytest.mark.parametrize("body", ["raise OSError('no disk')", "import os\n    os._exit(1)"])
def test_a_worker_that_crashes_costs_time_alone(body: str, cluster: Loopback) -> None:
    for _ in range(1 if "raise" in body else 4):  # as many as Dask lets an action kill, and it ends
        cluster.worker(wrapped(body))
    warnings: list[str] = []
    with cluster.farm(warnings, patience=3.0) as farm:
        run(farm, 1)
        assert farm.counts["local"] == 1
        if "raise" in body:  # of a worker, and not of the connection
            assert not farm.lost
            assert farm.counts["OSError"] == 1
    assert len(warnings) <= 1


def test_a_cluster_whose_first_worker_is_refused_is_waited_for(cluster: Loopback) -> None:
    """And given up where nobody else comes."""
    cluster.worker(
        "from gristmill.backends.farm import identity\nours = identity.identity()\n"
        "identity.identity = lambda: {**ours, 'compiler (spirv)': 'another'}"
    )
    warnings: list[str] = []
    with cluster.farm(warnings, patience=90.0) as farm, ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(run, farm, n) for n in (1, 2)]
        cluster.wait(lambda: bool(farm.refused), "a refusal")
        assert not any(future.done() for future in waiting)
        cluster.worker()
        for future in waiting:
            future.result(timeout=60)
        assert farm.counts["farmed"] == 2
    assert len(warnings) == 1
    cluster.processes.pop().kill()
    with cluster.farm(warnings, patience=3.0) as farm:
        run(farm, 3)
    assert "it has had no worker that is not refused for 3 s" in warnings[-1]


def test_a_worker_that_is_right_at_first_and_then_wrong_is_no_result(cluster: Loopback) -> None:
    body = "done.count = getattr(done, 'count', 0) + 1\n    if done.count < 3:\n"
    cluster.worker(wrapped(f"{body}        return right(job)\n    {WRONG_BYTES}"))
    warnings: list[str] = []
    with cluster.farm(warnings, audited=1.0) as farm:
        run(farm, 1)
        run(farm, 2)
        action, args = work(3)
        with pytest.raises(PoisonedWorkerError, match="after 2 results of it were taken"):
            farm.run(STEP, *args, action=action)


@pytest.mark.parametrize(
    ("preload", "said"),
    [
        (
            "from gristmill.backends.farm import identity\nours = identity.identity()\n"
            "identity.identity = lambda: {**ours, 'compiler (spirv)': 'another'}",
            "its compiler (spirv) is another, here ",
        ),
        ("import sys\nsys.modules['gristmill'] = None", "it does not say who it is"),
    ],
)
def test_a_worker_of_another_version_is_refused_before_it_is_asked(
    preload: str, said: str, cluster: Loopback
) -> None:
    cluster.worker(preload)
    other = cluster.last
    cluster.worker()
    warnings: list[str] = []
    with cluster.farm(warnings) as farm, ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: run(farm, n), range(1, 9)))
        assert farm.counts["farmed"] == 8
        assert list(farm.refused) == [other]
    (warning,) = warnings
    assert said in warning


def test_a_worker_that_comes_later_is_refused_as_well(cluster: Loopback) -> None:
    """It finds out by itself that its compiler is another one than the action's."""
    cluster.worker()
    warnings: list[str] = []
    with cluster.farm(warnings, patience=3.0) as farm:
        run(farm, 1)
        first = cluster.processes[-1]
        cluster.worker(
            "from gristmill.backends.farm import identity\n"
            "identity.identity = lambda: {'compiler (interp)': 'another'}"
        )
        first.kill()
        cluster.wait(lambda: bool(run(farm, 2)) and bool(farm.refused), "a refusal")
    assert "no stage of its compiler has the digest" in farm.refused[cluster.last]


def test_an_error_of_the_kernel_is_the_same_error(cluster: Loopback) -> None:
    """It is the one that the compiler here gives, and no reason to refuse a worker."""
    cluster.worker()
    warnings: list[str] = []
    action, args = work(1, "  %3 = nonsense : f32\n")
    with cluster.farm(warnings) as farm:
        with pytest.raises(RuntimeError, match="no op is called 'nonsense'") as here:
            farm.local.run(STEP, *args)
        with pytest.raises(RuntimeError) as there:
            farm.run(STEP, *args, action=action)
    assert str(there.value) == str(here.value)
    assert not warnings


def test_what_is_large_goes_through_the_cache(cluster: Loopback, tmp_path: Path) -> None:
    url = str(tmp_path / "cache")
    cluster.worker(GRISTMILL_CACHE=url)
    cache = LocalStore(Path(url))
    more = "".join(f"  %c.{n} = const {n}.0 : f32\n" for n in range(10, 4000))
    action, args = work(1, more)
    assert len(args[0]) > parcels.INLINE
    with cluster.farm([], cache=cache, where=url, publishes=True) as farm:
        assert farm.run(STEP, *args, action=action) == compile_step(*args)
        assert farm.counts == {"farmed": 1, "audited": 1, "local": 0}
        assert (cache.counts.written, cache.counts.hits) == (1, 1)
        assert cache.get(action.key) is None  # until somebody has judged it


def test_arguments_that_are_gone_are_sent_again(cluster: Loopback, tmp_path: Path) -> None:
    url = str(tmp_path / "cache")
    cluster.worker(GRISTMILL_CACHE=str(tmp_path / "another"))  # it does not see what is sent
    action, args = work(1, "".join(f"  %c.{n} = const {n}.0 : f32\n" for n in range(10, 4000)))
    with cluster.farm([], cache=LocalStore(Path(url)), where=url, publishes=True) as farm:
        assert farm.run(STEP, *args, action=action) == compile_step(*args)
        assert farm.counts["farmed"] == 1


@pytest.mark.parametrize(
    "address", ["scheduler:8786", "ucx://x:1", "tcp://x", "tcp:///", "http://x:1"]
)
def test_what_is_no_address_is_told(address: str) -> None:
    with pytest.raises(FarmError, match="expected tcp://HOST:PORT or tls://HOST:PORT"):
        Farm(address, 1)


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(FarmError, match=r"pip install 'gristmill\[farm\]'"):
        Farm("tcp://x:1", 1)


def test_nothing_of_dask_is_loaded_without_a_farm() -> None:
    code = "import gristmill.backends.farm.farm, sys; assert 'distributed' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
