"""Quotes, letters that are not ASCII, and words of the language that are not written small."""

from __future__ import annotations

import re
import unicodedata

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.quoting import QUOTED
from vitalsdsl.ground.words import LEVELS, RESERVED
from vitalsdsl.language.mistakes.place import WORD, Place

_QUOTES = "'‘’“”„«»`"
_SPELT_OUT = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ø": "o",
                            "æ": "ae", "ł": "l", "µ": "u", "μ": "u", "σ": "sigma", "λ": "lambda", "α": "alpha",
                            "β": "beta", "ε": "epsilon", "θ": "theta", "Δ": "delta"})  # fmt: skip


def quotes(p: Place) -> Diagnostic | None:
    char = p.rest[:1]
    if char == '"':
        line = p.rest.split("\n", 1)[0]
        if re.match(QUOTED, line) is None:
            ends = (
                'end it with `"`' if '"' not in line[1:] else r"`\"` is a quote within it; a backslash itself is `\\`"
            )
            return p.error("V020", "this text is not closed", "no closing quote on this line", ends,
                           length=len(line.rstrip()))  # fmt: skip
    if char and char in _QUOTES:
        inside = re.match(rf"[{_QUOTES}]([^{_QUOTES}\n]*)[{_QUOTES}]?", p.rest)
        text = inside[1] if inside else ""
        return p.error("V021", f"`{char}` is no quote here", "plain double quotes only", f'write `"{text}"`',
                       length=len(inside[0]) if inside else 1)  # fmt: skip
    return None


def letters(p: Place) -> Diagnostic | None:
    """`größe`, `٣`: names and numbers are written in ASCII."""
    at, end = p.at, p.at
    while end < p.end and _is_letter(p.text[end]):
        end += 1
    while at > p.start and _is_letter(p.text[at - 1]):
        at -= 1
    word = p.text[at:end].strip("./")
    if end == p.at or word.isascii():
        return None
    plain = unicodedata.normalize("NFKD", word.translate(_SPELT_OUT)).encode("ascii", "ignore").decode()
    digits = "".join(str(unicodedata.decimal(c, c)) for c in word)
    if re.fullmatch(r"[0-9.]+", digits):
        return p.error("V026", f"`{word}` is not written in the digits 0 to 9", "other digits", f"write `{digits}`",
                       at=at, length=end - at)  # fmt: skip
    name = plain if WORD.fullmatch(plain) and plain not in RESERVED else ""
    such = f", such as `{name}`" if name else ""
    help_ = f'as a metric name write `"{word}"`'
    if p.text[end : end + 1] in ("*", "{") and name:
        help_ = f'give the family another name: `metric {name}* = "{word}*"`'
    elif re.search(r"(?:->|\d)\s*$", p.text[p.start : at]) or (p.at == at and "RULE" in p.expected):
        help_ = "the words of the language have none"
    elif re.search(r"\b(?:let|event|phase|param|rule|policy|profile|as|each|in phase)\s+$", p.text[p.start : at]):
        help_ = f"choose another name{such}; any text in double quotes can name a metric"
    return p.error("V029", f"`{word}` has letters other than a to z", "only in quotes", help_, at=at, length=end - at)


def _is_letter(char: str) -> bool:
    return char in "._/" or unicodedata.category(char)[0] in "LNM"


def small_letters(p: Place) -> Diagnostic | None:
    """`AND`, `is NaN`: words of the language are written small."""
    word = p.word.lower()
    small = word in RESERVED or word in ("nan", "inf", "finite", *LEVELS)
    if p.word != word and small and word.upper() in p.expected and "NUMBER" not in p.expected:
        return p.error("V027", f"`{p.word}` is written in small letters", f"write `{word}`")
    if p.word != word and word in ("nan", "inf", "finite") and "STATE" in p.expected:
        return p.error("V027", f"`{p.word}` is written in small letters", f"write `{word}`")
    if "STATE" in p.expected and re.search(r"\bis(\s+not)?\s*$", p.before):
        return p.error("V034", f"`{p.word}` is nothing that a metric can be", "`nan`, `inf` or `finite`",
                       "other comparisons are written `>`, `<`, `==`")  # fmt: skip
    return None
