"""A plugin of pytest: the device "hsa" is the double with the emulator behind it, so that the tests
which every device passes (`tests/runtime`) run on it.

    HSA_ARCH=gfx942 GRISTMILL_TEST_DEVICE=hsa GRISTMILL_TEST_BUNDLE=FOLDER \
        PYTHONPATH=tests/hsa python -m pytest -p emulated_suite -k hardware tests/runtime

FOLDER: made by `python tests/hsa/emulated_suite.py FOLDER gfx942`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))


def pytest_configure(config: pytest.Config) -> None:
    import numpy as np

    from emulated_hsa import Emulated
    from fake_hsa import FakeRuntime, build

    folder = tempfile.TemporaryDirectory()
    config.add_cleanup(folder.cleanup)
    fake = FakeRuntime(build(Path(folder.name)))
    os.environ["GRISTMILL_HSA_LIBRARY"] = fake.path
    fake.executor(Emulated(fake, np.random.default_rng()).run, os.environ["HSA_ARCH"])

    def closing() -> None:
        if fake.misuse or fake.live():
            print(f"misuse of the HSA runtime: {fake.misuse}; left: {fake.live()}")
            os._exit(99)

    config.add_cleanup(closing)


def compile_bundle(folder: Path, arch: str) -> None:
    """The samples of `tests/runtime`, for an architecture and for the interpreter."""
    from modules import load_module  # of tests, which is no folder of a script's path

    file = TESTS / "runtime/conftest.py"
    samples = load_module(file, "suite_conftest")
    del samples.SAMPLES["tall"]  # has subgroups of 8
    samples.compile_bundle(folder, ("interp-kir", f"hsaco-{arch}"))


if __name__ == "__main__":
    compile_bundle(Path(sys.argv[1]), sys.argv[2])
