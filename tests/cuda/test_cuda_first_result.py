"""Python imports what a first result needs while the driver starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gristmill import runtime


def test_the_driver_starts_beside_what_python_imports(
    require: Callable[..., None], library: Path
) -> None:
    require("gcc")
    code = """
import contextlib, sys, threading
from gristmill import runtime
from gristmill.runtime.devices.cuda import api
imports = "cuda.bindings.driver", "gristmill.runtime.devices.cuda.device"
there, starting = [], api.starting
@contextlib.contextmanager
def watched():
    with starting():
        there.append([name in sys.modules for name in imports])
        yield
        there.append([name in sys.modules for name in imports])
api.starting = watched
started, start = [], api._start
def noted():
    start()
    started.append(threading.current_thread() is threading.main_thread())
api._start = noted
for _ in range(2):
    runtime.open_device("cuda").close()
assert started == [False], started
assert there[:2] == [[False, False], [True, True]], there
assert threading.active_count() == 1
"""
    environment = os.environ | {"LD_LIBRARY_PATH": str(library.parent)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_a_first_result_imports_nothing_once_the_driver_is_there(
    make_bundle: Callable[..., runtime.Bundle], library: Path
) -> None:
    code = """
import sys
import numpy as np
from gristmill import runtime
bundle = runtime.open_bundle(sys.argv[1])
from gristmill.runtime.devices.cuda import api
before, made = set(sys.modules), api.Api.__init__
late = set()
def noted(self):
    late.update(sys.modules)
    made(self)
api.Api.__init__ = noted
with runtime.open_device("cuda") as device:
    y = np.zeros(9, np.float32)
    device.load(bundle, "saxpy")(np.ones(9, np.float32), y, 2.0)
    assert set(y) == {2}
    after = set(sys.modules)
assert len(late - before) > 20
assert after == late, after - late
"""
    environment = os.environ | {"LD_LIBRARY_PATH": str(library.parent)}
    root = str(make_bundle("ptx-sm_80").root)
    subprocess.run([sys.executable, "-c", code, root], env=environment, check=True)
