"""The arrow, the level behind it, and what people write behind that."""

from __future__ import annotations

import difflib
import re

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.quoting import QUOTED
from vitalsdsl.ground.words import LEVELS, RULE_PARTS, STATEMENTS
from vitalsdsl.language.mistakes.place import ACTIONS, WORD, Place, masked

_OTHER_LEVELS = {"amber": "yellow", "warn": "yellow", "info": "yellow", "error": "orange", "high": "orange",
                 "alarm": "orange", "panic": "red", "severe": "red", "crit": "orange"}  # fmt: skip
_AFTER_CONDITION = {"for": "for 20 steps", "on": "on METRIC", "within": "within 100 steps"}
"""What people write behind the level, and what it looks like where it belongs."""
_ACTION = r"(?:{})\b(?:\([^()\n]*\))?".format("|".join(ACTIONS))
_RUNG = re.compile(r"->\s*(?P<rung>(?P<level>{})(?:\s+after\s+[\d.]+[kMBT]?\s*[a-z]+)?)\s*$".format("|".join(LEVELS)))


def levels(p: Place) -> Diagnostic | None:
    """What stands behind an arrow and is no level."""
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


def behind_level(p: Place) -> Diagnostic | None:
    """`-> orange, pause`, `-> orange "too high"`, `-> orange for 20 steps`."""
    rung = _RUNG.search(masked(p.before))
    if rung is None or "DO" not in p.expected:
        return None
    level = rung["level"]
    if p.word in _AFTER_CONDITION:
        return p.error("V027", f"`{p.word}` comes before the `->`", "too late here",
                       f"write `when CONDITION {_AFTER_CONDITION[p.word]} -> {level}`")  # fmt: skip
    message = re.match(QUOTED, p.rest)
    if message is not None:
        return _message(p, message[0])
    joint = re.match(r"(?:[,:=&+(\[]|(?:and|then|with|plus)\b)\s*", p.rest)
    behind = p.rest[joint.end() :] if joint is not None else p.rest
    actions = re.match(rf"{_ACTION}(?:\s*(?:,|and\b)\s*{_ACTION})*", behind)
    if actions is not None and p.text[max(0, p.at - 1)] != "\n":
        listed = ", ".join(re.findall(_ACTION, actions[0]))
        return p.error("V034", "what a level does stands behind `do`", "no `do` before this",
                       f"write `-> {rung['rung']} do {listed}`",
                       length=len(actions[0]) + (joint.end() if joint is not None else 0))  # fmt: skip
    other = re.match("|".join(LEVELS), behind)
    if joint is not None and other is not None:
        return p.error("V034", "a rung has one level", "a second one",
                       f"keep one, or climb: `-> {level} -> red after 100 steps`", length=joint.end() + len(other[0]))  # fmt: skip
    if joint is not None and joint[0].startswith(","):
        return p.error("V029", "a comma does not belong here", "take it out", "what a level does stands behind `do`: "
                       f"`-> {level} do alert`", length=1)  # fmt: skip
    return None


def _message(p: Place, message: str) -> Diagnostic:
    """A text behind the level: `because` belongs before it, and a rule with a name round it."""
    written = f"because {message}"
    begin = [m.start() for m in re.finditer(r"\bwhen\b", masked(p.before))]
    if "RULE" in p.expected and begin:
        clause = " ".join(p.before[begin[-1] :].split())
        written = f"rule NAME {{ {clause} because {message} }}"
    return p.error("V034", "a message stands behind `because`, in a rule", "no `because` before this",
                   f"write `{written}`", length=len(message))  # fmt: skip


def arrow(p: Place) -> Diagnostic | None:
    """A `when` that leads to no level, or by something that is no arrow."""
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
    if not p.rest.startswith(">") or p.at == p.start or p.text[p.at - 1] != "-":
        return None
    at, previous = Place(p.text, p.start, p.at - 1, p.end, p.expected, p.locator).previous
    return p.error("V035", f"a value is missing after `{previous}`", "after this", at=at, length=len(previous))


def no_arrow(p: Place) -> Diagnostic | None:
    """`rule a { -> orange when loss > 3 }`: the arrow comes first."""
    if p.rest.startswith("->") and "WHEN" in p.expected and "LEVEL" not in p.expected:
        return p.error("V018", "nothing leads to this `->`", "no `when` before it", "write `when CONDITION -> LEVEL`",
                       length=2)  # fmt: skip
    return None
