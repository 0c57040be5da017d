"""Pictures of a backtest: alarms over steps by rule, how late incidents are found, what a param finds and costs; of two
policies side by side.

They need matplotlib: this module is loaded only where a picture is asked for.
"""

from __future__ import annotations

import math
import os
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator

from vitalsdsl.backtesting.backtest import Backtest, CurvePoint
from vitalsdsl.backtesting.over import Verdicts
from vitalsdsl.backtesting.score import LevelScore, Score
from vitalsdsl.backtesting.summary import LEVELS
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.errors import UsageError
from vitalsdsl.language.rules import Level

ENDINGS = (".pdf", ".png", ".svg")
COLOURS = {Level.YELLOW: "#d9a800", Level.ORANGE: "#e8730c", Level.RED: "#b3001b"}
MOST_RULES = 25
"""Rules that are drawn: those with the most alarms."""

_INK, _PALE = "#30343b", "#c9ced6"
_BINS = 120


def check_plot(path: str | os.PathLike[str]) -> Path:
    """Where a picture goes. Raises UsageError, before any work, where none can be written there."""
    place = Path(path)
    if place.suffix.lower() not in ENDINGS:
        raise UsageError(f"`{place}`: a picture's name ends in {', '.join(ENDINGS)}")
    if not place.parent.is_dir():
        raise UsageError(f"`{place}`: there is no folder `{place.parent}`")
    return place


def draw(found: Backtest, path: str | os.PathLike[str]) -> None:
    """Write one picture of all that there is to see. Raises UsageError where it cannot be written."""
    place = check_plot(path)
    figure = plot(found)
    try:
        figure.savefig(place, dpi=150)
    except OSError as error:
        raise UsageError(f"`{place}` cannot be written: {(error.strerror or str(error)).lower()}") from error


def plot(found: Backtest) -> Figure:
    """The picture, as an object of matplotlib: alarms above, below them delays and the curve, where there are such."""
    shown = [found.main] if found.other is None else [found.main, found.other]
    rules = _rows([_counted(verdicts) for verdicts in shown], shown)
    score = found.score if found.score is not None and found.score.runs else None
    has_curve = found.sweep is not None
    tall = 1.5 + 0.36 * max(2, len(rules))
    below = [name for name, is_there in (("delays", score is not None), ("curve", has_curve)) if is_there]
    if has_curve:
        below.append("values")
    figure = Figure(
        (max(9.0 + 4.5 * (len(shown) - 1), 4.3 * len(below)), tall + 3.8 * bool(below)), layout="constrained"
    )
    figure.suptitle(_title(found), x=0.01, ha="left", fontsize=12, fontweight="bold", color=_INK, parse_math=False)
    parts: Any = figure.subfigures(2, 1, height_ratios=(tall, 3.8)) if below else [figure]
    for at, (verdicts, axes) in enumerate(zip(shown, parts[0].subplots(1, len(shown), squeeze=False)[0])):
        _alarms(axes, [(rule, steps[at]) for rule, steps in rules], verdicts, names=at == 0, called=len(shown) > 1)
    if below:
        row = parts[1].subplots(1, len(below), squeeze=False)[0]
        for name, axes in zip(below, row):
            if name == "delays" and score is not None:
                _delays(axes, score, found.other_score)
            elif name == "curve":
                _curve(axes, found)
            else:
                _values(axes, found)
    return figure


def _title(found: Backtest) -> str:
    runs = len(found.runs)
    versus = f" versus {printable(found.other.policy.name)}" if found.other is not None else ""
    return (
        f"{printable(found.main.policy.name)}{versus} over {runs:,} run{'s' * (runs != 1)}, {found.main.steps:,} steps"
    )


_Steps = dict[Level, list[int]]


def _counted(verdicts: Verdicts) -> dict[str, _Steps]:
    """The steps of each rule's alarms by the level that it came to."""
    steps: dict[str, _Steps] = {}
    for run in verdicts.runs:
        for change in run.changes:
            if change.rises_to(Level.YELLOW):
                steps.setdefault(change.rule, {level: [] for level in LEVELS})[change.to].append(change.step)
    return steps


