"""Decisions in the words of those who are told: an alert for people, a request for the training side."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Sequence

from vitalsdsl.actions.base import registry
from vitalsdsl.actions.reading import Asked
from vitalsdsl.decision import request_id
from vitalsdsl.ledger import Record
from vitalsdsl.points import RunInfo, number
from vitalsdsl.provisions import Provision
from vitalsdsl.rules import Level
from vitalsdsl.tracker import Alert, Request
from vitalsdsl.verdict import Transition, spoken

_TOGETHER = uuid.UUID("0b8f3c58-64d3-5a47-9d0c-0a3b3f0d8a55")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def alert(record: Record, transition: Transition, provision: Provision, run: RunInfo) -> Alert:
    """What people read: the rule, the level, the step and the run; the rule's message; what is done about it; what its
    author says to try, who owns it, where to read on."""
    t = transition
    rule = t.rule if t.member is None else f"{t.rule} ({t.member})"
    lines = [t.message] if t.message else []
    statement = provision.statement
    if statement is not None and statement.title:
        lines.insert(0, statement.title)
    since = f", since step {t.onset}" if t.onset is not None and t.onset != t.step else ""
    lines.append(f"step {t.step}{since}, {t.from_.word} -> {t.to.word}")
    lines.append(f"does: {record['text']}")
    if statement is not None:
        lines += [f"try: {text}" for text in statement.body.try_ or ()]
        lines += [f"owner: {statement.body.owner}"] if statement.body.owner else []
        lines += [f"runbook: {statement.body.runbook}"] if statement.body.runbook else []
    lines += [run.url] if run.url else []
    title = " ".join(f"{t.to.word}: {rule} at step {t.step} ({t.run})".split())
    return Alert(record["id"], _harmless(title), _harmless("\n".join(lines)), t.to, t)


def _harmless(text: str) -> str:
    """Without control characters, which names that somebody logged may hold, and which a terminal would obey."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def together(alerts: Sequence[Alert]) -> Alert:
    """What several rules say at one step of a run, as one message; its id is made of theirs."""
    if len(alerts) == 1:
        return alerts[0]
    worst = max(alerts, key=lambda alert: alert.level)
    t = worst.transition
    title = f"{t.to.word}: {len(alerts)} rules at step {t.step} ({t.run})"
    text = "\n\n".join(f"{alert.title}\n{alert.text}" for alert in alerts)
    id_ = str(uuid.uuid5(_TOGETHER, " ".join(sorted(alert.id for alert in alerts))))
    return Alert(id_, title, text, worst.level, t)


def request(record: Record, deed: int, transition: Transition, lifetime: float) -> Request:
    """What the training side reads. It expires: what is asked for now is wrong an hour later."""
    t = transition
    asked = asked_of(record, deed)
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
        issued_at=record["at"],
        expires_at=record["at"] + lifetime,
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
        _number(told["margin"]), told["policy"], told["digest"], _number(record["time"]),
    )  # fmt: skip


def _number(value: object) -> float:
    found = number(value)
    return math.nan if found is None else found
