"""The pictures of a report, as SVG text that stands in a page by itself. Drawn by matplotlib, which is an extra."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vitalsdsl.language.rules import Level
from vitalsdsl.report.curve import Curve
from vitalsdsl.report.examine import RunReport

COLOURS = {Level.GREEN: "#4c9f70", Level.YELLOW: "#e5b800", Level.ORANGE: "#e8743b", Level.RED: "#c0392b"}
"""Level to its colour, in pictures and pages alike."""

MOST_PANELS = 8
"""Curves that are drawn one below the other."""

_DRAWN = 1e150
"""Curves are drawn up to here: an axis to the end of what numbers can be has no room for its ticks."""

MANY_DECADES = 1.7
"""Decades between a curve's lowest and highest value from which on its axis is logarithmic."""

_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "vitals",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
}


def timeline(report: RunReport) -> str:
    """The level of the run over its steps, and below it the curves, with the incidents about each. Empty where there is
    nothing to draw."""
    curves = dict([(name, curve) for name, curve in report.curves.items() if curve.is_drawable][:MOST_PANELS])
    if not curves:
        return ""
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(10.0, 0.55 + 1.45 * len(curves)), layout="constrained")
        ratios = [0.16] + [1.0] * len(curves)
        axes = figure.subplots(len(ratios), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": ratios})[:, 0]
        _level_strip(axes[0], report)
        for axis, (name, curve) in zip(axes[1:], curves.items()):
            _panel(axis, name, curve, report)
        spare = max(0.5, 0.01 * (report.last_step - report.first_step))
        axes[-1].set_xlim(report.first_step - spare, report.last_step + spare)
        _by_step(axes[-1])
        return _svg(figure, "Levels and curves of the run over its steps")


def heat_map(report: RunReport) -> str:
    """Gradient norms by layer and step, logarithmic. Empty where no layers were logged."""
    layers = {name: curve for name, curve in _by_depth(report.layers) if curve.is_drawable}
    if len(layers) < 2:
        return ""
    first, last = report.first_step, max(report.last_step, report.first_step + 1)
    columns = max(2, min(400, max(len(curve.steps) for curve in layers.values())))
    edges = np.linspace(first, last, columns + 1)
    grid = np.full((len(layers), columns), np.nan)
    for row, curve in enumerate(layers.values()):
        grid[row] = _columns(curve, edges)
    grid = np.where(grid > 0, grid, np.nan)
    if not np.isfinite(grid).any():
        return ""
    with matplotlib.rc_context(_SETTINGS):
        return _svg(_drawn(grid, edges, list(layers)), "Gradient norm by layer and step")


def _drawn(grid: Any, edges: Any, names: Sequence[str]) -> Figure:
    figure = Figure(figsize=(10.0, min(7.5, 1.6 + 0.17 * len(names))), layout="constrained")
    axis = figure.subplots()
    image = axis.pcolormesh(
        edges, np.arange(len(names) + 1), np.ma.masked_invalid(np.log10(grid)), cmap="viridis", rasterized=True
    )
    every = max(1, math.ceil(len(names) / 30))
    axis.set_yticks([i + 0.5 for i in range(0, len(names), every)], [_short(n) for n in names[::every]])
    axis.invert_yaxis()
    axis.grid(visible=False)
    _by_step(axis)
    figure.colorbar(image, ax=axis, pad=0.015, label="log10 of the gradient norm")
    return figure


# -------------------------------------------------------------------- the parts


def _level_strip(axis: Axes, report: RunReport) -> None:
    for band in report.bands:
        end = max(band.last, band.first + 0.002 * max(1, report.last_step - report.first_step))
        axis.axvspan(band.first, end, color=COLOURS[band.level], linewidth=0)
    axis.set_yticks([])
    axis.grid(visible=False)
    axis.set_ylabel("level", rotation=0, ha="right", va="center")
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)


def _panel(axis: Axes, name: str, curve: Curve, report: RunReport) -> None:
    steps = np.array(curve.steps, dtype=float)
    low, high, mean = (np.clip(np.array(of), -_DRAWN, _DRAWN) for of in (curve.low, curve.high, curve.mean))
    few = curve.count <= 60
    axis.fill_between(steps, low, high, color="#9db8d6", alpha=0.7, linewidth=0)
    axis.plot(steps, mean, color="#1f4e79", linewidth=1.0, marker="o" if few else None, markersize=3)
    if _is_wide(curve):
        axis.set_yscale("log")
    axis.set_ylabel(_short(name), rotation=0, ha="right", va="center")
    for step in curve.nonfinite[:200]:
        axis.axvline(step, ymax=0.06, color=COLOURS[Level.RED], linewidth=1.2)
    for incident in report.incidents:
        if incident.metric == name:
            end = report.last_step if incident.end is None else incident.end
            axis.axvspan(
                incident.onset, max(end, incident.onset), color=COLOURS[incident.level], alpha=0.18, linewidth=0
            )
            axis.axvline(incident.onset, color=COLOURS[incident.level], linewidth=1.1)
    for step in report.rewinds:
        axis.axvline(step, color="#555555", linewidth=0.8, linestyle=":")


def _is_wide(curve: Curve) -> bool:
    low, high = curve.lowest[0], curve.highest[0]
    return low > 0 and math.isfinite(high) and math.log10(high / low) > MANY_DECADES


def _columns(curve: Curve, edges: Any) -> Any:
    """The mean of a curve in each column; where it has no point of its own the one before holds."""
    steps, mean = np.array(curve.steps, dtype=float), np.array(curve.mean)
    known = np.isfinite(mean)
    if not known.any():
        return np.full(len(edges) - 1, np.nan)
    steps, mean = steps[known], mean[known]
    at = np.searchsorted(steps, edges[1:], side="left") - 1
    return np.where(at >= 0, mean[np.maximum(at, 0)], np.nan)


def _by_depth(layers: Mapping[str, Curve]) -> list[tuple[str, Curve]]:
    """Layers as the numbers in their names go, so that layer 10 comes after layer 9."""
    return sorted(layers.items(), key=lambda pair: _parts(pair[0]))


def _parts(name: str) -> list[tuple[int, int, str]]:
    pieces: list[str] = []
    for letter in name:
        if pieces and pieces[-1][-1].isdigit() == letter.isdigit():
            pieces[-1] += letter
        else:
            pieces.append(letter)
    return [(0, int(p), "") if p.isdecimal() and p.isascii() else (1, 0, p) for p in pieces]


def _short(name: str, most: int = 26) -> str:
    """A name as a label: no `$`, which would be set as a formula, no control characters, not too long."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in name).replace("$", "\\$")
    return plain if len(plain) <= most else plain[: most // 2 - 1] + "…" + plain[-most // 2 :]


def _by_step(axis: Axes) -> None:
    axis.set_xlabel("step")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")


def _svg(figure: Figure, says: str) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Title": says}, dpi=110)
    text = out.getvalue()
    return text[text.index("<svg") :]
