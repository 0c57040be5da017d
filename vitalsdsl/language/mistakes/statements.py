"""Words that begin no statement and no part of a rule."""

from __future__ import annotations

import difflib
import re

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.words import LEVELS, RULE_PARTS, STATEMENTS
from vitalsdsl.language.mistakes.names import two_names
from vitalsdsl.language.mistakes.place import WORD, Place, is_name, masked

_OTHER_STATEMENTS = {"import": "use", "include": "use", "from": "use", "var": "let", "define": "let", "const": "param",
                     "set": "param", "threshold": "param", "alias": "metric", "tag": "level", "silence": "disable"}  # fmt: skip
_NO_BEGINNING = {
    "for": "when CONDITION for 20 steps -> LEVEL",
    "each": "rule NAME each m in FAMILY { … }",
    "within": "when (A then B within 100 steps) -> LEVEL",
    "after": "when CONDITION -> LEVEL after …",
}


def keywords(p: Place) -> Diagnostic | None:
    """A word where a statement, or a part of a rule, begins."""
    word = p.word
    top = "RULE" in p.expected and "METRIC" in p.expected
    part = "COOLDOWN" in p.expected or "CLEAR" in p.expected
    if not WORD.match(p.rest) or not (top or part) or "NAME" in p.expected or word == "then":
        return None
    words = STATEMENTS if top else RULE_PARTS
    what = "statement" if top else "part of a rule"
    if word.lower() in words:
        return p.error("V027", f"`{word}` is written in small letters", f"write `{word.lower()}`")
    if part and word == "in":
        return _within(p)
    if word in ("if", "alert", "alarm", "where", "unless", "rule_when", "on"):
        return p.error("V027", f"a rule begins with `when`, not `{word}`", "write `when CONDITION -> LEVEL`")
    if word == "do":
        return _do(p, what)
    if word in _NO_BEGINNING:
        return p.error(
            "V027", f"`{word}` begins no {what}", "what does it belong to?", f"write `{_NO_BEGINNING[word]}`"
        )
    if word.lower() in ("and", "or", "not"):
        return p.error("V027", f"`{word}` has no condition to join", "is a part missing before it?")
    if top and word in RULE_PARTS:
        return p.error("V027", f"`{word}` belongs inside a rule", "outside of any `{ … }`",
                       "write `rule NAME { when … }`")  # fmt: skip
    near = _near(word, words)
    if top and not near and re.match(r"[^\n]*?[^-][<>]=?\s[^\n]*->", p.rest):
        return p.error("V027", f"`{word}` begins no statement", "a condition?",
                       f"a rule begins with `when`: `when {word} …`")  # fmt: skip
    at, previous = p.previous
    if not near and is_name(previous) and previous not in LEVELS and "\n" not in p.text[at : p.at]:
        return two_names(p, at, previous)
    help_ = f"did you mean `{near[0]}`?" if near else f"a {what} begins with one of: {', '.join(words)}"
    return p.error("V027", f"`{word}` begins no {what}", "not known here", help_)


def _within(p: Place) -> Diagnostic:
    """`rule r { in phase late …`: the phases of a rule stand in its head."""
    rule = re.findall(r"\brule\s+(\w+)", masked(p.before))
    phases = re.match(r"in\s+phase\s+([\w./]+(?:\s*,\s*[\w./]+)*)", p.rest)
    written = f"rule {rule[-1] if rule else 'NAME'} in phase {phases[1] if phases else 'NAME'} {{ … }}"
    return p.error("V027", "`in phase` stands before the `{` of a rule", "inside of it", f"write `{written}`",
                   length=len(phases[0]) if phases else 2)  # fmt: skip


def _do(p: Place, what: str) -> Diagnostic:
    """Actions on a line of their own: they belong behind a level."""
    clauses = re.findall(r"\bwhen\b[^{}]*?->\s*\w+", masked(p.before))
    clause = " ".join(clauses[-1].split()) if clauses else "when CONDITION -> LEVEL"
    actions = " ".join(re.split(r"[\n}#]", p.rest)[0].split())
    return p.error("V027", f"`do` begins no {what}", "behind which level?", f"write `{clause} {actions}`")


def _near(word: str, words: list[str]) -> list[str]:
    """The statement, or the part of a rule, that a word may stand for."""
    other = _OTHER_STATEMENTS.get(word.lower())
    return [other] if other in words else difflib.get_close_matches(word.lower(), words, 1, 0.6)
