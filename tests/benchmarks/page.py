"""What was measured, as text, as JSON and as a block of a page."""

from __future__ import annotations

import dataclasses
import datetime
import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tests.benchmarks.contest import Contest, Outcome
from tests.benchmarks.growth import Curve

BEGIN = "<!-- python -m tests.benchmarks --page -->"
END = "<!-- end -->"


@dataclass(frozen=True)
class Results:
    """All of one run of the command."""

    where: str
    contests: Sequence[Contest]
    curves: Sequence[Curve]
    latencies: dict[str, float]


def here() -> str:
    """The kind of machine, and the day."""
    day = datetime.datetime.now(datetime.timezone.utc).date()
    numpy = metadata.version("numpy")
    return f"{day}, {platform.machine()} {platform.system()}, Python {platform.python_version()}, NumPy {numpy}"


def told(contest: Contest) -> str:
    lines = [f"\n{contest.name}"]
    for one in contest.outcomes:
        if one.each is None:
            lines.append(f"  {one.name:46} is not installed")
        else:
            lines.append(f"  {one.name:46} {one.each:10.2f} {contest.unit}  {_number(one.ratio):>7}x ({_range(one)})")
    return "\n".join(lines)


def told_curve(curve: Curve) -> str:
    return f"\n{curve.grows}: " + "  ".join(f"{x:g}: {y:.3g}" for x, y in curve.points) + f" {curve.unit}"


def block(results: Results) -> str:
    """Ratios, not times: those are of one machine."""
    lines = [BEGIN, "", f"Measured {results.where}.", ""]
    for contest in results.contests:
        lines += [f"| {contest.name} | times ours | from round to round |", "|---|---:|---:|"]
        lines += [
            f"| {one.name} | not installed | |"
            if one.each is None
            else f"| {one.name} | {_number(one.ratio)} | {_range(one)} |"
            for one in contest.outcomes
        ]
        lines.append("")
    lines += ["| as this grows | from | by | our time by |", "|---|---:|---|---|"]
    for curve in results.curves:
        (first, least), *rest = curve.points
        by = ", ".join(f"{x / first:,.0f}" for x, _ in rest)
        lines.append(f"| {curve.grows} | {first:,.0f} | {by} | {', '.join(_number(y / least) for _, y in rest)} |")
    found = results.latencies
    lines += ["", f"Of single steps, p99 is {_number(found['p99'] / found['median'])} times the median.", "", END]
    return "\n".join(lines)


def rewrite(page: Path, results: Results) -> None:
    """Put the block in place of the one that stands there. Raises ValueError where there is none."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no block between {BEGIN} and {END}")
    page.write_text(before + block(results) + after, encoding="utf-8")


def as_json(results: Results) -> str:
    return json.dumps(dataclasses.asdict(results), indent=1)


def draw(curves: Sequence[Curve], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, places = pyplot.subplots(2, 5, figsize=(22, 8))
    for place, curve in zip(places.flat, curves):
        place.loglog([x for x, _ in curve.points], [y for _, y in curve.points], marker="o")
        place.set_title(curve.grows, fontsize=9)
        place.set_ylabel(curve.unit)
        place.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(file)


def _number(x: float) -> str:
    """Two digits that count."""
    if x >= 100:
        return f"{float(f'{x:.2g}'):.0f}"
    return f"{x:.0f}" if x >= 10 else f"{x:.1f}" if x >= 0.95 else f"{x:.2g}"


def _range(one: Outcome) -> str:
    return f"{_number(one.low)} to {_number(one.high)}"
