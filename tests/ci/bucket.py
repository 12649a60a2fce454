"""A bucket of S3 on this machine that everybody reads and one writer writes, as a public cache of
CI is set up. The writer is known by the id of the access key; signatures are not looked at."""

from __future__ import annotations

import hashlib
import http.server
import threading

WRITER = "writer"


class Bucket(http.server.ThreadingHTTPServer):
    """`with Bucket() as bucket`. content: objects by path; refused: writes by others."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content: dict[str, bytes] = {}
        self.refused = 0
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Bucket:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Bucket
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("Last-Modified", "Mon, 30 Nov 2026 00:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        body = self.server.content.get(self.path)
        if body is None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self.answer(200, body)

    do_HEAD = do_GET  # noqa: N815 (a name of http.server)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if f"Credential={WRITER}/" not in self.headers.get("Authorization", ""):
            self.server.refused += 1
            self.answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        elif self.headers.get("If-None-Match") == "*" and self.path in self.server.content:
            self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            self.server.content[self.path] = body
            self.answer(200)
