"""Registries on this machine: Debian's docker-registry, and one that misbehaves as it is told."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_CONFIG = """\
version: 0.1
log: {level: info}
storage:
  filesystem: {rootdirectory: %s}
http: {addr: "127.0.0.1:0"%s}
%s"""
_USERS = "auth:\n  htpasswd: {realm: here, path: %s}\n"
# A line of htpasswd: the name `main` with the password `secret`.
MAIN = "main:$2b$04$cmdsCz1g2mX3wsIpgox4WeKDP0U6LZE0Yjil30Re9OAEyQICi0TBe\\n"
_LISTENS = re.compile(r"listening on (127\.0\.0\.1:\d+)")


@contextlib.contextmanager
def docker_registry(folder: Path, users: Path | None = None) -> Iterator[str]:
    """A docker-registry of its own on a free port, with its own folder; gives HOST:PORT.

    users: a file of htpasswd (bcrypt) with those who may read and write; else everybody may.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config, log = folder / "config.yml", folder / "log"
    config.write_text(_CONFIG % (folder / "data", "", _USERS % users if users else ""))
    with open(log, "wb") as out:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(config)], stdout=out, stderr=subprocess.STDOUT
        )
    try:
        end = time.monotonic() + 60
        while not (found := _LISTENS.search(log.read_text(errors="replace"))):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        yield found[1]
    finally:
        process.terminate()
        process.wait(30)


class Fake(http.server.ThreadingHTTPServer):
    """As much of a registry as a push and a pull need, on loopback; `with Fake() as fake`.

    content: blobs and manifests by digest, and manifests by tag. calls: METHOD PATH of each
    request. misbehave: is asked with the handler first, and says whether it has answered.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.misbehave: Callable[[Any], bool] = lambda handler: False
        self.stopped = threading.Event()
        self.host = f"127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Fake:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.shutdown()
        self.server_close()

    def count(self, method: str, part: str = "") -> int:
        """How many requests there were of a method with that in their path."""
        return sum(call.startswith(method) and part in call for call in self.calls)

    def manifest(self) -> dict[str, Any]:
        """The manifest that lies under the tag `v1`."""
        found: dict[str, Any] = json.loads(self.content["v1"])
        return found

    def put_manifest(self, manifest: dict[str, Any]) -> None:
        self.content["v1"] = json.dumps(manifest).encode()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Fake
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def handle_one_request(self) -> None:
        with contextlib.suppress(ConnectionError):
            super().handle_one_request()

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """An answer in order."""
        self.send_response(status)
        headers = {"Content_Length": str(len(body)), **headers}
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def serve(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self.body = self.rfile.read(length)
        self.server.calls.append(f"{self.command} {self.path}")
        if self.server.misbehave(self):
            return
        name = self.path.rpartition("/")[2]
        if self.command in ("GET", "HEAD"):
            body = self.server.content.get(name)
            if body is None:
                return self.answer(404, b'{"errors": [{"code": "UNKNOWN"}]}')
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
            return self.answer(200, body, Docker_Content_Digest=digest)
        if self.command == "POST":
            return self.answer(202, Location=self.path + "1")
        digest = f"sha256:{hashlib.sha256(self.body).hexdigest()}"
        self.server.content[digest] = self.body
        if "/manifests/" in self.path:
            self.server.content[name] = self.body
        return self.answer(201, Docker_Content_Digest=digest)

    do_GET = do_HEAD = do_POST = do_PUT = serve  # noqa: N815 (names of http.server)


def environment_without_logins(folder: Path) -> dict[str, str]:
    """An environment in which no login of this machine is found."""
    return {**os.environ, "HOME": str(folder), "DOCKER_CONFIG": str(folder)}
