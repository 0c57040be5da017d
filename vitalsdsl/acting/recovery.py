"""Who is to hear that it is over: whoever was told of rules, once none of these stands any more."""

from __future__ import annotations

from dataclasses import dataclass

from vitalsdsl.acting.ledger import Ledger, Record
from vitalsdsl.actions.base import registry
from vitalsdsl.actions.reading import Asked
from vitalsdsl.language.rules import Level


@dataclass(frozen=True)
class Over:
    """A rule (one member of it) that somebody was told of, with the level and the step that he was told last."""

    rule: str
    member: str | None
    level: Level
    step: int

    @property
    def subject(self) -> str:
        return self.rule if self.member is None else f"{self.rule} ({self.member})"

    def as_dict(self) -> Record:
        return {"rule": self.rule, "member": self.member, "level": self.level.word, "step": self.step}

    @classmethod
    def of(cls, written: Record) -> Over:
        """From a journal's line."""
        return cls(written["rule"], written["member"], Level.parse(written["level"]), written["step"])


def all_clear(ledger: Ledger, clock: float) -> list[tuple[Asked, tuple[Over, ...]]]:
    """The messages that are due, each with what it says to be over: one for the run's own alerts and one for each channel.

    A channel that was told of three rules hears nothing until the last of them is green, and then of all three at once.
    A rule that is silenced by now is not waited for, and not spoken of.

    >>> from vitalsdsl.acting.ledger import Heard
    >>> ledger = Ledger()
    >>> ledger.told['notify("ops")'] = Heard("notify", {"channel": "ops"}, {("hot", None): (Level.RED, 100)})
    >>> [(asked.text, [one.subject for one in over]) for asked, over in all_clear(ledger, 0.0)]
    [('notify("ops")', ['hot'])]
    >>> ledger.place(0, 120, "hot", None, Level.YELLOW, shown=True)
    >>> all_clear(ledger, 0.0)
    []
    """
    due: list[tuple[Asked, tuple[Over, ...]]] = []
    for text, heard in ledger.told.items():
        spoken_of = {
            subject: told for subject, told in heard.rules.items() if ledger.silence(subject[0], clock) is None
        }
        if not spoken_of or any(member in ledger.standing.get(rule, ()) for rule, member in spoken_of):
            continue
        over = tuple(Over(rule, member, level, step) for (rule, member), (level, step) in spoken_of.items())
        due.append((Asked(registry()[heard.action], heard.arguments, text), over))
    return due
