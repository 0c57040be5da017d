"""Numbers and the units of lengths."""

from __future__ import annotations

import difflib
import re

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.language.mistakes.place import WORD, Place, is_name

_UNITS = {
    "seconds": "s", "second": "s", "sec": "s", "secs": "s", "minutes": "min", "minute": "min", "mins": "min", "m": "min",
    "hours": "h", "hour": "h", "hrs": "h", "hr": "h", "days": "d", "day": "d", "iters": "steps", "iter": "steps",
    "iterations": "steps", "iteration": "steps", "points": "samples", "point": "samples", "times": "samples",
    "batches": "steps", "updates": "steps", "epoch": "epochs", "token": "tokens", "step": "steps", "rows": "samples",
    "ms": "s", "evaluations": "samples", "evals": "samples", "weeks": "d",
}  # fmt: skip
_KNOWN_UNITS = "steps samples epochs tokens min".split()
BEFORE_LENGTHS = "for after within before every cooldown apart per stalled".split()


def durations(p: Place) -> Diagnostic | None:
    at, previous = p.previous
    if (
        p.rest.startswith("-")
        and "UNIT" not in p.expected
        and re.match(r"-\s*\d", p.rest)
        and previous in BEFORE_LENGTHS
    ):
        written = re.match(r"-\s*(\d[\d.]*\s*[a-z]*)", p.rest)
        text = written[1].strip() if written else "20 steps"
        return p.error("V048", "a length is never negative", "below nothing", f"write `{text}`", length=1)
    if (
        "UNIT" not in p.expected
        and p.word in (*_UNITS, *_KNOWN_UNITS)
        and is_name(previous)
        and "NUMBER" not in p.expected
    ):
        before = re.search(r"([a-z]+)\s+\S+\s*$", p.before)
        if before and before[1] in BEFORE_LENGTHS:
            return p.error("V001", f"`{previous} {p.word}` has no number", "how many?",
                           f"write it in digits, such as `20 {p.word}`; a param that is a length has its unit already",
                           at=at, length=p.at + len(p.word) - at)  # fmt: skip
    number = re.fullmatch(r"\d[\d.]*(?:[eE]\d+)?[kMBT]?", previous)
    if number is None or "UNIT" not in p.expected:
        joined = re.match(r"(\d[\d.]*)([A-Za-z]+)", previous)
        if joined and joined[2] in _UNITS and "UNIT" in p.expected:
            return _unit(p, at, joined[1], joined[2], len(previous))
        return None
    if p.word.lower() in _UNITS:
        return _unit(p, p.at, previous, p.word, len(p.word))
    near = difflib.get_close_matches(p.word.lower(), [*_KNOWN_UNITS, *_UNITS], 1, 0.7) if is_name(p.word) else []
    if near and len(p.word) > 2:
        unit = _UNITS.get(near[0], near[0])
        return p.error("V001", f"`{p.word}` is no unit", "unknown unit", f"did you mean `{previous} {unit}`?")
    if "COMPARE" in p.expected and "FOR" in p.expected:
        return None
    return Diagnostic(
        "V001", Severity.ERROR, "a duration needs a unit", p.span(at, len(previous)), f"{previous} what?",
        (f"write `{previous} steps`; also possible: `{previous} samples` (logged points), `{previous} min`",),
    )  # fmt: skip


def _unit(p: Place, at: int, number: str, word: str, length: int) -> Diagnostic:
    unit = _UNITS[word.lower()]
    text = f"write `{number} {unit}`"
    if word == "ms":
        text = "times are in `s`, `min`, `h` or `d`"
    if word == "weeks":
        text = f"write `{float(number) * 7:g} d`"
    return p.error("V001", f"`{word}` is no unit here", "unknown unit", text, at=at, length=length)


def numbers(p: Place) -> Diagnostic | None:
    fraction = re.match(r"\.\d+", p.rest)
    if fraction:
        return p.error("V026", "a number begins with a digit", f"write `0{fraction[0]}`", length=len(fraction[0]))
    at, previous = p.previous
    if re.fullmatch(r"\d+", previous) and re.match(r",\d{3}\b", p.rest):
        digits = previous + p.rest[1:4]
        return p.error(
            "V026", "a number has no thousands separator", f"write `{digits}`", at=at, length=len(previous) + 4
        )
    if re.fullmatch(r"\d[\d.]*", previous):
        follows = p.at == at + len(previous)
        if follows and re.match(r"_\d", p.rest):
            return p.error(
                "V026", "a number has no thousands separator", "leave out the `_`", at=at, length=len(previous) + 2
            )
        if p.rest.startswith("%"):
            return p.error(
                "V026", "the percent sign stands at its number", f"write `{previous}%`", at=at, length=p.at - at + 1
            )
        if follows and WORD.match(p.rest):
            return p.error("V026", f"`{previous}{p.word}` is no number", f"write `{previous} * {p.word}`", at=at,
                           length=len(previous) + len(p.word))  # fmt: skip
    return None
