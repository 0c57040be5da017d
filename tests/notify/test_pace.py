"""How many messages a channel gets, and how what is held back is told."""

from __future__ import annotations

import threading
import time

import pytest
from sending import alert
from vitalsdsl_notify.pace import Paced
from vitalsdsl_notify.sender import Sender

from vitalsdsl.acting.tracker import Alert
from vitalsdsl.ground.errors import TrackerError
from vitalsdsl.language.rules import Level


class Sent(Sender):
    def __init__(self) -> None:
        self.alerts: list[Alert] = []
        self.failures = 0

    def send(self, alert: Alert) -> None:
        if self.failures:
            self.failures -= 1
            raise TrackerError("channel `team` does not answer")
        self.alerts.append(alert)


class Clock:
    def __init__(self) -> None:
        self.now = time.mktime((2026, 11, 30, 14, 2, 0, 0, 0, -1))

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def paced(request: pytest.FixtureRequest):
    """Two messages an hour, on a clock of the test's own; no timer fires by itself."""
    sent, clock = Sent(), Clock()
    one = Paced("team", sent, 2, 3600.0, clock)
    yield one, sent, clock
    if one._timer is not None:
        one._timer.cancel()


def test_what_is_too_many_is_held_back_and_told_with_the_next_message(paced) -> None:
    one, sent, clock = paced
    said = [one.tell(alert(number)) for number in range(1, 6)]
    assert said == [None, None] + ["held back: 2 messages in 3600 s have gone to `team`"] * 3
    clock.now += 3600
    assert one.tell(alert(6)) is None
    assert [a.id for a in sent.alerts] == ["id-1", "id-2", "id-6"]
    assert sent.alerts[-1].text == "loss is 4\n3 more since 14:02, see run-a"
    assert one.tell(alert(7)) is None and sent.alerts[-1].text == "loss is 4"


def test_red_passes_always_and_takes_what_was_held_back_along(paced) -> None:
    one, sent, _ = paced
    for number in (1, 2, 3):
        one.tell(alert(number))
    assert one.tell(alert(4, Level.RED)) is None
    assert one.tell(alert(5, Level.RED)) is None
    assert [a.id for a in sent.alerts] == ["id-1", "id-2", "id-4", "id-5"]
    assert sent.alerts[2].text.endswith("\n1 more since 14:02, see run-a") and sent.alerts[3].text == "loss is 4"
    assert one.tell(alert(6)) is not None


def test_when_there_is_room_again_it_is_told_as_one_the_worst_first(paced) -> None:
    one, sent, clock = paced
    one.tell(alert(1))
    clock.now += 60
    one.tell(alert(2))
    for number in range(3, 20):
        one.tell(alert(number, Level.ORANGE if number == 15 else Level.YELLOW))
    one.open()
    assert len(sent.alerts) == 2  # too early
    clock.now += 3541
    one.open()
    (digest,) = sent.alerts[2:]
    assert digest.title == "orange: 17 messages held back" and digest.level is Level.ORANGE
    lines = digest.text.splitlines()
    assert lines[0] == "17 more since 14:03, see run-a" and lines[1] == "orange: spike at step 15 (run-a)"
    assert len(lines) == 12 and lines[-1] == "and 7 more"
    assert one.tell(alert(20)) is not None  # the digest is a message too: two within the hour
    one.open()
    assert len(sent.alerts) == 3


def test_the_digest_comes_by_itself() -> None:
    sent = Sent()
    one = Paced("team", sent, 1, 0.2)
    one.tell(alert(1))
    one.tell(alert(2))
    end = time.monotonic() + 20
    while len(sent.alerts) < 2:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert sent.alerts[1].title == "orange: 1 message held back"


def test_at_the_end_what_is_held_back_is_told_at_once(paced) -> None:
    one, sent, _ = paced
    for number in range(1, 5):
        one.tell(alert(number))
    one.close()
    one.close()
    assert [a.title for a in sent.alerts[2:]] == ["orange: 2 messages held back"]


def test_a_failure_spends_no_message_and_loses_nothing_of_what_is_held(paced, caplog: pytest.LogCaptureFixture) -> None:
    one, sent, clock = paced
    sent.failures = 3
    for _ in range(3):
        with pytest.raises(TrackerError):
            one.tell(alert(1))
    assert [one.tell(alert(n)) is None for n in (1, 2, 3)] == [True, True, False]
    clock.now += 3600
    sent.failures = 3
    with pytest.raises(TrackerError):
        one.tell(alert(4))
    one.open()
    one._timer = None
    one.open()
    assert [r.getMessage() for r in caplog.records] == [
        "vitals: 1 messages that were held back are not told: channel `team` does not answer"
    ]
    one._timer = None
    one.open()
    assert sent.alerts[-1].title == "orange: 1 message held back"


def test_a_clock_that_is_set_back_holds_nothing_back_for_long(paced) -> None:
    one, sent, clock = paced
    one.tell(alert(1)), one.tell(alert(2))
    clock.now -= 86400
    assert one.tell(alert(3)) is None


def test_many_threads_share_one_pace() -> None:
    sent = Sent()
    one = Paced("team", sent, 5, 3600.0)
    threads = [threading.Thread(target=one.tell, args=(alert(number),)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sent.alerts) == 5
    one.close()
    assert sent.alerts[-1].text.startswith("35 more since")
