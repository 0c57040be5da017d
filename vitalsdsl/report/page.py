"""A report as a page: HTML that stands by itself, or Markdown. What a run logs is data here and never markup."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from vitalsdsl import __version__
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.language.rules import Level
from vitalsdsl.report import pictures, reading
from vitalsdsl.report.checklist import Item, Mark
from vitalsdsl.report.examine import RunReport
from vitalsdsl.report.incidents import Incident
from vitalsdsl.report.reading import Standing

MOST_OF_A_RULE = 5
"""Incidents of one rule that have a line of their own."""

MADE_BY = "Written by vitalsdsl"
"""What every page of ours says at its end, by which it is known again."""

_SIGNS = {
    Mark.WELL: ("✓", "ok"),
    Mark.NOT_WELL: ("✗", "bad"),
    Mark.WAS_NOT_WELL: ("! was", "was"),
    Mark.NOT_LOOKED: ("–", "none"),
}


def html(reports: Sequence[RunReport]) -> str:
    """One page for one run or several; it loads nothing from anywhere."""
    return _render("page.html.jinja", reports, escape=True)


def markdown(reports: Sequence[RunReport]) -> str:
    """The same without the pictures."""
    return _render("page.md.jinja", reports, escape=False)


def _render(template: str, reports: Sequence[RunReport], escape: bool) -> str:
    environment = Environment(
        loader=PackageLoader("vitalsdsl.report", "."), autoescape=escape, finalize=_shown, keep_trailing_newline=True
    )
    environment.filters["md"] = _md
    title = reports[0].info.label if len(reports) == 1 else f"{len(reports)} runs"
    return environment.get_template(template).render(
        reports=reports, title=f"vitals: {title}", made_by=f"{MADE_BY} {__version__}", colours=pictures.COLOURS,
        window=reading.WINDOW, **_SAYS,
    )  # fmt: skip


def _shown(value: Any) -> Any:
    """Text without what a terminal or a browser would take for a control."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else printable(value)


def _md(text: object) -> str:
    """Text for a cell of a Markdown table."""
    said = printable(str(text)).replace("\\", "\\\\")
    for sign in "|*_`<>[]#":
        said = said.replace(sign, "\\" + sign)
    return said


# -------------------------------------------------------------------- in words


def _summary(report: RunReport) -> str:
    if not report.rows:
        return "This run holds no rows."
    unseen = " ".join(f"{told[:1].upper()}{told[1:]}." for told in report.unrecognised)
    return " ".join(filter(None, (_of_the_rules(report), unseen, _of_the_list(report))))


def _of_the_list(report: RunReport) -> str:
    """How much of the check-list is not as it should be."""
    marks = [item.mark for item in report.items]
    now, once = marks.count(Mark.NOT_WELL), marks.count(Mark.WAS_NOT_WELL)
    said = [f"{count} {what}" for count, what in ((now, "not well (✗)"), (once, "once not well (!)")) if count]
    return f"The check-list has findings: of {len(marks)} items {' and '.join(said)}." if said else ""


def _of_the_rules(report: RunReport) -> str:
    standing = [one for one in report.incidents if one.end is None]
    if not report.incidents:
        return "No rule fired."
    worst = max(report.incidents, key=lambda one: (one.level, one.end is None, -one.onset))
    text = f"The worst was {worst.level.word} at step {worst.reached:,}: {worst.name}, {worst.message}."
    if not standing:
        return f"{text} It ended green."
    names = ", ".join(dict.fromkeys(one.name for one in sorted(standing, key=lambda one: -one.level)))
    return f"{text} It ended {report.level.word}: {names}."


def _facts(report: RunReport) -> list[str]:
    facts = [f"steps {report.first_step:,} to {report.last_step:,}", f"{report.rows:,} rows"]
    if report.seconds > 0:
        facts.append(f"{_clock(report.seconds)} of wall time")
    if report.attempts > 1:
        facts.append(f"{report.attempts} attempts (it went back {len(report.rewinds)} times)")
    shares = [f"{level.word} {_share(share)}" for level, share in report.shares.items() if level and share > 0]
    facts.append("of its steps " + (", ".join(shares) if shares else "all green"))
    newest = {one.metric: one.last for one in report.standings}
    facts += [f"last {name} {_number(newest[name]) or 'NaN'}" for name in ("loss", "val_loss", "lr") if name in newest]
    facts.append(f"policy {report.policy.name}")
    return facts


