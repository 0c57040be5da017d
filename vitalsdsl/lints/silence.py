"""`# vitals: off CODE until DATE because …`: a finding that its author has seen, with a reason and an end."""

from __future__ import annotations

import datetime
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from vitalsdsl.ground.diagnostic import Diagnostic, Fix, Severity
from vitalsdsl.ground.quoting import STARTED
from vitalsdsl.ground.source import Source, Span
from vitalsdsl.language import rules

_COMMENT = r"(?i:#\s*vitals:\s*(?P<what>off\b.*))"
_FORM = r"off\s+(?P<codes>V\d{3}(?:\s*,\s*V\d{3})*)(?:\s+until\s+(?P<until>\S+))?(?:\s+because\b\s*(?P<reason>.*))?"
_IN_VITALS = rf"{STARTED}|#[^\n]*"
_IN_YAML = r'"(?:\\.|[^"\\\n])*"?|(?<!\S)#[^\n]*'
_LINE_OF_CODE = r"[ \t]*[^\s#][^\n]*"
_EXAMPLE = "`# vitals: off V104 until 2027-01-15 because …`"


class _Silence(NamedTuple):
    """A comment that is in force: where it stands, what it silences, and the stretch of text that it is about."""

    span: Span
    codes: tuple[str, ...]
    begin: int
    end: int

    def covers(self, found: Diagnostic) -> bool:
        """Whether a finding of this file is silenced by it."""
        return found.code in self.codes and self.begin <= found.span.start < self.end


def silenced(
    policy: rules.Policy,
    found: Iterable[Diagnostic],
    advice: Collection[str],
    known: Collection[str],
    today: datetime.date | None = None,
    unseen: Collection[str] = (),
) -> list[Diagnostic]:
    """The findings that no comment silences, and those about the comments themselves.

    On a line of its own a comment silences what begins in the next statement (inside a statement: on the next line),
    behind code what begins on its line. `advice` are the codes that can be silenced, `known` all that there are;
    `unseen` those that may be found with recorded runs and were looked for without: their silences are not idle.
    """
    kept = sorted(found, key=_place)
    about: list[Diagnostic] = []
    sources = {id(s.span.source): s.span.source for s in policy.statements}
    sources.setdefault(id(policy.source), policy.source)
    for source in sources.values():
        said: list[Diagnostic] = []
        here = [d for d in kept if d.span.source is source]
        places = [_place(d) for d in here]
        hidden: set[int] = set()
        for silence in _silences(policy, source, advice, known, today or datetime.date.today(), said):
            reach = range(bisect_left(places, silence.begin), bisect_left(places, silence.end))
            covered = [at for at in reach if silence.covers(here[at])]
            hidden.update(id(here[at]) for at in covered)
            hit = {here[at].code for at in covered}
            idle = [code for code in silence.codes if code not in hit and code not in unseen]
            if idle:
                said.append(_idle(silence, idle))
        kept = [d for d in kept if id(d) not in hidden]
        if source is policy.source:
            about += said
    return kept + about


def _place(found: Diagnostic) -> int:
    return found.span.start


def _idle(silence: _Silence, idle: list[str]) -> Diagnostic:
    codes = " and ".join(idle)
    message = f"{codes} {'is' if len(idle) == 1 else 'are'} not found there any more"
    whole = len(idle) == len(silence.codes)
    fix = Fix(silence.span, "", safe=True) if whole else None
    help_ = "take the comment out" if whole else f"take {codes} out of it"
    return Diagnostic("V603", Severity.WARNING, message, silence.span, "silences nothing", (help_,), fix)


def _silences(
    policy: rules.Policy,
    source: Source,
    advice: Collection[str],
    known: Collection[str],
    today: datetime.date,
    said: list[Diagnostic],
) -> Iterator[_Silence]:
    """The comments of a file that are in force; what is wrong with the others is added to `said`."""
    if "vitals:" not in source.text:
        return
    statements = sorted({(s.span.start, s.span.end) for s in policy.statements if s.span.source is source})
    for at, text in _comments(source):
        comment = re.fullmatch(_COMMENT, text)
        if comment is None:
            continue
        span = source.span(at, at + len(text))
        wrong = _wrong(comment["what"], advice, known, today)
        if wrong is None:
            codes = tuple(dict.fromkeys(re.findall(r"V\d{3}", comment["what"].partition("because")[0])))
            yield _Silence(span, codes, *_reach(statements, source.text, at, at + len(text)))
        else:
            message, label, help_ = wrong
            said.append(Diagnostic("V603", Severity.WARNING, message, span, label, (help_,)))


def _comments(source: Source) -> Iterator[tuple[int, str]]:
    """The comments of a file in either form, each with its place."""
    form = _IN_YAML if source.name.lower().endswith((".yaml", ".yml")) else _IN_VITALS
    for found in re.finditer(form, source.text):
        if found[0][0] == "#":
            yield found.start(), found[0].rstrip()


def _wrong(
    what: str, advice: Collection[str], known: Collection[str], today: datetime.date
) -> tuple[str, str, str] | None:
    """What keeps a comment from being in force: message, word under the caret, help."""
    form = re.fullmatch(_FORM, what)
    if form is None:
        return "this comment silences nothing", "not the right form", f"write {_EXAMPLE}"
    if not form["reason"]:
        return "a silence needs a reason", "because …?", f"write {_EXAMPLE}"
    for code in re.findall(r"V\d{3}", form["codes"]):
        if code not in known:
            return f"there is no code {code}", "unknown", "codes stand in front of each finding"
        if code not in advice:
            return f"{code} is an error, and errors cannot be silenced", "no effect", "mend it, and take this out"
    if form["until"] is not None:
        try:
            until = datetime.date.fromisoformat(form["until"])
        except ValueError:
            return f"`{form['until']}` is no date", "until when?", "write it as 2027-01-15"
        if today > until:
            return f"this comment expired on {until}", "no longer in force", "mend the finding, or set a new date"
    return None


def _reach(statements: list[tuple[int, int]], text: str, start: int, end: int) -> tuple[int, int]:
    """The stretch of text that a comment speaks of; the statements are in their order."""
    line_start = text.rfind("\n", 0, start) + 1
    if text[line_start:start].strip(" \t\ufeff"):
        return line_start, end
    after = bisect_left(statements, (start, 0))
    if after and statements[after - 1][1] > start:
        return end, _next_line_of_code(text, end)
    return end, statements[after][1] if after < len(statements) else end


def _next_line_of_code(text: str, at: int) -> int:
    """Where the next line ends that is no comment and not blank."""
    while (at := text.find("\n", at)) >= 0:
        line = re.compile(_LINE_OF_CODE).match(text, at + 1)
        if line is not None:
            return line.end()
        at += 1
    return len(text)
