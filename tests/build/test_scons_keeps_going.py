"""With -k a kernel that cannot even be planned fails alone, in one line with its place."""

from __future__ import annotations

import pytest

from project import FILES, Project

SHIFT = "artifacts/interp-kir/shift/plain.kir"
WGSL = "  wgsl-webgpu: {baseline: true}\n"


def write_page(project: Project) -> None:
    """A page, whose pack needs every kernel."""
    project.write("configs/targets.yaml", FILES["configs/targets.yaml"] + WGSL)
    project.write("configs/toolchain.yaml", "backends:\n  interp: []\n  wgsl: []\n")
    project.write("web/index.html", "<p>a page</p>\n")


def own_module(project: Project, start: bytes) -> None:
    """Give `scale` a file of its own that begins with `start`."""
    text = project.path("kernels/toy.py").read_bytes()
    project.path("kernels/own.py").write_bytes(start + b"\n" + text)
    project.edit("configs/kernels/scale.yaml", "module: toy", "module: own")


NO_PYTHON = [
    (b"x = = 1", "kernels/own.py:1: invalid syntax"),
    (b"def f(x)\n    return x", "kernels/own.py:1: expected ':'"),
    (b"x = '\xff'", "kernels/own.py:1: (unicode error)"),
    (b"x = '\0'", "kernels/own.py: source code string cannot contain null bytes"),
    (b"x = " + b"(" * 300 + b")" * 300, "kernels/own.py:1: too many nested parentheses"),
    (b"x = " + b"-" * 30_000 + b"1", "kernels/own.py: nested deeper than Python parses"),
]


@pytest.mark.parametrize(("start", "said"), NO_PYTHON)
def test_a_syntax_error_in_one_kernel_stops_the_others_with_keep_going(
    project: Project, start: bytes, said: str
) -> None:
    own_module(project, start)
    run = project.scons("-k")
    assert run.status == 2
    assert run.err.strip().startswith(f"scons: *** [kernel scale] {said}")
    assert len(run.err.strip().splitlines()) == 1, run.err
    assert project.path(SHIFT).exists()
    assert not project.path("artifacts/bundle.json").exists()


@pytest.mark.parametrize(("start", "said"), NO_PYTHON[-2:])
def test_a_syntax_error_ends_a_build_without_keep_going_before_anything_is_built(
    project: Project, start: bytes, said: str
) -> None:
    own_module(project, start)
    run = project.scons()
    assert run.status == 2
    assert run.err.strip().startswith(f"scons: {said}")
    assert len(run.err.strip().splitlines()) == 1, run.err
    assert run.steps("trace") == 0
    assert project.scons("kernel=shift").status == 0


def test_a_syntax_error_in_a_file_that_kernels_share_is_one_line_for_each(
    project: Project,
) -> None:
    own_module(project, b"")
    for name, new in (("own", "import helper"), ("toy", "import helper as other")):
        project.edit(f"kernels/{name}.py", "from .shared", f"from . {new}\nfrom .shared")
    project.write("kernels/helper.py", "\nx = = 1\n")
    plain = project.path("kernels/own.py").read_text().replace("from . import helper\n", "")
    project.write("kernels/plain.py", plain.replace('shift = Toy("shift")', 'third = Toy("third")'))
    project.write(
        "configs/kernels/third.yaml", "kernel: third\nmodule: plain\nspecializations: {a: {}}\n"
    )
    run = project.scons("-k")
    assert run.status == 2
    assert sorted(run.err.strip().splitlines()) == [
        "scons: *** [kernel scale] kernels/helper.py:2: invalid syntax",
        "scons: *** [kernel shift] kernels/helper.py:2: invalid syntax",
    ]
    assert project.path("artifacts/interp-kir/third/a.kir").exists()


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"from .nothing import x", "1: ModuleNotFoundError: No module named 'gristmill."),
        (b"\nfrom .shared import x", "2: ImportError: cannot import name 'x'"),
        (b"import no_such_package", "1: ModuleNotFoundError: No module named 'no_such_package'"),
        (b"\n\n1 / 0", "3: ZeroDivisionError"),
    ],
)
def test_an_import_error_in_one_kernel_fails_its_specializations_alone(
    project: Project, start: bytes, said: str
) -> None:
    own_module(project, start)
    run = project.scons("-k")
    assert run.status == 2
    for line, name in zip(sorted(run.failures), ("big", "small"), strict=True):
        assert line.startswith(f"scons: *** [artifacts/kir/scale/{name}.kir] kernels/own.py:{said}")
    assert project.path(SHIFT).exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("module: toy\nspecialisations:\n  plain: {}\n", "yaml:2: unknown key 'specialisations'"),
        ("module: toi\nspecializations: {a: {}}\n", "yaml:1: module: there is no kernels/toi.py"),
        ("module: [\n", "yaml:2: not YAML"),
        ("", "yaml:1: the file is empty"),
        ("kernel: shift\nmodule: toy\nspecializations: {a: {}}\n", "yaml: kernel 'shift' is conf"),
    ],
)
def test_a_wrong_yaml_file_of_one_kernel_stops_the_others_with_keep_going(
    project: Project, text: str, said: str
) -> None:
    project.write("configs/kernels/zeta.yaml", text)
    run = project.scons("-k")
    assert run.status == 2
    assert run.err.strip().startswith(f"scons: *** [kernel zeta] configs/kernels/zeta.{said}")
    assert len(run.err.strip().splitlines()) == 1, run.err
    assert project.path(SHIFT).exists()
    assert not project.path("artifacts/bundle.json").exists()
    assert project.scons("-k", "kernel=shift").status == 0
    assert f"[kernel zeta] configs/kernels/zeta.{said}" in project.scons("-k", "kernel=zeta").err


def test_a_faulty_kernel_leaves_no_page_without_it(project: Project) -> None:
    write_page(project)
    project.write("configs/kernels/zeta.yaml", "")
    run = project.scons("-k", "web")
    assert run.status == 2
    assert "[kernel zeta] configs/kernels/zeta.yaml:1: the file is empty" in run.err
    assert project.path("artifacts/web/index.html").exists()
    assert not project.path("artifacts/web/kernels.pack").exists()


def test_a_faulty_kernel_does_not_keep_results_from_being_cleaned(project: Project) -> None:
    assert project.scons().status == 0
    project.write("kernels/toy.py", "x = = 1\n")
    project.write("configs/kernels/scale.yaml", "")
    assert project.scons("-c", "kernel=shift").status == 0
    assert not project.path(SHIFT).exists()
    assert project.path("artifacts/interp-kir/scale/big.kir").exists()
    run = project.scons("-c")
    assert (run.status, run.err) == (0, "")
    assert project.artifacts() == {}


def test_a_kernel_that_is_mended_is_built_and_nothing_else(project: Project) -> None:
    own_module(project, b"")
    assert project.scons().status == 0
    text = project.path("kernels/own.py").read_text()
    project.write("kernels/own.py", "x = = 1\n" + text)
    assert project.scons("-k").status == 2
    project.write("kernels/own.py", text)
    run = project.scons()
    assert (run.status, run.built) == (0, 0)
    assert run.steps("compile") + run.steps("fetch") <= 4
