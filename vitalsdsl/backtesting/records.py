"""The findings of a backtest as plain data, one record for each thing: what programs get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vitalsdsl.backtesting.backtest import Backtest
from vitalsdsl.backtesting.outcome import Change, RunOutcome
from vitalsdsl.backtesting.summary import RuleSummary
from vitalsdsl.rules import Level

Record = dict[str, Any]


def records(found: Backtest) -> Iterator[Record]:
    """All of it, each record with its `type`; what is general comes last, as it does for people."""
    for run in found.main.runs:
        yield run_record(run)
    for summary in found.main.rules:
        yield rule_record(summary)
    for one in found.unread:
        yield {"type": "unread", "source": one.source, "why": one.why, "named": one.is_named}
    yield summary_record(found)


def summary_record(found: Backtest) -> Record:
    main = found.main
    return {
        "type": "summary",
        "policy": main.policy.name,
        "digest": main.policy.digest,
        "runs": len(main.runs),
        "steps": main.steps,
        "unread": len(found.unread),
        "places": found.work.places,
        "taken": found.work.taken,
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


def worst_of(found: Backtest) -> Level:
    """The highest level on any run."""
    return max((run.worst for run in found.main.runs), default=Level.GREEN)