def _share(share: float) -> str:
    return "less than 0.1%" if share < 0.001 else f"{share:.1%}"


def _counts(report: RunReport) -> str:
    said = [f"{count} {level.word}" for level, count in report.counts.items() if count]
    standing = sum(one.end is None for one in report.incidents)
    return f"Incidents: {', '.join(said)}; {standing or 'none'} of them stood at the end."


def _worst(own: Sequence[Incident]) -> list[Incident]:
    """The few of one rule's incidents that are shown, in the order of their steps."""
    most = sorted(own, key=lambda one: (one.end is not None, -one.level, -_beyond(one)))[:MOST_OF_A_RULE]
    return sorted(most, key=lambda one: one.onset)


def _beyond(incident: Incident) -> float:
    return abs(incident.height) if math.isfinite(incident.height) else 0.0


def _often(own: Sequence[Incident]) -> str:
    onsets = sorted(one.onset for one in own)
    apart = sorted(b - a for a, b in zip(onsets, onsets[1:]))
    return f"half of them within {apart[len(apart) // 2]:,} steps of the one before" if apart else ""


def _lasted(incident: Incident) -> str:
    return "to the end" if incident.width is None else f"{incident.width:,}"


def _trend(standing: Standing) -> str:
    if not standing.trend:
        return f"too few points ({standing.points})"
    change = f", {_change(100 * standing.change)} %" if math.isfinite(standing.change) else ""
    return f"{standing.trend}{change}"


def _change(change: float) -> str:
    return f"{change:+.2g}" if abs(change) < 99.5 else f"{change:+,.0f}"


def _correlation(report: RunReport) -> str:
    strong = [one for one in report.relations if one.is_strong]
    if not report.relations:
        return "Correlation: no two of loss, gradient norm, learning rate and their like were logged together often enough."
    if not strong:
        told = [one for one in report.relations if math.isfinite(one.correlation)]
        pairs = ", ".join(f"{one.first} and {one.second}" for one in told or report.relations)
        if not told:
            return (
                f"Correlation: of {pairs} nothing can be said, as one of each pair did not change, or changed evenly."
            )
        return f"Correlation: the changes of {pairs} do not go together."
    said = [
        f"{one.first} and {one.second} {'together' if one.correlation > 0 else 'against one another'} "
        f"({one.correlation:+.2f} over {one.pairs} changes)"
        for one in strong
    ]
    return f"Correlation: changes go {'; '.join(said)}. What moves together bears one another out."


def _number(value: float) -> str:
    if value != value:
        return ""
    return (
        f"{value:,.0f}" if abs(value) < 1e9 and value == int(value) else f"{value:.4g}" if math.isfinite(value) else "∞"
    )


def _whole(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _times(value: float) -> str:
    return f"{value:.3g}x" if math.isfinite(value) else ""


def _percent(value: float) -> str:
    return f"{value:.1%}" if math.isfinite(value) else ""


def _clock(seconds: float) -> str:
    """`2 d 3 h`, `14 min`, `8 s`."""
    for unit, size, smaller in (("d", 86400.0, "h"), ("h", 3600.0, "min"), ("min", 60.0, "")):
        if seconds >= size:
            rest = {"d": (seconds % size) // 3600, "h": (seconds % size) // 60}.get(unit, 0)
            return f"{seconds // size:.0f} {unit}" + (f" {rest:.0f} {smaller}" if rest else "")
    return f"{seconds:.0f} s"


def _link(url: str) -> str:
    """An address that a click may follow; anything else leads nowhere."""
    return url if url.startswith(("https://", "http://")) else "#"


def _badge(level: Level) -> Markup:
    return Markup('<span class="level {0}">{0}</span>').format(level.word)


_SAYS: dict[str, Callable[..., Any]] = {
    "badge": _badge,
    "correlation": _correlation,
    "counts": _counts,
    "facts": _facts,
    "heat_map": lambda report: Markup(pictures.heat_map(report)),
    "lasted": _lasted,
    "link": _link,
    "mark_class": lambda item: _mark(item)[1],
    "mark_sign": lambda item: _mark(item)[0],
    "number": _number,
    "often": _often,
    "percent": _percent,
    "policy_text": lambda report: Markup.escape(report.policy.text),
    "summary": _summary,
    "timeline": lambda report: Markup(pictures.timeline(report)),
    "times": _times,
    "trend": _trend,
    "whole": _whole,
    "worst": _worst,
}


def _mark(item: Item) -> tuple[str, str]:
    return _SIGNS[item.mark]
