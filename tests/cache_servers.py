"""Servers that caches are tested with: moto's of S3, BuildGrid's of the Remote Execution API."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

BUILDGRID = """\
server:
  - !channel
    address: 127.0.0.1:{port}
    insecure-mode: true
authorization:
  method: none
monitoring:
  enabled: false
instances:
  - name: main
    storages:
      - !lru-storage &storage
        size: 512M
    caches:
      - !lru-action-cache &actions
        storage: *storage
        max-cached-refs: 100000
        allow-updates: true
    services:
      - !action-cache
        cache: *actions
      - !cas
        storage: *storage
      - !bytestream
        storage: *storage
thread-pool-size: 40
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def running(command: Sequence[str], port: int, log: Path | None = None) -> Iterator[None]:
    """A server in a process of its own, once it listens."""
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(open(log, "wb")) if log else subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 120
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                said = log.read_text() if log else ""
                assert process.poll() is None, f"{command[0]} ended: {said}"
                assert time.monotonic() < deadline, f"{command[0]} does not listen: {said}"
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.wait(30)


@contextlib.contextmanager
def s3() -> Iterator[dict[str, str]]:
    """A server of S3 with an empty bucket `bucket`; gives the environment that leads to it."""
    port = free_port()
    program = str(Path(sys.executable).with_name("moto_server"))
    with running([program, "-H", "127.0.0.1", "-p", str(port)], port):
        url = f"http://127.0.0.1:{port}"
        made = urllib.request.Request(f"{url}/bucket", method="PUT")
        urllib.request.urlopen(made, timeout=60).close()
        yield {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
        }


@contextlib.contextmanager
def reapi(folder: Path) -> Iterator[str]:
    """A cache of the Remote Execution API, empty; gives its URL. Its settings lie in `folder`."""
    port = free_port()
    settings = folder / "buildgrid.yml"
    settings.write_text(BUILDGRID.format(port=port))
    program = str(Path(sys.executable).with_name("bgd"))
    with running([program, "server", "start", str(settings)], port, folder / "log"):
        yield f"grpc://127.0.0.1:{port}/main"
