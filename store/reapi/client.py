"""Calls to a cache of the Remote Execution API: the channel, its credentials, its errors.

`grpc://HOST:PORT/INSTANCE` in the clear, `grpcs://` with TLS. From the environment:
GRISTMILL_CACHE_TOKEN (sent as a bearer token), GRISTMILL_CACHE_CA (certificates that the server's
is checked against, else the system's), GRISTMILL_CACHE_CERT and GRISTMILL_CACHE_CERT_KEY (our own).
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ..interface import CacheError, StoreError
from ..message import plain
from .messages import METHODS, messages

SCHEMES = ("grpc", "grpcs")
_MESSAGE = 16 << 20  # bytes of one answer that are taken
_RATE = 1 << 20  # bytes a second that a transfer has to have, beyond its timeout


class Client:
    """The methods of one instance. CacheError says what did not work."""

    def __init__(
        self, url: str, timeout: float, environment: Mapping[str, str] = os.environ
    ) -> None:
        self.url, self.timeout = url, timeout
        try:
            import grpc

            self.messages = messages()
        except ImportError as error:
            raise StoreError(
                f"{url} needs the packages grpcio and protobuf: pip install 'gristmill[cache]'"
            ) from error
        self._grpc = grpc
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise StoreError(f"{url}: {error}") from error
        if not host:
            raise StoreError(f"{url} is no cache; expected {parts.scheme}://HOST:PORT/INSTANCE")
        self.instance = unquote(parts.path.strip("/"))
        secure = parts.scheme == "grpcs"
        token = environment.get("GRISTMILL_CACHE_TOKEN", "")
        if token and not secure and not _is_here(host):
            raise StoreError(f"{url}: a token is not sent in the clear; use grpcs://")
        self._metadata = [("authorization", f"Bearer {token}")] if token else []
        where = f"[{host}]" if ":" in host else host
        where += f":{port or (443 if secure else 80)}"
        options = [
            ("grpc.max_receive_message_length", _MESSAGE),
            ("grpc.max_send_message_length", _MESSAGE),
            ("grpc.enable_http_proxy", 0 if _is_here(host) else 1),
        ]
        if secure:
            self._channel = grpc.secure_channel(where, self._credentials(environment), options)
        else:
            self._channel = grpc.insecure_channel(where, options)
        kinds = {"stream_in": self._channel.unary_stream, "stream_out": self._channel.stream_unary}
        self._calls = {
            name: kinds.get(name, self._channel.unary_unary)(
                path,
                request_serializer=getattr(self.messages, sent).SerializeToString,
                response_deserializer=getattr(self.messages, answered).FromString,
            )
            for name, (path, sent, answered) in METHODS.items()
        }

    def call(self, name: str, request: Any, absent: bool = False) -> Any:
        """The answer to a request. absent: give None where the server says that it is not there."""
        grpc = self._grpc
        try:
            return self._calls[name](request, timeout=self.timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            if absent and error.code() == grpc.StatusCode.NOT_FOUND:
                return None
            raise self._error(name, error) from error

    def read_stream(self, resource: str, size: int) -> bytes | None:
        """The bytes of a resource, no more than one over `size`; None where it is not there."""
        grpc, data = self._grpc, bytearray()
        request = self.messages.ReadRequest(resource_name=resource)
        answers = self._calls["stream_in"](request, metadata=self._metadata)
        late = threading.Event()
        try:
            # By what has come: the size is what the server announced, and may be anything.
            with _in_time(answers, lambda: self.timeout + len(data) / _RATE, late):
                for answer in answers:
                    data += answer.data
                    if len(data) > size:
                        answers.cancel()
                        break
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                return None
            if late.is_set():
                what = f"{self.url}: Read: too slow: {len(data)} of {size} bytes came"
                raise CacheError(what) from error
            raise self._error("stream_in", error) from error
        return bytes(data[: size + 1])

    def write_stream(self, requests: Iterable[Any], size: int) -> int:
        """Send the pieces of a resource; gives the bytes that the server has taken."""
        timeout = self.timeout + size / _RATE
        try:
            answer = self._calls["stream_out"](
                iter(requests), timeout=timeout, metadata=self._metadata
            )
        except self._grpc.RpcError as error:
            raise self._error("stream_out", error) from error
        committed: int = answer.committed_size
        return committed

    def is_unimplemented(self, error: CacheError) -> bool:
        """Whether the server does not know the method."""
        cause: Any = error.__cause__
        return bool(cause.code() == self._grpc.StatusCode.UNIMPLEMENTED)

    def close(self) -> None:
        self._channel.close()

    def _error(self, name: str, error: Any) -> CacheError:
        method = METHODS[name][0].rsplit("/", 1)[1]
        return CacheError(
            f"{self.url}: {method}: {error.code().name}: {plain(str(error.details()))}"
        )

    def _credentials(self, environment: Mapping[str, str]) -> Any:
        names = ("GRISTMILL_CACHE_CA", "GRISTMILL_CACHE_CERT_KEY", "GRISTMILL_CACHE_CERT")
        try:
            texts = [
                Path(environment[n]).read_bytes() if environment.get(n) else None for n in names
            ]
        except OSError as error:
            raise StoreError(f"{self.url}: a certificate or its key: {error}") from error
        return self._grpc.ssl_channel_credentials(*texts)


@contextlib.contextmanager
def _in_time(answers: Any, allowed: Callable[[], float], late: threading.Event) -> Iterator[None]:
    """Cancels a call that takes longer than is allowed, in seconds, and sets `late`."""
    begin, over = time.monotonic(), threading.Event()

    def watch() -> None:
        while not over.wait(max(0.0, begin + allowed() - time.monotonic())):
            if time.monotonic() - begin >= allowed():
                late.set()
                answers.cancel()
                return

    threading.Thread(target=watch, name="gristmill read", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _is_here(host: str) -> bool:
    """Whether it is this machine: what is sent does not leave it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
