"""Where the parser stopped: what stands there, what stands before it, and what could have stood there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.ground.quoting import QUOTED
from vitalsdsl.ground.source import Locator, Span
from vitalsdsl.ground.words import RESERVED

FORMS = {
    "policy": 'policy NAME "title"', "use": 'use "REFERENCE" as NAME', "axis": 'axis "logged name"',
    "metric": 'metric NAME = "logged", "or this" every 10 steps', "every": "every 10 steps", "reduce": "reduce mean",
    "stale": "stale after 100 steps", "allow": "allow nonfinite", "unit": 'unit "tok/s"',
    "param": "param NAME = 3 in 1 .. 10", "let": "let NAME = EXPRESSION", "event": "event NAME = CONDITION",
    "phase": "phase NAME = CONDITION", "level": "level orange do alert, tag", "limit": "limit rollback 3 per 10000 steps",
    "nonfinite": "nonfinite -> orange`, or `nonfinite off", "rule": 'rule NAME "title" { when CONDITION -> LEVEL }',
    "override": "override RULE { cooldown 500 steps }", "disable": 'disable RULE because "…"',
    "profile": "profile NAME { p = 3 }", "when": "when CONDITION for 20 steps -> LEVEL",
    "clear": "clear when CONDITION`, or `clear for 20 steps", "cooldown": "cooldown 500 steps", "inhibits": "inhibits RULE",
    "unknown": "unknown hold`, or `unknown reset", "because": 'because "…"', "try": 'try "…", "…"', "owner": 'owner "…"',
    "runbook": 'runbook "…"',
}  # fmt: skip
ACTIONS = "alert tag pause stop rollback notify checkpoint lr request".split()
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_./]*")


@dataclass(frozen=True)
class Place:
    """Where the parser stopped: offsets into the text, what stands there, and what could have stood there."""

    text: str
    start: int
    at: int
    end: int
    expected: frozenset[str]
    locator: Locator

    @cached_property
    def before(self) -> str:
        return self.text[self.start : self.at]

    @cached_property
    def rest(self) -> str:
        return self.text[self.at : self.end]

    @cached_property
    def word(self) -> str:
        found = WORD.match(self.rest)
        return found[0] if found else self.rest[:1]

    @property
    def is_over(self) -> bool:
        return not self.rest.strip()

    def span(self, at: int, length: int) -> Span:
        last = max(self.start, min(at, self.end - 1))
        return self.locator.span(last, min(self.end, last + max(1, length)))

    def error(
        self, code: str, message: str, label: str, *help_: str, at: int | None = None, length: int = 0
    ) -> Diagnostic:
        place = self.span(self.at if at is None else at, length or len(self.word))
        return Diagnostic(code, Severity.ERROR, message, place, label, tuple(h for h in help_ if h))

    @cached_property
    def previous(self) -> tuple[int, str]:
        """The last word before the place, and where it stands."""
        clean = masked(self.before)
        found = list(re.finditer(QUOTED + r"|[A-Za-z_][\w./]*|\d[\d.]*\w*%?|[^\s\w]+", clean))
        return (self.start + found[-1].start(), found[-1][0]) if found else (self.start, "")


def masked(text: str) -> str:
    """The text with comments blanked, so that nothing in them is taken for a word."""
    return re.sub(rf"({QUOTED})|#[^\n]*", lambda m: m[1] or " " * len(m[0]), text)


def keyword(p: Place) -> str:
    """The statement, or the part of one, in which the place stands."""
    found = [w for w in re.findall(rf"{QUOTED}|[a-z_]+", masked(p.before)) if w in FORMS]
    return found[-1] if found else ""


def is_name(text: str) -> bool:
    return WORD.fullmatch(text) is not None and text not in RESERVED
