"""Folders served on a free port of this machine, for the pages of tests."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType


class _Handler(SimpleHTTPRequestHandler):
    """The first folder whose name begins the path has the file."""

    def __init__(self, *args: object, folders: Mapping[str, Path], **named: object) -> None:
        self.folders = folders
        super().__init__(*args, **named)

    def guess_type(self, path: str) -> str:
        # Machines differ in what they call a script; browsers take modules of one type alone.
        return "text/javascript" if path.endswith(".js") else super().guess_type(path)

    def translate_path(self, path: str) -> str:
        whole = path.partition("?")[0]
        for start, folder in self.folders.items():
            if whole.startswith(start):
                self.directory = str(folder)
                return super().translate_path("/" + whole[len(start) :])
        return super().translate_path("/nothing")

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: a failing test shows the page's errors."""


class Site:
    """A server of folders by their paths, the longest first: {"/judge/": ..., "/": ...}."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        ordered = dict(sorted(folders.items(), key=lambda item: -len(item[0])))
        handler = functools.partial(_Handler, folders=ordered)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Site:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
