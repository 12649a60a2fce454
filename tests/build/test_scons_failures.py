"""A build that cannot go on says why in one line and leaves nothing half-made behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from project import Project


def broken(project: Project) -> None:
    project.edit("configs/kernels/scale.yaml", "{BLOCK: 32}", "{BLOCK: 32, FAIL: on purpose}")


def test_a_failing_kernel_is_one_line_that_names_it(project: Project) -> None:
    broken(project)
    run = project.scons("-k")
    assert run.status == 2
    (line,) = run.failures
    assert "scale/small.kir" in line
    assert "cannot trace: on purpose" in line
    assert "Traceback" not in run.text


def test_the_traceback_is_there_on_demand(project: Project) -> None:
    broken(project)
    assert "Traceback" in project.scons("verbose=1").err


def test_keep_going_builds_everything_else(project: Project) -> None:
    broken(project)
    project.scons("-k")
    assert project.path("artifacts/interp-kir/shift/plain.kir").exists()
    assert not project.path("artifacts/bundle.json").exists()


def test_a_failed_step_leaves_no_file_that_passes_for_built(project: Project) -> None:
    """A source that fails and then goes back must not find an empty target up to date."""
    project.scons()
    good = project.artifacts()
    broken(project)
    project.scons()
    assert not [name for name, data in project.artifacts().items() if not data]
    project.edit("configs/kernels/scale.yaml", "{BLOCK: 32, FAIL: on purpose}", "{BLOCK: 32}")
    assert project.scons().status == 0
    assert project.artifacts() == good


def test_a_source_that_changes_during_the_build_poisons_nothing(project: Project) -> None:
    """What a key names is what was traced, even when the file is edited while scons runs."""
    project.edit("kernels/shared.py", "FACTOR = 3", "FACTOR = 3\nimport time; time.sleep(0.7)")
    process = project.start("-k", jobs=1)
    for _ in range(400):
        if project.path("artifacts/kir").exists():
            break
        time.sleep(0.01)
    time.sleep(0.2)
    project.edit("kernels/shared.py", "FACTOR = 3", "FACTOR = 9")
    process.communicate(timeout=120)
    project.edit("kernels/shared.py", "FACTOR = 9", "FACTOR = 3")
    assert project.scons().status == 0
    for name, data in project.artifacts().items():
        if name.endswith(".kir"):
            assert b"const 3.0" in data, name


def test_two_builds_share_a_store_and_one_is_killed(project: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "other", project.compiler)
    other.store = project.store
    victim = other.start()
    time.sleep(0.5)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    running = [project.start("out=one"), project.start("out=two")]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, out + err
    assert (
        project.path("one/bundle.json").read_bytes() == project.path("two/bundle.json").read_bytes()
    )
    assert other.scons().status == 0


@pytest.fixture
def small_disk(tmp_path: Path, require: Callable[..., None]) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=64", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
        require("mount", "mounting a small file system takes root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_line_and_nothing_is_half_written(
    project: Project, small_disk: Path
) -> None:
    (small_disk / "ballast").write_bytes(bytes(63 << 10))
    run = project.scons(f"out={small_disk}")
    assert run.status == 2
    assert "No space left on device" in run.err
    assert "Traceback" not in run.text
    left = [p for p in small_disk.rglob("[!.]*") if p.is_file() and p.name != "ballast"]
    assert not list(small_disk.rglob("*.tmp"))
    assert all(p.stat().st_size for p in left)


@pytest.mark.parametrize("why", ["No space left on device", "Read-only file system"])
def test_a_store_that_takes_nothing_costs_a_warning_and_no_result(
    project: Project, small_disk: Path, why: str
) -> None:
    project.scons("out=elsewhere", GRISTMILL_STORE=str(project.root / "other"))
    (small_disk / "ballast").write_bytes(bytes(64 << 10))
    if why.startswith("Read"):
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    run = project.scons(GRISTMILL_STORE=str(small_disk))
    assert (run.status, run.err) == (0, "")
    stages = 2  # of the compiler, whose sources are kept beside what they made
    assert f"warning: {run.built + stages} not kept in the store: cannot write" in run.out
    assert why in run.out
    for path in project.path("artifacts").rglob("[!.]*.*"):
        same = project.path("elsewhere") / path.relative_to(project.path("artifacts"))
        assert path.read_bytes() == same.read_bytes()


def test_what_a_killed_build_left_half_written_is_swept(project: Project) -> None:
    project.scons()
    child = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1, check=True
    )
    gone = int(child.stdout)
    left = project.path("artifacts") / f".scale.kir.{gone}.0123abcd.tmp"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    assert project.scons().status == 0
    assert not left.exists()


def test_a_read_only_output_folder_is_refused_before_anything_is_built(
    project: Project, small_disk: Path
) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    run = project.scons(f"out={small_disk}")
    assert run.status == 2
    assert "Read-only file system" in run.err
    assert len(run.err.strip().splitlines()) == 1
    assert run.steps("trace") == 0


def test_the_output_is_checked_but_not_made_by_a_dry_run(project: Project) -> None:
    run = project.scons("-n")
    assert run.status == 0
    assert run.steps("compile") == 3
    assert not project.path("artifacts").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["taget=interp"], "unknown option 'taget'; did you mean 'target'?"),
        (["target=inter"], "unknown target=inter; did you mean 'interp'?"),
        (["target=interp-kirr"], "did you mean 'interp-kir'?"),
        (["arch=secnd"], "unknown architecture arch=secnd; did you mean 'second'?"),
        (["kernel=sclae"], "unknown kernel=sclae; did you mean 'scale'?"),
        (["checks=onn"], "unknown value checks=onn; did you mean 'on'?"),
        (["kernel="], "kernel= names nothing; leave it out, or give KERNEL,..."),
        (["target= ,"], "target= names nothing"),
        (["tets"], "nothing to build called 'tets'; did you mean 'test'?"),
        (["scale"], "nothing to build called 'scale'; did you mean kernel=scale?"),
        (["interp"], "nothing to build called 'interp'; did you mean target=interp?"),
    ],
)
def test_a_misspelt_word_is_refused_with_the_nearest_right_one(
    project: Project, arguments: list[str], said: str
) -> None:
    run = project.scons(*arguments)
    assert run.status == 2
    assert said in run.err
    assert len(run.err.strip().splitlines()) == 1


@pytest.mark.parametrize("out", ["kernels", ".", "..", "/", "configs/kernels", "x/../kernels/y"])
@pytest.mark.parametrize("job", [[], ["-c"]])
def test_a_folder_of_sources_is_no_place_for_artifacts(
    project: Project, out: str, job: list[str]
) -> None:
    before = sorted(p for p in project.root.rglob("*"))
    run = project.scons(f"out={out}", *job)
    assert run.status == 2
    assert f"out={out} is where sources lie" in run.err
    assert len(run.err.strip().splitlines()) == 1
    after = sorted(p for p in project.root.rglob("*") if "__pycache__" not in p.parts)
    assert after == [p for p in before if "__pycache__" not in p.parts]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("configs/targets.yaml", "targets:\n  cpu: {}\n", "configs/targets.yaml:2: targets.cpu: "),
        ("configs/targets.yaml", "target: 3\n", "unknown key 'target'; did you mean 'targets'?"),
        (
            "configs/kernels/shift.yaml",
            "module: toy\nspecialisations:\n  plain: {}\n",
            "configs/kernels/shift.yaml:2: unknown key 'specialisations'; "
            "did you mean 'specializations'?",
        ),
        (
            "configs/kernels/shift.yaml",
            "module: toy\nspecializations: [plain]\n",
            "configs/kernels/shift.yaml:2: specializations: expected a mapping, got a list",
        ),
        (
            "configs/kernels/shift.yaml",
            "module: toy\nspecializations: {plain: {}}\ntargets: [gpu]\n",
            "configs/kernels/shift.yaml:3: targets[0]: unknown value 'gpu' (known: interp",
        ),
        (
            "configs/kernels/shift.yaml",
            "module: toi\nspecializations: {plain: {}}\n",
            "configs/kernels/shift.yaml:1: module: there is no kernels/toi.py; did you mean 'toy'?",
        ),
        ("configs/kernels/shift.yaml", "module: [\n", "configs/kernels/shift.yaml:2: not YAML"),
        ("configs/kernels/shift.yaml", "<<: {}\n", "configs/kernels/shift.yaml:1: cannot be read"),
        (
            "configs/kernels/shift.yaml",
            "module: toy\nspecializations: {plain: {A: !x y}}\n",
            "configs/kernels/shift.yaml:2: specializations.plain.A: cannot be read",
        ),
        (
            "configs/kernels/shift.yaml",
            "module: toy\nspecializations: {plain: {A: [1, .nan]}}\n",
            "configs/kernels/shift.yaml:2: specializations.plain.A[1]: expected a finite number",
        ),
        ("configs/kernels/shift.yaml", "", "configs/kernels/shift.yaml:1: the file is empty"),
        ("configs/kernels/shift.yaml", "module: toy\nmodule: toy\n", "stands here twice"),
        (
            "configs/targets.yaml",
            "targets:\n  interp-kir: {default: yes please}\n",
            "configs/targets.yaml:2: targets.interp-kir.default: "
            "expected true or false, got text 'yes please'",
        ),
        (
            "configs/toolchain.yaml",
            'backends:\n  interp: [numpy]\naccepts:\n  numpy: "0.1"\n',
            "configs/toolchain.yaml:4: accepts.numpy: numpy ",
        ),
    ],
)
def test_a_wrong_yaml_file_is_refused_with_its_line(
    project: Project, name: str, text: str, said: str
) -> None:
    project.write(name, text)
    run = project.scons()
    assert run.status == 2
    assert said in run.err
    assert len(run.err.strip().splitlines()) == 1, run.err


def test_a_kernel_that_is_no_python_is_refused_with_its_line(project: Project) -> None:
    project.edit("kernels/shared.py", "FACTOR = 3", "FACTOR = = 3")
    run = project.scons()
    assert run.status == 2
    assert "kernels/shared.py:3: " in run.err
    assert len(run.err.strip().splitlines()) == 1, run.err


def test_a_folder_in_the_place_of_a_file_is_one_line(project: Project) -> None:
    project.path("configs/kernels/shift.yaml").unlink()
    project.path("configs/kernels/shift.yaml").mkdir()
    run = project.scons()
    assert run.status == 2
    assert "configs/kernels/shift.yaml: cannot be read: Is a directory" in run.err
    assert len(run.err.strip().splitlines()) == 1, run.err


@pytest.mark.parametrize(
    "place", ["interp-kir/shift/plain.kir", "kir/shift/plain.kir", "bundle.json"]
)
def test_a_folder_in_the_place_of_an_artifact_is_one_line(project: Project, place: str) -> None:
    project.path(f"artifacts/{place}").mkdir(parents=True)
    run = project.scons()
    assert run.status == 2
    line = f"scons: artifacts/{place} is a folder where the build makes a file; remove it"
    assert run.err.strip() == line
    project.path(f"artifacts/{place}").rmdir()
    assert project.scons().status == 0


def test_a_missing_kernel_names_those_that_exist(project: Project) -> None:
    project.edit("configs/kernels/shift.yaml", "kernel: shift", "kernel: shaft")
    run = project.scons("-k")
    assert "kernels/toy.py: no kernel 'shaft' (it has scale, shift)" in run.failures[0]


def test_a_new_import_is_followed(project: Project) -> None:
    project.scons()
    shutil.copy(project.path("kernels/shared.py"), project.path("kernels/other.py"))
    project.edit("kernels/toy.py", "from .shared", "from .other")
    assert project.scons().status == 0
    project.edit("kernels/other.py", "FACTOR = 3", "FACTOR = 7")
    assert project.scons().steps("compile") == 3


@pytest.mark.parametrize(
    ("crime", "words"),
    [("time.sleep(1e6)", "did not finish within 20 s; unroll less"), ("os.abort()", "SIGABRT")],
)
def test_a_trace_that_hangs_or_crashes_is_one_line_that_names_its_kernel(
    project: Project, crime: str, words: str
) -> None:
    """The others are built: each compile has a process, and a deadline."""
    start = '    def trace(self, specialization, BLOCK=64, FAIL=""):\n'
    line = f'        import os, time; self.name == "scale" and {crime}\n'
    project.edit("kernels/toy.py", start, start + line)
    run = project.scons("-k", "deadline=20")
    assert run.status == 2
    assert run.failures
    for failure in run.failures:
        assert "kernels/toy.py:20:1: kernel scale " in failure
        assert words in failure
    assert project.path("artifacts/interp-kir/shift/plain.kir").exists()


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "1e9"])
def test_a_deadline_that_is_no_time_is_refused(project: Project, value: str) -> None:
    run = project.scons(f"deadline={value}")
    assert run.status == 2
    assert "expected seconds" in run.text


def test_a_device_that_there_is_not_is_refused_before_anything_is_built(project: Project) -> None:
    run = project.scons("demo", "device=gpu")
    assert run.status == 2
    assert "scons: device=gpu: " in run.text  # what there is, the real compiler's runtime tells
    assert not project.path("artifacts/kir").exists()


def test_variants_of_a_misspelt_backend_are_told_what_was_meant(project: Project) -> None:
    plain = "kernel: shift\nmodule: toy\nspecializations:\n  plain: {}\n"
    for word, meant in (
        ("cudaa", "cuda devices load what 'ptx' and 'cubin' build"),
        ("spriv", "did you mean 'spirv'?"),
    ):
        text = f"{plain}variants:\n  {word}: [{{BLOCK: 2}}]\n"
        project.write("configs/kernels/shift.yaml", text)
        run = project.scons()
        assert run.status == 2
        assert f"shift.yaml:6: variants.{word}: unknown target or backend {word!r}" in run.text
        assert meant in run.text


REAL = """\
from __future__ import annotations

