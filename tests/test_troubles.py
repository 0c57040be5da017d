"""What people hear of trouble, and how long is waited: an outage is one line, and one more when it is over."""

from __future__ import annotations

import random

import pytest

from vitalsdsl.ground.errors import TrackerError
from vitalsdsl.watching import troubles
from vitalsdsl.watching.troubles import CALM, FIRST_PAUSE, MOST_PATIENT, STUBBORN, Troubles

DOWN, PAGE, OTHER = TrackerError("nothing listens"), TrackerError("a web page"), TrackerError("no history of `x`")


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("vitalsdsl.watching.troubles.time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(troubles, "_dice", random.Random(1))
    return Clock(monkeypatch)


def test_an_hour_down_is_two_lines_and_some_dozens_of_tries(clock: Clock) -> None:
    """By a clock of the test's own: fifty runs and a search of one target, each trying again when it was told to."""
    lines: list[str] = []
    all_ = Troubles(lines.append)
    began, tries = clock.now, 0
    due = dict.fromkeys(range(51), clock.now)
    while min(due.values()) < began + 3600.0:
        who = min(due, key=lambda who: due[who])
        clock.now = due[who]
        tries += 1
        pause = all_.failed("tracker", who, (DOWN, PAGE)[tries % 2])
        assert 0 < pause <= MOST_PATIENT
        due[who] += pause
        all_.say_what_is_over()
    assert lines == ["nothing listens; trying again"] or lines == ["a web page; trying again"]
    assert 51 * 12 < tries < 51 * 40
    assert max(due.values()) <= began + 3600.0 + MOST_PATIENT  # none has given up
    for who in due:
        assert all_.recovered("tracker", who)
    all_.say_what_is_over()
    assert len(lines) == 1
    clock.now += CALM
    all_.say_what_is_over()
    assert lines[1:] == [f"all is well again after: {lines[0].removesuffix('; trying again')}"]
    assert all_.standing == []


def test_a_tracker_that_fails_at_every_third_question_for_an_hour_is_two_lines(clock: Clock) -> None:
    lines: list[str] = []
    all_, dice = Troubles(lines.append), random.Random(3)
    kinds = [TrackerError(f"HTTP {status}") for status in (429, 500, 502, 503)]
    for _ in range(720):
        for who in range(8):
            if dice.random() < 1 / 3:
                all_.failed("tracker", who, dice.choice(kinds))
            else:
                all_.recovered("tracker", who)
        clock.now += 5.0
        all_.say_what_is_over()
    for who in range(8):
        all_.recovered("tracker", who)
    clock.now += CALM
    all_.say_what_is_over()
    assert len([line for line in lines if line.startswith("all is well")]) == 1
    assert len(lines) <= 3


def test_what_only_one_run_meets_is_said_though_another_trouble_stands(clock: Clock) -> None:
    lines: list[str] = []
    all_ = Troubles(lines.append)
    all_.failed("tracker", "a", DOWN)
    all_.recovered("tracker", "a")
    for _ in range(STUBBORN + 1):
        all_.failed("tracker", "a", OTHER)
        all_.recovered("tracker", "b")
    assert lines == ["nothing listens; trying again", "no history of `x`; trying again"]
    assert all_.standing == ["nothing listens"]


def test_places_are_told_apart_and_what_is_forgotten_stands_no_more(clock: Clock) -> None:
    lines: list[str] = []
    all_ = Troubles(lines.append)
    all_.failed("tracker", "a", DOWN)
    all_.failed("store", "a", TrackerError("the store is locked"))
    assert all_.standing == ["nothing listens", "the store is locked"]
    assert all_.forget("tracker", "a") and not all_.forget("tracker", "a")
    assert all_.standing == ["the store is locked"]
    all_.say_what_is_over(calm=0.0)
    assert lines[2:] == ["all is well again after: nothing listens"]
    all_.failed("tracker", "a", DOWN)
    assert lines[3:] == ["nothing listens; trying again"]


def test_pauses_grow_and_a_longer_one_that_is_asked_for_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troubles._dice, "uniform", lambda low, high: high)
    all_ = Troubles(lambda line: None)
    pauses = [all_.failed("tracker", "a", DOWN) for _ in range(12)]
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE] and pauses[-1] == MOST_PATIENT
    assert all_.failed("tracker", "b", TrackerError("later", retry_after=77.0)) == 77.0
    assert all_.failed("tracker", "b", TrackerError("later", retry_after=0.0)) == 2 * FIRST_PAUSE
    all_.recovered("tracker", "a")
    assert all_.failed("tracker", "a", DOWN) == FIRST_PAUSE
