"""The findings of a backtest as plain data, one record for each thing: what programs get."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from vitalsdsl.backtesting.backtest import Backtest, CurvePoint
from vitalsdsl.backtesting.comparing import Difference, RuleShift, Shift
from vitalsdsl.backtesting.outcome import Change, RunOutcome
from vitalsdsl.backtesting.score import Incident, LevelScore, Score, Share
from vitalsdsl.backtesting.summary import RuleSummary

Record = dict[str, Any]


def records(found: Backtest) -> Iterator[Record]:
    """All of it, each record with its `type`; what is general comes last, as it does for people."""
    for run in found.runs:
        yield run_record(run)
    for rule in found.rules:
        yield rule_record(rule)
    if found.score is not None:
        yield from _score_records(found.score)
    if found.other is not None:
        yield from (_difference_record(one) for one in found.differences())
        yield from (_shift_record(one) for one in found.shifts)
        if found.other_score is not None:
            yield from (_level_record("versus_score", one) for one in found.other_score.levels)
    yield from (_curve_record(point) for point in found.curve)
    for one in found.unread:
        yield {"type": "unread", "source": one.source, "why": one.why, "named": one.is_named}
    yield _summary_record(found)


def _summary_record(found: Backtest) -> Record:
    main, score = found.main, found.score
    return {
        "type": "summary",
        "policy": main.policy.name,
        "digest": main.policy.digest,
        "versus": None if found.other is None else found.other.policy.digest,
        "swept": None if found.sweep is None else found.sweep.name,
        "runs": len(main.runs),
        "labelled": None if score is None else score.runs,
        "tolerance": None if score is None else score.tolerance,
        "steps": main.steps,
        "unread": len(found.unread),
        "places": found.work.places,
        "taken": found.work.taken,
    }


def _score_records(score: Score) -> Iterator[Record]:
    yield from (_level_record("score", one) for one in score.levels)
    yield from (_incident_record(one) for one in score.incidents)
    for one in score.disturbances:
        yield {
            "type": "disturbance",
            "run": one.run,
            "healthy": one.is_healthy,
            "alarms": one.count,
            "worst": one.worst.word,
            "first": change_record(one.first),
            "rules": list(one.rules),
        }
    for rule in score.rules:
        yield {
            "type": "rule_score",
            "rule": rule.rule,
            "level": score.level.word,
            "right": rule.right,
            "false": rule.wrong,
            "found": rule.found,
            "alone": rule.alone,
        }


def _level_record(kind: str, one: LevelScore) -> Record:
    low, median, high = one.quartiles or (None, None, None)
    return {
        "type": kind,
        "level": one.level.word,
        "incidents": one.incidents,
        "found": one.found,
        "recall": _share(one.recall),
        "right": one.right,
        "false": one.wrong,
        "precision": _share(one.precision),
        "delay": {"quarter": low, "median": median, "three_quarters": high},
        "delays": one.delays,
        "healthy_steps": one.healthy_steps,
        "false_per_1000_steps": _finite(one.false_per_1000),
        "false_per_1000_steps_interval": [1000 * end for end in one.false_steps.interval]
        if one.healthy_steps
        else None,
        "healthy_runs": one.healthy_runs,
        "disturbed_runs": one.disturbed_runs,
    }


def _share(share: Share) -> Record | None:
    """None where there is no whole."""
    return {"value": share.value, "interval": list(share.interval)} if share.of else None


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _incident_record(one: Incident) -> Record:
    label = one.label
    return {
        "type": "incident",
        "run": one.run,
        "kind": label.kind,
        "onset": _finite(label.onset),
        "end": _finite(label.end),
        "level": label.level.word,
        "is_found": one.is_found,
        "reached": one.reached.word,
        "delay": one.delay(label.level),
        "found": {level.word: change_record(change) for level, change in one.found.items()},
        "rules": list(one.rules),
    }


def _difference_record(one: Difference) -> Record:
    return {
        "type": "difference",
        "run": one.run,
        "rule": one.subject,
        "level": one.level.word,
        "shift": one.shift.value,
        "step": one.before,
        "versus_step": one.after,
        "times": one.times_before,
        "versus_times": one.times_after,
    }


def _shift_record(one: RuleShift) -> Record:
    counts = {shift.value: getattr(one, shift.value) for shift in Shift}
    return {"type": "shift", "rule": one.subject, "level": one.level.word, **counts}


def _curve_record(point: CurvePoint) -> Record:
    scores = [] if point.score is None else [_level_record("score", one) for one in point.score.levels]
    for one in scores:
        del one["type"]
    return {
        "type": "value",
        "setting": point.setting,
        "alarms": {level.word: times for level, times in point.times.items()},
        "runs": {level.word: runs for level, runs in point.runs.items()},
        "steps": point.steps,
        "scores": scores,
    }


def run_record(run: RunOutcome) -> Record:
    """A run: what it came to, and each change."""
    steps, changes = run.steps, run.changes
    return {
        "type": "run",
        "run": run.run,
        "name": run.name,
        "title": run.title,
        "url": run.url,
        "steps": len(steps),
        "first_step": steps.first,
        "last_step": steps.last,
        "worst": run.worst.word,
        "end": run.level.word,
        "blind": list(run.blind),
        "notes": list(run.notes),
        "changes": [change_record(change) for change in changes],
    }


def change_record(change: Change) -> Record:
    return {
        "rule": change.rule,
        "member": change.member,
        "attempt": change.attempt,
        "step": change.step,
        "onset": change.onset,
        "from": change.from_.word,
        "to": change.to.word,
        "reason": change.reason,
    }


def rule_record(rule: RuleSummary) -> Record:
    return {
        "type": "rule",
        "rule": rule.rule,
        **{level.word: times for level, times in rule.times.items()},
        "runs": rule.runs,
        "blind": rule.blind,
        "first_step": rule.first,
        "typical_step": rule.typical,
        "per_1000_steps": rule.per_1000,
        "per_100000_steps": 100 * rule.per_1000,
    }
