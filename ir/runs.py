"""How long the code of a kernel is between two branches: what compilers take the longest over."""

from __future__ import annotations

from .core import Kernel, Region


def longest_run(kernel: Kernel) -> int:
    """The most ops of a kernel that follow one another without a branch."""
    longest, left = 0, [kernel.body]
    while left:
        region: Region = left.pop()
        run = 0
        for op in region.ops:
            run = 0 if op.regions else run + 1
            longest = max(longest, run)
            left += op.regions
    return longest
