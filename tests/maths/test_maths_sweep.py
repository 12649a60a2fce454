"""Every f32 argument of the functions that kernels use most: 2**32 evaluations each, in minutes."""

from __future__ import annotations

import numpy as np
import pytest

from maths_evaluation import MODES, evaluate
from maths_references import bound, single_reference, ulp_error

CHUNK = 1 << 20
SWEPT = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "rsqrt")


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize("op", SWEPT)
def test_every_f32_argument_keeps_the_bound(op: str, mode: str) -> None:
    limit = bound(op, np.float32)
    for start in range(0, 1 << 32, CHUNK):
        x = np.arange(start, start + CHUNK, dtype=np.uint32).view(np.float32)
        error = ulp_error(evaluate(op, x, mode=mode), single_reference(op, x), np.float32)
        worst = int(np.argmax(error))
        assert error[worst] <= limit, f"{op}({float(x[worst])!r}), {mode}: {error[worst]:.3f} ulp"
