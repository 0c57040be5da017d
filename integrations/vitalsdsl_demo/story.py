"""What happened to a guarded run, in the order in which it did: what the rules saw, and what the guard did about it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Event = tuple[int, int, int, str]
"""Attempt, step, place within the step, and what to say."""

_HAPPENED, _SEEN, _DONE = range(3)


def event(attempt: int, step: int, said: str) -> Event:
    """Something that neither rules nor guard know."""
    return attempt, step, _HAPPENED, f"  step {step:>4}          {said}"


def told(transitions: Sequence[Mapping[str, Any]], history: Path, besides: Sequence[Event] = ()) -> list[str]:
    """The lines of the story, from a run's transitions and the `history.jsonl` of its guard."""
    events = [*besides, *_seen(transitions), *_done(history)]
    return [said for *_, said in sorted(events, key=lambda one: one[:3])]


def _seen(transitions: Sequence[Mapping[str, Any]]) -> Iterator[Event]:
    for t in transitions:
        said = f"  step {t['step']:>4}  {t['to']:<6}  {t['rule']}: {t['message']}"
        yield t["attempt"], t["step"], _SEEN, said


def _done(history: Path) -> Iterator[Event]:
    records = [json.loads(line) for line in history.read_text("utf-8").splitlines()]
    turns = {record["request"]: record for record in records if record["type"] == "turn"}
    for record in records:
        if record["type"] != "answer" or record["state"] != "done":
            continue
        turn, result = turns.get(record["id"]), record["result"]
        at = (record["attempt"], record["at_step"])
        if turn is not None:
            yield from _deed(
                (turn["attempt"] - 1, turn["trip_step"]),
                f"went back to step {turn['step']}, its newest healthy checkpoint,",
                f"and on at batch {turn['position']}, at {turn['factor']:.0%} of the learning rate",
            )
        elif result.get("paused"):
            yield from _deed(at, f"saved {result['checkpoint']} and ended the process, with exit code 75")
        elif "checkpoint" in result:
            yield from _deed(at, f"saved {result['checkpoint']}, for a look at it later")


def _deed(at: tuple[int, int], *lines: str) -> Iterator[Event]:
    for n, line in enumerate(lines):
        yield *at, _DONE, f"{'':21}{'the guard' if n == 0 else '':<9} {line}"
