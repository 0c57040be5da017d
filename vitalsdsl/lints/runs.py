"""What recorded runs say of a policy: for the lints that need more than its text (`vitals check --against`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vitalsdsl.language import rules

if TYPE_CHECKING:
    from vitalsdsl.ground.survey import Survey


class Alarms(NamedTuple):
    """How often one rule's level rose in one run, and where first; `level` is the highest that it reached."""

    run: str
    times: int
    step: int
    level: str


class RuleSeen(NamedTuple):
    """What one rule did on the runs.

    `known_in` counts the runs in which a condition of it was known at some step, inside its phases where it has some.
    Where that is none, `unknown` is what stood in the way in the last run, as it is written, and why. `lacking` are the
    metrics for want of which it can never be true. `healthy` are its alarms in the runs that are called healthy.
    """

    known_in: int = 0
    unknown: tuple[str, str] = ("", "")
    lacking: frozenset[str] = frozenset()
    healthy: tuple[Alarms, ...] = ()


AlsoCalled = Callable[[str], "tuple[str, tuple[str, ...]]"]
"""Who can say which metric is known by a name, and under which names it is logged: empty where none is. Asked only of a
name that some run does not log, since it reads the packs."""


def _unheard_of(name: str) -> tuple[str, tuple[str, ...]]:
    return "", ()


@dataclass(frozen=True)
class Runs:
    """The runs, what each rule did on them (guards too, as `nonfinite(METRIC)`), how many are called healthy, and who can
    say what a metric is called elsewhere."""

    survey: Survey
    rules: Mapping[str, RuleSeen] = field(default_factory=dict)
    healthy: int = 0
    also_called: AlsoCalled = _unheard_of

    @property
    def count(self) -> int:
        """How many runs logged anything."""
        return sum(run.steps > 0 for run in self.survey.runs)

    def told(self) -> str:
        """`14 runs checked`."""
        return f"{self.count:,} run{'s' * (self.count != 1)} checked"


Tries = Callable[[rules.Policy], Runs]
"""Who can say what runs say of a policy: asked once the policy has no errors."""
