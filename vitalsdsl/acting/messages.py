"""Decisions in the words of those who are told: an alert for people, a request for the training side."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Sequence

from vitalsdsl.acting.decision import request_id
from vitalsdsl.acting.ledger import Record
from vitalsdsl.acting.provisions import Provision
from vitalsdsl.acting.recovery import Over
from vitalsdsl.acting.tracker import Alert, Request
from vitalsdsl.actions.base import registry
from vitalsdsl.actions.reading import Asked
from vitalsdsl.ground.points import RunInfo, number
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition, spoken

_MOST_VALUES = 8
"""Values told in one message; a condition over a family looks at hundreds."""

_MOST_RULES = 10
"""Rules named in one message that all is well again."""

_TOGETHER = uuid.UUID("0b8f3c58-64d3-5a47-9d0c-0a3b3f0d8a55")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def alert(record: Record, deed: int, transition: Transition, provision: Provision, run: RunInfo) -> Alert:
    """What people read, by one deed of a record: that what they were told of is over, or else the rule, the level, the step and the run; the rule's message, the values it looked at and how
    far they were beyond the threshold; what is done about it; what its author says to try, who owns it, where to read
    on; the policy that says so."""
    t = transition
    if "over" in record["deeds"][deed]:
        return _all_clear(record, [Over.of(one) for one in record["deeds"][deed]["over"]], t, run)
    rule = t.rule if t.member is None else f"{t.rule} ({t.member})"
    lines = [t.message] if t.message else []
    statement = provision.statement
    if statement is not None and statement.title:
        lines.insert(0, statement.title)
    lines += _evidence(t, statement)
    since = f", since step {t.onset}" if t.onset is not None and t.onset != t.step else ""
    lines.append(f"step {t.step}{since}, {t.from_.word} -> {t.to.word}")
    lines.append(f"does: {record['text']}")
    if statement is not None:
        lines += [f"try: {text}" for text in statement.body.try_ or ()]
        lines += [f"owner: {statement.body.owner}"] if statement.body.owner else []
        lines += [f"runbook: {statement.body.runbook}"] if statement.body.runbook else []
    lines += _source(t, run)
    title = " ".join(f"{t.to.word}: {rule} at step {t.step} ({run.label})".split())
    return Alert(record["id"], _harmless(title), _harmless("\n".join(lines)), t.to, t)


def _all_clear(record: Record, over: Sequence[Over], t: Transition, run: RunInfo) -> Alert:
    """That it is over: what had been told of each rule, why it is over, and how the run stands now."""
    what = f"{over[0].subject} is" if len(over) == 1 else f"{len(over)} rules are"
    lines = [f"{one.subject} was {one.level.word} at step {one.step}" for one in over[:_MOST_RULES]]
    lines += [f"and {len(over) - _MOST_RULES} more"] if len(over) > _MOST_RULES else []
    lines += [t.message] if t.message else []
    level, firing = record["stands"]
    still = ", ".join(f"{rule} {shown}" for rule, shown in list(firing.items())[:_MOST_RULES])
    lines.append(f"the run is {level}" + (f": {still}" if still else ""))
    title = " ".join(f"{t.to.word}: {what} over at step {t.step} ({run.label})".split())
    return Alert(record["id"], _harmless(title), _harmless("\n".join([*lines, *_source(t, run)])), t.to, t)


def _source(t: Transition, run: RunInfo) -> list[str]:
    """The policy that says so, and where the run can be looked at."""
    name = " ".join(["policy", t.policy]).strip()
    return [f"{name}, {t.digest[: len('sha256:') + 8]}"] * bool(t.digest) + [run.url] * bool(run.url)


def _harmless(text: str) -> str:
    """Without control characters, which names that somebody logged may hold, and which a terminal would obey."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def _evidence(t: Transition, statement: rules.Rule | None) -> list[str]:
    """The values that the condition looked at, unless the rule's message lists them, and the margin in words."""
    found = []
    if t.values and f"({', '.join(f'{name} = {value:.4g}' for name, value in t.values.items())})" not in t.message:
        shown = [f"{' '.join(name.split())} = {_brief(value)}" for name, value in list(t.values.items())[:_MOST_VALUES]]
        more = len(t.values) - len(shown)
        found.append(", ".join(shown) + (f", and {more} more" if more else ""))
    if math.isfinite(t.margin):
        size = abs(t.margin)
        much = _brief(size) if _is_absolute(t, statement) else _percent(size)
        found.append(f"{much} {'beyond' if t.margin >= 0 else 'short of'} its threshold")
    return found


