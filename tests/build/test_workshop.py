"""What a build's actions share, without SCons around it."""

from __future__ import annotations

from pathlib import Path

import pytest
import SCons.Util

from gristmill.backends.compile import CompileError
from gristmill.backends.steps import compile_step, site_lines, source_error
from gristmill.backends.trace import TraceError, load
from gristmill.ir.core import Loc
from gristmill.store.bundle import Place, site_places
from gristmill.store.key import Action, parsed
from gristmill.store.local import LocalStore
from gristmill.store.manifest import Manifest
from gristmill_build import progress, steps
from gristmill_build.workshop import StepError, Workshop

ACTION = Action({"action": b"test"})


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    (tmp_path / "package/ir").mkdir(parents=True)
    (tmp_path / "package/ir/core.py").write_text("A = 1\n")
    return Workshop(LocalStore(tmp_path / "store"), 1, False, tmp_path / "package")


def test_a_step_is_made_once_and_then_answered(shop: Workshop) -> None:
    shop.compiler("trace")
    for _ in range(3):
        assert shop.answer(ACTION, ("out",), "trace", lambda: {"out": b"1"}) == {"out": b"1"}
    assert (shop.built, shop.stored) == (1, 2)


def test_the_store_has_the_inputs_of_what_was_made(shop: Workshop) -> None:
    compiler = shop.compiler("trace")
    shop.answer(ACTION, ("out",), "trace", lambda: {"out": b"1"})
    assert shop.store.action(ACTION.key) == ACTION.text
    sources = shop.store.action(compiler)
    assert sources is not None
    assert b"ir/core.py" in parsed(sources).fields["sources"]


def test_a_compiler_edited_during_the_build_does_not_reach_the_store(shop: Workshop) -> None:
    """The key was made from the sources as they were; what others made must not carry it."""
    shop.compiler("trace")

    def make() -> dict[str, bytes]:
        (shop.package / "ir/core.py").write_text("A = 2\n")
        return {"out": b"by other sources"}

    with pytest.raises(StepError, match="edited while it was used"):
        shop.answer(ACTION, ("out",), "trace", make)
    assert shop.store.get(ACTION.key) is None


class Source:
    """A file node with the signature that the build's decisions were taken by."""

    def __init__(self, path: Path, seen: bytes) -> None:
        self.path, self.seen = path, seen

    def get_abspath(self) -> str:
        return str(self.path)

    def get_csig(self) -> str:
        return str(SCons.Util.hash_signature(self.seen))


