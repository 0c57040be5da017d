"""Which alert a run shows as its headline, the tag `vitals.alert`."""

from __future__ import annotations

import re

from vitalsdsl.acting.tracker import Alert
from vitalsdsl.language.rules import Level

_OF_THE_RUN = re.compile(r"( at step -?\d+) \(.*")


class Headline:
    """The newest alert, but none that is milder while a worse one still stands.

    >>> headline = Headline()
    >>> headline.takes(Level.RED), headline.stands(Level.RED), headline.takes(Level.YELLOW)
    (True, None, False)
    >>> headline.stands(Level.YELLOW), headline.takes(Level.YELLOW)
    (None, True)
    >>> headline.takes(Level.RED), headline.takes(Level.GREEN)  # it is over, though the run's level is not told yet
    (True, True)
    """

    def __init__(self) -> None:
        self._level = Level.GREEN
        self._shown = Level.GREEN

    def stands(self, level: Level) -> None:
        """The run's level is this one now."""
        self._level = level

    def takes(self, level: Level) -> bool:
        """Whether an alert of this level becomes the headline. One that is green says that all it was told of is over."""
        if Level.GREEN < level < self._shown <= self._level:
            return False
        self._shown = level
        return True


def as_tag(alert: Alert) -> str:
    """An alert as the run's own tag holds it: a run need not be told its own name and id."""
    return f"{_OF_THE_RUN.sub(lambda found: found[1], alert.title)}: {alert.text}"
