"""A store in an object store: S3, Google Cloud, Azure, or a folder (`file://`), through obstore.

    ac/KEY       an action's entry, with the bytes of its outputs where they are few (see `entries`)
    cas/DIGEST   an output's bytes, or an action's canonical text

Everything is created only where nothing of its name is: publishers never race, the first wins.
What is found damaged, on reading or because it is in the way, is replaced. Credentials come from
the environment, as obstore reads it (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL,
AZURE_STORAGE_ACCOUNT_KEY, GOOGLE_APPLICATION_CREDENTIALS, ...).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from . import entries
from .interface import CacheError, Counts, Outputs, StoreError
from .message import plain

SCHEMES = ("s3", "gs", "az", "abfs", "abfss", "file", "memory")
_CARRIED = 1 << 16  # bytes of all outputs that an entry carries
_PARALLEL = 16  # requests of get_many
_DETAILS = "\n\nDebug source:"  # behind it, an error of obstore repeats itself


class ObjectStore:
    """Action cache and content store under a URL. Methods raise CacheError where the server does
    not answer as it should; `timeout`: seconds that one request may take."""

    def __init__(self, url: str, timeout: float = 10.0) -> None:
        self.url, self.timeout = url, timeout
        self.counts = Counts()
        self.refusal = ""
        self._lock = threading.Lock()
        self._objects = _opened(url, timeout)

    def get(self, key: str) -> Outputs | None:
        """The verified outputs of an action by name; None where any of them is not at hand."""
        begin = time.perf_counter()
        outputs = None
        try:
            outputs = self._outputs(key)
        finally:
            with self._lock:
                self.counts.asked(outputs, time.perf_counter() - begin)
        return outputs

    def get_many(self, keys: Iterable[str]) -> dict[str, Outputs]:
        """As `get` for each of the keys, several at a time."""
        keys = list(keys)
        with ThreadPoolExecutor(_PARALLEL) as threads:  # the first that fails ends it
            found = dict(zip(keys, threads.map(self.get, keys), strict=True))
        return {key: outputs for key, outputs in found.items() if outputs is not None}

    def put(self, key: str, outputs: Mapping[str, bytes], action: bytes = b"") -> None:
        """Keep the outputs of an action."""
        carry = sum(map(len, outputs.values())) <= _CARRIED
        contents = entries.contents_of(outputs)
        if action:
            self._publish(f"cas/{key}", action)
        if not carry:
            for name, data in outputs.items():
                self._publish(f"cas/{contents[name].sha256}", data)
        self._publish(f"ac/{key}", entries.encode(key, outputs, carry))
        with self._lock:
            self.counts.written += 1
            self.counts.bytes_written += sum(map(len, outputs.values()))

    def action(self, key: str) -> bytes | None:
        """The canonical text of an action; None where it is not kept."""
        return self._content(key, entries.LONGEST) if entries.is_digest(key) else None

    def close(self) -> None:
        """Nothing is under way."""

    def _outputs(self, key: str) -> Outputs | None:
        if not entries.is_digest(key):  # it would name another object
            return None
        text = self._read(f"ac/{key}", entries.LONGEST + _CARRIED)
        if text is None:
            return None
        decoded = entries.decode(text, key)
        if decoded is None:
            self._mismatch()
            return None
        contents, carried = decoded
        if carried is not None:
            outputs = entries.carried_outputs(contents, carried)
            if outputs is None:
                self._mismatch()
            return outputs
        found = {}
        for name, content in contents.items():
            data = self._content(content.sha256, content.size)
            if data is None:
                return None
            if len(data) != content.size:
                self._mismatch()
                return None
            found[name] = data
        return found

    def _content(self, digest: str, most: int) -> bytes | None:
        path = f"cas/{digest}"
        data = self._read(path, most)
        if data is None or entries.digest(data) == digest:
            return data
        self._mismatch()
        return None

    def _mismatch(self) -> None:
        """What a path holds is damaged; the next one who writes it will find it in the way."""
        with self._lock:
            self.counts.mismatches += 1

    def _read(self, path: str, most: int) -> bytes | None:
        """The bytes of an object, b"" where there are more than `most`; None where there is none.
        CacheError."""
        import obstore

        with _translated(f"{self.url}: cannot read {path}"):
            try:
                found = obstore.get(self._objects, path)
                data = bytearray()
                # In pieces: what is announced need not be what comes.
                for piece in found.stream() if found.meta["size"] <= most else ():
                    data += piece
                    if len(data) > most:
                        return b""
                return bytes(data)
            except FileNotFoundError:
                return None

    def _publish(self, path: str, data: bytes) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with _translated(f"{self.url}: cannot write {path}"):
            try:
                obstore.put(self._objects, path, data, mode="create")
                return
            except AlreadyExistsError:
                pass
        if not self._is_whole(path):
            with _translated(f"{self.url}: cannot replace {path}"):
                obstore.put(self._objects, path, data, mode="overwrite")

    def _is_whole(self, path: str) -> bool:
        """Whether what stands in the way of a writer is as good as what it would write."""
        kind, _, name = path.partition("/")
        if kind == "cas":
            data = self._read(path, entries.LARGEST)
            return data is not None and entries.digest(data) == name
        decoded = entries.decode(self._read(path, entries.LONGEST + _CARRIED) or b"", name)
        if decoded is None:
            return False
        contents, carried = decoded
        return carried is None or entries.carried_outputs(contents, carried) is not None


@contextlib.contextmanager
def _translated(what: str) -> Iterator[None]:
    """Errors of obstore as CacheError."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError, ValueError) as error:  # all of them are what a server made of it
        raise CacheError(f"{what}: {plain(str(error).partition(_DETAILS)[0])}") from error


def _opened(url: str, timeout: float) -> Any:
    """The object store of a URL. StoreError where obstore is absent or does not take the URL."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError as error:
        raise StoreError(
            f"{url} needs the package obstore: pip install 'gristmill[cache]'"
        ) from error
    scheme = url.partition(":")[0]
    extra: dict[str, Any] = {}
    if scheme == "file":
        extra = {"mkdir": True}
    elif scheme != "memory":
        seconds = timedelta(seconds=timeout)
        extra = {
            "client_options": {"timeout": seconds, "connect_timeout": seconds, "allow_http": True},
            "retry_config": {"max_retries": 1, "retry_timeout": seconds},
        }
    try:
        return from_url(url, **extra)
    except (BaseError, OSError, ValueError) as error:
        reason = plain(str(error).partition(_DETAILS)[0])
        raise StoreError(f"{url} cannot be opened as a cache: {reason}") from error
