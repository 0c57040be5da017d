"""Names that are none, and words that stand side by side with nothing between."""

from __future__ import annotations

import re

from vitalsdsl.diagnostic import Diagnostic
from vitalsdsl.mistakes.place import ACTIONS, WORD, Place, is_name
from vitalsdsl.ops.base import aggregates, registry
from vitalsdsl.words import LEVELS, RESERVED

_JOINED_BY = {"if": "and", "where": "and", "while": "and", "unless": "and not", "but": "and", "except": "and not"}
_AFTER_CONDITION = {"for": "for 20 steps", "on": "on METRIC", "within": "within 100 steps"}


def names(p: Place) -> Diagnostic | None:
    at, previous = p.previous
    char = p.rest[:1]
    if p.word in _JOINED_BY and "COMPARE" in p.expected and "ARROW" in p.expected:
        return p.error("V027", f"`{p.word}` joins no conditions", "not known here", f"write `{_JOINED_BY[p.word]}`")
    between = re.match(r"(?:between|in)\s+(\S+?)\s*(?:and|\.\.|,)\s*(\S+)", p.rest)
    if between and "COMPARE" in p.expected and is_name(previous):
        return p.error("V005", f"`{p.word}` is not spelt so here", "a range",
                       f"write `{between[1]} < {previous} < {between[2]}`")  # fmt: skip
    if previous in ("and", "or") and WORD.match(p.rest) and "COMPARE" in p.expected and p.word not in RESERVED:
        return p.error("V035", f"a condition is missing before `{previous}`", "nothing before this",
                       "take it out, or write the condition", at=at, length=len(previous))  # fmt: skip
    if p.word in _AFTER_CONDITION and previous in LEVELS:
        return p.error("V027", f"`{p.word}` comes before the `->`", "too late here",
                       f"write `when CONDITION {_AFTER_CONDITION[p.word]} -> {previous}`")  # fmt: skip
    if previous in ACTIONS and p.word in ACTIONS:
        return p.error("V034", f"no comma between `{previous}` and `{p.word}`", "a second action",
                       f"write `{previous}, {p.word}`")  # fmt: skip
    if "COMPARE" in p.expected and is_name(previous) and (previous in registry() or previous in aggregates()):
        if re.match(r"[\w\"]", p.rest) and p.word not in RESERVED:
            return p.error("V033", f"what `{previous}` is about stands in parentheses", "no `(` before this",
                           f"write `{previous}({p.rest.split()[0]} …)`")  # fmt: skip
    if char in ("@", "$", "?", "\\", "~", ";", "["):
        if char == ";":
            return p.error("V029", "statements are not ended by `;`", "take it out", length=1)
        if char == "[" and "NUMBER" in p.expected and "STRING" not in p.expected:
            return None
        if char == "[":
            return p.error(
                "V029",
                "there is no `[…]` here",
                "name a window in a function",
                "such as `mean(loss, 10 samples)`",
                length=1,
            )
        return p.error(
            "V029", f"`{char}` stands in no name", "not known here", 'write such a metric in quotes: `"…"`', length=1
        )
    if WORD.match(p.rest) and WORD.fullmatch(previous) and previous.lower() not in RESERVED | set(LEVELS):
        capital = p.word.lower() in ("and", "or", "not", "for", "then", "is", "on", "before", "within", "at")
        if capital and p.word != p.word.lower():
            return p.error("V027", f"`{p.word}` is written in small letters", f"write `{p.word.lower()}`")
        if "COMPARE" in p.expected and p.word not in RESERVED:
            return two_names(p, at, previous)
    if re.match(r"[A-Z]\w*\(", p.rest):
        name = p.word
        return p.error("V033", "functions are written in small letters", f"write `{name.lower()}(`")
    if p.rest.startswith("(") and WORD.fullmatch(previous):
        if previous[0].isupper():
            return p.error(
                "V033",
                "functions are written in small letters",
                f"write `{previous.lower()}(`",
                at=at,
                length=len(previous),
            )
        if p.at > at + len(previous):
            return p.error(
                "V033",
                "`(` stands right behind the function's name",
                f"write `{previous}(`",
                at=at,
                length=p.at - at + 1,
            )
    if (
        re.match(r"\d", p.rest)
        and WORD.fullmatch(previous)
        and previous.lower() not in RESERVED
        and "COMPARE" in p.expected
    ):
        return p.error("V028", f"`{previous} {p.word}` needs something between", "an operator, or parentheses",
                       f"such as `{previous} > {p.rest.split()[0]}`", at=at, length=p.at + 1 - at)  # fmt: skip
    return None


def two_names(p: Place, at: int, previous: str) -> Diagnostic:
    pair = f"{previous} {p.word}"
    return p.error("V028", f"`{pair}` reads as two names", "which one?", f'if it is one metric, write `"{pair}"`',
                   at=at, length=p.at + len(p.word) - at)  # fmt: skip


def reserved(p: Place) -> Diagnostic | None:
    word = p.word
    if word in RESERVED and ("NAME" in p.expected or "STRING" in p.expected) and "NUMBER" in p.expected:
        at, previous = p.previous
        if previous in ("when", "and", "or", "not", "(", "=", "<", ">", ">=", "<=", "+", "-", "*", "/", ","):
            after = p.rest[len(word) :].lstrip()
            if re.match(r"[<>=!+*/-]|is\b", after):
                return p.error(
                    "V006", f"`{word}` is a word of the language", "reserved", f'as a metric name write `"{word}"`'
                )
    return None
