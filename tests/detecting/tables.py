"""Outcomes as tables and as plain data."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from tests.detecting.judging import Outcome
from vitalsdsl.language.rules import Level

LEVELS = (Level.YELLOW, Level.ORANGE, Level.RED)
PER = 100_000
BLOOM_PEAK = 31219


def rate(count: int, steps: int) -> float:
    """Alarms per 100,000 steps."""
    return round(PER * count / steps, 3) if steps else 0.0


def false_alarms(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Of healthy runs, by stride: each rule's alarms by level, and all together, each in all groups. Runs of which the
    policy knows nothing are no evidence, and left out."""
    rows = []
    for stride, of_stride in _by([o for o in outcomes if o.known], lambda o: o.case.stride):
        steps = sum(o.steps for o in of_stride)
        rows += _alarm_rows(of_stride, {"stride": stride, "group": "all"}, steps)
        for group, own in _by(of_stride, lambda o: o.case.group):
            rows += _alarm_rows(own, {"stride": stride, "group": group}, sum(o.steps for o in own), rules=False)
    return rows


def _alarm_rows(
    outcomes: Sequence[Outcome], head: dict[str, Any], steps: int, rules: bool = True
) -> list[dict[str, Any]]:
    rows = []
    counts: Counter[tuple[str, Level]] = Counter((a.rule, a.level) for o in outcomes for a in o.alarms)
    for level in LEVELS:
        found = sorted(((n, rule) for (rule, at), n in counts.items() if at is level), reverse=True)
        for n, rule in found if rules else []:
            runs = sum(any(a.rule == rule and a.level is level for a in o.alarms) for o in outcomes)
            rows.append({**head, "rule": rule, "level": level.word, "alarms": n, "per_100k": rate(n, steps),
                         "runs": runs, "steps": steps})  # fmt: skip
        n = sum(n for n, _ in found)
        runs = sum(any(a.level is level for a in o.alarms) for o in outcomes)
        if n or rules:
            rows.append({**head, "rule": "ALL", "level": level.word, "alarms": n, "per_100k": rate(n, steps),
                         "runs": runs, "steps": steps})  # fmt: skip
    return rows


def too_severe(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Of benign runs, by stride and kind: how many went above yellow, and by which rules; how many were seen at all."""
    rows = []
    for (stride, group), own in _by(outcomes, lambda o: (o.case.stride, o.case.group)):
        above = [o for o in own if o.highest > o.most]
        by = Counter(a.rule for o in above for a in o.alarms if a.level > o.most)
        seen = sum(o.first(Level.YELLOW) is not None for o in own)
        rows.append({"stride": stride, "group": group, "runs": len(own), "seen": seen, "too_severe": len(above),
                     "by": dict(by.most_common())})  # fmt: skip
    return rows


def latencies(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Of incidents, by curve and stride: found at the level wanted? how many steps after the onset, and by which rule."""
    rows = []
    for (group, stride), own in _by(outcomes, lambda o: (o.case.group, o.case.stride)):
        if all(o.blind for o in own):
            continue
        wanted = own[0].wanted or Level.YELLOW
        delays = [d for o in own if (d := o.delay(wanted)) is not None]
        yellow = [d for o in own if (d := o.delay(Level.YELLOW)) is not None]
        by = Counter(first.rule for o in own if (first := o.first(wanted)) is not None)
        before = sum(any(o.onset is not None and a.step < o.onset for a in o.alarms) for o in own)
        rows.append({
            "curve": group, "stride": stride, "wanted": own[0].wanted.word, "runs": len(own), "found": len(delays),
            "delay": statistics.median(delays) if delays else None, "longest": max(delays, default=None),
            "seen": len(yellow), "first_seen": statistics.median(yellow) if yellow else None,
            "too_severe": sum(o.highest > o.most for o in own), "alarm_before_onset": before,
            "by": dict(by.most_common(3)),
        })  # fmt: skip
    return rows


def of_bloom(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The first alarm of each level on BLOOM-176B's spike, in steps from the peak of the loss."""
    rows = []
    for stride, own in _by(outcomes, lambda o: o.case.stride):
        for level in LEVELS:
            first = [f for o in own if (f := next((a for a in o.about if a.level is level), None)) is not None]
            steps = [f.step - BLOOM_PEAK for f in first]
            rows.append({
                "stride": stride, "level": level.word, "runs": len(own), "found": len(steps),
                "from_peak": statistics.median(steps) if steps else None,
                "earliest": min(steps, default=None), "latest": max(steps, default=None),
                "by": dict(Counter(f.rule for f in first).most_common()),
            })  # fmt: skip
    return rows


def of_short_logs(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Of short logs, by shape: how many reach the level wanted, and how many say anything at all; how many go above what
    is right, which of healthy ones is any orange. Then all ill ones and all healthy ones together."""
    groups = [(group, [o for o in own if not o.blind]) for group, own in _by(outcomes, lambda o: o.case.group)]
    for ill in (True, False):
        groups.append((f"ALL {'ill' if ill else 'healthy'}", [o for o in outcomes if bool(o.wanted) is ill]))
    rows = []
    for group, own in groups:
        if own:
            right = [o for o in own if o.wanted and o.first(o.wanted) is not None]
            seen = [o for o in own if o.wanted and o.first(Level.YELLOW) is not None]
            severe = [o for o in own if o.highest > o.most]
            alarms = [a for o in own for a in ((o.first(o.wanted),) if o.wanted else o.alarms) if a is not None]
            rows.append({
                "shape": group, "wanted": own[0].wanted.word if len({o.wanted for o in own}) == 1 else "mixed",
                "runs": len(own), "reached": len(right), "seen": len(seen), "too_severe": len(severe),
                "red": sum(o.highest is Level.RED for o in own), "yellow_or_higher": sum(bool(o.alarms) for o in own),
                "by": dict(Counter(f"{a.rule}{'!' if a.level > Level.YELLOW else ''}" for a in alarms).most_common(4)),
            })  # fmt: skip
    return rows


TABLES = {
    "healthy": false_alarms, "benign": too_severe, "latency": latencies, "bloom": of_bloom, "short": of_short_logs,
}  # fmt: skip


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as columns of text, each line whole, so that `grep` finds what it is asked for."""
    if not rows:
        return "(nothing)"
    names = list(rows[0])
    cells = [names] + [[_cell(row[name]) for name in names] for row in rows]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "-"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _by(outcomes: Iterable[Outcome], key: Any) -> list[tuple[Any, list[Outcome]]]:
    groups: dict[Any, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[key(outcome)].append(outcome)
    return list(groups.items())
