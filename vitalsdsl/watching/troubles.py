"""What goes wrong while runs are watched: how long to wait after it, and what people hear of it.

An outage is one line when it begins and one when it is over, however many runs it meets and in however many ways a
tracker fails meanwhile.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from vitalsdsl.ground.errors import VitalsError

FIRST_PAUSE = 5.0
"""Seconds before something that failed is tried again, the first time; twice as many each time after."""

MOST_PATIENT = 300.0
"""The longest pause, in seconds, between two tries at a tracker that does not answer."""

CALM = 30.0
"""Seconds for which all must go well before that is said: a tracker that fails at every third question is one line."""

STUBBORN = 5
"""What one meets so often on end, while a place has answered others so often on end, is something else, and is said too."""

_dice = random.Random()


@dataclass
class _Spell:
    """A time in which a place gives trouble. `told`: what was said of it; `calm`: since when all goes well again;
    `answers`: how often on end it has answered others than the `last` that failed."""

    first: str
    told: set[str]
    failing: set[Hashable] = field(default_factory=set)
    last: Hashable = None
    answers: int = 0
    calm: float | None = None


class Troubles:
    """All of them, by place: a target's tracker, the watcher's own store. Not for several threads at once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._spells: dict[Hashable, _Spell] = {}
        self._failures: dict[tuple[Hashable, Hashable], int] = {}

    @property
    def standing(self) -> list[str]:
        """What is wrong now, in the words in which it was first said, the oldest first."""
        return [spell.first for spell in self._spells.values() if spell.failing]

    def failed(self, place: Hashable, who: Hashable, error: VitalsError) -> float:
        """Somebody met trouble at a place; gives how many seconds to wait."""
        text = str(error)
        count = self._failures[place, who] = self._failures.get((place, who), 0) + 1
        spell = self._spells.get(place)
        if spell is None:
            spell = self._spells[place] = _Spell(text, {text})
            self._say(f"{text}; trying again")
        elif text not in spell.told and spell.last == who and min(count, spell.answers) >= STUBBORN:
            spell.told.add(text)
            self._say(f"{text}; trying again")
        if spell.last != who:
            spell.last, spell.answers = who, 0
        spell.failing.add(who)
        spell.calm = None
        pause = min(MOST_PATIENT, FIRST_PAUSE * 2.0 ** min(count - 1, 20)) * _dice.uniform(0.5, 1.0)
        return max(pause, getattr(error, "retry_after", None) or 0.0)

    def recovered(self, place: Hashable, who: Hashable) -> bool:
        """It goes well again; whether it had not."""
        spell = self._spells.get(place)
        if spell is not None:
            spell.answers += 1
        return self.forget(place, who)

    def forget(self, place: Hashable, who: Hashable) -> bool:
        """Nobody asks for that any longer; whether it had failed."""
        spell = self._spells.get(place)
        if self._failures.pop((place, who), 0) == 0 or spell is None:
            return False
        spell.failing.discard(who)
        if not spell.failing:
            spell.calm = time.monotonic()
        return True

    def say_what_is_over(self, calm: float | None = None) -> None:
        """Say which places have given no trouble for so many seconds (without a number: for as long as it takes)."""
        now, long = time.monotonic(), CALM if calm is None else calm
        for place, spell in list(self._spells.items()):
            if spell.calm is not None and now - spell.calm >= long:
                del self._spells[place]
                self._say(f"all is well again after: {spell.first}")
