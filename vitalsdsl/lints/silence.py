"""`# vitals: off CODE until DATE because …`: a finding that its author has seen, with a reason and an end."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable

from vitalsdsl import rules
from vitalsdsl.diagnostic import Diagnostic, Severity
from vitalsdsl.source import Source

_COMMENT = re.compile(r"#\s*vitals:\s*off\b([^\n]*)")
_FORM = re.compile(r"\s*(V\d{3}(?:\s*,\s*V\d{3})*)\s+(?:until\s+(\S+)\s+)?because\s+\S.*", re.DOTALL)


def silenced(
    policy: rules.Policy, found: Iterable[Diagnostic], known: set[str], today: datetime.date | None = None
) -> list[Diagnostic]:
    """The findings that no comment silences, and those about the comments themselves.

    On a line of its own a comment silences what begins in the next statement, behind code what is on its line.
    """
    kept = list(found)
    today = today or datetime.date.today()
    sources = {id(s.span.source): s.span.source for s in policy.statements}
    sources.setdefault(id(policy.source), policy.source)
    for source in sources.values():
        for comment in _COMMENT.finditer(source.text):
            kept = _one(policy, source, comment, kept, known, today)
    return kept


def _one(
    policy: rules.Policy,
    source: Source,
    comment: re.Match[str],
    kept: list[Diagnostic],
    known: set[str],
    today: datetime.date,
) -> list[Diagnostic]:
    place = source.span(comment.start(), comment.end())

    def say(message: str, help_: str) -> list[Diagnostic]:
        return [*kept, Diagnostic("V603", Severity.WARNING, message, place, "here", (help_,))]

    form = _FORM.fullmatch(comment[1])
    if form is None:
        return say("this comment silences nothing", "write `# vitals: off V104 until 2027-01-15 because …`")
    codes = [c.strip() for c in form[1].split(",")]
    unknown = [c for c in codes if c not in known]
    if unknown:
        return say(f"there is no code {unknown[0]}", "codes are printed in front of each finding")
    if form[2] is not None:
        try:
            until = datetime.date.fromisoformat(form[2])
        except ValueError:
            return say(f"`{form[2]}` is no date", "write it as 2027-01-15")
        if today > until:
            return say(f"this comment expired on {until}", "mend the finding, or set a new date")
    begin, end = _reach(policy, source, comment)
    hit = {d.code for d in kept if d.span.source is source and d.code in codes and begin <= d.span.start < end}
    rest = [
        d for d in kept
        if not (d.span.source is source and d.code in codes and begin <= d.span.start < end and not d.is_error)
    ]  # fmt: skip
    if len(hit) < len(set(codes)):
        idle = next(c for c in codes if c not in hit)
        kept = rest
        return say(f"{idle} is not found there any more", "take the comment out")
    return rest


def _reach(policy: rules.Policy, source: Source, comment: re.Match[str]) -> tuple[int, int]:
    """The stretch of text that a comment speaks of."""
    line_start = source.text.rfind("\n", 0, comment.start()) + 1
    if source.text[line_start : comment.start()].strip():
        return line_start, comment.end()
    spans = sorted((s.span.start, s.span.end) for s in policy.statements if s.span.source is source)
    inside = next((e for b, e in spans if b <= comment.start() < e), None)
    if inside is not None:
        following = source.text.find("\n", comment.end() + 1)
        return comment.end(), following if following >= 0 else len(source.text)
    return next(((b, e) for b, e in spans if b >= comment.end()), (comment.end(), comment.end()))
