"""Series notation: the values of a metric in a rule's test, in a line.

`1.0 x500, 4.0 x25` repeats; `3->1 x50` is a line of 50 points, both ends included; `~0.1` adds noise; `nan`, `inf`,
`gap x10` (steps without a point), `dup 2` (a second point at the same step), `@2000: 1` (from that step on).
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator

from vitalsdsl.errors import UsageError

MOST_POINTS = 2_000_000

_NUMBER = r"[+-]?(?:nan|inf|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
_SCATTER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_PART = re.compile(
    rf"(?:@(?P<at>\d+)\s*:\s*)?(?:(?P<gap>gap)|(?P<dup>dup\s+)?(?P<from>{_NUMBER})(?:\s*->\s*(?P<to>{_NUMBER}))?"
    rf"(?:\s*~\s*(?P<noise>{_SCATTER}))?)(?:\s*x\s*(?P<times>\d+))?(?:\s*~\s*(?P<noise_behind>{_SCATTER}))?"
)


def points(notation: str, seed: str) -> list[tuple[int, float]]:
    """The (step, value) points of a series; steps count from 0. Noise is that of `random.Random(seed)`, one draw a point.

    Raises UsageError that quotes the part which cannot be read.

    >>> points("1 x2, gap x2, 3->1 x3, dup 5, @20: nan", "0")
    [(0, 1.0), (1, 1.0), (4, 3.0), (5, 2.0), (6, 1.0), (6, 5.0), (20, nan)]
    """
    noise = random.Random(seed)
    out: list[tuple[int, float]] = []
    step = 0
    for part in str(notation).split(","):
        found = _PART.fullmatch(part.strip())
        if found is None:
            raise UsageError(
                f"`{part.strip()}` is no part of a series: try `1.0 x500`, `3->1 x50 ~0.1`, `nan`, `gap x10`"
            )
        if found["at"] is not None:
            step = int(found["at"])
        times = int(found["times"] or 1)
        if len(out) + times > MOST_POINTS:
            raise UsageError(f"a series has at most {MOST_POINTS:,} points")
        if found["gap"]:
            step += times
            continue
        at = step - 1 if found["dup"] else step
        if at < 0:
            raise UsageError("`dup` needs a point before it")
        scatter = found["noise"] or found["noise_behind"]
        for value in _values(found, times):
            out.append((at, value + noise.gauss(0, float(scatter)) if scatter else value))
            at += not found["dup"]
        step = max(step, at)
    return out


def _values(found: re.Match[str], times: int) -> Iterator[float]:
    first = float(found["from"])
    if found["to"] is None:
        yield from (first for _ in range(times))
        return
    last = float(found["to"])
    for i in range(times):
        share = i / (times - 1) if times > 1 else 1.0
        yield last if share == 1.0 else first + (last - first) * share if math.isfinite(last - first) else first
