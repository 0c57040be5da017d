"""Decide: which of the actions that a transition asks for are done, and why the others are not.

A decision depends on the policy, the ledger and the ports that listen, and changes nothing but the ledger.
"""

from __future__ import annotations

import math
import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from vitalsdsl.acting.ledger import Instant, Ledger, Record
from vitalsdsl.acting.provisions import Provisions
from vitalsdsl.acting.recovery import Over, all_clear
from vitalsdsl.acting.tracker import Ability, Port
from vitalsdsl.actions.base import Effect, registry
from vitalsdsl.actions.reading import Asked
from vitalsdsl.ground.errors import UsageError
from vitalsdsl.ground.types import STEPS, TIME, Extent
from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition

_REQUESTS = uuid.UUID("5b0f6d4e-9d0f-5c3b-8f5e-6a5d8f0e7c11")
_ABILITY = {Effect.TAG: Ability.TAG, Effect.ALERT: Ability.ALERT, Effect.REQUEST: Ability.REQUEST}
_NOBODY = {
    Effect.TAG: "nothing here takes tags",
    Effect.ALERT: "nothing here takes alerts",
    Effect.REQUEST: "no training here takes requests",
}


_NOBODY_AT_ALL = "nothing here takes what it asks for"
_TELLS = frozenset({Effect.ALERT, Effect.NOTIFY})
_TAGS_ONLY = frozenset({"superseded", "green", "milder", "history"})


@dataclass(frozen=True)
class Withheld:
    """Why something is not done: a word for tools, and a sentence for people."""

    kind: str
    text: str


@dataclass(frozen=True)
class Deed:
    """One action that a transition asks for: done by these ports, or withheld. `over` is what a message says to be over,
    where it is one that all is well again."""

    asked: Asked
    withheld: Withheld | None = None
    ports: tuple[str, ...] = ()
    over: tuple[Over, ...] = ()

    @property
    def is_done(self) -> bool:
        return self.withheld is None


@dataclass(frozen=True)
class Decision:
    """What becomes of a transition. `withheld` where it acts on nothing at all, whatever its deeds would be."""

    transition: Transition
    deeds: tuple[Deed, ...] = ()
    withheld: Withheld | None = None

    @property
    def is_repeat(self) -> bool:
        """Whether the same was decided before, by this watcher or an earlier one."""
        return self.withheld is not None and self.withheld.kind == "duplicate"

    @cached_property
    def done(self) -> tuple[Deed, ...]:
        return tuple(d for d in self.deeds if d.is_done)

    @cached_property
    def acts(self) -> bool:
        """Whether anything but the tags comes of it."""
        return any(d.asked.action.effect is not Effect.TAG for d in self.done)

    @property
    def is_all_clear(self) -> bool:
        """Whether people are told that it is over."""
        return any(d.over for d in self.done)

    @property
    def intervention(self) -> Deed | None:
        return next((d for d in self.done if d.asked.action.rank), None)

    @cached_property
    def text(self) -> str:
        """In one line: `alert, tag, ask for pause`, or `nothing: cooldown of grad_norm_high until step 8620`.

        That nobody here takes an action which the policy does not name is not worth a word each time.
        """
        if self.withheld is not None:
            kind = "only the tags" if self.withheld.kind in _TAGS_ONLY else "nothing"
            return f"{kind}: {self.withheld.text}"
        withheld = [(d.asked, d.withheld) for d in self.deeds if d.withheld is not None]
        # Whether the training does what is asked of it is its own decision, and not known here.
        parts = [", ".join(f"{'ask for ' * bool(d.asked.action.asks)}{d.asked.text}" for d in self.done) or "nothing"]
        if self.is_all_clear:
            parts[0] = f"tell that it is over: {parts[0]}"
        parts += [f"not {a.text}: {w.text}" for a, w in withheld if w.kind != "nobody" or not a.by_default]
        return "; ".join(parts) if len(parts) > 1 or self.done else f"nothing: {_NOBODY_AT_ALL}"

    def as_dict(self) -> dict[str, Any]:
        """As a JSON object."""
        withheld = {d.asked.text: d.withheld.__dict__ for d in self.deeds if d.withheld is not None}
        return {
            "type": "decision",
            "transition": self.transition.id,
            "does": [] if self.withheld is not None else [d.asked.text for d in self.done],
            "withheld": self.withheld.__dict__ if self.withheld is not None else None,
            "not_done": withheld,
        }


