"""Numbers as other languages write them, and durations without a unit or with one that nobody knows."""

from __future__ import annotations

import difflib
import re

from vitalsdsl.mistakes.sentence import Edit, Mistake, Recogniser, Sentence, swap

UNITS = ("steps", "samples", "epochs", "tokens", "s", "min", "h", "d")
_SINGULAR = ("step", "sample", "epoch", "token")
_MEANT = {
    "s": "seconds second secs sec", "min": "minutes minute mins m mn", "h": "hours hour hrs hr", "d": "days day",
    "steps": "iterations iteration iters iter its it updates update batches batch global_steps global_step stp stps"
             " ticks tick train_steps optimizer_steps",
    "samples": "points point observations observation values value measurements evals evaluations rows entries"
               " examples times",
    "epochs": "epoches ep eps", "tokens": "tok toks",
}  # fmt: skip
_UNIT_OF = {word: unit for unit, words in _MEANT.items() for word in words.split()}
_SCALED = {"ms": (0.001, "s"), "milliseconds": (0.001, "s"), "weeks": (7, "d"), "week": (7, "d"), "w": (7, "d"),
           "fortnight": (14, "d"), "months": (30, "d"), "month": (30, "d")}  # fmt: skip
_BEFORE_DURATION = ("for", "within", "after", "every", "cooldown", "apart", "per")
_FILLERS = ("at", "least", "the", "last", "consecutive", "about", "a", "an", "in", "row", "straight", "past", "more",
            "than", "full", "whole", "over", "previous", "approximately", "around", "~")  # fmt: skip
_DIGITS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
           "twenty": 20, "fifty": 50, "hundred": 100, "thousand": 1000}  # fmt: skip
_SUFFIXES = {"K": "k", "m": "M", "b": "B", "G": "B", "g": "B", "t": "T", "Mio": "M", "million": "M", "billion": "B",
             "thousand": "k"}  # fmt: skip


def unit_missing(s: Sentence) -> Mistake | None:
    """`for 20 -> red`: 20 what?"""
    number = s[-1]
    if not number.is_number or "UNIT" not in s.expected or s[0].is_name and _unit(s[0].text):
        return None
    if s[-2].text not in _BEFORE_DURATION and not (s[-2].text == "and" and "COMPARE" not in s.expected):
        if s.operand_wanted() or not s.expected <= {"UNIT", "OF", "SAMPLES"}:
            return None
    if s.touches(number, s[0]) and s[0].text == ".":
        return None
    edit = Edit(number.end, number.end, " steps")
    word = s[-2].text
    help_ = f"write `{word} {number.text} steps`." if word else f"write `{number.text} steps`."
    also = f"Also possible: {number.text} samples, {number.text} min"
    return Mistake("V001", "a duration needs a unit", number.start, number.end, f"{number.text} what?",
                   (f"{help_}  {also}",), edit)  # fmt: skip


def percentage_as_length(s: Sentence) -> Mistake | None:
    """`for 20% -> red`."""
    if s[0].kind != "percent" or s[-1].text not in _BEFORE_DURATION:
        return None
    number = s[0].text[:-1]
    help_ = f"write `{s[-1].text} {number} steps`, or the share of a window as `fraction(…, 50 steps) > {s[0].text}`"
    edit = Edit(s[0].start, s[0].end, f"{number} steps")
    return Mistake("V001", "a duration is a number and a unit", s[0].start, s[0].end, "a share is no length of time",
                   (help_,), edit)  # fmt: skip


def of_samples(s: Sentence) -> Mistake | None:
    """`for 3 of 5 -> red`, `for 3 of 5 steps`, `for 3/5 samples`, `for 3 out of 5 samples`."""
    if s[-1].is_number and s[-2].text == "of" and "SAMPLES" in s.expected:
        wrong = s[0] if _unit(s[0].text) or s[0].text in UNITS + _SINGULAR else None
        edit = swap(s, wrong, "samples") if wrong is not None else Edit(s[-1].end, s[-1].end, " samples")
        place = wrong or s[-1]
        said = s.said(s[-3].start, place.end)
        return Mistake("V001", f"`{said}` counts samples", place.start, place.end,
                       "samples" if wrong else f"{place.text} what?", s.write(edit), edit)  # fmt: skip
    if s[-1].is_number and s[-2].text == "for" and s[0].text in ("/", "out", "in") and "OF" in s.expected:
        last = s[1] if s[0].text == "out" and s[1].text == "of" else s[0]
        edit = Edit(s[-1].end, last.end, " of ")
        if s.text[last.end : last.end + 1].isspace():
            edit = Edit(s[-1].end, last.end, " of")
        return Mistake("V001", "k out of n looks is written `k of n samples`", s[-1].start, last.end, "write `of`",
                       s.write(edit), edit)  # fmt: skip
    return None


