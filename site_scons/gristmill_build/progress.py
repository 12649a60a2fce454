"""One line that says how far the build is, on a terminal; plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
from typing import Any, TextIO


class Line:
    """SCons's PRINT_CMD_LINE_FUNC and Progress function in one.

    On a terminal a single line is rewritten: nodes seen of all nodes, and the step at work.
    Elsewhere each step is a line of its own once it is done, with what it did.

    dry: nothing is done (-n), so each step is a line at once. silent: no lines (-s).
    """

    def __init__(
        self,
        total: int,
        stream: TextIO = sys.stdout,
        width: int | None = None,
        dry: bool = False,
        silent: bool = False,
    ) -> None:
        self.dry, self.silent = dry, silent
        self.total, self.stream = max(1, total), stream
        self.terminal = stream.isatty()
        self.width = width or shutil.get_terminal_size().columns
        self.seen = 0
        self.label = ""
        self._shown = False

    def command(self, text: str, target: Any, source: Any, env: Any) -> None:
        """Told of each action by SCons."""
        if not text:
            return
        self.label = text
        if self.terminal:
            self._draw()
        elif self.dry:
            self.stream.write(text + "\n")

    def done(self, text: str) -> None:
        """Told by each step what it did."""
        if self.silent:
            return
        if self.terminal:
            self.label = text
            self._draw()
        else:
            self.stream.write(text + "\n")

    def node(self, node: Any) -> None:
        """Told of each node that SCons looks at."""
        if node.has_builder():
            self.seen += 1
            if self.terminal and self._shown:
                self._draw()

    def clear(self) -> None:
        """Take the line away, so that what is printed next stands alone."""
        if self._shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self._shown = False

    def _draw(self) -> None:
        text = f"[{min(100, 100 * self.seen // self.total):3d}%] {self.label}"
        self.stream.write("\r\x1b[K" + text[: self.width - 1])
        self.stream.flush()
        self._shown = True
