"""Speaking to a registry of the OCI distribution specification, through the `oras` package.

oras brings references, logins and tokens. What it leaves open is bounded here: it waits for ever,
tries an answer of 500 five times over two minutes, sends an upload wherever the registry says, and
reads a manifest without looking at its digest. Every call ends in its result or in an error of
`errors`, after at most `timeout` seconds without progress, or a time that follows from the size.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from .errors import ContentMismatch, ExtraMissing, RegistryRefused, RegistryUnreachable
from .login import LOGIN
from .reference import Reference

TIMEOUT = 30.0  # seconds without progress
_SLOWEST = 10_000  # bytes a second, below which a transfer is given up
_LARGEST_MANIFEST = 4 << 20  # bytes, as the specification has it
_PIECE = 1 << 16  # bytes
_AGAIN = (429, 500, 502, 503, 504)  # answers that another try may change
T = TypeVar("T")


class Registry:
    """One repository of a registry. plain_http: without TLS; None is so on this machine alone.

    attempts: how often a request is made that ends in a cut connection or a 5xx; pause: seconds
    before the second one, doubled each time.
    """

    def __init__(
        self,
        reference: Reference,
        plain_http: bool | None = None,
        timeout: float = TIMEOUT,
        attempts: int = 3,
        pause: float = 0.5,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        plain = reference.loopback if plain_http is None else plain_http
        self.reference, self.timeout, self.attempts, self.pause = (
            reference,
            timeout,
            attempts,
            pause,
        )
        self._client = _client(reference, plain, timeout, environment)
        self._container = self._client.get_container(str(reference))
        scheme = "http" if plain else "https"
        self._base = f"{scheme}://{reference.host}/v2/{reference.name}"
        self._authority = (scheme, reference.host)

    def manifest(self, media_types: str) -> bytes:
        """The manifest that the reference names, of the digest that it or the registry says.

        ContentMismatch where the bytes have another, RegistryRefused where there is none.
        """
        where, wanted = str(self.reference), self.reference.wanted

        def read() -> tuple[bytes, str]:
            answer = self._ask(
                "GET", f"/manifests/{wanted}", headers={"Accept": media_types}, stream=True
            )
            with answer:
                stated = answer.headers.get("Docker-Content-Digest", "")
                return b"".join(_pieces(answer, _LARGEST_MANIFEST + 1)), stated

        data, stated = self._tried(read, where, _LARGEST_MANIFEST)
        if len(data) > _LARGEST_MANIFEST:
            raise ContentMismatch(
                "a manifest without end", where=where, expected=f"{_LARGEST_MANIFEST} bytes"
            )
        digest, expected = sha256(data), self.reference.digest or stated
        if expected.startswith("sha256:") and digest != expected:
            raise ContentMismatch(
                "a manifest of another digest than was asked for",
                where=where,
                expected=expected,
                got=digest,
                do="the registry or something before it is broken or lies: use another",
            )
        return data

    def fetch(self, digest: str, size: int, path: Path) -> None:
        """Write a blob to a new file; ContentMismatch where it is not of that digest and size.

        What there is of the file after an error is of no use.
        """
        where = f"{self.reference}, {digest}"

        def load() -> tuple[int, str]:
            state, got = hashlib.sha256(), 0
            answer = self._ask("GET", f"/blobs/{digest}", stream=True)
            with answer, open(path, "wb") as file:
                for piece in _pieces(answer, size + 1, 2 * self.timeout):
                    state.update(piece)
                    got += len(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            if got < size:  # a connection that ended in order, but early
                raise _CutError(f"{got} of {size} bytes came")
            return got, f"sha256:{state.hexdigest()}"

        got, found = self._tried(load, where, size)
        if got > size or found != digest:
            raise ContentMismatch(
                "content that is not what its digest promises",
                where=where,
                expected=f"{size} bytes of {digest}",
                got=f"more than {size} bytes" if got > size else found,
                do="the registry is broken or lies: push the packs again, or use another",
            )

    def has(self, digest: str) -> bool:
        """Whether the registry has a blob."""

        def ask() -> bool:
            return bool(self._ask("HEAD", f"/blobs/{digest}", fine=(200, 404)).status_code == 200)

        return self._tried(ask, f"{self.reference}, {digest}", 0)

    def send(self, digest: str, data: bytes) -> None:
        """Upload a blob, unless it is there."""
        if self.has(digest):
            return

        def upload() -> None:
            answer = self._ask("POST", "/blobs/uploads/", fine=(202,))
            place = self._place(answer)
            joint = "&" if "?" in place else "?"
            headers = {"Content-Type": "application/octet-stream"}
            self._ask("PUT", f"{place}{joint}digest={digest}", headers, data, fine=(201,))

        self._tried(upload, f"{self.reference}, {digest}", len(data))

    def send_manifest(self, data: bytes, media_type: str) -> str:
        """Upload a manifest under the reference's tag; gives its digest."""
        digest = sha256(data)
        name = self.reference.tag or "latest"

        def upload() -> str:
            headers = {"Content-Type": media_type}
            answer = self._ask("PUT", f"/manifests/{name}", headers, data, fine=(201,))
            return str(answer.headers.get("Docker-Content-Digest", digest))

        stated = self._tried(upload, str(self.reference), len(data))
        if stated != digest:
            raise ContentMismatch(
                "the registry took another manifest than was sent",
                where=str(self.reference),
                expected=digest,
                got=stated,
                do="use another registry",
            )
        return digest

    def _place(self, answer: Any) -> str:
        """Where an upload goes on: at this registry, for it is told the login too."""
        place = str(self._client._get_location(answer, self._container))
        parts = urlsplit(place)
        if (parts.scheme, parts.netloc) != self._authority:
            raise RegistryRefused(
                "the registry sends an upload elsewhere",
                answer.status_code,
                where=str(self.reference),
                got=repr(place),
                do="name the host that it sends to, or set the registry up with its own address",
            )
        return place

    def _ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
        fine: tuple[int, ...] = (200,),
        stream: bool = False,
    ) -> Any:
        url = path if "://" in path else self._base + path
        answer = self._client.do_request(url, method, data, dict(headers or {}), stream=stream)
        if answer.status_code not in fine:
            raise _refusal(answer, str(self.reference))
        return answer

    def _tried(self, work: Callable[[], T], where: str, size: int) -> T:
        """What `work` gives, after as many attempts as it takes and are allowed."""
        from requests import RequestException
        from urllib3.exceptions import HTTPError

        pause = self.pause
        for left in reversed(range(self.attempts)):
            try:
                return _bounded(work, 2 * self.timeout + size / _SLOWEST, where)
            except RegistryRefused as error:
                if not left or error.status not in _AGAIN:
                    raise
            except _SlowError as error:
                raise _late(str(error), where) from error
            # ValueError: what the registry sends to is no address
            except (_CutError, RequestException, HTTPError, ValueError) as error:
                if not left:
                    raise RegistryUnreachable(
                        f"no whole answer after {self.attempts} attempts",
                        where=where,
                        got=_reason(error),
                        do="check the address and the network, and try again",
                    ) from error
            time.sleep(pause)
            pause *= 2
        raise AssertionError("attempts must be at least 1")


