"""Columns up to a row, the stream from there on: the same as the stream all the way."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from feeding import ScriptedRun, ScriptedTarget
from same_verdicts import Events, case
from test_batch import at_random

from vitalsdsl.columns import batch, run_columns
from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.errors import TrackerError
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.nodes.table import Table
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.streaming.quick import Quick
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Transition
from vitalsdsl.watching import beginning, watched, watcher
from vitalsdsl.watching.beginning import Together
from vitalsdsl.watching.watched import Reading, Watched
from vitalsdsl.watching.watcher import Assignment, Shows, Watcher

STANDING = ("clock", "closed", "seen", "bound", "counted", "metrics", "roots", "rules", "guards", "stalled")
"""What is to be saved alike; memories may be laid out otherwise, and answer alike."""


def new(loaded: LoadedPolicy) -> Stream:
    return Stream(loaded.policy, "run", loaded.digest, keep_all=True, quick=False)


def pushed(stream: Stream, rows: Events) -> list[Transition]:
    out: list[Transition] = []
    for event in rows:
        out += stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event)
    return out


def told(transitions: list[Transition]) -> list[str]:
    return [repr(one) for one in transitions]


def broken(loaded: LoadedPolicy, rows: Events, cut: int) -> list[str]:
    """What is not as it is when the stream goes through all rows; the first `cut` are a run that only goes forward."""
    table = Table.of(rows[:cut])
    if table is None:
        return []
    slow = new(loaded)
    wanted = pushed(slow, rows[:cut]) + slow.close()
    quick, found = Batch(loaded.policy, loaded.digest).caught_up(table, lambda: new(loaded))
    wrong = [] if told(found) == told(wanted) else [f"other transitions up to row {cut}"]
    here, there = quick.save(), slow.save()
    for name in STANDING:
        if json.dumps(here["state"][name], sort_keys=True) != json.dumps(there["state"][name], sort_keys=True):
            wrong.append(f"{name} at row {cut}: {here['state'][name]} and not {there['state'][name]}")
    restored = new(loaded)
    restored.load(json.loads(json.dumps(here)))
    rest = [event for event in rows[cut:] if isinstance(event, Row)]
    wanted = told(pushed(slow, rest) + slow.finish())
    wrong += [
        f"{name} after row {cut}: other transitions"
        for name, stream in (("going on", quick), ("restored", restored))
        if told(pushed(stream, rest) + stream.finish()) != wanted
    ]
    return wrong


@pytest.mark.parametrize("seed", range(30))
def test_a_stream_goes_on_after_columns_as_if_it_had_seen_the_rows(seed: int) -> None:
    loaded, rows = case(seed)
    forward = next((at for at, event in enumerate(rows) if isinstance(event, Rewind)), len(rows))
    chance = random.Random(seed)
    for cut in {forward, chance.randint(0, forward), chance.randint(0, forward)}:
        assert broken(loaded, rows, cut) == []


@pytest.mark.parametrize("seed", range(30))
def test_it_stands_in_the_middle_of_spans_rungs_recovery_and_phases(seed: int) -> None:
    chance = random.Random(seed)
    text, rows = at_random(chance)
    loaded = load("p", text="nonfinite off\n" + text)
    for cut in (1, chance.randint(1, 300), chance.randint(1, 300)):
        assert broken(loaded, rows, cut) == []


def test_a_long_run_of_which_little_may_be_kept_stands_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_columns, "MOST_NUMBERS", 0)
    for seed in range(8):
        loaded, rows = case(seed)
        forward = next((at for at, event in enumerate(rows) if isinstance(event, Rewind)), len(rows))
        assert broken(loaded, rows, forward) == []


def test_a_reference_of_what_columns_do_not_know_to_the_last_digit_stands_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = """nonfinite off
    rule a { when loss > 1.3 * usual(mean(loss, 20 steps), 60 samples) for 2 steps -> yellow }
    rule b { when std(loss, 9 steps) > usual(std(loss, 9 steps), 50 steps) + 3 * noise(std(loss, 9 steps), 50 steps) -> red }
    """
    loaded, dice, stood = load("p", text=text), random.Random(3), []
    rows: Events = [Row(s, {"loss": 1.0 + 0.1 * dice.gauss(0, 1) + (s % 150 > 140)}, 1e6 + s) for s in range(700)]
    put_after = batch.put_after
    monkeypatch.setattr(batch, "put_after", lambda *given: stood.append(put_after(*given)) or stood[-1])
    for cut in (100, 345, 449, 680):
        assert broken(loaded, rows, cut) == []
    assert stood and all(stood)


# -------------------------------------------------------------------- a watcher


def awkward(seed: int) -> Events:
    """A run of which most rows go forward: some steps come in several rows or have a name twice, some rows come late, some
    points are no numbers, and it goes back now and then, or some rows come late."""
    dice, rows, step = random.Random(seed), [], 0
    for _ in range(500):
        step += dice.choice((1, 1, 1, 1, 3))
        values = {"loss": dice.choice((1.0, 1.5, 4.0 if dice.random() < 0.5 else 1.2))}
        if dice.random() < 0.02:
            values["loss"] = math.nan
        at = 1000.0 + step if dice.random() < 0.9 else math.nan
        rows.append(Row(step, values, at))
        if dice.random() < 0.2:
            rows.append(Row(step, {"grad_norm": dice.random()}, at))
        if dice.random() < seed % 4 * 0.003:
            rows.append(Row(step, {"loss": 9.0}, at))
        if seed % 5 == 0 and dice.random() < 0.005 and step > 20:
            rows.append(Row(step - 9, {"grad_norm": 5.0, "loss": 7.0}, at))
        if dice.random() < seed % 5 * 0.002 and step > 40:
            step -= dice.randint(5, 40)
            rows.append(Rewind(step))
    return rows


RULES = """policy p
rule spike { when loss > 3 for 3 steps -> orange -> red after 6 samples clear for 4 samples because "loss is {loss:.1f}" }
rule high { when mean(loss, 20 steps) > 1.6 -> yellow clear when loss < 1.1 for 2 samples }
rule usual { when loss > 2 * usual(loss, 30 samples) and grad_norm > mean(grad_norm, 10 samples) -> yellow }
"""


def watched_run(home: Path, run: ScriptedRun, p: LoadedPolicy) -> list[Transition]:
    heard: list[Transition] = []

    class Heard(Shows):
        def saw(self, run: Watched, reading: Reading) -> None:
            heard.extend(reading.transitions)

    Watcher([Assignment(ScriptedTarget(run), p)], home, shows=Heard()).run(once=True)
    return heard


@pytest.mark.parametrize("seed", range(6))
def test_a_watcher_that_comes_late_and_comes_back_says_what_a_stream_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(watcher, "SETTLE", 0.0)
    monkeypatch.setattr(watched, "AT_ONCE", 15 if seed % 2 else 10**6)  # rows of a look for which code is written
    monkeypatch.setattr(beginning, "MOST", 300 if seed % 3 == 0 else 10**6)  # numbers, so that some runs are too long
    loaded, rows, dice = load("p", text=RULES), awkward(seed), random.Random(seed)
    run = ScriptedRun("run", rows, at_a_time=dice.randint(20, 90))
    found: list[Transition] = []
    while run.shown < len(rows):
        run.go_on(min(dice.choice((40, 200, 500)), len(rows) - run.shown))
        if dice.random() < 0.1:
            run.failures = [TrackerError("it does not answer")]
        found += watched_run(tmp_path, run, loaded)
    run.go_on(over=True)
    found += watched_run(tmp_path, run, loaded)
    slow = new(loaded)
    assert told(found) == told(pushed(slow, rows) + slow.finish())
    assert found


def test_what_is_judged_together_is_no_less_than_what_is_far_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: list[int] = []
    written: list[tuple[str, ...]] = []
    caught_up, expect = Together.caught_up, Quick.expect

    def counted(self: Together, policy: LoadedPolicy, table: Table, make: Any) -> Any:
        tables.append(len(table))
        return caught_up(self, policy, table, make)

    monkeypatch.setattr(watcher, "SETTLE", 0.0)
    monkeypatch.setattr(Together, "caught_up", counted)
    monkeypatch.setattr(Quick, "expect", lambda self, names: written.append(tuple(names)) or expect(self, names))
    rows: Events = [Row(step, {"loss": 1.0}, 1000.0 + step) for step in range(3000)]
    p, run = load("p", text=RULES), ScriptedRun("run", rows, at_a_time=400)
    run.go_on(2500)
    watched_run(tmp_path, run, p)
    assert tables == [2499]  # the newest step stays open
    assert not written
    run.go_on(480)
    watched_run(tmp_path, run, p)  # from its bookmark on: a look with 400 rows, and one with 80
    assert tables == [2499] and written == [("loss",)]
    run.go_on()
    watched_run(tmp_path, run, p)
    short = ScriptedRun("short", rows[:300], shown=300, at_a_time=400)
    watched_run(tmp_path, short, p)
    assert tables == [2499]
