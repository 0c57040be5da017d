"""A way to a tracker on which everything goes wrong that goes wrong on networks, when a test says so."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Fault:
    """One wrong answer.

    `status`: that, with `headers` and `body`, and the tracker never hears of the request. `cut`: the true answer's first
    half, and the connection ends. `drip`: seconds between single bytes of the true answer. `hang`: silence for so many
    seconds. `lost`: the tracker does what is asked, and its answer is lost.
    """

    name: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b"<html>no</html>"
    cut: bool = False
    drip: float = 0.0
    hang: float = 0.0
    lost: bool = False


def http_date(after: float) -> str:
    """A moment so many seconds from now, as HTTP writes it."""
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + after))


HANG = Fault("hang", hang=5.0)
PAGE = Fault("page", 200, {"Content-Type": "text/html"}, b"<html>Sign in</html>")
LYING = Fault("half of what it says", 200, {"Content-Type": "application/json", "Content-Length": "5000"}, b'{"run": ')
BUSY = [
    Fault("429", 429),
    Fault("429, seconds", 429, {"Retry-After": "1"}),
    Fault("429, date", 429, {"Retry-After": http_date(-5), "Date": http_date(-6)}),
    *(
        Fault(f"429, {said}", 429, {"Retry-After": said})
        for said in ("-5", "soon", "nan", "", "Thu, 99 Foo 2026", "Fri, 31 Dec 9999 23:59:59 GMT x", "0.5")
    ),
]
FAILS = [Fault(str(status), status) for status in (500, 502, 503, 504)]
BROKEN = [Fault("cut", cut=True), PAGE, LYING, Fault("no JSON", 200, {"Content-Type": "application/json"}, b"[1, 2")]
REFUSED = [Fault("401", 401), Fault("403", 403)]
LOST = Fault("answer lost", lost=True)
DRIP = Fault("drip", drip=1.0)


class Proxy:
    """In front of the tracker at `behind`. `fault` is asked at every request, with its path.

    `asked` counts the requests by the fault that they met (`` for none), and `paths` by path.
    """

    def __init__(self, behind: str) -> None:
        self._behind = urlsplit(behind).netloc
        self.fault: Callable[[str], Fault | None] = lambda path: None
        self.asked: Counter[str] = Counter()
        self.paths: Counter[str] = Counter()
        self._port = 0
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self._open: set[socket.socket] = set()
        self._ending = threading.Event()
        self._bound()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @contextmanager
    def running(self) -> Iterator[Proxy]:
        self.up()
        try:
            yield self
        finally:
            self._ending.set()
            self.down()

    def _bound(self) -> None:
        """Take a port, for good: the same one again after `down`."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                proxy._open.add(self.connection)

            def finish(self) -> None:
                proxy._open.discard(self.connection)
                super().finish()

            def do_GET(self) -> None:
                proxy._answer(self)

            do_POST = do_PUT = do_DELETE = do_PATCH = do_GET  # noqa: N815

            def log_message(self, *words: object) -> None: ...

        class Http(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, request: object, client_address: object) -> None:
                """Who hangs up is part of the play."""

        self._server = Http(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_port

    def up(self) -> None:
        """Listen, where that had ended."""
        if self._server is None:
            self._bound()
        assert self._server is not None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def down(self) -> None:
        """Nothing listens any longer, and what is open is cut off."""
        if self._server is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._server = None
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    # ---------------------------------------------------------------- one request

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        fault = self.fault(request.path)
        self.asked[fault.name if fault else ""] += 1
        self.paths[request.path.partition("?")[0]] += 1
        if fault is not None and fault.hang:
            self._ending.wait(fault.hang)
            request.close_connection = True
            return
        if fault is not None and fault.status:
            self._send(request, fault.status, {"Content-Type": "text/html", **fault.headers}, fault.body, None)
            return
        try:
            status, headers, answer = self._forwarded(request, body)
        except OSError:
            status, headers, answer = 502, {}, b"<html>bad gateway</html>"
        if fault is not None and fault.lost:
            request.close_connection = True
            return
        self._send(request, status, headers, answer, fault)

    def _forwarded(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self._behind, timeout=60)
        try:
            kept = {
                k: v for k, v in request.headers.items() if k.lower() not in ("host", "connection", "accept-encoding")
            }
            connection.request(request.command, request.path, body or None, kept)
            answer = connection.getresponse()
            named = {k: v for k, v in answer.getheaders() if k.lower() in ("content-type", "date")}
            return answer.status, named, answer.read()
        finally:
            connection.close()

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        headers: Mapping[str, str],
        answer: bytes,
        fault: Fault | None,
    ) -> None:
        request.send_response_only(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(answer)))
        request.end_headers()
        if fault is not None and fault.cut:
            request.wfile.write(answer[: len(answer) // 2])
            request.close_connection = True
        elif fault is not None and fault.drip:
            request.close_connection = True
            for byte in answer:
                request.wfile.write(bytes([byte]))
                time.sleep(fault.drip)
        else:
            request.wfile.write(answer)
