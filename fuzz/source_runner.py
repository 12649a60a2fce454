"""The target `python`: the tracer and the interpreter, judged by Python itself."""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import signal
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from ..ir import interp
from .outcome import Outcome
from .source import source
from .targets import Traits

_SECONDS = 10  # of a processor, for Python; a program that was made smaller may not end
_HEAD = "from __future__ import annotations\nfrom gristmill.ir.lang import *\n\n"
_KERNEL = """
plain_program, plain_helper = program, helper
from gristmill.ir.lang import i32, registers, static_range
helper = device(helper)
inlined = device(program)

@kernel(workgroup=lambda: 32)
def k(a: Read[i32], b: Read[i32], out: Write[i32]):
    i = global_id(0)
    out[i] = inlined(a[i], b[i])
"""


class SourceRunner:
    """Traces programs in Python and compares what the kernel computes with what they compute."""

    form = "source"

    def __init__(self) -> None:
        self.name, self.traits = "the tracer, beside Python", Traits()
        self.folder = Path(tempfile.mkdtemp(prefix="gristmill-fuzz-"))
        self.numbers = itertools.count()

    def answer(self, job: tuple[Any, ...]) -> Outcome:
        """The outcome of a job of `worker`."""
        text = source(job[1], job[2]) if job[0] == "number" else job[1]
        rng = np.random.default_rng(1)
        a, b = (rng.integers(-20, 20, 64).astype(np.int32) for _ in range(2))
        plain: dict[str, Any] = {}
        signal.signal(signal.SIGVTALRM, _too_long)
        signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
        try:
            exec(text, plain)
            expected = [plain["program"](int(p), int(q)) for p, q in zip(a, b, strict=True)]
        except TimeoutError:
            return Outcome("unsound", "endless", f"Python did not end within {_SECONDS} s")
        except (NameError, TypeError, KeyError) as error:
            return Outcome("unsound", type(error).__name__, str(error))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        got = np.zeros(64, np.int32)
        report = interp.run(self.traced(text), (a, b, got), (2, 1, 1))
        if report.problems:
            return Outcome("mismatch", "problems", str(report.problems[0]))
        wrong = [n for n, value in enumerate(expected) if value != got[n]]
        if not wrong:
            return Outcome("ok")
        n = wrong[0]
        text = f"program({a[n]}, {b[n]}): got {got[n]}, expected {expected[n]}"
        return Outcome("mismatch", "bits", f"{text} ({len(wrong)} of 64)")

    def traced(self, text: str) -> Any:
        """The kernel of a program."""
        name = f"random_{next(self.numbers)}"
        path = self.folder / f"{name}.py"
        path.write_text(_HEAD + text + _KERNEL)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.k.trace("random")

    def run(self, program: Any) -> Any:
        raise TypeError("programs in Python only")

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TimeoutError
