"""A server in front of the tracking server that answers wrongly when a test says so."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Fault = str
"""`` (none), `429`, `429 later`, `500`, `page`, `half`, `drip`, `hang up`, or another status."""


class FaultyServer:
    """`fault` is asked at every request, with its number; `asked` holds the headers that came."""

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.fault: Callable[[int], Fault] = lambda number: ""
        self.asked: list[dict[str, str]] = []
        self.injected: list[Fault] = []
        faulty = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                faulty._answer(self)

            do_POST = do_PUT = do_GET  # noqa: N815

            def log_message(self, *words: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator[FaultyServer]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        self.asked.append(dict(request.headers))
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0)) or None
        fault = self.fault(len(self.asked))
        if fault:
            self.injected.append(fault)
        if fault == "hang up":
            request.close_connection = True
            return
        if fault in ("", "half", "drip"):
            status, answer = self._forwarded(request, body)
            self._send(request, status, answer, fault)
        elif fault == "page":
            self._send(request, 200, b"<html>Sign in</html>", "", {"Content-Type": "text/html"})
        elif fault == "429 later":
            self._send(request, 429, b"slow down", "", {"Retry-After": "7"})
        else:
            self._send(request, int(fault), b"<html>no</html>", "", {"Content-Type": "text/html"})

    def _forwarded(self, request: BaseHTTPRequestHandler, body: bytes | None) -> tuple[int, bytes]:
        sent = urllib.request.Request(self.behind + request.path, data=body, method=request.command)
        sent.add_header("Content-Type", request.headers.get("Content-Type", "application/json"))
        try:
            with urllib.request.urlopen(sent, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        answer: bytes,
        fault: Fault,
        headers: dict[str, str] | None = None,
    ) -> None:
        request.send_response(status)
        for name, value in (headers or {"Content-Type": "application/json"}).items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(answer)))
        request.end_headers()
        if fault == "half":
            request.wfile.write(answer[: len(answer) // 2])
            request.close_connection = True
        elif fault == "drip":
            for byte in answer:
                try:
                    request.wfile.write(bytes([byte]))
                except OSError:
                    break
                time.sleep(0.02)
            request.close_connection = True
        else:
            request.wfile.write(answer)
