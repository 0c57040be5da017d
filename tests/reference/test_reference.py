"""The reference evaluator agrees with every conformance case."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from .evaluator import evaluate
from .generator import random_case

CASES = sorted((pathlib.Path(__file__).parent.parent / "conformance" / "cases").glob("*.json"))


def attempts(transitions: list[dict[str, Any]]) -> list[list[tuple[Any, ...]]]:
    """What is compared, run by run of non-decreasing steps: a rewind makes steps repeat.

    Transitions whose reason is `superseded` are left out, and so is the onset where the level returns to green.
    """
    found: list[list[tuple[Any, ...]]] = [[]]
    last = None
    for t in transitions:
        if t.get("reason") == "superseded":
            continue
        if last is not None and t["step"] < last:
            found.append([])
        last = t["step"]
        found[-1].append((t["step"], t["rule"], t["from"], t["to"], t["onset"] if t["to"] != "green" else None))
    return [sorted(part, key=lambda t: t[:2]) for part in found]


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_agrees_with_the_conformance_case(path: pathlib.Path) -> None:
    case = json.loads(path.read_text())
    assert attempts(evaluate(case["policy"], case["rows"])) == attempts(case["expect"])


@pytest.mark.parametrize("seed", range(12))
def test_appending_points_never_changes_earlier_transitions(seed: int) -> None:
    case = random_case(seed)
    rows = [r for r in case["rows"] if "rewind" not in r]
    rows = sorted(rows, key=lambda r: r["step"])
    half = len(rows) // 2
    last = rows[half]["step"]
    rows = rows[:half] + [r for r in rows[half:] if r["step"] > last]
    whole = [t for t in evaluate(case["policy"], rows) if t["step"] < last]
    part = [t for t in evaluate(case["policy"], rows[:half]) if t["step"] < last]
    assert part == whole


def test_a_seed_gives_one_case() -> None:
    assert [random_case(seed) for seed in range(20)] == [random_case(seed) for seed in range(20)]