def _unit(word: str) -> str:
    """The unit that somebody means by a word that is none."""
    low = word.lower()
    if low in UNITS:
        return low
    if low in _SINGULAR:
        return low + "s"
    if low in _UNIT_OF:
        return _UNIT_OF[low]
    near = difflib.get_close_matches(low, UNITS[:4], 1, 0.75) if len(low) > 2 else []
    return near[0] if near else ""


def unit_unknown(s: Sentence) -> Mistake | None:
    """`20 seconds`, `100 ms`, `2 epoch s`."""
    number, word = s[-1], s[0]
    if not number.is_number or not word.is_name or not s.expected & {"UNIT", "COMPARE"}:
        if not (s[-2].is_number and number.text in _SINGULAR and word.text == "s"):
            return None
        edit = Edit(number.end, word.end, "s")
        return Mistake("V018", f"`{number.text} s` is two words", number.start, word.end, f"`{number.text}s`",
                       s.write(edit), edit)  # fmt: skip
    if word.text in _SCALED:
        factor, unit = _SCALED[word.text]
        edit = Edit(number.start, word.end, f"{_times(number.text, factor)} {unit}")
    elif not s.touches(number, word) and (suffix := _SUFFIXES.get(word.text)) and word.text not in _UNIT_OF:
        edit = Edit(number.start, word.end, number.text + suffix)
        message = f"`{number.text} {word.text}` is written `{number.text}{suffix}`"
        return Mistake("V027", message, number.start, word.end, f"`{number.text}{suffix}`", s.write(edit), edit)
    elif unit := _unit(word.text):
        edit = swap(s, word, unit)
        if s.touches(number, word):
            edit = Edit(word.start, word.end, f" {unit}")
    else:
        return _no_such_unit(s)
    known = "steps, samples, epochs, tokens, s, min, h, d"
    return Mistake("V018", f"`{word.text}` is no unit", word.start, word.end, f"units are {known}", s.write(edit), edit)


