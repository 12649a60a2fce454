"""Results that were changed after they were built, and folders that cleaning leaves empty.

SCons looks at what a file is made from, and takes the file itself as it lies there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import SCons.Node.FS


def mend(env: Any, out: str) -> None:
    """Have every declared file of the folder `out` made again whose bytes are not those that
    SCons noted when it was made; the workshop is told of them."""
    for node in _made(env.Dir(out)):
        if not node.exists():
            continue
        noted = getattr(node.get_stored_info().ninfo, "csig", None)
        # The signature is kept with the node: what the build needs of it is not read twice.
        if node.get_csig() != noted:
            env.AlwaysBuild(node)
            if noted is not None:
                env["WORKSHOP"].changed.add(str(node))


def _made(folder: Any) -> Iterator[Any]:
    """The files of a folder that have a builder, those of its folders too."""
    for name, entry in list(folder.entries.items()):
        if isinstance(entry, SCons.Node.FS.Dir):
            if name not in (".", ".."):
                yield from _made(entry)
        elif entry.has_builder():
            yield entry


def remove_empty(out: Path) -> None:
    """Remove the folders within `out` that hold nothing."""
    for folder, _, _ in os.walk(out, topdown=False):
        if Path(folder) != out and not os.listdir(folder):
            with contextlib.suppress(OSError):  # another build has put something there
                os.rmdir(folder)
