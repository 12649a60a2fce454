"""What a loop with barriers carries on takes the place of what it carried in, where it may."""

from __future__ import annotations

import numpy as np
import pytest

from cpu_runner import ARCHS, Artifact, missing
from gristmill.backends.cpu.heirs import heirs
from gristmill.backends.cpu.phases import has_barriers
from gristmill.ir import interp
from gristmill.ir.core import Op, walk
from gristmill.ir.lang import *


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (1, 1, 1))
def taken_over(x: Read[i32], y: Write[i32], n: i32):
    """Nothing asks for the old sum once the new one is there."""
    tile = workgroup_array(i32, 64)
    lid = local_id(0)
    total = x[lid]
    for step in range(n):
        tile[lid] = total + step
        barrier()
        for k in range(4):
            total = total * 3 + tile[(lid + k) % 64]
        barrier()
    y[lid] = total


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (1, 1, 1))
def asked_for_later(x: Read[i32], y: Write[i32], n: i32):
    """A later phase reads the old sum, and another computes from it again."""
    tile = workgroup_array(i32, 64)
    lid = local_id(0)
    total = x[lid]
    last = x[63 - lid]
    for _ in range(n):
        again = total + 1
        following = total
        for k in range(4):
            following = following * 3 + x[(lid + k) % 64]
        tile[lid] = following
        barrier()
        last = last + tile[63 - lid] - again
        barrier()
        total, last = following, last ^ total
    y[lid] = total + last


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (1, 1, 1))
def exchanged(x: Read[i32], y: Write[i32], n: i32):
    """Two carried values change places."""
    tile = workgroup_array(i32, 64)
    lid = local_id(0)
    a = x[lid]
    b = x[63 - lid]
    for _ in range(n):
        tile[lid] = a
        barrier()
        c = b
        for k in range(3):
            c = c * 5 + tile[(lid + k) % 64]
        barrier()
        a, b = c, a
    y[lid] = a - b


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (1, 1, 1))
def two_sums(x: Read[i32], y: Write[i32], n: i32):
    """One loop inside makes both new sums, each from both old ones."""
    tile = workgroup_array(i32, 64)
    lid = local_id(0)
    a = x[lid]
    b = x[63 - lid]
    for step in range(n):
        tile[lid] = a + step
        barrier()
        for k in range(4):
            a, b = a * 3 + tile[(lid + k) % 64] - b, b * 5 + a
        barrier()
    y[lid] = a - b


KERNELS = (taken_over, two_sums, asked_for_later, exchanged)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("trips", [0, 1, 5])
def test_carried_values_survive_their_heirs(rng, require, kernel, arch, trips):
    if reason := missing(arch):
        require("qemu" if arch == "aarch64" else f"cpu-{arch}", reason)
    traced = kernel.trace("test")
    x = rng.integers(-1000, 1000, 64, dtype=np.int32)
    expected, actual = np.zeros(64, np.int32), np.zeros(64, np.int32)
    interp.run(traced, [x, expected, trips], (1, 1, 1))
    Artifact(traced, arch).run([x, actual, trips], (1, 1, 1))
    np.testing.assert_array_equal(actual, expected)


def pairs(kernel) -> list[tuple[str, str]]:
    def outer(op: Op) -> bool:
        return op.name == "barrier" or any(has_barriers(r) for r in op.regions)

    traced = kernel.trace("test")
    (loop,) = (o for o in walk(traced.body) if o.name == "for" and outer(o))
    body = loop.regions[0]
    return [(a.hint, b.hint) for a, b in heirs(body, body.args[1:], outer)]


def test_only_a_value_that_nobody_asks_for_is_replaced():
    assert [name for name, _ in pairs(taken_over)] == ["total"]
    assert [name for name, _ in pairs(two_sums)] == ["a", "b"]
    assert "total" not in [name for name, _ in pairs(asked_for_later)]
    assert "a" not in [name for name, _ in pairs(exchanged)]
