"""Conditions as they are said in English: `loss rises by 10%`, `80% of x`, `3x x`, `between 3 and 5`."""

from __future__ import annotations

import re

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.quoting import QUOTED
from vitalsdsl.ground.words import RESERVED
from vitalsdsl.language.mistakes.numbers import BEFORE_LENGTHS
from vitalsdsl.language.mistakes.place import Place, is_name

_OPERAND = rf"(?:{QUOTED}" r"|[A-Za-z_][\w./]*(?:\((?:[^()\n]|\([^()\n]*\))*\))?)"
_BOUND = r"(?P<bound>[^\n{}]+?)(?=\s+(?:for|and|or|on|within|then)\b|\s*->|\s*[\n{}]|\s*$)"
_BECOMES = r"(?:(?:stays?|remains?|keeps?|goes|gets|is|rises|climbs|drops|falls)\s+)?"
_UP = r"(?:rises?|rising|increases?|increasing|grows?|growing|climbs?|climbing|goes\s+up)"
_DOWN = r"(?:falls?|falling|decreases?|decreasing|drops?|dropping|shrinks?|goes\s+down)"
_BY = r"\s+(?:by\s+)?(?:more\s+than\s+)?(?P<by>\d[\d.]*%?)"
_PHRASES = [
    (rf"{_BECOMES}(?:above|over|(?:higher|greater|more|larger|bigger)\s+than)\s+{_BOUND}", "{x} > {bound}"),
    (rf"(?:exceeds?|surpasses)\s+{_BOUND}", "{x} > {bound}"),
    (rf"{_BECOMES}(?:below|under|(?:lower|less|smaller)\s+than)\s+{_BOUND}", "{x} < {bound}"),
    (rf"(?:{_BECOMES}at\s+least|reaches)\s+{_BOUND}", "{x} >= {bound}"),
    (rf"{_BECOMES}at\s+most\s+{_BOUND}", "{x} <= {bound}"),
    (rf"equals\s+{_BOUND}", "{x} == {bound}"),
    (r"(?:between|in)\s+(?P<low>\S+?)\s*(?:and|\.\.|,)\s*(?P<high>[^\s,]+)", "{low} < {x} < {high}"),
    (r"(?:does\s+not|stops)\s+(?:improve?|improving|decreas\w+|fall\w*)\b", "not falling({x}, 1000 steps)"),
    (rf"{_UP}{_BY}(?<=%)", "growth({x}, 100 steps) > {by}"),
    (rf"{_DOWN}{_BY}(?<=%)", "growth({x}, 100 steps) < -{by}"),
    (rf"{_UP}{_BY}", "delta({x}, 100 steps) > {by}"),
    (rf"{_DOWN}{_BY}", "delta({x}, 100 steps) < -{by}"),
    (rf"{_UP}\b", "rising({x}, 100 steps)"),
    (rf"{_DOWN}\b", "falling({x}, 100 steps)"),
    (r"doubles\b", "growth({x}, 100 steps) > 100%"),
    (r"halves\b", "growth({x}, 100 steps) < -50%"),
    (r"(?:spikes|jumps|explodes|diverges|blows\s+up)\b", "{x} > 1.5 * usual({x}, 500 steps)"),
    (r"(?:plateaus?|stagnates|flattens|stalls|flat|stuck|constant)\b", "flat({x}, 1000 steps)"),
    (r"(?:missing|absent|stops|disappears|vanishes)\b", "missing {x} for 100 steps"),
]
"""What is said of a metric, and how the language says it. The first that fits; 100 steps stand for a window."""
_TIMES = {"half": "0.5", "twice": "2", "double": "2", "thrice": "3", "triple": "3"}


def phrases(p: Place) -> Diagnostic | None:
    """`loss rises by 10%`, `loss stays above 3`: a verb where an operator stands."""
    subject = re.search(rf"(?P<x>{_OPERAND})(?P<be>\s+is)?\s+$", p.before)
    if subject is None or not p.expected & {"COMPARE", "STATE"} or _is_word(subject["x"]):
        return None
    for phrase, written in _PHRASES:
        said = re.match(phrase, p.rest)
        if said is not None:
            text = written.format(x=subject["x"], **said.groupdict())
            if re.match("stay|remain|keep", said[0]) and not re.match(r"\s+for\b", p.rest[said.end() :]):
                text += " for 20 steps"
            return p.error("V005", f"`{_one_line(said[0])}` is not spelt so here", "said as in English",
                           f"write `{text}`", length=len(said[0]))  # fmt: skip
    return None


def multiples(p: Place) -> Diagnostic | None:
    """`80% of x`, `3x x`, `3 times x`, `twice x`: a product is written with `*`."""
    factor = re.search(
        r"(?P<number>\d[\d.]*%?)\s*(?P<of>of\s+)?$|\b(?P<word>half|twice|double|thrice|triple)\s+$", p.before
    )
    if factor is None or (p.before[: factor.start()].split() or [""])[-1] in BEFORE_LENGTHS:
        return None
    sign = re.match(r"(?:of|times|x|X|×)\s+|", p.rest)
    at = sign.end() if sign is not None else 0
    operand = re.match(_OPERAND, p.rest[at:])
    if operand is None or _is_word(operand[0]):
        return None
    number = factor["number"] or _TIMES[factor["word"]]
    called = "(" in operand[0] and "UNIT" in p.expected
    if factor["of"]:
        if "LPAR" not in p.expected or number.isdigit():  # `2 of (…)` is another thing
            return None
    elif not (at or factor["word"] or called):
        return None
    return p.error("V025", "a product is written with `*`", "no sign of it", f"write `{number} * {operand[0]}`",
                   at=p.start + factor.start(), length=len(factor[0]) + at)  # fmt: skip


def joined(p: Place) -> Diagnostic | None:
    """`loss > 3 unless step < 1000`."""
    by = {
        "if": "and",
        "during": "and",
        "where": "and",
        "while": "and",
        "unless": "and not",
        "but": "and",
        "except": "and not",
    }
    if p.word in by and "COMPARE" in p.expected and "ARROW" in p.expected:
        return p.error("V027", f"`{p.word}` joins no conditions", "not known here", f"write `{by[p.word]}`")
    return None


def _is_word(operand: str) -> bool:
    """Whether what looks like an operand is a word of the language."""
    return operand in RESERVED or not (operand[0] == '"' or "(" in operand or is_name(operand))


def _one_line(text: str) -> str:
    return " ".join(text.split())
