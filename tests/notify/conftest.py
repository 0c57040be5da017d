"""Receivers on the loopback: one for HTTP, one for mail. Without apprise the tests are skipped; in CI they fail."""

from __future__ import annotations

import importlib
import importlib.util
import json
import logging
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

if importlib.util.find_spec("apprise") is None and not os.environ.get("CI"):
    collect_ignore_glob = ["test_*.py"]


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass
class Receiver:
    """Keeps what it is sent, and answers with `statuses` in turn, then with 200 `ok`."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    retry_after: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kept.received.append(Received(self.path, dict(self.headers), body))
            status = kept.statuses.pop(0) if kept.statuses else 200
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{kept.url}/elsewhere")
            if kept.retry_after:
                self.send_header("Retry-After", kept.retry_after)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield kept
    server.shutdown()
    server.server_close()


@dataclass
class Post:
    port: int = 0
    mails: list[Message] = field(default_factory=list)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(message_from_bytes(envelope.content))
        return "250 OK"


@pytest.fixture
def post() -> Iterator[Post]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        kept = Post(free.getsockname()[1])
    smtp = importlib.import_module("aiosmtpd.smtp")

    def known(server: Any, session: Any, envelope: Any, mechanism: str, given: Any) -> Any:
        return smtp.AuthResult(success=given.password == b"passw0rd")

    controller = importlib.import_module("aiosmtpd.controller").Controller(
        kept, hostname="127.0.0.1", port=kept.port, authenticator=known, auth_require_tls=False, auth_required=True
    )
    controller.start()
    yield kept
    controller.stop()


@pytest.fixture
def all_logs(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Everything that anybody logs, down to the last detail."""
    caplog.set_level(1)
    for name in ("apprise", "urllib3", "urllib3.connectionpool"):
        caplog.set_level(1, logger=name)
    yield caplog
    logging.getLogger("apprise").setLevel(logging.NOTSET)
