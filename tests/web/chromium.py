"""Headless Chromium, driven over the DevTools protocol through a pair of pipes.

    with Chromium(SWIFTSHADER) as browser:
        page = browser.page("http://127.0.0.1:8000/")
        page.evaluate("Promise.resolve(6 * 7)")  # 42

Messages are JSON, each ended by a zero byte. Every wait is bounded; what goes wrong is a
BrowserError that shows what the browser and the page have written.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from need import tool

BARE = ("--headless=new", "--no-sandbox", "--no-first-run", "--disable-dev-shm-usage")
BARE += ("--disable-background-networking", "--disable-component-update", "--disable-extensions")
WEBGPU = ("--enable-unsafe-webgpu", "--ignore-gpu-blocklist")
SWIFTSHADER = (*WEBGPU, "--use-webgpu-adapter=swiftshader")
MESSAGE_BYTES = 100 << 20
# The pipe's ends have fixed numbers in the browser: 3 to read from, 4 to write to.
_EXEC = "import os, sys; r, w = int(sys.argv[1]), int(sys.argv[2]); a = os.dup(r); b = os.dup(w); "
_EXEC += "os.dup2(a, 3); os.dup2(b, 4); os.set_inheritable(3, True); os.set_inheritable(4, True); "
_EXEC += "os.execvp(sys.argv[3], sys.argv[3:])"


class BrowserError(AssertionError):
    """The browser ended, did not answer in time, or refused a command."""


class PageError(BrowserError):
    """A script of the page raised; `text` is what the page says of it."""

    def __init__(self, text: str, more: str) -> None:
        super().__init__(text + more)
        self.text = text


class Chromium:
    """One browser process with a profile of its own, killed with all that it started."""

    def __init__(self, flags: Sequence[str] = (), timeout: float = 600.0) -> None:
        self.timeout = timeout
        self.folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        self.errors = Path(self.folder.name, "stderr")
        program = tool("chromium")
        if program is None:
            raise BrowserError("there is no program called chromium")
        command = [program, *BARE, *flags, "--remote-debugging-pipe"]
        command += [f"--user-data-dir={self.folder.name}/profile", "about:blank"]
        self._input, self._output = b"", bytearray()
        self._next = 0
        self._answers: dict[int, Any] = {}
        self.events: list[dict[str, Any]] = []  # those that nobody has taken yet
        self._start(command)
        try:
            self.version = self.call("Browser.getVersion")["product"]
        except BrowserError:
            self.close()
            raise

    def _start(self, command: Sequence[str]) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        ends = (to_browser, from_browser)
        launcher = [sys.executable, "-S", "-c", _EXEC, *map(str, ends), *command]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                launcher,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=ends,
                start_new_session=True,
            )
        for end in ends:
            os.close(end)
        for end in (self._read, self._write):
            os.set_blocking(end, False)

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the browser and its children; nothing where that was done."""
        if self._read < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for end in (self._read, self._write):
            os.close(end)
        self._read = self._write = -1
        self.folder.cleanup()

    def page(self, address: str) -> Page:
        """A new tab that has loaded an address."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        page.open(address)
        return page

    def call(
        self, method: str, session: str | None = None, timeout: float | None = None, **params: Any
    ) -> dict[str, Any]:
        """One command and its result."""
        self._next += 1
        number = self._next
        message = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        text = json.dumps(message).encode()
        if len(text) >= MESSAGE_BYTES:  # the browser would close its end without a word
            raise BrowserError(f"{method}: {len(text)} bytes, the pipe takes {MESSAGE_BYTES}")
        self._output += text + b"\0"
        limit = self.timeout if timeout is None else timeout
        end = time.monotonic() + limit
        while number not in self._answers:
            self._exchange(end, f"no answer to {method} within {limit:g} s")
        answer = self._answers.pop(number)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']}{self.said()}")
        result: dict[str, Any] = answer["result"]
        return result

    def event(self, session: str, method: str, timeout: float | None = None) -> dict[str, Any]:
        """The params of the next event of a kind, taken from what has arrived or waited for."""
        limit = self.timeout if timeout is None else timeout
        end = time.monotonic() + limit
        while True:
            for n, event in enumerate(self.events):
                if (event.get("sessionId"), event["method"]) == (session, method):
                    params: dict[str, Any] = self.events.pop(n)["params"]
                    return params
            self._exchange(end, f"no {method} within {limit:g} s")

    def _exchange(self, end: float, late: str) -> None:
        """Write what is to be written and read what is there; wait for either, until `end`."""
        with selectors.DefaultSelector() as ready:
            ready.register(self._read, selectors.EVENT_READ)
            if self._output:
                ready.register(self._write, selectors.EVENT_WRITE)
            found = ready.select(max(0.0, end - time.monotonic()))
        if not found:
            raise BrowserError(f"chromium: {late}{self.said()}")
        for key, _ in found:
            if key.fd == self._write:
                try:
                    del self._output[: os.write(self._write, self._output[: 1 << 16])]
                except BrokenPipeError:
                    raise self._ended() from None
            elif data := os.read(self._read, 1 << 20):
                *whole, self._input = (self._input + data).split(b"\0")
                for text in whole:
                    self._take(json.loads(text))
            else:
                raise self._ended()

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers[message["id"]] = message
        else:
            self.events.append(message)

    def _ended(self) -> BrowserError:
        try:
            status = str(self.process.wait(5))
        except subprocess.TimeoutExpired:
            status = "its pipe closed"
        return BrowserError(f"chromium ended ({status}){self.said()}")

    def said(self) -> str:
        """The end of what the browser has written, and what pages wrote to their consoles."""
        written = self.errors.read_text(errors="replace") if self.errors.exists() else ""
        # A machine without a desktop has no D-Bus, which Chromium complains of at length.
        text = "\n".join(line for line in written.splitlines() if ":ERROR:dbus/" not in line)[
            -3000:
        ]
        calls = [e["params"] for e in self.events if e["method"] == "Runtime.consoleAPICalled"]
        console = "".join(
            "\nconsole: "
            + " ".join(str(a.get("value", a.get("description"))) for a in call["args"])
            for call in calls[-10:]
        )
        return f"{console}\n--- chromium wrote:\n{text}" if text or console else ""


class Page:
    """A tab."""

    def __init__(self, browser: Chromium, target: str, session: str) -> None:
        self.browser, self.target, self.session = browser, target, session
        for domain in ("Page", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, timeout: float | None = None, **params: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, timeout, **params)

    def open(self, address: str) -> None:
        """Load an address; returns once its load event has come."""
        done = self.call("Page.navigate", url=address)
        if "errorText" in done:
            raise BrowserError(f"{address}: {done['errorText']}{self.browser.said()}")
        self.browser.event(self.session, "Page.loadEventFired")

    def evaluate(self, expression: str, timeout: float | None = None) -> Any:
        """The value of an expression, or of what it promises. PageError where it throws."""
        done = self.call(
            "Runtime.evaluate",
            timeout,
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
        )
        if "exceptionDetails" in done:
            details = done["exceptionDetails"]
            text = details.get("exception", {}).get("description") or details["text"]
            raise PageError(text, self.browser.said())
        return done["result"].get("value")

    def invoke(self, function: str, *arguments: Any, timeout: float | None = None) -> Any:
        """`function(...arguments)`, where the arguments are JSON; bytes travel as base64."""
        words = ", ".join(json.dumps(argument, default=_encoded) for argument in arguments)
        return self.evaluate(f"({function})({words})", timeout)

    def pick_file(self, selector: str, path: Path) -> None:
        """Choose a file in a file input, as a user would."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def close(self) -> None:
        """Close the tab, and with it what it holds of the GPU."""
        self.browser.call("Target.closeTarget", targetId=self.target)

    def screenshot(self) -> bytes:
        """What the tab shows, as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])


def _encoded(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    raise TypeError(f"no JSON form of {type(value).__name__}")
