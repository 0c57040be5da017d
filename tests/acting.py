"""What tests of dispatch share: policies from text, transitions by hand, and streams of them at random."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from hypothesis import strategies as st

from vitalsdsl.acting.delivery import Retry
from vitalsdsl.acting.dispatch import Dispatcher
from vitalsdsl.acting.journal import Journal
from vitalsdsl.acting.memory import Memory
from vitalsdsl.acting.tracker import Alert, Port
from vitalsdsl.ground.points import RunInfo
from vitalsdsl.ground.source import Source
from vitalsdsl.language import rules
from vitalsdsl.language.parser import parse
from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition

G, Y, O, R = Level.GREEN, Level.YELLOW, Level.ORANGE, Level.RED  # noqa: E741
QUICK = Retry(attempts=3, first=0.001, most=0.002, total=1.0)
START = 1_800_000_000.0


def policy(text: str) -> rules.Policy:
    parsed = parse(Source("a.vitals", text))
    assert parsed.ok, parsed.diagnostics
    return parsed.policy


def three(more: str = "") -> str:
    """Rules a, b, c that can come to every level."""
    return more + "\n" + "\n".join(f"rule {name} {{ when loss > 3 -> yellow }}" for name in "abc")


def change(
    rule: str, step: int, to: Level, from_: Level = G, *, attempt: int = 0, member: str | None = None, **more: Any
) -> Transition:
    more.setdefault("reason", "condition")
    return Transition("run", attempt, rule, member, step, step, from_, to, **more)


def dispatcher(
    text: str, *ports: Port, journal: Journal | None = None, start_worker: bool = False, **options: Any
) -> Dispatcher:
    options.setdefault("clock", lambda: START)
    options.setdefault("retry", QUICK)
    return Dispatcher(
        policy(text), ports or (Memory(),), journal if journal is not None else Journal(), RunInfo("run"),
        start_worker=start_worker, **options,
    )  # fmt: skip


def alarms(port: Memory) -> list[Alert]:
    """The alerts of a port, without those that say that it is over."""
    return [alert for alert in port.alerts if alert.level]


def all_clears(transitions: Sequence[Transition]) -> set[str]:
    """The ids of those by which all who were told hear that it is over, where every rule tells the same: the last of the
    rules that they were told of is green."""
    told: set[tuple[str, str | None]] = set()
    standing: set[tuple[str, str | None]] = set()
    due = set()
    for _, step in groupby(transitions, key=lambda t: (t.attempt, t.step)):
        changes = list(step)
        for t in changes:
            (standing.add if t.to else standing.discard)((t.rule, t.member))
            if t.to > t.from_ and t.reason != "superseded":
                told.add((t.rule, t.member))
        greens = [t.id for t in changes if not t.to]
        if told and greens and not told & standing:
            due.add(greens[0])
            told.clear()
    return due


@st.composite
def streams(draw: st.DrawFn) -> list[list[Transition]]:
    """Batches as an evaluator gives them: steps in order, rewinds with what they supersede, one change a step."""
    levels: dict[tuple[str, str | None], Level] = {}
    step, attempt = 0, 0
    batches: list[list[Transition]] = []
    subjects = [("a", None), ("b", None), ("c", "0"), ("c", "1")]
    for _ in range(draw(st.integers(1, 25))):
        batch: list[Transition] = []
        if draw(st.integers(0, 9)) == 0:
            step, attempt = max(0, step - draw(st.integers(1, 30))), attempt + 1
            for subject, level in list(levels.items()):
                now = draw(st.sampled_from(Level))
                if now is not level:
                    batch.append(_of(subject, step, now, level, attempt, "superseded"))
                    levels[subject] = now
        else:
            step += draw(st.integers(1, 12))
            for subject in subjects:
                level, now = levels.get(subject, G), draw(st.sampled_from(Level))
                if now is not level and draw(st.booleans()):
                    batch.append(_of(subject, step, now, level, attempt, "condition"))
                    levels[subject] = now
        if batch:
            batches.append(batch)
    return batches


def _of(subject: tuple[str, str | None], step: int, to: Level, before: Level, attempt: int, why: str) -> Transition:
    rule, member = subject
    return change(rule, step, to, before, attempt=attempt, member=member, reason=why, time=math.nan)
