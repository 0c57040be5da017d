"""Columns up to a row, the stream from there on: the same as the stream all the way."""

from __future__ import annotations

import json
import random

import pytest
from same_verdicts import Events, case
from test_batch import at_random

from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.nodes.table import Table
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Transition

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


@pytest.mark.parametrize("seed", range(60))
def test_a_stream_goes_on_after_columns_as_if_it_had_seen_the_rows(seed: int) -> None:
    loaded, rows = case(seed)
    forward = next((at for at, event in enumerate(rows) if isinstance(event, Rewind)), len(rows))
    chance = random.Random(seed)
    for cut in {forward, chance.randint(0, forward), chance.randint(0, forward)}:
        assert broken(loaded, rows, cut) == []


@pytest.mark.parametrize("seed", range(60))
def test_it_stands_in_the_middle_of_spans_rungs_recovery_and_phases(seed: int) -> None:
    chance = random.Random(seed)
    text, rows = at_random(chance)
    loaded = load("p", text="nonfinite off\n" + text)
    for cut in (1, chance.randint(1, 300), chance.randint(1, 300)):
        assert broken(loaded, rows, cut) == []
