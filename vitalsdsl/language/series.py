"""Series notation: the values of a metric in a rule's test, in a line.

`1.0 x500, 4.0 x25` repeats; `3->1 x50` is a line of 50 points, both ends included; `~0.1` adds noise; `nan`, `inf`,
`gap x10` (steps without a point), `dup 2` (a second point at the same step), `@2000: 1` (from that step on).
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from vitalsdsl.ground.errors import UsageError

MOST_POINTS = 2_000_000

_NUMBER = r"[+-]?(?:nan|inf|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
_SCATTER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_WHOLE = r"[0-9]{1,15}"
_PART = re.compile(
    rf"(?:@(?P<at>{_WHOLE})\s*:\s*)?(?:(?P<gap>gap)|(?P<dup>dup\s+)?(?P<first>{_NUMBER})(?:\s*->\s*(?P<last>{_NUMBER}))?"
    rf"(?:\s*~\s*(?P<noise>{_SCATTER}))?)(?:\s*x\s*(?P<times>{_WHOLE}))?(?:\s*~\s*(?P<noise_behind>{_SCATTER}))?"
)
_FORMS = "a part is `1.0 x500`, `3->1 x50`, `2 x100 ~0.1`, `nan`, `gap x10`, `dup 2` or `@2000: 1`"


@dataclass(frozen=True)
class Mistake:
    """What is wrong with a series, and where in it: offsets [start, end), and what to write instead."""

    start: int
    end: int
    message: str
    help: str


@dataclass(frozen=True)
class Part:
    """What stands between two commas. A gap has no values; `repeats` stays at the step of the point before it."""

    at: int | None
    first: float
    last: float
    times: int
    noise: float | None
    gap: bool
    repeats: bool

    def values(self) -> Iterator[float]:
        """The values without their noise; of a line both ends exactly."""
        for i in range(self.times):
            share = i / (self.times - 1) if self.times > 1 else 0.0
            if self.first == self.last or not math.isfinite(self.first):
                yield self.first
            else:
                yield self.last if share == 1.0 else self.first + (self.last - self.first) * share


def points(notation: str, seed: str) -> list[tuple[int, float]]:
    """The (step, value) points of a series; steps count from 0. Noise is `random.Random(seed)`, one draw a point.

    Raises UsageError that quotes the first part which cannot be read.

    >>> points("1 x2, gap x2, 3->1 x3, dup 5, @20: nan", "0")
    [(0, 1.0), (1, 1.0), (4, 3.0), (5, 2.0), (6, 1.0), (6, 5.0), (20, nan)]
    """
    parts, mistakes = read_series(notation)
    if mistakes:
        raise UsageError(f"{mistakes[0].message}: {mistakes[0].help}")
    noise = random.Random(seed)
    out: list[tuple[int, float]] = []
    step = 0
    for part in parts:
        step = part.at if part.at is not None else step
        if part.gap:
            step += part.times
            continue
        for value in part.values():
            at = step - 1 if part.repeats else step
            out.append((at, value + noise.gauss(0, part.noise) if part.noise is not None else value))
            step = at + 1
    return out


def read_series(notation: str) -> tuple[list[Part], list[Mistake]]:
    """The parts of a series, and all that is wrong with it.

    >>> read_series("1 x0, 3->1")[1][0]
    Mistake(start=0, end=4, message='`1 x0` is no point at all', help='write a number from 1 on behind `x`')
    """
    parts: list[Part] = []
    mistakes: list[Mistake] = []
    step = count = begin = 0
    for text in notation.split(","):
        start, end = begin + len(text) - len(text.lstrip()), begin + len(text.rstrip())
        begin += len(text) + 1
        found = _part(text.strip())
        if isinstance(found, Part):
            wrong = _misplaced(found, parts, step)
            step = (found.at if found.at is not None else step) + (0 if found.repeats else found.times)
            count += 0 if found.gap else found.times
            if count > MOST_POINTS:
                wrong = (f"a series has at most {MOST_POINTS:,} points", "a test needs no more")
            parts.append(found)
        else:
            wrong = found
        if wrong is not None:
            mistakes.append(Mistake(min(start, end), end, *wrong))
            if count > MOST_POINTS:
                break
    return parts, mistakes


def _part(text: str) -> Part | tuple[str, str]:
    """A part by itself, or what is wrong with it and what to write."""
    if not text:
        return "a value is missing here", "write one, or take the comma out"
    found = _PART.fullmatch(text)
    if found is None:
        return f"`{text[:60]}` is no part of a series", _FORMS
    if found["noise"] is not None and found["noise_behind"] is not None:
        return f"`{text}` has two noises", "keep one"
    times = int(found["times"] or 1)
    if times == 0:
        return f"`{text}` is no point at all", "write a number from 1 on behind `x`"
    at = int(found["at"]) if found["at"] is not None else None
    if found["gap"] is not None:
        if found["noise_behind"] is not None:
            return f"`{text}`: a gap has no noise", "write `gap x10`"
        return Part(at, 0.0, 0.0, times, None, gap=True, repeats=False)
    first, last = float(found["first"]), float(found["last"] or found["first"])
    scatter = found["noise"] or found["noise_behind"]
    noise = float(scatter) if scatter is not None else None
    if any(math.isinf(x) and "inf" not in text for x in (first, last, noise or 0.0)):
        return f"`{text}` holds a number that is too large", "write `inf` where you mean it"
    if found["last"] is not None:
        if times < 2:
            return f"`{text}` does not say how many points the line has", f"write `{text} x50`"
        if not math.isfinite(last - first):
            return f"`{text}`: no line leads there", "a line has two finite ends"
    return Part(at, first, last, times, noise, gap=False, repeats=found["dup"] is not None)


def _misplaced(part: Part, before: list[Part], step: int) -> tuple[str, str] | None:
    """What is wrong with a part at its place."""
    if part.repeats and (part.at is not None or not before or before[-1].gap):
        return "`dup` has no point before it to stand beside", "write `1.0, dup 2.0`"
    if part.at is not None and part.at < step:
        message = f"step {part.at} has gone by: the next one here is {step}"
        return message, "steps only go up; for a second point write `dup`"
    return None
