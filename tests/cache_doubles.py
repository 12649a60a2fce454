"""Caches that misbehave as they are told: one of S3, one of the Remote Execution API."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gristmill.store.reapi.messages import METHODS, messages


def key_of(name: object) -> str:
    """The key of an action of that name."""
    return hashlib.sha256(str(name).encode()).hexdigest()


class BadObjects(http.server.ThreadingHTTPServer):
    """As much of S3 as puts and gets of objects need. `behaviour` of each request: `right`, or
    500, 403, hang, cut (half of what was announced), wrong, truncated, or swapped (the bytes of
    another object)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviour = "right"
        self.objects: dict[str, bytes] = {}
        self.requests = 0
        self.over = threading.Event()

    @property
    def environment(self) -> dict[str, str]:
        """What leads to it, as `s3://bucket/...`."""
        return {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_address[1]}",
        }


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: BadObjects

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self._misbehaves():
            return
        if self.headers.get("If-None-Match") == "*" and self.path in self.server.objects:
            self._answer(412)
        else:
            self.server.objects[self.path] = body
            self._answer(200)

    def do_GET(self) -> None:
        if self._misbehaves():
            return
        data = self.server.objects.get(self.path)
        if data is None:
            return self._answer(404)
        others = [d for path, d in self.server.objects.items() if path != self.path]
        data = {
            "wrong": bytes([data[0] ^ 1]) + data[1:],
            "truncated": data[: len(data) // 2],
            "swapped": others[0] if others else b"",
        }.get(self.server.behaviour, data)
        if self.server.behaviour == "cut":
            self._answer(200, data, len(data) * 2)
            self.close_connection = True
        else:
            self._answer(200, data)

    def _misbehaves(self) -> bool:
        self.server.requests += 1
        if self.server.behaviour == "hang":
            self.server.over.wait(120)
            self.close_connection = True
            return True
        if self.server.behaviour.isdigit():
            self._answer(int(self.server.behaviour))
            return True
        return False

    def _answer(self, status: int, data: bytes = b"", announced: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data) if announced is None else announced))
        self.send_header("ETag", '"0"')
        self.send_header("Last-Modified", "Mon, 30 Nov 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(data)


@contextlib.contextmanager
def bad_objects() -> Iterator[BadObjects]:
    """A running `BadObjects`."""
    with BadObjects() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()


class BadReapi:
    """As much of a cache of the Remote Execution API as is used. `behaviour`: `right`, or internal,
    hang, denied, wrong, truncated, swapped (results of another action), lost (results whose blobs
    are gone), paths (digests that are none), refuses (blobs, each), untold (no capabilities)."""

    def __init__(self) -> None:
        self.m = messages()
        self.behaviour = "right"
        self.requests: list[str] = []
        self.metadata: list[tuple[str, str]] = []
        self.blobs: dict[str, bytes] = {}
        self.results: dict[str, Any] = {}
        self.over = threading.Event()
        self.url = ""

    def capabilities(self, request: Any) -> Any:
        cache = self.m.CacheCapabilities(digest_functions=[1], max_batch_total_size_bytes=1 << 20)
        return self.m.ServerCapabilities(cache_capabilities=cache)

    def result(self, request: Any) -> Any:
        found = self.results.get(request.action_digest.hash)
        if self.behaviour == "swapped" and found is not None:
            found = next(r for k, r in self.results.items() if k != request.action_digest.hash)
        if self.behaviour == "paths" and found is not None:
            digest = self.m.Digest(hash="../../../etc/passwd", size_bytes=10)
            file = self.m.OutputFile(path="artifact", digest=digest)
            found = self.m.ActionResult(output_files=[file])
        return found

    def update(self, request: Any) -> Any:
        self.results[request.action_digest.hash] = request.action_result
        return request.action_result

    def missing(self, request: Any) -> Any:
        gone = [d for d in request.blob_digests if d.hash not in self.blobs]
        return self.m.FindMissingBlobsResponse(missing_blob_digests=gone)

    def write(self, request: Any) -> Any:
        code = 3 if self.behaviour == "refuses" else 0
        status = self.m.Status(code=code, message="it is full" if code else "")
        if not code:
            self.blobs.update({r.digest.hash: r.data for r in request.requests})
        answers = [self.m.BlobUpdated(digest=r.digest, status=status) for r in request.requests]
        return self.m.BatchUpdateBlobsResponse(responses=answers)

    def read(self, request: Any) -> Any:
        answers = []
        for digest in request.digests:
            data = self._blob(digest.hash)
            status = self.m.Status(code=5 if data is None else 0)
            answers.append(self.m.BlobRead(digest=digest, data=data or b"", status=status))
        return self.m.BatchReadBlobsResponse(responses=answers)

    def stream_in(self, request: Any) -> Iterator[Any]:
        data = self._blob(request.resource_name.split("/")[-2]) or b""
        for at in range(0, len(data), 1 << 20):
            yield self.m.ReadResponse(data=data[at : at + (1 << 20)])

    def stream_out(self, requests: Iterator[Any]) -> Any:
        name, data = "", b""
        for request in requests:
            name, data = name or request.resource_name, data + request.data
        self.blobs[name.split("/")[-2]] = data
        return self.m.WriteResponse(committed_size=len(data))

    def _blob(self, name: str) -> bytes | None:
        data = None if self.behaviour == "lost" else self.blobs.get(name)
        if data and self.behaviour == "wrong":
            return data[:-1] + bytes([data[-1] ^ 1])
        if data and self.behaviour == "truncated":
            return data[:-1]
        return data


def _guarded(server: BadReapi, name: str) -> Callable[[Any, Any], Any]:
    import grpc

    codes = {"internal": grpc.StatusCode.INTERNAL, "denied": grpc.StatusCode.PERMISSION_DENIED}

    def handle(request: Any, context: Any) -> Any:
        server.requests.append(name)
        server.metadata += [tuple(item) for item in context.invocation_metadata()]
        if server.behaviour == "hang":
            server.over.wait(120)
        if server.behaviour in codes:
            context.abort(codes[server.behaviour], "as it was told")
        if server.behaviour == "untold" and name == "capabilities":
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")
        answer = getattr(server, name)(request)
        if answer is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "not found")
        return answer

    return handle


@contextlib.contextmanager
def bad_reapi(credentials: Any = None) -> Iterator[BadReapi]:
    """A running `BadReapi`; with TLS where it is given credentials."""
    import grpc

    double = BadReapi()
    kinds = {
        "stream_in": grpc.unary_stream_rpc_method_handler,
        "stream_out": grpc.stream_unary_rpc_method_handler,
    }
    services: dict[str, dict[str, Any]] = {}
    for name, (path, sent, answered) in METHODS.items():
        _, service, method = path.split("/")
        handler = kinds.get(name, grpc.unary_unary_rpc_method_handler)(
            _guarded(double, name),
            request_deserializer=getattr(double.m, sent).FromString,
            response_serializer=getattr(double.m, answered).SerializeToString,
        )
        services.setdefault(service, {})[method] = handler
    server = grpc.server(ThreadPoolExecutor(16))
    for service, methods in services.items():
        handlers = grpc.method_handlers_generic_handler(service, methods)
        server.add_generic_rpc_handlers((handlers,))
    if credentials is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("localhost:0", credentials)
    double.url = f"grpc{'s' if credentials else ''}://localhost:{port}/main"
    server.start()
    try:
        yield double
    finally:
        double.over.set()
        server.stop(0).wait(10)