def test_a_source_edited_before_it_is_read_is_refused(shop: Workshop, tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_bytes(b"new")
    with pytest.raises(StepError, match="edited while it was being built"):
        shop.read(Source(file, b"old"))
    assert shop.read(Source(file, b"new")) == b"new"


def test_a_source_edited_after_it_was_read_stays_as_it_was(shop: Workshop, tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_bytes(b"old")
    assert shop.read(Source(file, b"old")) == b"old"
    file.write_bytes(b"new")
    assert shop.read(Source(file, b"old")) == b"old"


def test_an_entry_with_other_outputs_is_made_again(shop: Workshop) -> None:
    shop.compiler("trace")
    shop.store.put(ACTION.key, {"old": b""})
    assert shop.answer(ACTION, ("out",), "trace", lambda: {"out": b"1"}) == {"out": b"1"}


ANNOTATION = """\
from gristmill.ir.lang import *

@kernel(workgroup=lambda: 1)
def k(x: Read[T], *, T): pass
"""


@pytest.mark.parametrize(
    ("toy", "shared", "said"),
    [
        ("from .shared import f\nf()\n", "def f():\n    1 / 0\n", "kernels/shared.py:2: ZeroDiv"),
        ("from .shared import f\n", "f = 1\nraise SystemExit(3)\n", "kernels/shared.py:2: SystemE"),
        ("from .shared import f\n", "def f(:\n", "kernels/shared.py:1: SyntaxError: invalid"),
        ("from .absent import f\n", "", "kernels/toy.py:1: ModuleNotFoundError: No module named"),
        (ANNOTATION, "", "kernels/toy.py:4: NameError: name 'T' is not defined; begin the file wi"),
    ],
)
def test_a_kernel_file_that_cannot_run_is_named_with_its_line(
    toy: str, shared: str, said: str
) -> None:
    sources = {"kernels/toy.py": toy.encode(), "kernels/shared.py": shared.encode()}
    with pytest.raises(TraceError) as caught:
        load(sources, "toy")
    assert str(caught.value).startswith(said)
    assert "verbose=1" not in steps.one_line(caught.value)


def test_an_error_in_an_emitter_names_the_line_of_the_kernel() -> None:
    locs = b'{"7":["kernels/k.py",12,5]}'
    error = CompileError("k", "spirv-vulkan1.1", "no", Loc("<kernel IR>", 7, 1))
    assert str(source_error(error, locs)) == ("kernels/k.py:12:5: kernel k for spirv-vulkan1.1: no")
    elsewhere = CompileError("k", "spirv-vulkan1.1", "no", Loc("<kernel IR>", 8, 1))
    assert source_error(elsewhere, locs) is elsewhere


class Terminal:
    def __init__(self, terminal: bool) -> None:
        self.text, self.terminal = "", terminal

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


class Node:
    def has_builder(self) -> bool:
        return True


def test_a_terminal_shows_one_line_that_is_rewritten() -> None:
    stream = Terminal(True)
    line = progress.Line(4, stream, 30)  # type: ignore[arg-type]
    for step in ("trace one", "compile something with a very long name"):
        line.node(Node())
        line.command(step, None, None, None)
    assert "\n" not in stream.text
    assert stream.text.endswith("\r\x1b[K[ 50%] compile something with")
    line.clear()
    assert stream.text.endswith("\r\x1b[K")


def test_elsewhere_each_step_is_a_line() -> None:
    stream = Terminal(False)
    line = progress.Line(4, stream)  # type: ignore[arg-type]
    line.node(Node())
    line.command("trace one", None, None, None)
    assert not stream.text  # what it did is known once it is done
    line.done("fetch one")
    line.clear()
    assert stream.text == "fetch one\n"


def test_where_nothing_is_done_each_step_is_named_at_once() -> None:
    stream = Terminal(False)
    line = progress.Line(4, stream, dry=True)  # type: ignore[arg-type]
    line.command("trace one", None, None, None)
    assert stream.text == "trace one\n"


CHECKED = """\
kernel k f32
param x: f32 buffer readwrite
workgroup 1 1 1
index i32
site "x must be positive"
body(%x.0: buffer<f32,readwrite>) {
  %1 = const 0 : i32
  %2 = const 0.0 : f32
  %3 = load %x.0, %1 : f32
  %4 = gt %3, %2 : bool
  assert %4 {site=0}
  return
}
"""


def test_a_fault_site_leads_back_to_the_line_of_the_kernel() -> None:
    outputs = compile_step(CHECKED, "interp-kir", {"checks": False}, "0" * 64)
    manifest = Manifest.from_json(outputs["manifest"])
    assert manifest.facts["site_lines"] == [11]
    places = site_places(manifest, b'{"11":["kernels/k.py",5,9]}')
    assert places == (Place("kernels/k.py", 5, 9),)
    assert site_places(manifest, b"{}") == (None,)


def test_sites_that_checks_add_lead_back_too() -> None:
    """Those that `checks=on` adds stand behind the kernel's own."""
    lines = site_lines(CHECKED, {"checks": True})
    assert lines[0] == 11
    assert lines[1:] == [9]
    outputs = compile_step(CHECKED, "interp-kir", {"checks": True}, "0" * 64)
    manifest = Manifest.from_json(outputs["manifest"])
    assert manifest.facts["site_lines"] == [11]  # the interpreter checks on its own
