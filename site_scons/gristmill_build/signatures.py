"""SCons's notes on what is up to date, kept so that a full disk costs no traceback.

A module in the form that `SConsignFile` takes: `open(name, flag)` gives a database. Notes that
cannot be written are lost, which costs looking at everything again, never a wrong result.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
from typing import Any

import SCons.dblite


class Notes(SCons.dblite._Dblite):  # type: ignore[misc]
    """SCons's own database, with a failing write as one line."""

    def sync(self) -> None:
        try:
            super().sync()
        except OSError as error:
            self._needs_sync = False  # or the destructor tries, and fails, once more
            with contextlib.suppress(OSError):
                os.unlink(self._tmp_name)
            message = f"scons: cannot write {self._file_name}: {error.strerror or error}"
            builtins.print(message, file=sys.stderr)


def open(name: str, flag: str = "r", mode: int = 0o666) -> Any:
    """The database in file `name`.dblite."""
    return Notes(name, flag, mode)
