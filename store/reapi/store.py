"""A store in a cache of the Remote Execution API: action cache and content addressable storage.

The action of a key is an Action message that has the key as its salt; its result lists the outputs
as files, and one more, the entry (see `entries`), which says what key they are of: a result that
is served for another action is told apart. The action's canonical text is a file of the result too;
its hash is the key.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .. import entries
from ..entries import Content
from ..interface import CacheError, Counts, Outputs
from ..message import plain
from .client import Client
from .messages import SHA256

ENTRY = "gristmill-entry"  # the file that is the entry
_TEXT = "gristmill-action"  # the file that is the action's canonical text
_BATCH = 3 << 20  # bytes of one batch; gRPC takes 4 MiB of a message where nothing else is said
_MANY = 500  # blobs of one batch
_PIECE = 1 << 20  # bytes of one message of a stream
_TOGETHER = 1 << 30  # bytes of all blobs of one request for several keys
_PARALLEL = 8
_OK, _NOT_FOUND = 0, 5  # of google.rpc.Code


class ReapiStore:
    """Action cache and content store of one instance. Methods raise CacheError where the server
    does not answer as it should; `timeout`: seconds that one request may take."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.counts = Counts()
        self._lock = threading.Lock()
        self._damaged: set[str] = set()  # hashes of blobs to be sent again
        self._batch = 0  # bytes, once the server has been asked

    def get(self, key: str) -> Outputs | None:
        """The verified outputs of an action by name; None where any of them is not at hand."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, Outputs]:
        """As `get` for each of the keys: results several at a time, blobs in batches."""
        begin, keys, found = time.perf_counter(), list(keys), {}
        try:
            if len(keys) == 1:
                listed = {keys[0]: self._listed(keys[0])}
            else:
                with ThreadPoolExecutor(_PARALLEL) as threads:  # the first that fails ends it
                    listed = dict(zip(keys, threads.map(self._listed, keys), strict=True))
            blobs = self._blobs(_within_bounds(listed.values()))
            for key, contents in listed.items():
                if contents and (outputs := self._checked(key, contents, blobs)) is not None:
                    found[key] = outputs
        finally:
            with self._lock:
                self.counts.hits += len(found)
                self.counts.misses += len(keys) - len(found)
                self.counts.bytes_read += sum(len(d) for o in found.values() for d in o.values())
                self.counts.seconds += time.perf_counter() - begin
        return found

    def put(self, key: str, outputs: Mapping[str, bytes], action: bytes = b"") -> None:
        """Keep the outputs of an action."""
        contents = entries.contents_of(outputs)
        files = {**outputs, ENTRY: entries.encode_body(key, contents)}
        if action:
            files[_TEXT] = action
        listed = entries.contents_of(files)
        blobs = {listed[name]: data for name, data in files.items()}
        self._send({**blobs, _content(self._action(key)): self._action(key)})
        m = self.client.messages
        made = [m.OutputFile(path=n, digest=self._digest(c)) for n, c in listed.items()]
        request = m.UpdateActionResultRequest(
            instance_name=self.client.instance,
            action_digest=self._digest(_content(self._action(key))),
            action_result=m.ActionResult(output_files=made),
        )
        self.client.call("update", request)
        with self._lock:
            self.counts.written += 1
            self.counts.bytes_written += sum(map(len, outputs.values()))

    def action(self, key: str) -> bytes | None:
        """The canonical text of an action; None where it is not kept."""
        content = (self._listed(key) or {}).get(_TEXT)
        if content is None or content.sha256 != key:
            return None
        data = self._blobs({content}).get(content)
        return data if data is not None and content.fits(data) else None

    def close(self) -> None:
        """End the connection."""
        self.client.close()

    def _action(self, key: str) -> bytes:
        message: bytes = self.client.messages.Action(salt=bytes.fromhex(key)).SerializeToString()
        return message

    def _digest(self, content: Content) -> Any:
        return self.client.messages.Digest(hash=content.sha256, size_bytes=content.size)

    def _listed(self, key: str) -> dict[str, Content] | None:
        """What the result of an action lists; None where there is none, or one of another form."""
        if not entries.is_digest(key):
            return None
        request = self.client.messages.GetActionResultRequest(
            instance_name=self.client.instance,
            action_digest=self._digest(_content(self._action(key))),
        )
        result = self.client.call("result", request, absent=True)
        if result is None:
            return None
        files = [(f.path, Content(f.digest.hash, f.digest.size_bytes)) for f in result.output_files]
        fine = all(entries.is_digest(c.sha256) and 0 <= c.size <= entries.LARGEST for _, c in files)
        if result.exit_code or not fine or ENTRY not in dict(files):
            self._mismatch()
            return None
        return dict(files)

    def _checked(
        self, key: str, listed: dict[str, Content], blobs: Mapping[Content, bytes]
    ) -> Outputs | None:
        """The outputs of a result, if its entry says the same and all bytes are right."""
        files = {}
        for name, content in listed.items():
            if name == _TEXT:
                continue
            if (data := blobs.get(content)) is None:
                return None
            if not content.fits(data):
                self._mismatch(content)
                return None
            files[name] = data
        outputs = {name: data for name, data in files.items() if name != ENTRY}
        if entries.decode_body(files[ENTRY], key) != entries.contents_of(outputs):
            self._mismatch()
            return None
        return outputs

    def _mismatch(self, content: Content | None = None) -> None:
        with self._lock:
            self.counts.mismatches += 1
            if content:
                self._damaged.add(content.sha256)

    def _blobs(self, wanted: Collection[Content]) -> dict[Content, bytes]:
        """The bytes of contents, not yet verified; those that the server has not are left out."""
        if not wanted:
            return {}
        small, large = self._apart(wanted)
        found: dict[Content, bytes] = {}
        batches = list(self._batches(small))
        if len(batches) > 1:
            with ThreadPoolExecutor(_PARALLEL) as threads:
                answers = list(threads.map(self._read_batch, batches))
        else:
            answers = [self._read_batch(batch) for batch in batches]
        for answer in answers:
            found |= answer
        for content in large:
            name = f"{self._prefix()}blobs/{content.sha256}/{content.size}"
            if (data := self.client.read_stream(name, content.size)) is not None:
                found[content] = data
        return found

    def _read_batch(self, batch: Sequence[Content]) -> dict[Content, bytes]:
        m, found = self.client.messages, {}
        request = m.BatchReadBlobsRequest(
            instance_name=self.client.instance, digests=[self._digest(c) for c in batch]
        )
        for answer in self.client.call("read", request).responses:
            if answer.status.code == _OK:
                found[Content(answer.digest.hash, answer.digest.size_bytes)] = answer.data
            elif answer.status.code != _NOT_FOUND:
                reason = plain(answer.status.message)
                raise CacheError(f"{self.client.url}: BatchReadBlobs: {reason}")
        return found

    def _send(self, blobs: Mapping[Content, bytes]) -> None:
        """Send what the server has not, and what it has damaged."""
        m = self.client.messages
        request = m.FindMissingBlobsRequest(
            instance_name=self.client.instance, blob_digests=[self._digest(c) for c in blobs]
        )
        missing = {d.hash for d in self.client.call("missing", request).missing_blob_digests}
        with self._lock:
            missing |= self._damaged & {c.sha256 for c in blobs}
            self._damaged -= missing
        small, large = self._apart(c for c in blobs if c.sha256 in missing)
        for batch in self._batches(small):
            parts = [m.BlobUpdate(digest=self._digest(c), data=blobs[c]) for c in batch]
            batched = m.BatchUpdateBlobsRequest(instance_name=self.client.instance, requests=parts)
            answers = self.client.call("write", batched).responses
            for answer in answers:
                if answer.status.code != _OK:
                    reason = plain(answer.status.message)
                    raise CacheError(f"{self.client.url}: BatchUpdateBlobs: {reason}")
            if {a.digest.hash for a in answers} != {c.sha256 for c in batch}:
                what = f"{len(answers)} blobs answered of {len(batch)}"
                raise CacheError(f"{self.client.url}: BatchUpdateBlobs: {what}")
        for content in large:
            sent = self.client.write_stream(self._pieces(content, blobs[content]), content.size)
            if sent not in (content.size, -1):  # -1: another has sent it meanwhile
                raise CacheError(f"{self.client.url}: Write: {sent} bytes taken of {content.size}")

    def _pieces(self, content: Content, data: bytes) -> Iterator[Any]:
        where = f"{content.sha256}/{content.size}"
        name = f"{self._prefix()}uploads/{uuid.uuid4()}/blobs/{where}"
        for at in range(0, len(data), _PIECE):
            yield self.client.messages.WriteRequest(
                resource_name=name,
                write_offset=at,
                finish_write=at + _PIECE >= len(data),
                data=data[at : at + _PIECE],
            )

    def _prefix(self) -> str:
        return f"{self.client.instance}/" if self.client.instance else ""

    def _apart(self, contents: Iterable[Content]) -> tuple[list[Content], list[Content]]:
        """Those that fit into a batch, and those that are streamed."""
        most = self._largest_batch()
        ordered = sorted(contents, key=lambda c: c.sha256)
        small = [c for c in ordered if c.size <= most]
        return small, [c for c in ordered if c.size > most]

    def _batches(self, contents: Sequence[Content]) -> Iterator[list[Content]]:
        batch: list[Content] = []
        size = 0
        for content in contents:
            if batch and (len(batch) == _MANY or size + content.size > self._largest_batch()):
                yield batch
                batch, size = [], 0
            batch.append(content)
            size += content.size
        if batch:
            yield batch

    def _largest_batch(self) -> int:
        """Bytes that the server takes and gives at once; asked of it the first time."""
        with self._lock:
            if not self._batch:
                self._batch = self._asked_batch()
            return self._batch

    def _asked_batch(self) -> int:
        m = self.client.messages
        request = m.GetCapabilitiesRequest(instance_name=self.client.instance)
        try:
            cache = self.client.call("capabilities", request).cache_capabilities
        except CacheError as error:
            if self.client.is_unimplemented(error):
                return _BATCH
            raise
        if cache.digest_functions and SHA256 not in cache.digest_functions:
            raise CacheError(f"{self.client.url}: does not work with SHA256")
        most = cache.max_batch_total_size_bytes
        return min(_BATCH, most) if most > 0 else _BATCH


def _within_bounds(results: Iterable[Mapping[str, Content] | None]) -> set[Content]:
    """The contents of results, as far as they fit into memory by what the server says of them."""
    found: set[Content] = set()
    left = _TOGETHER
    for result in filter(None, results):
        contents = {c for name, c in result.items() if name != _TEXT} - found
        if (size := sum(c.size for c in contents)) <= left:
            found |= contents
            left -= size
    return found


def _content(data: bytes) -> Content:
    return Content(entries.digest(data), len(data))