@dataclass(frozen=True)
class Surroundings:
    """What a decision depends on beside policy and ledger. `dry`: nothing is done; `deaf`: nobody needs to listen for it.

    `listeners` are the names of ports by what they take, `channels` those by the channel that they reach. A request
    lives for `lifetime` seconds.
    """

    run: str
    allow: Collection[str]
    listeners: Mapping[Ability, tuple[str, ...]]
    channels: Mapping[str, tuple[str, ...]]
    dry: bool = False
    deaf: bool = False
    lifetime: float = math.inf

    def takers(self, asked: Asked) -> tuple[str, ...]:
        """The ports that take this action."""
        effect = asked.action.effect
        if effect is Effect.NOTIFY:
            return self.channels.get(asked.arguments["channel"], ())
        return self.listeners.get(_ABILITY[effect], ())


def allowed(allow: Collection[str] | None) -> frozenset[str]:
    """The actions that may be done, by their names; all of them without any. Raises UsageError for a strange one."""
    known = registry()
    if allow is None:
        return frozenset(known)
    strange = sorted(set(allow) - set(known))
    if strange:
        raise UsageError(f"there is no action `{strange[0]}` to allow; there are {', '.join(sorted(known))}")
    return frozenset(allow)


def reached(ports: Sequence[Port]) -> dict[str, tuple[str, ...]]:
    """The ports behind each channel."""
    channels = {channel for port in ports for channel in port.channels}
    return {channel: tuple(port.name for port in ports if channel in port.channels) for channel in channels}