from gristmill.ir.lang import *


@kernel(workgroup=lambda: BLOCK)
def real(x: Write[f32], *, BLOCK: int = 64):
    static_assert(BLOCK % 2 == 0, "odd")
    x[global_id(0)] = 1.0
"""


def test_a_wrong_constexpr_is_shown_in_the_kernel_and_in_the_configuration(
    project: Project,
) -> None:
    lines = ["kernel: real", "specializations:", "  a:", "    BLOCK: wide", "  b: {BLOKC: 3}"]
    lines += ["  c: {BLOCK: 3}", "variants:", "  interp-second:", "    - BLOCK: 2", "      X: 1"]
    project.write("kernels/real.py", REAL)
    project.write("configs/kernels/real.yaml", "\n".join(lines) + "\n")
    run = project.scons("-k", "kernel=real", "target=interp-kir,interp-second")
    places = {
        "kir/real/a.kir": ("kernels/real.py:7:28: constexpr 'BLOCK' must be of kind int", 4),
        "kir/real/b.kir": ("kernels/real.py:7:1: kernel real has no constexpr 'BLOKC'", 5),
        "kir/real/c.kir": ("kernels/real.py:8:5: odd", 6),
        "kir/real/c.interp-second.0.kir": ("kernels/real.py:7:1: kernel real has no", 10),
    }
    for file, (words, line) in places.items():
        (failure,) = [f for f in run.failures if f"/{file}]" in f]
        assert words in failure
        assert failure.endswith(f"; specialized by configs/kernels/real.yaml:{line}")
