"""Conditions that break off, or lack a value, a bound or a pair of parentheses."""

from __future__ import annotations

import re

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.words import STATEMENTS
from vitalsdsl.language.mistakes.place import Place


def bounds(p: Place) -> Diagnostic | None:
    """`a then b`, `missing loss`, `stalled`: for how long?"""
    at, previous = p.previous
    if p.expected == {"WITHIN"} or ("WITHIN" in p.expected and "then" in p.before):
        if p.is_over or p.rest.startswith("->") or p.word in ("for", *STATEMENTS):
            return p.error("V501", "`then` needs a bound", "within how long?", "write `A then B within 100 steps`",
                           at=at, length=len(previous))  # fmt: skip
    if p.expected == {"FOR"} and re.search(r"\bmissing\s+\S+\s*$|\bstalled\s*$", p.before):
        written = "stalled for 10 min" if previous == "stalled" else f"missing {previous} for 100 steps"
        return p.error("V034", "for how long?", "`for` is missing", f"write `{written}`", at=at, length=len(previous))
    return None


def samples(p: Place) -> Diagnostic | None:
    """`for 3 of 5 -> red`."""
    of = re.search(r"(\d+)\s+of\s+(\d+)\s*$", p.before)
    if of is None or "SAMPLES" not in p.expected:
        return None
    return p.error("V001", f"`{of[0].strip()}` of what?", f"{of[2]} what?", f"write `{of[0].strip()} samples`",
                   at=p.start + of.start(), length=len(of[0].rstrip()))  # fmt: skip


def counted(p: Place) -> Diagnostic | None:
    """`2 of a > 1, b > 1`."""
    of = re.search(r"(\d+)\s+of\s+$", p.before)
    if of is None or "LPAR" not in p.expected:
        return None
    listed = re.match(r"[^\n{}]*?(?=\s*(?:->|[\n{}]|$|\bfor\b))", p.rest)
    conditions = listed[0] if listed is not None and "," in listed[0] else "A, B, C"
    return p.error("V034", f"what `{of[1]} of` counts stands in parentheses", "no `(` before this",
                   f"write `{of[1]} of ({conditions})`")  # fmt: skip


def steps(p: Place) -> Diagnostic | None:
    """`loss at 100`."""
    number = re.match(r"\d+", p.rest)
    if p.previous[1] != "at" or number is None:
        return None
    return p.error("V034", "`at` what?", "a bare number", f"write `at step {number[0]}`", length=len(number[0]))


def sequences(p: Place) -> Diagnostic | None:
    """`a then b within 10 steps and c`."""
    if p.word not in ("and", "or") or "ARROW" not in p.expected:
        return None
    if not re.search(r"\bthen\b.*\bwithin\b[^()]*$", p.before, re.DOTALL):
        return None
    return p.error("V046", "a sequence inside a condition needs parentheses", "after the sequence",
                   f"write `(A then B within 100 steps) {p.word} …`")  # fmt: skip


def values(p: Place) -> Diagnostic | None:
    """`loss > -> red`, `when > 3`."""
    if not p.expected >= {"NUMBER", "NAME", "STRING"}:
        return None
    at, previous = p.previous
    if p.is_over or p.rest.startswith(("->", "}")) or p.word in ("for", *STATEMENTS):
        what = "condition" if previous in ("when", "not", "and", "or", "=") else "value"
        if not previous:
            return p.error("V035", "a value is missing", "nothing here")
        return p.error("V035", f"a {what} is missing after `{previous}`", "after this", at=at, length=len(previous))
    sign = re.match(r"[<>=!]=?|[*/+,)]", p.rest)
    if sign is None:
        return None
    return p.error("V035", f"`{sign[0]}` has nothing on its left", f"after `{previous}`", length=len(sign[0]))