class _CutError(Exception):
    """An answer that ended before it was whole."""


class _SlowError(Exception):
    """An answer that comes so slowly that it is not waited for."""


def sha256(data: bytes) -> str:
    """The digest as registries write it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _client(
    reference: Reference, plain: bool, timeout: float, environment: Mapping[str, str]
) -> Any:
    """An oras client without its own retries, every request of which has a timeout."""
    try:
        import oras.provider
        import requests
    except ImportError as error:
        raise ExtraMissing(
            f"registries need the Python package oras ({error})", do="pip install 'gristmill[oci]'"
        ) from error
    from .login import login

    class Session(requests.Session):
        def request(self, *args: Any, **settings: Any) -> Any:
            return super().request(*args, **{"timeout": timeout, **settings})

    client: Any = oras.provider.Registry(insecure=plain)
    once: Any = oras.provider.Registry.do_request
    client.do_request = functools.partial(once.__wrapped__, client)
    client.session = Session()
    client.session.trust_env = not reference.loopback  # no proxy is asked for this machine
    client.auth = login(client.session, reference, plain, environment)
    return client


def _refusal(answer: Any, where: str) -> RegistryRefused:
    """What an answer other than the one hoped for says."""
    status = answer.status_code
    with answer:
        text = b"".join(_pieces(answer, 2000))[:2000].decode(errors="replace")
    what, do = {
        401: ("the registry wants a login", LOGIN),
        403: ("the registry does not allow this", LOGIN),
        404: ("the registry has no such name, tag or digest", "check the reference; push it first"),
        429: ("the registry has had too many requests", "try again later"),
    }.get(status, ("the registry cannot do this now", "try again later"))
    if status < 400:
        what, do = "the registry answers what no registry does", "check the address"
    return RegistryRefused(what, status, where=where, got=f"{status} {text}".strip(), do=do)


def _pieces(answer: Any, most: int, patience: float = math.inf) -> Iterator[bytes]:
    """The body of a streamed answer as it comes, and of at most about `most` bytes. _SlowError once
    it takes longer than `patience` seconds, and the time that goes with what has come."""
    got, begin = 0, time.monotonic()
    while got < most:
        piece = answer.raw.read1(_PIECE, decode_content=True)
        if not piece:
            return
        got += len(piece)
        if (spent := time.monotonic() - begin) > patience + got / _SLOWEST:
            raise _SlowError(f"not done after {spent:.0f} s, in which {got} bytes came")
        yield piece


def _bounded(work: Callable[[], T], seconds: float, where: str) -> T:
    """What `work` gives within some seconds, whatever it waits for: a name, a drop at a time.

    RegistryUnreachable once they are over; its thread is left behind and ends with its socket.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # raised again by who waits
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not outcome:
        raise _late(f"not done after {seconds:.0f} s", where)
    return outcome[0]


def _late(what: str, where: str) -> RegistryUnreachable:
    do = "check the address and the network, and try again"
    return RegistryUnreachable(what, where=where, do=do)


def _reason(error: Exception) -> str:
    """The last of the causes, which says what happened."""
    text = str(error)
    return text.rsplit(": ", 1)[-1].rstrip("')\"") or type(error).__name__