def _is_absolute(t: Transition, statement: rules.Rule | None) -> bool:
    """Whether a margin may be one beyond a threshold of 0, of which nothing is a percentage."""
    conditions = [clause.condition for clause in statement.body.clauses] if statement is not None else []
    numbers = (node for condition in conditions for node in condition.walk() if isinstance(node, ex.Number))
    return any(node.value == 0 for node in numbers) or 0.0 in t.values.values()


def _brief(value: float) -> str:
    """Three significant digits: `0.333`, `1.2e+04`."""
    return f"{value:.3g}" if math.isfinite(value) else str(spoken(value))


def _percent(share: float) -> str:
    """`33.3%`, and where a percentage says little: `63 times`, `4,360 times`."""
    if share < 10:
        return f"{_brief(100 * share)}%"
    return f"{share:,.0f} times" if share < 1e6 else f"{_brief(share)} times"


def together(alerts: Sequence[Alert], run: RunInfo) -> Alert:
    """What several rules say at one step of a run, as one message; its id is made of theirs."""
    if len(alerts) == 1:
        return alerts[0]
    worst = max(alerts, key=lambda alert: alert.level)
    t = worst.transition
    title = f"{t.to.word}: {len(alerts)} rules at step {t.step} ({_harmless(run.label)})"
    text = "\n\n".join(f"{alert.title}\n{alert.text}" for alert in alerts)
    id_ = str(uuid.uuid5(_TOGETHER, " ".join(sorted(alert.id for alert in alerts))))
    return Alert(id_, title, text, worst.level, t)


def request(record: Record, deed: int, transition: Transition, lifetime: float) -> Request:
    """What the training side reads. It expires: what is asked for now is wrong an hour later. When, is told by the run's
    own clock, where that is known, as it is the training side that looks at it."""
    t = transition
    asked = asked_of(record, deed)
    issued = record["issued"] if "issued" in record else record["at"]
    after = sum(bool(registry()[d["action"]].asks) for d in record["deeds"][deed + 1 :])
    evidence = {
        "values": {name: spoken(value) for name, value in t.values.items()},
        "margin": None if t.margin != t.margin else spoken(t.margin),
        "digest": t.digest,
    }
    return Request(
        id=request_id(record["id"], asked),
        run=t.run,
        segment=t.attempt,
        seq=record["requests"] - after,
        action=asked.action.asks,
        level=t.to,
        rule=t.rule,
        member=t.member,
        trip_step=t.step,
        onset=t.onset,
        issued_at=issued,
        expires_at=issued + lifetime,
        params=asked.action.requested(asked.arguments),
        reason=t.message,
        evidence=evidence,
        supersedes=record.get("supersedes") if asked.action.rank else None,
    )


def asked_of(record: Record, deed: int) -> Asked:
    """An action as a journal's line tells it."""
    written = record["deeds"][deed]
    return Asked(registry()[written["action"]], written["arguments"], written["text"])


def transition_of(record: Record) -> Transition:
    """The transition of a record: as it was, or as a journal's line tells it."""
    told = record["transition"]
    if isinstance(told, Transition):
        return told
    values = {name: _number(value) for name, value in told["values"].items()}
    return Transition(
        told["run"], told["attempt"], told["rule"], told["member"], told["step"], told["onset"],
        Level.parse(told["from"]), Level.parse(told["to"]), told["reason"], told["message"], values,
        _number(told["margin"]), told["policy"], told["digest"], _number(record.get("time")),
    )  # fmt: skip


def _number(value: object) -> float:
    found = number(value)
    return math.nan if found is None else found
