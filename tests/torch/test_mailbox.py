"""A control channel over a network, as the training loop sees it: never waited for, nothing lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from vitalsdsl_torch.mailbox import Mailbox

from vitalsdsl.acting.control import Asked, Control
from vitalsdsl.ground.errors import TrackerError


class Server(Control):
    """A channel in memory. While `is_down` it raises; while `hangs` is clear it does not come back."""

    def __init__(self) -> None:
        self.requests: dict[str, Mapping[str, Any]] = {}
        self.told: list[tuple[str, str]] = []
        self.answers: dict[str, Mapping[str, Any]] = {}
        self.is_down = False
        self.hangs = threading.Event()
        self.hangs.set()
        self.looked = threading.Semaphore(0)

    @property
    def is_known(self) -> bool:
        return bool(self.requests)

    def ask(self, request: Mapping[str, Any]) -> None:
        self.requests.setdefault(request["id"], request)

    def answer(self, request: str, answer: Mapping[str, Any]) -> None:
        self._reach()
        self.told.append((request, answer["state"]))
        self.answers[request] = answer

    def asked(self) -> Iterator[Asked]:
        self._reach()
        found = [Asked(request, self.answers.get(id_)) for id_, request in self.requests.items()]
        self.looked.release()
        return iter(found)

    def own(self) -> Iterator[Asked]:
        return iter(())

    def _reach(self) -> None:
        self.hangs.wait()
        if self.is_down:
            self.looked.release()
            raise TrackerError("nothing listens there")


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.is_down = False
    made.hangs.set()


def wait_for_looks(server: Server, count: int) -> None:
    for _ in range(count):
        assert server.looked.acquire(timeout=30)


def test_what_is_asked_is_heard_and_what_is_answered_is_told(server: Server) -> None:
    server.ask({"id": "a", "action": "pause"})
    mailbox = Mailbox(server, 0.1)
    assert [(one.request["id"], one.state) for one in mailbox.asked()] == [("a", "open")]
    for state in ("received", "executing", "done"):
        mailbox.answer("a", {"id": "a", "state": state})
        assert [one.state for one in mailbox.asked()] == [state]
    mailbox.close()
    assert server.answers["a"]["state"] == "done"


def test_the_loop_waits_for_no_server(server: Server) -> None:
    mailbox = Mailbox(server, 0.1)
    list(mailbox.asked())
    server.hangs.clear()
    wait_for_looks(server, 1)
    began = time.process_time()
    for step in range(1_000):
        list(mailbox.asked())
        mailbox.answer("a", {"id": "a", "state": str(step)})
    assert time.process_time() - began < 2.0
    assert server.told == []
    server.hangs.set()
    mailbox.close()
    assert server.answers["a"]["state"] == "999"


def test_a_server_that_is_down_is_said_once_and_nothing_is_lost(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    mailbox = Mailbox(server, 0.1)
    list(mailbox.asked())
    with caplog.at_level(logging.WARNING, "vitalsdsl"):
        server.is_down = True
        for number in range(3):
            mailbox.answer(f"r{number}", {"id": f"r{number}", "state": "done"})
        wait_for_looks(server, 4)
        server.ask({"id": "later", "action": "pause"})
        server.is_down = False
        mailbox.close()
    assert server.told == [("r0", "done"), ("r1", "done"), ("r2", "done")]
    assert [one.request["id"] for one in mailbox.asked()] == ["later"]
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "vitals: requests are not heard for now: nothing listens there", "vitals: requests are heard again",
    ]  # fmt: skip


def test_the_end_of_a_run_does_not_wait_for_ever(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitalsdsl_torch.mailbox._AT_END", 0.5)
    mailbox = Mailbox(server, 0.1)
    list(mailbox.asked())
    server.hangs.clear()
    mailbox.answer("a", {"id": "a", "state": "done"})
    mailbox.close()
    assert server.told == []
