"""Names that are none, and words that stand side by side with nothing between."""

from __future__ import annotations

import re

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.words import LEVELS, RESERVED
from vitalsdsl.language.mistakes.place import ACTIONS, WORD, Place, is_name
from vitalsdsl.ops.base import aggregates, registry

_CAPITALS = ("and", "or", "not", "for", "then", "is", "on", "before", "within", "at")


def reserved(p: Place) -> Diagnostic | None:
    """`at > 3`: a word of the language as a metric."""
    word = p.word
    if word in RESERVED and ("NAME" in p.expected or "STRING" in p.expected) and "NUMBER" in p.expected:
        previous = p.previous[1]
        if previous in ("when", "and", "or", "not", "(", "=", "<", ">", ">=", "<=", "+", "-", "*", "/", ","):
            if re.match(r"[<>=!+*/-]|is\b", p.rest[len(word) :].lstrip()):
                return p.error("V006", f"`{word}` is a word of the language", "reserved",
                               f'as a metric name write `"{word}"`')  # fmt: skip
    return None


def side_by_side(p: Place) -> Diagnostic | None:
    """`grad norm > 3`, `alert pause`, `baseline 500`: two words, and what belongs between them."""
    at, previous = p.previous
    is_word = WORD.match(p.rest) is not None
    if previous in ("and", "or") and is_word and "COMPARE" in p.expected and p.word not in RESERVED:
        return p.error("V035", f"a condition is missing before `{previous}`", "nothing before this",
                       "take it out, or write the condition", at=at, length=len(previous))  # fmt: skip
    if previous in ACTIONS and p.word in ACTIONS:
        return p.error("V034", f"no comma between `{previous}` and `{p.word}`", "a second action",
                       f"write `{previous}, {p.word}`")  # fmt: skip
    if previous == "notify" and is_word and "LPAR" in p.expected:
        return p.error("V033", "the channel stands in parentheses", "no `(` before this",
                       f'write `notify("{p.word}")`')  # fmt: skip
    if "COMPARE" in p.expected and is_name(previous) and (previous in registry() or previous in aggregates()):
        if re.match(r"[\w\"]", p.rest) and p.word not in RESERVED:
            return p.error("V033", f"what `{previous}` is about stands in parentheses", "no `(` before this",
                           f"write `{previous}({p.rest.split()[0]} …)`")  # fmt: skip
    return None


def strange_signs(p: Place) -> Diagnostic | None:
    """`$loss`, `loss[10]`, `loss > 3;`."""
    char = p.rest[:1]
    if char == ";":
        return p.error("V029", "statements are not ended by `;`", "take it out", length=1)
    if char == "[" and ("NUMBER" not in p.expected or "STRING" in p.expected):
        return p.error("V029", "there is no `[…]` here", "name a window in a function",
                       "such as `mean(loss, 10 samples)`", length=1)  # fmt: skip
    if char and char in "@$?\\~":
        return p.error("V029", f"`{char}` stands in no name", "not known here",
                       'write such a metric in quotes: `"…"`', length=1)  # fmt: skip
    return None


def words(p: Place) -> Diagnostic | None:
    """A word behind a word, or a bracket or number behind one."""
    at, previous = p.previous
    is_word = WORD.fullmatch(previous) is not None
    if WORD.match(p.rest) and is_word and previous.lower() not in RESERVED | set(LEVELS):
        if p.word.lower() in _CAPITALS and p.word != p.word.lower():
            return p.error("V027", f"`{p.word}` is written in small letters", f"write `{p.word.lower()}`")
        if "COMPARE" in p.expected and p.word not in RESERVED:
            return two_names(p, at, previous)
    if re.match(r"[A-Z]\w*\(", p.rest):
        return p.error("V033", "functions are written in small letters", f"write `{p.word.lower()}(`")
    if p.rest.startswith("(") and is_word:
        if previous[0].isupper():
            return p.error("V033", "functions are written in small letters", f"write `{previous.lower()}(`",
                           at=at, length=len(previous))  # fmt: skip
        if p.at > at + len(previous):
            return p.error("V033", "`(` stands right behind the function's name", f"write `{previous}(`",
                           at=at, length=p.at - at + 1)  # fmt: skip
    if re.match(r"\d", p.rest) and is_word and previous.lower() not in RESERVED and "COMPARE" in p.expected:
        return p.error("V028", f"`{previous} {p.word}` needs something between", "an operator, or parentheses",
                       f"such as `{previous} > {p.rest.split()[0]}`", at=at, length=p.at + 1 - at)  # fmt: skip
    return None


def two_names(p: Place, at: int, previous: str) -> Diagnostic:
    """Two names side by side: one metric with a blank in it, perhaps."""
    pair = f"{previous} {p.word}"
    return p.error("V028", f"`{pair}` reads as two names", "which one?", f'if it is one metric, write `"{pair}"`',
                   at=at, length=p.at + len(p.word) - at)  # fmt: skip
