"""Running a case (a policy and rows) through the stream, and its outcome as plain tuples."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from vitalsdsl.ground.points import number
from vitalsdsl.ground.source import Source
from vitalsdsl.language.parser import parse
from vitalsdsl.language.rules import Policy
from vitalsdsl.language.scope import name_rules
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Transition

CASES = sorted((Path(__file__).parent / "conformance" / "cases").glob("*.json"))
PINNED = sorted((Path(__file__).parent / "pinned").glob("*.json"))
"""Cases of our own, in the same form, worked out by hand."""


def policy_of(text: str) -> Policy:
    parsed = parse(Source("case.vitals", text))
    assert parsed.ok, [d.render() for d in parsed.diagnostics]
    return name_rules(parsed.policy)


def feed(stream: Stream, row: dict[str, Any]) -> list[Transition]:
    """One canonical JSON row."""
    if "rewind" in row:
        return stream.rewind(row["rewind"])
    time = number(row.get("_time"))
    values = {k: x for k, v in row.items() if k not in ("step", "_time") and (x := number(v)) is not None}
    return stream.push(values, row["step"], math.nan if time is None else time)


def run(policy: Policy, rows: list[dict[str, Any]]) -> list[Transition]:
    stream = Stream(policy, keep_all=True)
    return [t for row in rows for t in feed(stream, row)] + stream.finish()


def outcome(transitions: list[Transition]) -> list[tuple[Any, ...]]:
    """What two evaluators have to agree on."""
    return [(t.step, t.rule, t.member, t.from_.word, t.to.word, t.onset if t.to else None) for t in transitions]


def without_superseded(transitions: list[Transition]) -> list[Transition]:
    return [t for t in transitions if t.reason != "superseded"]


def load(path: Path) -> dict[str, Any]:
    case: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return case
