"""The conformance cases: what the language means, as data."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from cases import CASES, PINNED, feed, load, outcome, policy_of, run, without_superseded
from reference.evaluator import evaluate
from reference.generator import random_case

from vitalsdsl.streaming.stream import Stream


def by_segment(rows: list[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
    """A rewind makes steps repeat: cut where they fall, and within a stretch the order of rules is not compared."""
    out: list[list[tuple[Any, ...]]] = [[]]
    for row in rows:
        if out[-1] and row[0] < out[-1][-1][0]:
            out.append([])
        out[-1].append(row)
    return [sorted(stretch, key=str) for stretch in out]


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_a_conformance_case_gives_its_transitions(path: Path) -> None:
    case = load(path)
    got = [
        (s, r, a, b, o)
        for s, r, _, a, b, o in outcome(without_superseded(run(policy_of(case["policy"]), case["rows"])))
    ]
    want = [
        (t["step"], t["rule"], t["from"], t["to"], t["onset"] if t["to"] != "green" else None) for t in case["expect"]
    ]
    assert by_segment(got) == by_segment(want), case["why"]


@pytest.mark.parametrize("path", PINNED, ids=lambda p: p.stem)
def test_a_case_of_our_own_gives_its_transitions(path: Path) -> None:
    case = load(path)
    want = [(t["step"], t["rule"], t.get("member"), t["from"], t["to"], t["onset"]) for t in case["expect"]]
    assert outcome(without_superseded(run(policy_of(case["policy"]), case["rows"]))) == want, case["why"]


@pytest.mark.parametrize("path", PINNED, ids=lambda p: p.stem)
def test_state_saved_at_any_step_of_a_case_of_our_own_changes_nothing(path: Path) -> None:
    case = load(path)
    policy, rows = policy_of(case["policy"]), case["rows"]
    whole = outcome(run(policy, rows))
    for cut in range(len(rows) + 1):
        first, second = Stream(policy), Stream(policy)
        out = [t for row in rows[:cut] for t in feed(first, row)]
        second.load(json.loads(json.dumps(first.save())))
        out += [t for row in rows[cut:] for t in feed(second, row)] + second.finish()
        assert outcome(out) == whole, f"cut before row {cut}"


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_state_saved_as_text_and_restored_changes_nothing(path: Path) -> None:
    case = load(path)
    policy, rows = policy_of(case["policy"]), case["rows"]
    if any("rewind" in row for row in rows):
        rows = [row for row in rows if "rewind" not in row]
        rows.sort(key=lambda row: row["step"])
    cut = random.Random(path.stem).randrange(len(rows) + 1)
    first = Stream(policy)
    out = [t for row in rows[:cut] for t in feed(first, row)]
    second = Stream(policy)
    second.load(json.loads(json.dumps(first.save())))
    out += [t for row in rows[cut:] for t in feed(second, row)] + second.finish()
    assert outcome(out) == outcome(run(policy, rows))


@pytest.mark.parametrize("seed", range(5_000, 5_120))
def test_the_stream_agrees_with_an_evaluator_written_from_the_page_alone(seed: int) -> None:
    case = random_case(seed)
    near: list[int] = []
    want = [
        (t["step"], t["rule"], t["member"], t["from"], t["to"], t["onset"] if t["to"] != "green" else None)
        for t in evaluate(case["policy"], case["rows"], near)
        if t["reason"] != "superseded"
    ]
    got = outcome(without_superseded(run(policy_of(case["policy"]), case["rows"])))
    if got != want:
        first = min(t[0] for t in {*map(tuple, got)} ^ {*map(tuple, want)})
        assert near and min(near) <= first, (
            f"{case['policy']}\nmissing {[t for t in want if t not in got][:3]}\nextra {[t for t in got if t not in want][:3]}"
        )
