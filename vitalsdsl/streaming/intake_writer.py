"""Writes the lines that take the point of a stream whose windows are prepared ahead."""

from __future__ import annotations

from collections.abc import Sequence

from vitalsdsl.kernels.ahead import LINES, NAMES, SUMS
from vitalsdsl.kernels.pieces import InOrderWindow, InShortWindow, InSmoothed
from vitalsdsl.streaming.glance import Glance, Stream


def block(stream: Stream, glance: Glance, quiet: Sequence[str | None]) -> list[str]:
    """Take a point, and say what the windows come to. `quiet` are the tests of the rules, in order."""
    name = stream.name
    in_order = in_order_windows(stream)
    kinds = (InOrderWindow, InSmoothed)
    by_kind = sorted(stream.windows.values(), key=lambda window: [isinstance(window, kind) for kind in reversed(kinds)])
    stands = [each for window in by_kind for each in window.standing]
    young = [window.young for window in stream.windows.values()]
    units = [n for n, test in enumerate(quiet) if test and any(each in test for each in young)]
    wakes = if_(
        f"was_young != ({', '.join(young)},)",
        f"{' = '.join(f'awake_{n}' for n in units)} = True",
        f"{' = '.join(f'still_{n}' for n in units)} = -1",
    )
    sums = [f"{each}__{name}" for each in (*sums_of(stream), "missing", "rows", "counts")]
    begun = ", ".join([*(f"{each}__{name}" for each in NAMES), *stands, *sums])
    short = [each for window in stream.windows.values() if isinstance(window, InShortWindow) for each in window.lists]
    away = f"away = {name} - pivot__{name}"
    lines = [
        f"row = None if restart else next(rows__{name}, None)",
        *if_(
            f"row is None or not floor__{name} <= {name} <= ceiling__{name}",
            *if_(
                f"row is None or {name} - {name} == 0.0",
                *([f"was_young = {', '.join(young)},"] if units else []),
                f"{begun} = renew__{name}(step, {name}, stride)",
                f"row = next(rows__{name})",
                *(f"{each} = None" for each in short),
                *(f"{window.stands} = -1" for window in in_order),
                *(wakes if units else ()),
                *(f"{near} = {code}" for near, (code, streams) in glance.nears.items() if name in streams),
            ),
            *if_(
                f"{name} - {name} == 0.0",
                away,
                otherwise=[
                    "away = 0.0",
                    f"missing__{name} += 1",
                    *([f"missed__{name}.append(len(lately__{name}))"] if short else []),
                    *if_(f"counts__{name} is None", f"counts__{name} = recount__{name}()"),
                ],
            ),
            otherwise=[away],
        ),
        f"keep__{name}({name})",
    ]
    lines += [*_taken(stream), *_short(stream), *_counted(stream)]
    lines += [line for window in stream.windows.values() if isinstance(window, InSmoothed) for line in window.move()]
    for window in in_order:
        lines += if_(f"step > {window.stands}", window.settle())
    return [*lines, *(
        f"{each} = {code}" for window in stream.windows.values() for each, code in window.lines.items()
    )]  # fmt: skip


def sums_of(stream: Stream) -> tuple[str, ...]:
    """What is summed of a block's points, the step from which that is counted among it."""
    return (*SUMS, *LINES) if any(window.has_line for window in stream.windows.values()) else SUMS


def in_order_windows(stream: Stream) -> list[InOrderWindow]:
    """Those that are known between brackets."""
    return [window for window in stream.windows.values() if isinstance(window, InOrderWindow)]


def _taken(stream: Stream) -> list[str]:
    """A point into the sums of its block, and what the older ones come to."""
    name = stream.name
    windows = list(stream.windows.values())
    asked = {column for window in windows for column in window.in_rows}
    lines = []
    if "older" in asked:
        lines.append(f"sum__{name} += away")
    if "squares" in asked:
        lines.append(f"squares__{name} += away * away")
    if "lean" in asked:
        lines.append(f"at = step - first__{name}")
        lines += if_(
            f"{name} - {name} == 0.0",
            f"lean__{name} += at * away",
            f"times__{name} += at",
            f"spread__{name} += at * at",
        )
    if "high" in asked:
        lines += if_(f"{name} > high__{name}", f"high__{name} = {name}")
    if "low" in asked:
        lines += if_(f"{name} < low__{name}", f"low__{name} = {name}")
    columns = [f"{each}__{name}_{window.number}" for window in windows for each in window.in_rows]
    return [*lines, f"{', '.join(columns)}, = row"] if columns else lines


def _counted(stream: Stream) -> list[str]:
    """How many points the windows hold, where some are missing."""
    name, windows = stream.name, list(stream.windows.values())
    held = [f"held__{name}_{window.number}" for window in windows if window.in_rows]
    lines = [f"{', '.join(held)}, = next(counts__{name})"] if held else []
    lines += [
        line for window in windows if not isinstance(window, (InOrderWindow, InSmoothed)) for line in window.counted()
    ]
    return if_(f"counts__{name} is not None", *lines) if lines else []


def _short(stream: Stream) -> list[str]:
    """The windows that have blocks of their own."""
    name = stream.name
    short = [window for window in stream.windows.values() if isinstance(window, InShortWindow)]
    if not short:
        return []
    lines = [f"lately__{name}.append({name})"]
    if any({"older", "squares"} & set(window.columns) for window in short):
        lines.append(f"lately_away__{name}.append(away)")
    for window in short:
        if window.columns:
            lines += [*if_(f"not {window.lists[0]}", *window.begin()), *window.take()]
    return lines


def if_(condition: str, *then: str, word: str = "if", otherwise: Sequence[str] = ()) -> list[str]:
    """A condition, and what follows from it, or from its contrary."""
    lines = [f"{word} {condition}".rstrip() + ":", *(f"    {line}" for line in then)]
    return [*lines, "else:", *(f"    {line}" for line in otherwise)] if otherwise else lines
