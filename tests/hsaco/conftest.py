"""The helpers that lie beside the tests."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in ("hsaco", "cpu", "spirv", "maths"):  # their kernels, values and references
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
