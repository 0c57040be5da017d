"""What has been decided about one run so far: what keeps an alarm from being answered twice.

It changes only by records (plain data), so that reading them back from a journal gives the same ledger. Nothing in it
is ever rewound: a run that goes back does not get its budgets back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from vitalsdsl.ground.types import STEPS, TIME, Extent
from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Past

Record = dict[str, Any]


@dataclass(frozen=True)
class Instant:
    """Where a run stood when something was done. `lived` counts the steps gone through, those lost in rewinds too."""

    lived: int
    time: float = math.nan
    counters: Mapping[str, float] = field(default_factory=dict)

    def since(self, earlier: Instant, unit: str) -> float:
        """How much of a unit has gone by; NaN where that cannot be told.

        >>> Instant(700).since(Instant(500), "steps")
        200
        """
        if unit == STEPS:
            return self.lived - earlier.lived
        if unit == TIME:
            return self.time - earlier.time
        name = "epoch" if unit == "epochs" else unit
        return self.counters.get(name, math.nan) - earlier.counters.get(name, math.nan)

    def left(self, earlier: Instant, extent: Extent) -> float:
        """How much of an extent that began earlier is still to come; 0 where it is over, NaN where that is unknown."""
        passed = self.since(earlier, extent.unit)
        return max(0.0, extent.size - passed) if passed == passed else math.nan


@dataclass(frozen=True)
class Standing:
    """A rule (one member of it) that is not green; `shown` where it shows in the run's tags."""

    level: Level
    step: int
    shown: bool


@dataclass(frozen=True)
class Silence:
    """Rules that a person wants to hear nothing of: a name or a pattern (`act_*`), until a unix time."""

    rule: str
    until: float
    reason: str
    by: str = ""

    def covers(self, rule: str, now: float) -> bool:
        return now < self.until and fnmatchcase(rule, self.rule)


@dataclass(frozen=True)
class Acknowledged:
    """A person knows that a rule fires at this level: it is told no more until it is green, or gets worse."""

    level: Level
    reason: str
    by: str = ""


@dataclass(frozen=True)
class Intervention:
    """The one intervention of a step."""

    request: str
    action: str
    rule: str
    level: Level


@dataclass
class Heard:
    """What a channel, or the run's own alerts, have been told and not yet that it is over: rules with members, each with
    the level and the step of the last message."""

    action: str
    arguments: Mapping[str, Any]
    rules: dict[tuple[str, str | None], tuple[Level, int]] = field(default_factory=dict)


def silence(run: str, rule: str, reason: str, until: float | None, at: float, author: str = "") -> Record:
    """The record of a silence: of a rule, or of all that a pattern matches. One that is over already ends it."""
    return {"type": "silence", "run": run, "rule": rule, "until": until, "reason": reason, "at": at, "author": author}


def acknowledgement(
    run: str, rule: str, member: str | None, level: Level, reason: str, at: float, author: str = ""
) -> Record:
    """The record of a person's word that they know of a rule's level."""
    return {
        "type": "acknowledged", "run": run, "rule": rule, "member": member, "level": level.word, "reason": reason,
        "at": at, "author": author,
    }  # fmt: skip


class Ledger:
    """The memory of dispatch for one run."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.standing: dict[str, dict[str | None, Standing]] = {}
        self.acted: dict[tuple[str, str | None], tuple[Level, Instant]] = {}
        self.used: dict[str, list[Instant]] = {}
        self.interventions: dict[tuple[int, int], Intervention] = {}
        self.silences: list[Silence] = []
        self.acknowledged: dict[tuple[str, str | None], Acknowledged] = {}
        self.told: dict[str, Heard] = {}
        self.attempt = 0
        self.step: int | None = None
        self.lived = 0
        self.requests = 0

    # ---------------------------------------------------------------- changes

    def place(self, attempt: int, step: int, rule: str, member: str | None, level: Level, shown: bool) -> None:
        """A rule has come to a level at a step."""
        if self.step is None or attempt > self.attempt:
            self.attempt, self.step = attempt, step
        elif attempt == self.attempt and step > self.step:
            self.lived += step - self.step
            self.step = step
        members = self.standing.setdefault(rule, {})
        if level is not Level.GREEN:
            members[member] = Standing(level, step, shown)
            return
        self.acknowledged.pop((rule, member), None)
        members.pop(member, None)
        if not members:
            del self.standing[rule]

    def apply(self, record: Record) -> None:
        """Take in a record of a decision or a silence; a decision that is known already changes nothing."""
        if record["type"] == "silence":
            self._silence(record)
            return
        if record["type"] == "acknowledged":
            known = Acknowledged(Level.parse(record["level"]), record["reason"], record.get("author", ""))
            self.acknowledged[record["rule"], record["member"]] = known
            return
        if record["type"] not in ("intent", "noted") or record["id"] in self.seen:
            return
        level, member = Level.parse(record["to"]), record["member"]
        self.place(record["attempt"], record["step"], record["rule"], member, level, record["shown"])
        self.seen.add(record["id"])
        if record["type"] == "noted":
            return
        time = record["time"]
        now = Instant(self.lived, math.nan if time is None else time, record.get("counters") or {})
        if record["acts"]:
            self.acted[record["rule"], member] = (level, now)
        for deed in record["deeds"]:
            if "over" in deed:
                self.told.pop(deed["text"], None)
                continue
            self.used.setdefault(deed["action"], []).append(now)
            if deed.get("tells"):
                heard = self.told.setdefault(deed["text"], Heard(deed["action"], deed["arguments"]))
                heard.rules[record["rule"], member] = level, record["step"]
        self.requests = max(self.requests, record["requests"])
        if record["intervention"] is not None:
            request, action = record["intervention"]
            self.interventions[record["attempt"], record["step"]] = Intervention(request, action, record["rule"], level)

    def _silence(self, record: Record) -> None:
        self.silences = [s for s in self.silences if s.rule != record["rule"]]
        if record["until"] is None or record["until"] > record["at"]:
            until = math.inf if record["until"] is None else record["until"]
            self.silences.append(Silence(record["rule"], until, record["reason"], record.get("author", "")))

    # ---------------------------------------------------------------- questions

    def highest(self, rule: str) -> Level:
        """The level of a rule: that of its worst member."""
        return max((s.level for s in self.standing.get(rule, {}).values()), default=Level.GREEN)

    def past(self) -> Past | None:
        """Where the run stands; None for one that is new."""
        if not self.seen or self.step is None:
            return None
        levels = {(rule, member): s.level for rule, members in self.standing.items() for member, s in members.items()}
        return Past(self.attempt, self.step, levels)

    def silence(self, rule: str, now: float) -> Silence | None:
        return next((s for s in self.silences if s.covers(rule, now)), None)

    def spent(self, action: str, now: Instant, per: Extent, most: int) -> int:
        """How often an action was asked for within an extent before now, counted up to `most`; what cannot be dated
        counts."""
        found = 0
        for then in reversed(self.used.get(action, ())):
            if now.left(then, per) != 0:
                found += 1
                if found >= most:
                    break
            elif per.unit in (STEPS, TIME):
                break  # these only go forward: what is older is over as well
        return found

    def last_intervention(self, attempt: int) -> Intervention | None:
        """The newest one of an attempt."""
        steps = [step for number, step in self.interventions if number == attempt]
        return self.interventions[attempt, max(steps)] if steps else None
