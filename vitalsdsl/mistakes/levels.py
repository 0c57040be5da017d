"""The arrow, the level behind it, and what people write behind that."""

from __future__ import annotations

import difflib
import re

from vitalsdsl.diagnostic import Diagnostic
from vitalsdsl.mistakes.place import ACTIONS, WORD, Place
from vitalsdsl.words import LEVELS, RULE_PARTS, STATEMENTS

_OTHER_LEVELS = {"amber": "yellow", "warn": "yellow", "info": "yellow", "error": "orange", "high": "orange",
                 "alarm": "orange", "panic": "red", "severe": "red", "crit": "orange"}  # fmt: skip


def levels(p: Place) -> Diagnostic | None:
    if "LEVEL" not in p.expected or "NAME" in p.expected:
        return None
    word = p.word.lower()
    if p.is_over or not WORD.match(p.rest):
        return p.error("V023", "a level is missing after `->`", "yellow, orange or red")
    if word in ACTIONS:
        return p.error("V023", f"`{p.word}` is an action, not a level", "a level first", f"write `-> yellow do {word}`")
    if word == "off" and re.search(r"\bnonfinite\s*->\s*$", p.before):
        return p.error("V023", "`off` is no level", "without the arrow", "write `nonfinite off`")
    near = [_OTHER_LEVELS[word]] if word in _OTHER_LEVELS else difflib.get_close_matches(word, LEVELS, 1)
    help_ = f"did you mean `{near[0]}`?" if near else ""
    return p.error("V023", f"there is no level `{p.word}`", "yellow, orange or red", help_)


def arrow(p: Place) -> Diagnostic | None:
    if "ARROW" not in p.expected:
        return None
    at, previous = p.previous
    begins = p.word in STATEMENTS + RULE_PARTS or p.rest.startswith("}") or p.is_over
    if begins:
        return p.error("V018", "this `when` leads to no level", "ends here", "add `-> yellow`, `-> orange` or `-> red`",
                       at=at, length=len(previous))  # fmt: skip
    if p.word.lower() in LEVELS:
        return p.error("V018", "an arrow leads to a level", f"write `-> {p.word.lower()}`")
    if p.rest.startswith(">") or p.rest.startswith(":"):
        return p.error("V018", f"`{p.rest[:1]}` is no arrow", "write `->`", length=1)
    return None


def broken_arrow(p: Place) -> Diagnostic | None:
    """`loss > -> red`: what the minus of an arrow was taken for."""
    if p.rest.startswith(">") and p.text[p.at - 1 : p.at] == "-" and p.at > p.start:
        at, previous = Place(p.text, p.start, p.at - 1, p.end, p.expected, p.locator).previous
        return p.error("V035", f"a value is missing after `{previous}`", "after this", at=at, length=len(previous))
    of = re.search(r"(\d+)\s+of\s+(\d+)\s*$", p.before)
    if of and "SAMPLES" in p.expected:
        return p.error("V001", f"`{of[0].strip()}` of what?", f"{of[2]} what?", f"write `{of[0].strip()} samples`",
                       at=p.start + of.start(), length=len(of[0].rstrip()))  # fmt: skip
    return None
