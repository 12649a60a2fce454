"""Run by SCons before SConstruct: makes `gristmill` importable from an uninstalled checkout.

Here, because SCons undoes what a SConstruct does to sys.path before the actions run.
"""

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("gristmill") is None:
    sys.path.append(str(Path(__file__).resolve().parent.parent / "src"))
