"""A compiler process may crash, hang or eat memory: it costs one kernel an error, nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gristmill.backends.compile import (
    CompileError,
    CompileLimitError,
    CompilerCrashError,
    Options,
)
from gristmill.backends.llvm.toolchain import LlvmError, Machine
from gristmill.backends.pool import Pool

HOST = Machine("x86_64-unknown-linux-gnu", "x86-64-v3")
KERNEL = """kernel tiny f32
param x: f32 buffer write
workgroup 1 1 1
index i32
body(%x.0: buffer<f32,write>) {
  %1 = const 0 : i32
  %2 = const 1.0 : f32
  store %x.0, %1, %2
  return
}
"""


@pytest.fixture(scope="module")
def pool():
    with Pool(2, timeout=60) as made:
        yield made


@pytest.mark.parametrize(
    ("function", "args", "words"),
    [
        ("os:abort", (), "signal 6, SIGABRT"),
        ("os:_exit", (3,), "exit status 3"),
        ("ctypes:string_at", (0,), "signal 11, SIGSEGV"),
    ],
)
def test_crash_is_an_error_of_one_job(pool: Pool, function: str, args: tuple, words: str) -> None:
    with pytest.raises(CompilerCrashError, match=words):
        pool.run(function, *args)
    assert pool.run("math:sqrt", 4.0) == 2.0


def test_llvm_abort_names_the_kernel_and_its_last_words(pool: Pool) -> None:
    # An address space that no CPU has: LLVM reports a fatal error and ends its process.
    ir = 'define void @k() { call void asm sideeffect "nop", ""()\n ret void }'
    with pytest.raises(CompileError, match=r"(?s)signal \d+.*last words.*LLVM ERROR"):
        pool.run("gristmill.backends.llvm.toolchain:emit_object", ir, HOST)
    blob, manifest = pool.run(
        "gristmill.backends.compile:compile_kernel", KERNEL, "cpu-x86-64-v3", Options()
    )
    assert manifest.size == len(blob)


def test_error_of_a_kernel_has_its_name(pool: Pool) -> None:
    subject = ("tiny f32", "cpu-x86-64-v3")
    with pytest.raises(CompileLimitError, match=r"kernel tiny f32 for cpu-x86-64-v3.* 0 s; unroll"):
        pool.run("sys:exit", KERNEL, "cpu-x86-64-v3", timeout=0.0, subject=subject)


def test_exceptions_cross_the_border(pool: Pool) -> None:
    with pytest.raises(ValueError, match="math domain error") as caught:
        pool.run("math:sqrt", -1.0)
    assert "in a compiler process" in caught.value.__notes__[0]
    with pytest.raises(LlvmError, match="LLVM refuses the module"):
        pool.run("gristmill.backends.llvm.toolchain:emit_object", "define nonsense", HOST)
    with pytest.raises(CompileError, match="unknown architecture 'z80'") as unknown:
        pool.run("gristmill.backends.compile:compile_kernel", KERNEL, "cpu-z80", Options())
    assert unknown.value.kernel == "tiny"


def test_job_that_hangs_is_ended(pool: Pool) -> None:
    start = time.monotonic()
    with pytest.raises(CompileError, match=r"did not finish within 0\.3 s"):
        pool.run("time:sleep", 60, timeout=0.3)
    assert time.monotonic() - start < 10
    assert pool.run("math:sqrt", 9.0) == 3.0


def test_program_that_hangs_is_ended_with_the_job_that_runs_it(pool: Pool, tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/made && mv {tmp_path}/made {tmp_path}/pid; exec sleep 600"
    with pytest.raises(CompileError, match="did not finish within 2 s"):
        pool.run("os:system", script, timeout=2)
    program = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not _lives(program):
            return
        time.sleep(0.1)
    os.kill(program, signal.SIGKILL)
    pytest.fail("the program outlived the job that ran it")


def test_process_that_does_not_read_its_job_is_ended() -> None:
    with Pool(1, timeout=60) as pool:
        os.kill(pool.run("os:getpid"), signal.SIGSTOP)
        start = time.monotonic()
        with pytest.raises(CompileError, match=r"did not finish within 0\.3 s"):
            pool.run("builtins:len", bytes(8 << 20), timeout=0.3)
        assert time.monotonic() - start < 10
        assert pool.run("builtins:len", bytes(8 << 20)) == 8 << 20


def test_process_that_cannot_be_started_is_an_error_of_the_kernel(monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with (
        Pool(1) as pool,
        pytest.raises(CompileError, match=r"tiny f32 .* can be started: .*No such"),
    ):
        pool.run("builtins:len", KERNEL, subject=("tiny f32", "cpu-x86-64-v3"))


def test_memory_of_a_worker_is_bounded() -> None:
    wanted = "kernel tiny for cpu: the compiler needs over 1 GiB"
    with Pool(1, memory=1 << 30) as small, pytest.raises(CompileLimitError, match=wanted):
        small.run("builtins:bytearray", 4 << 30, subject=("tiny", "cpu"))


def test_many_threads_share_the_workers(pool: Pool) -> None:
    results: dict[int, float] = {}
    failed: list[int] = []

    def work(n: int) -> None:
        try:
            results[n] = pool.run("math:sqrt", float(n)) if n % 7 else pool.run("os:abort")
        except CompileError:
            failed.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(failed) == list(range(0, 40, 7))
    assert all(results[n] == n**0.5 for n in results)
    assert len(results) == 34


def test_closing_ends_a_call_in_progress() -> None:
    pool = Pool(1)
    outcome: list[object] = []

    def work() -> None:
        try:
            outcome.append(pool.run("time:sleep", 60))
        except CompileError as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while not pool._live:
        time.sleep(0.01)
    pool.close()
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(outcome[0], CompileError)
    with pytest.raises(RuntimeError, match="closed"):
        pool.run("math:sqrt", 1.0)


def test_interpreter_ends_without_closing_the_pool() -> None:
    code = (
        "from gristmill.backends.pool import Pool\n"
        "pool = Pool(1); print(pool.run('os:getpid'), flush=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    for _ in range(600):
        if not _lives(int(done.stdout)):
            return
        time.sleep(0.1)
    pytest.fail("the worker outlived the process that started it")


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_printing_worker_does_not_spoil_results(pool: Pool) -> None:
    assert pool.run("builtins:print", "hello") is None
    assert pool.run("os:system", "echo hello") == 0