def _times(number: str, factor: float) -> str:
    value = float(number[:-1]) * {"k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}[number[-1]] if number[-1] in "kMBT" else float(number)
    return f"{value * factor:.6g}"


def _no_such_unit(s: Sentence) -> Mistake | None:
    if s.expected & {"COMPARE", "PLUS", "ARROW"} or s[-2].text not in _BEFORE_DURATION or s[0].text in _FILLERS:
        return None
    if s[0].text in ("of", "and", "on", "do", "when", "clear", "cooldown", "because", "try"):
        return None
    return Mistake("V018", f"`{s[0].text}` is no unit", s[0].start, s[0].end, f"{s[-1].text} what?",
                   (f"write `{s[-1].text} steps`.  Also possible: samples, epochs, tokens, s, min, h, d",),
                   swap(s, s[0], "steps"), True)  # fmt: skip


def filler(s: Sentence) -> Mistake | None:
    """`for at least 20 steps`, `for 20 consecutive steps`, `for 20 steps in a row`."""
    first = s[0].text == "~" or s[0].text.lower() in _FILLERS
    if s[-1].text == "for" and s[0].text in ("each", "every") or not first and s[-1].text not in ("at", "the", "a", "last"):
        return None
    after_number = s[-1].is_number and s[-2].text in _BEFORE_DURATION
    after_word = s[-1].text in _BEFORE_DURATION + ("before",) or s[-1].text == ","
    swallowed = s[-1].text in _FILLERS and s[-2].text in _BEFORE_DURATION + ("before", "for")
    in_a_row = s[0].text in ("in", "straight") and (s[-1].text in UNITS + _SINGULAR)
    if not (after_number or after_word or swallowed or in_a_row):
        return None
    low = -1 if swallowed else 0
    high = low
    while s[high + 1].text.lower() in _FILLERS and high < 6:
        high += 1
    start, end = s[low].start, s[high].end
    edit = Edit(s[low - 1].end, end, "" if in_a_row else " " if not s.text[end : end + 1].isspace() else "")
    wrote = s.said(start, end)
    return Mistake("V036", f"`{wrote}` says nothing here", start, end, "leave it out", s.write(edit), edit)


def number_word(s: Sentence) -> Mistake | None:
    """`for twenty steps`."""
    for k in (-1, 0):
        value = _DIGITS.get(s[k].text.lower())
        if value is not None and s[k + 1].text in UNITS + _SINGULAR:
            edit = swap(s, s[k], str(value))
            return Mistake("V027", "a number is written in digits", s[k].start, s[k].end, f"`{value}`", s.write(edit), edit)
    return None


def shape(s: Sentence) -> Mistake | None:
    """`.5`, `3.`, `1,000`, `1_000`, `5 %`, `0,5`."""
    if s[0].text == "." and s[1].is_number and s.touches(s[0], s[1]):
        joined = s[-1].is_number and s.touches(s[-1], s[0])
        edit = Edit(s[0].start, s[0].start, "" if joined else "0")
        return None if joined else _number(s, s[0].start, s[1].end, "a number begins with a digit", edit)
    if s[0].text == "." and s[-1].is_number and s.touches(s[-1], s[0]):
        edit = Edit(s[0].start, s[0].end, "")
        return _number(s, s[-1].start, s[0].end, "a number does not end with a point", edit)
    if s[-1].is_number and s[0].text in (",", "_", "'") or s[0].is_name and re.fullmatch(r"_\d+(_\d+)*", s[0].text):
        return _grouped(s)
    if s[0].text == "%" and s[-1].is_number and not (s[1].is_number or s[1].is_name and s[1].text not in _AFTER_PERCENT):
        return _number(s, s[-1].start, s[0].end, "a percent sign touches its number", Edit(s[-1].end, s[0].start, ""))
    if s[0].is_name and s[0].text == "percent" and s[-1].is_number:
        edit = Edit(s[-1].end, s[0].end, "%")
        return _number(s, s[-1].start, s[0].end, "`percent` is written `%`", edit)
    return None


_AFTER_PERCENT = ("for", "and", "or", "on", "then", "within", "when", "before", "in", "because", "cooldown", "clear")


def _number(s: Sentence, start: int, end: int, message: str, edit: Edit) -> Mistake:
    wrote = words = edit.apply(s.text)[start : end + len(edit.text) - (edit.end - edit.start)]
    return Mistake("V027", message, start, end, f"`{words.strip() or wrote}`", s.write(edit), edit)


def _grouped(s: Sentence) -> Mistake | None:
    start = s[-1].start
    found = re.compile(r"(\d{1,3})((?:[,'_]\d{3})+)(?![\d_])|(\d+)((?:_\d+)+)|(\d+),(\d{1,2}|\d{4,})(?!\d)").match(s.text, start)
    if found is None:
        return None
    wrote = found[0]
    right = f"{found[5]}.{found[6]}" if found[5] else re.sub(r"\D", "", wrote)
    message = "a decimal point is written `.`" if found[5] else "digits are written without separators"
    edit = Edit(start, found.end(), right)
    return Mistake("V027", message, start, found.end(), f"`{right}`", s.write(edit), edit)


def factor(s: Sentence) -> Mistake | None:
    """`3x usual(…)`, `3 x`, `2loss`, `2(a + b)`."""
    if not s[-1].is_number or "STAR" not in s.expected:
        return None
    if s[0].text in ("x", "X", "times") and (s[1].is_name or s[1].is_number or s[1].text == "(" or s[1].kind == "string"):
        edit = Edit(s[-1].end, s[1].start, " * ")
        message = f"a multiple is written with `*`, not `{s[0].text}`"
        return Mistake("V027", message, s[-1].start, s[0].end, "`*` here", s.write(edit), edit)
    if s[0].is_name and s.touches(s[-1], s[0]) and (suffix := _SUFFIXES.get(s[0].text)):
        edit = swap(s, s[0], suffix)
        return Mistake("V027", f"`{s[-1].text}{s[0].text}` is no number", s[-1].start, s[0].end,
                       "thousands are `k`, then `M`, `B`, `T`", s.write(edit), edit)  # fmt: skip
    if s[0].is_name and s.touches(s[-1], s[0]) and s[0].text in ("x", "X"):
        return Mistake("V027", f"`{s[-1].text}{s[0].text}`: {s[-1].text} times what?", s[-1].start, s[0].end,
                       "a multiple is `number * name`", (f"write `{s[-1].text} * usual(loss, 500 steps)`, or only `{s[-1].text}`",),
                       Edit(s[0].start, s[0].end, ""), True)  # fmt: skip
    if (s[0].is_name and s.touches(s[-1], s[0]) or s[0].text == "(") and s[0].text not in ("e", "E"):
        edit = Edit(s[-1].end, s[0].start, " * ")
        return Mistake("V027", f"no operator between `{s[-1].text}` and `{s[0].text}`", s[-1].start, s[0].end,
                       "`*` between them?", s.write(edit), edit)  # fmt: skip
    return None


RECOGNISERS: tuple[Recogniser, ...] = (
    of_samples, percentage_as_length, shape, number_word, filler, unit_unknown, unit_missing, factor,
)  # fmt: skip