class Decider:
    """The rules of dispatch, for one run."""

    def __init__(self, provisions: Provisions, ledger: Ledger, surroundings: Surroundings) -> None:
        self._provisions = provisions
        self._ledger = ledger
        self._around = surroundings

    def decide(
        self,
        step: Sequence[Transition],
        clock: float,
        counters: Mapping[str, float],
        newest: float = math.nan,
        is_history: bool = False,
    ) -> list[tuple[Decision, Record | None]]:
        """Decisions for transitions of one attempt at one closed step, in their order, each with the record by which
        the ledger has taken it in (None for what it knew).

        The levels of the whole step count for inhibition. The highest level is decided first, so that it gets the
        step's one intervention and what is left of a budget. `newest` is the time of the run's newest point, where these
        transitions may be older: nothing is asked of the training side that comes too late. What `is_history` shows in
        the tags and acts on nothing.
        """
        for t in step:
            self._ledger.place(t.attempt, t.step, t.rule, t.member, t.to, self._shows(t))
        decided: dict[int, tuple[Decision, Record | None]] = {}
        for at in sorted(range(len(step)), key=lambda at: -step[at].to):
            t = step[at]
            id_ = t.id
            if id_ in self._ledger.seen:
                decided[at] = Decision(t, withheld=Withheld("duplicate", "it has been dealt with already")), None
                continue
            time = t.time if t.time == t.time or self._around.dry else clock
            now = Instant(self._ledger.lived, time, counters)
            if is_history:
                decision = self._undone(t, Withheld("history", "it was so before the watch began"))
            else:
                decision = self._decide(t, now, clock, newest)
            record = self._record(decision, id_, now, clock)
            self._ledger.apply(record)
            decided[at] = decision, record
        return [decided[at] for at in range(len(step))]

    def shown(self, clock: float) -> tuple[Level, dict[str, str]]:
        """What the run's tags should be: its level, and the rules that fire, with level and step.

        Left out are rules that are shadowed, silenced or inhibited, or whose actions do not name `tag`; a cooldown
        leaves none out, since tags say how things are and disturb nobody.
        """
        firing: dict[str, str] = {}
        highest = Level.GREEN
        for rule, members in self._ledger.standing.items():
            level = max((s.level for s in members.values() if s.shown), default=Level.GREEN)
            if level is Level.GREEN or self._ledger.silence(rule, clock) or self._inhibited(rule):
                continue
            first = min(s.step for s in members.values() if s.shown and s.level == level)
            firing[rule] = f"{level.word}@{first}"
            highest = max(highest, level)
        return highest, firing

    def _asked(self, t: Transition) -> tuple[Asked, ...]:
        return self._provisions.actions(t.rule, t.to, t.clause, t.rung)

    def _shows(self, t: Transition) -> bool:
        return self._provisions.shows(t.rule, t.to, t.clause, t.rung)

    # ---------------------------------------------------------------- whether it acts at all

    def _decide(self, t: Transition, now: Instant, clock: float, newest: float) -> Decision:
        if t.to is Level.GREEN and not self._provisions.of(t.rule).shadow:
            deeds = self._all_clear(clock)
            if any(deed.is_done for deed in deeds):
                return Decision(t, deeds)
        withheld = self._tags_only(t) or self._held_back(t, now, clock)
        return self._undone(t, withheld) if withheld is not None else Decision(t, self._deeds(t, now, newest))

    def _undone(self, t: Transition, why: Withheld) -> Decision:
        return Decision(t, tuple(Deed(a, why) for a in self._asked(t)), why)

    def _tags_only(self, t: Transition) -> Withheld | None:
        if self._provisions.of(t.rule).shadow:
            return Withheld("shadow", f"{t.rule} is shadowed: recorded, never acting")
        if t.reason == "superseded":
            return Withheld("superseded", f"the run went back to step {t.step}")
        if t.to is Level.GREEN:
            return Withheld("green", "back to green")
        if t.to < t.from_:
            return Withheld("milder", f"down from {t.from_.word} to {t.to.word}")
        return None

    def _held_back(self, t: Transition, now: Instant, clock: float) -> Withheld | None:
        silence = self._ledger.silence(t.rule, clock)
        if silence is not None:
            by = f" by {silence.by}" if silence.by else ""
            return Withheld("silenced", f"{t.rule} is silenced{by}: {silence.reason}")
        known = self._ledger.acknowledged.get((t.rule, t.member))
        if known is not None and t.to <= known.level:
            by = f" by {known.by}" if known.by else ""
            return Withheld("acknowledged", f"{t.rule} has been acknowledged{by}: {known.reason}")
        inhibitor = self._inhibited(t.rule)
        if inhibitor is not None:
            level = self._ledger.highest(inhibitor).word
            return Withheld("inhibited", f"{inhibitor} is {level} and inhibits {t.rule}")
        return self._cooling(t, now)

    def _inhibited(self, rule: str) -> str | None:
        by = self._provisions.of(rule).inhibited_by
        return next((name for name in by if name in self._ledger.standing), None)

    def _cooling(self, t: Transition, now: Instant) -> Withheld | None:
        cooldown = self._provisions.of(t.rule).cooldown
        level, then = self._ledger.acted.get((t.rule, t.member), (Level.GREEN, now))
        if cooldown is None or t.to > level:
            return None
        left = now.left(then, cooldown)
        if not left > 0:  # over, or (NaN) not to be told: then an alarm is better than silence
            return None
        subject = t.rule if t.member is None else f"{t.rule} ({t.member})"
        return Withheld("cooldown", f"cooldown of {subject} {_until(t.step, left, cooldown)}")

    # ---------------------------------------------------------------- which actions it does

    def _all_clear(self, clock: float) -> tuple[Deed, ...]:
        """Messages that it is over, for whoever was told and can still be reached."""
        deeds = []
        for asked, over in all_clear(self._ledger, clock):
            ports = self._around.takers(asked)
            if asked.name in self._around.allow and (ports or self._around.deaf):
                deeds.append(Deed(asked, None, ports, over))
        return tuple(deeds)

    def _deeds(self, t: Transition, now: Instant, newest: float) -> tuple[Deed, ...]:
        counts: Counter[str] = Counter()
        asked = self._asked(t)
        deeds = [self._deed(a, now, counts, newest - t.time) for a in asked]
        spent = any(d.withheld is not None and d.withheld.kind == "budget" and d.asked.action.rank for d in deeds)
        if spent and t.to >= Level.ORANGE:
            named = {a.name for a in asked}
            milder = [a for a in self._provisions.levels[Level.ORANGE] if a.name not in named]
            deeds += [self._deed(a, now, counts, newest - t.time) for a in milder]
        return self._one_intervention(t, deeds)

    def _deed(self, asked: Asked, now: Instant, counts: Counter[str], age: float) -> Deed:
        if asked.name not in self._around.allow:
            return Deed(asked, Withheld("not allowed", f"`{asked.name}` is not allowed here"))
        for budget in self._provisions.budgets:
            if budget.action == asked.name:
                spent = counts[asked.name] + self._ledger.spent(asked.name, now, budget.per, budget.count)
                if spent >= budget.count:
                    return Deed(asked, Withheld("budget", f"its budget, {budget.text}, is used up"))
        if asked.action.effect is Effect.REQUEST and age > self._around.lifetime:
            return Deed(
                asked, Withheld("too late", f"the run is {age:.0f} s further: too late to ask for `{asked.text}`")
            )
        ports = self._around.takers(asked)
        if not ports and not self._around.deaf:
            return Deed(asked, Withheld("nobody", _nobody(asked)))
        counts[asked.name] += 1
        return Deed(asked, None, ports)

    def _one_intervention(self, t: Transition, deeds: list[Deed]) -> tuple[Deed, ...]:
        able = [d for d in deeds if d.is_done and d.asked.action.rank]
        taken = self._ledger.interventions.get((t.attempt, t.step))
        if not able:
            return tuple(deeds)
        chosen = None
        if taken is None:
            chosen = max(able, key=lambda d: d.asked.action.rank)
            action, rule = chosen.asked.name, t.rule
        else:
            action, rule = taken.action, taken.rule
        why = Withheld("one a step", f"this step has asked for `{action}` already ({rule}), and asks for one at most")
        return tuple(
            replace(d, withheld=why, ports=()) if d.is_done and d.asked.action.rank and d is not chosen else d
            for d in deeds
        )

    # ---------------------------------------------------------------- records

    def _record(self, decision: Decision, id_: str, now: Instant, clock: float) -> Record:
        t = decision.transition
        record: Record = {
            "type": "intent" if decision.acts else "noted",
            "id": id_,
            "run": self._around.run,
            "at": clock,
            "attempt": t.attempt,
            "step": t.step,
            "rule": t.rule,
            "member": t.member,
            "from": t.from_.word,
            "to": t.to.word,
            "shown": self._shows(t),
        }
        if not decision.acts:
            record["why"] = decision.text
            record["transition"] = t
            return record
        deeds = [d for d in decision.done if d.asked.action.effect is not Effect.TAG]
        intervention = decision.intervention
        record["time"] = None if now.time != now.time else now.time
        record["counters"] = dict(now.counters)
        record["acts"] = not decision.is_all_clear
        record["text"] = decision.text
        record["deeds"] = [_written(d) for d in deeds]
        if decision.is_all_clear:
            level, firing = self.shown(clock)
            record["stands"] = [level.word, firing]
        record["requests"] = self._ledger.requests + sum(d.asked.action.effect is Effect.REQUEST for d in deeds)
        record["intervention"] = None
        if intervention is not None:
            record["intervention"] = [request_id(id_, intervention.asked), intervention.asked.name]
            milder = self._ledger.last_intervention(t.attempt)
            record["supersedes"] = milder.request if milder is not None and milder.level < t.to else None
        record["transition"] = t  # made into plain data where it is written: that is not the training loop's time
        return record


def request_id(transition: str, asked: Asked) -> str:
    """The id of a request: the same whoever makes it, so that the training side does it once."""
    return str(uuid.uuid5(_REQUESTS, f"{transition} {asked.text}"))


def _written(deed: Deed) -> Record:
    """A deed as a record has it. What `tells` people of a rule is followed, one day, by a message that it is `over`."""
    asked = deed.asked
    record: Record = {"action": asked.name, "arguments": asked.arguments, "text": asked.text, "ports": list(deed.ports)}
    if deed.over:
        record["over"] = [one.as_dict() for one in deed.over]
    elif asked.action.effect in _TELLS:
        record["tells"] = True
    return record


def _until(step: int, left: float, extent: Extent) -> str:
    if extent.unit == STEPS:
        return f"until step {step + left:.0f}"
    if extent.unit != TIME:
        return f"for another {left:g} {extent.unit}"
    for unit, seconds in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if left >= seconds:
            return f"for another {left / seconds:.3g} {unit}"
    return f"for another {left:.3g} s"


def _nobody(asked: Asked) -> str:
    effect = asked.action.effect
    return f"no channel `{asked.arguments['channel']}` is configured" if effect is Effect.NOTIFY else _NOBODY[effect]
