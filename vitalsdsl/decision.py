"""Decide: which of the actions that a transition asks for are done, and why the others are not.

A decision depends on the policy, the ledger and the ports that listen, and changes nothing but the ledger.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vitalsdsl.actions.base import Effect
from vitalsdsl.actions.reading import Asked
from vitalsdsl.ledger import Instant, Intervention, Ledger, Record
from vitalsdsl.provisions import Provisions
from vitalsdsl.rules import Level
from vitalsdsl.tracker import Ability, Port
from vitalsdsl.types import TIME, Extent
from vitalsdsl.verdict import Transition

_REQUESTS = uuid.UUID("5b0f6d4e-9d0f-5c3b-8f5e-6a5d8f0e7c11")
_ABILITY = {Effect.TAG: Ability.TAG, Effect.ALERT: Ability.ALERT, Effect.REQUEST: Ability.REQUEST}
_NOBODY = {
    Effect.TAG: "no tracker here takes tags",
    Effect.ALERT: "no tracker here takes alerts",
    Effect.REQUEST: "no control channel here takes requests",
}


@dataclass(frozen=True)
class Withheld:
    """Why something is not done: a word for tools, and a sentence for people."""

    kind: str
    text: str


@dataclass(frozen=True)
class Deed:
    """One action that a transition asks for: done by these ports, or withheld."""

    asked: Asked
    withheld: Withheld | None = None
    ports: tuple[str, ...] = ()

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
    def done(self) -> tuple[Deed, ...]:
        return tuple(d for d in self.deeds if d.is_done)

    @property
    def acts(self) -> bool:
        """Whether anything but the tags comes of it."""
        return any(d.asked.action.effect is not Effect.TAG for d in self.done)

    @property
    def intervention(self) -> Deed | None:
        return next((d for d in self.done if d.asked.action.rank), None)

    @property
    def text(self) -> str:
        """In one line: `alert, tag, pause`, or `nothing: cooldown of grad_norm_high until step 8620`."""
        if self.withheld is not None:
            return f"nothing: {self.withheld.text}"
        parts = [", ".join(d.asked.text for d in self.done) or "nothing"]
        parts += [f"not {d.asked.text}: {d.withheld.text}" for d in self.deeds if d.withheld is not None]
        return "; ".join(parts)

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
    """What a decision depends on beside policy and ledger. `dry`: nobody is asked, so nobody needs to listen."""

    ports: Sequence[Port]
    allow: Collection[str]
    dry: bool = False

    def listeners(self, asked: Asked) -> tuple[str, ...]:
        """The ports that take this action."""
        effect = asked.action.effect
        if effect is Effect.NOTIFY:
            channel = asked.arguments["channel"]
            return tuple(p.name for p in self.ports if Ability.NOTIFY in p.can and channel in p.channels)
        return tuple(p.name for p in self.ports if _ABILITY[effect] in p.can)


class Decider:
    """The rules of dispatch, for one run."""

    def __init__(self, provisions: Provisions, ledger: Ledger, surroundings: Surroundings) -> None:
        self._provisions = provisions
        self._ledger = ledger
        self._around = surroundings

    def decide(self, step: Sequence[Transition], clock: float, counters: Mapping[str, float]) -> list[Decision]:
        """Decisions for transitions of one attempt at one closed step, in their order; the ledger takes them in.

        The levels of the whole step count for inhibition; the highest level is decided first, so that it gets the
        step's one intervention and what is left of a budget.
        """
        ids = [t.id for t in step]
        for t in step:
            self._ledger.place(t.attempt, t.step, t.rule, t.member, t.to, self._provisions.tags(t))
        decisions: dict[int, Decision] = {}
        for at in sorted(range(len(step)), key=lambda at: -step[at].to):
            t, id_ = step[at], ids[at]
            time = t.time if t.time == t.time or self._around.dry else clock
            now = Instant(self._ledger.lived, time, counters)
            decision = decisions[at] = self._decide(t, id_, now, clock)
            if id_ not in self._ledger.seen:
                self._ledger.apply(self._record(decision, id_, now, clock))
        return [decisions[at] for at in range(len(step))]
