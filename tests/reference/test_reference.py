"""The reference evaluator agrees with every conformance case."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from reference.evaluator import evaluate  # noqa: E402

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