def _rows(counted: Sequence[dict[str, _Steps]], shown: Sequence[Verdicts]) -> list[tuple[str, list[_Steps]]]:
    """The rules with the most alarms under any of the policies, in the policies' order, with their alarms under each."""
    none: _Steps = {level: [] for level in LEVELS}
    each = {name: [steps.get(name, none) for steps in counted] for steps in counted for name in steps}
    times = {name: sum(len(own) for steps in of for own in steps.values()) for name, of in each.items()}
    ranked = sorted(times, key=lambda name: -times[name])[:MOST_RULES]
    order = dict.fromkeys(rule.rule for verdicts in shown for rule in verdicts.rules)
    return [(name, each[name]) for name in order if name in ranked]


def _plain(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10.5, color=_INK, pad=9, parse_math=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_PALE)
    axes.tick_params(colors=_INK, labelsize=9, length=3)
    axes.grid(True, color=_PALE, linewidth=0.5, alpha=0.6)
    axes.set_axisbelow(True)


def _stepped(axes: Axes, steps: Sequence[float], label: str) -> None:
    """The axis of steps: in decades where most lie near the beginning and some very far out."""
    ordered = sorted(map(abs, steps))
    if ordered and ordered[-1] > 30 * max(10.0, ordered[len(ordered) // 2]):
        axes.set_xscale("symlog", linthresh=10)
        label += ", in decades"
    else:
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.set_xlabel(label, fontsize=9.5, color=_INK)


def _alarms(axes: Axes, rules: Sequence[tuple[str, _Steps]], verdicts: Verdicts, *, names: bool, called: bool) -> None:
    """A row for each rule, a dot for alarms at about the same step, the bigger the more there are. With `names` they stand
    beside their rows; `called`: by which policy is said."""
    what = printable(verdicts.policy.reference) if called else "Alarms by rule (the bigger the dot, the more)"
    _plain(axes, what)
    every = [step for _, by_level in rules for steps in by_level.values() for step in steps]
    _stepped(axes, every, "step")
    axes.set_yticks(range(len(rules)), [rule if names else "" for rule, _ in rules], parse_math=False)
    axes.set_ylim(len(rules) - 0.4, -0.6)
    if not every:
        axes.set_yticks([])
        axes.set_xticks([])
        axes.text(
            0.5,
            0.5,
            f"no rule fires on any of {len(verdicts.runs):,} runs",
            transform=axes.transAxes,
            ha="center",
            color=_INK,
        )
        return
    dots = [
        (x, row + 0.18 * (level - Level.ORANGE), count, level)
        for row, (_, by_level) in enumerate(rules)
        for level, steps in by_level.items()
        for x, count in _binned(steps, max(every))
    ]
    most = max(count for _, _, count, _ in dots)
    for level in LEVELS:
        own = [dot for dot in dots if dot[3] == level]
        sizes = [14 + 110 * math.sqrt((count - 1) / max(most - 1, 1)) if most > 1 else 22 for _, _, count, _ in own]
        axes.scatter(
            [dot[0] for dot in own], [dot[1] for dot in own], s=sizes, color=COLOURS[level], alpha=0.75, linewidths=0
        )
    runs = verdicts.runs
    first, last = min(run.steps.first for run in runs), max(run.steps.last for run in runs)
    axes.set_xlim(first - 0.01 * (last - first) - 0.5, last + 0.01 * (last - first) + 0.5)
    handles = [Line2D([], [], marker="o", ls="", color=COLOURS[level], label=f"to {level.word}") for level in LEVELS]
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, fontsize=9)


def _binned(steps: Sequence[int], last: int) -> list[tuple[float, int]]:
    """Steps that are about the same as one, at their mean, with their number."""
    bins: dict[int, list[int]] = {}
    for step in steps:
        place = step * _BINS // (last + 1) if step > last / _BINS or last < _BINS else -int(math.log2(step + 1)) - 1
        bins.setdefault(place, []).append(step)
    return [(sum(own) / len(own), len(own)) for own in bins.values()]


def _delays(axes: Axes, score: Score, versus: Score | None = None) -> None:
    """How many of the incidents that were found are found how late; under the other policy, as a line around them."""
    one = score.at(score.level)
    late = f"; median delay {statistics.median(one.delays):,.4g}" if one.delays else ""
    other = versus.at(score.level) if versus is not None else None
    also = f" (versus {other.found:,}{_median(other)})" if other is not None else ""
    _plain(axes, f"Found from {score.level.word} on: {one.found:,} of {one.incidents:,}{late}{also}")
    axes.set_ylabel("incidents", fontsize=9.5, color=_INK)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    every = [*one.delays, *(other.delays if other is not None else ())]
    if not every:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.text(0.5, 0.5, "none was found whose onset is known", transform=axes.transAxes, ha="center", color=_INK)
        return
    low, high = min(every), max(every)
    if high - low > 30 * max(10.0, sorted(map(abs, every))[len(every) // 2]):
        edges = _decades(low, high)
    else:
        width = max(1.0, math.ceil((high - low + 1) / 24))
        edges = [low - 0.5 + width * at for at in range(int((high - low) // width) + 2)]
    axes.hist(one.delays, bins=edges, color=COLOURS[score.level], alpha=0.85, edgecolor="white", linewidth=0.6)
    if other is not None:
        axes.hist(other.delays, bins=edges, histtype="step", color=_INK, linewidth=1.4, label="versus")
        axes.legend(frameon=False, fontsize=9)
    _stepped(axes, every, "steps after the onset")
    axes.set_xlim(min(edges[0], -0.5), max(edges[-1], 10.0))
    if one.delays:
        axes.axvline(statistics.median(one.delays), color=_INK, linewidth=1.2, linestyle="--")
    if low < 0:
        axes.axvline(0, color=_INK, linewidth=0.8)
    axes.margins(y=0.18)


def _median(one: LevelScore) -> str:
    return f", at {statistics.median(one.delays):,.4g}" if one.delays else ""


def _decades(low: float, high: float) -> list[float]:
    """Edges that double away from nought, as far as need be on each side."""
    edges = [0.0]
    for far, sign in ((-low, -1), (high, 1)):
        edge = 5.0
        while far >= 0 and edge / 2 <= max(far, 2.5):
            edges.append(sign * edge)
            edge *= 2
    return sorted(edges)


def _curve(axes: Axes, found: Backtest) -> None:
    """What each value finds against what it costs; without labels, on how many runs it fires against how often."""
    assert found.sweep is not None
    name = printable(found.sweep.name)
    scored = [(p.setting, p.score.at(found.level)) for p in found.curve if p.score is not None and p.score.runs]
    if scored:
        _plain(axes, f"What {name} finds and costs, from {found.level.word} on")
        points = [(one.false_per_1000, 100 * one.recall.value, setting) for setting, one in scored]
        ends = [_ends(one) for _, one in scored]
        axes.set_xlabel("false alarms per 1,000 steps", fontsize=9.5, color=_INK)
        axes.set_ylabel("incidents found, % (95 % interval)", fontsize=9.5, color=_INK)
        axes.set_ylim(-4, 110)
    else:
        _plain(axes, f"Alarms as {name} varies, from {found.level.word} on")
        points = [(_per_1000(p, found.level), float(p.runs[found.level]), p.setting) for p in found.curve]
        ends = []
        axes.set_xlabel("alarms per 1,000 steps", fontsize=9.5, color=_INK)
        axes.set_ylabel("runs with an alarm", fontsize=9.5, color=_INK)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    shown = [point for point in points if math.isfinite(point[0]) and math.isfinite(point[1])]
    for (x, _y, _setting), (low, high) in zip(points, ends):
        axes.plot([x, x], [low, high], color=_PALE, linewidth=2, solid_capstyle="round", zorder=1)
    axes.plot(
        [p[0] for p in shown], [p[1] for p in shown], color=_INK, linewidth=1, marker="o", markersize=4.5, zorder=2
    )
    axes.margins(x=0.12, y=0.15)
    rates = sorted(p[0] for p in shown) or [0.0]
    if rates[-1] > 8 * rates[len(rates) // 2] > 0:
        least = next(rate for rate in rates if rate > 0)
        axes.set_xscale("symlog", linthresh=least, linscale=0.4)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.set_xlim(0.9 * rates[0], 3 * rates[-1])
    else:
        axes.set_xlim(-0.04 * (rates[-1] or 1.0), 1.2 * (rates[-1] or 1.0))
    _named(axes, shown)


def _ends(one: LevelScore) -> tuple[float, float]:
    low, high = one.recall.interval
    return 100 * low, 100 * high


def _per_1000(point: CurvePoint, level: Level) -> float:
    return 1000 * point.times[level] / point.steps if point.steps else 0.0


def _named(axes: Axes, points: Sequence[tuple[float, float, str]]) -> None:
    """The values beside their points: those that fall together share a name, and one with no room has none."""
    places: dict[tuple[float, float], list[str]] = {}
    for x, y, setting in points:
        places.setdefault((x, y), []).append(setting)
    if not places:
        return
    taken: list[Any] = []
    for (x, y), settings in places.items():
        at = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))
        if any(abs(at[0] - other[0]) < 0.16 and abs(at[1] - other[1]) < 0.06 for other in taken):
            continue
        taken.append(at)
        said = settings[0] if len(settings) == 1 else f"{settings[0]} … {settings[-1]}"
        axes.annotate(
            printable(said),
            (x, y),
            (7, 5 if at[1] < 0.12 else -11),
            textcoords="offset points",
            fontsize=8.5,
            color=_INK,
            parse_math=False,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )


def _values(axes: Axes, found: Backtest) -> None:
    """By the value itself: the delay with its quartiles where incidents are found, else alarms by level."""
    assert found.sweep is not None
    name = printable(found.sweep.name)
    places = _numbers([point.setting for point in found.curve])
    scored = [
        (at, p.score.at(found.level)) for at, p in zip(places, found.curve) if p.score is not None and p.score.runs
    ]
    late = [(at, one.quartiles) for at, one in scored if one.quartiles is not None]
    if late:
        _plain(axes, f"How late, as {name} varies: median, quartiles")
        axes.fill_between(
            [at for at, _ in late], [q[0] for _, q in late], [q[2] for _, q in late], color=_PALE, alpha=0.6
        )
        axes.plot([at for at, _ in late], [q[1] for _, q in late], color=_INK, marker="o", markersize=4.5, linewidth=1)
        axes.set_ylabel("steps after the onset", fontsize=9.5, color=_INK)
    else:
        _plain(axes, f"Alarms by level as {name} varies")
        for level in LEVELS:
            rates = [_per_1000(point, level) for point in found.curve]
            axes.plot(places, rates, color=COLOURS[level], marker="o", markersize=4.5, linewidth=1.2, label=level.word)
        axes.set_ylabel("alarms per 1,000 steps", fontsize=9.5, color=_INK)
        axes.legend(frameon=False, fontsize=9)
    axes.margins(y=0.15)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.0), max(high, 1.0) if late else high)
    axes.set_xlabel(name, fontsize=9.5, color=_INK, parse_math=False)
    every = max(1, -(-len(places) // 8))
    axes.set_xticks(places[::every], [printable(p.setting) for p in found.curve][::every], parse_math=False)


def _numbers(settings: Sequence[str]) -> list[float]:
    """Where values stand on an axis: by their numbers, or one after the other where they are in different units.

    >>> _numbers(["2 steps", "5 steps"]), _numbers(["30 s", "2 min"])
    ([2.0, 5.0], [0.0, 1.0])
    """
    parts = [re.fullmatch(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*(.*)", setting) for setting in settings]
    numbers = [float(part[1]) for part in parts if part is not None]
    units = {part[2] for part in parts if part is not None}
    return numbers if len(numbers) == len(settings) and len(units) == 1 else [float(at) for at in range(len(settings))]
