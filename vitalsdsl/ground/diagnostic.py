"""What is wrong with a policy, as data, and its rendering for people and for tools."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from vitalsdsl.ground.source import Span

WIDEST_LINE = 120
"""Longer source lines are shortened round the caret."""


class Severity(Enum):
    """How bad it is. An error stops the policy from being used; the rest is advice."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


_LONGEST_QUOTE = 120
_LONGEST_TEXT = 1_000
_LONG_QUOTE = re.compile(rf"`[^`]{{{_LONGEST_QUOTE + 1},}}`")


class Fix(NamedTuple):
    """A replacement text for a span. A safe one changes no meaning that the author can have had."""

    span: Span
    replacement: str
    safe: bool = False


@dataclass(frozen=True)
class Diagnostic:
    """One finding: a stable code, one sentence, the place, a word under the caret, and what to write instead.

    >>> from vitalsdsl.ground.source import Source
    >>> source = Source("a.vitals", "when loss > 3 for 20 -> red")
    >>> finding = Diagnostic("V001", Severity.ERROR, "a duration needs a unit", source.span(18, 20),
    ...                      label="20 what?", help=("write `20 steps`",))
    >>> print(finding.render())
    V001 a.vitals:1:19  a duration needs a unit
      1 | when loss > 3 for 20 -> red
        |                   ^^ 20 what?
      help: write `20 steps`
    """

    code: str
    severity: Severity
    message: str
    span: Span
    label: str = ""
    help: tuple[str, ...] = field(default=())
    fix: Fix | None = None

    def __post_init__(self) -> None:
        for name, value in (("message", _brief(self.message)), ("label", _brief(self.label))):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "help", tuple(map(_brief, self.help)))

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def render(self) -> str:
        """The finding as people read it: header, their line, a caret range, help."""
        line, column = self.span.position
        name = printable(self.span.source.name)
        given = self.span.source.is_argument
        head = f"{self.code} {name if given else f'{name}:{line}:{column}'}  {printable(self.message)}"
        if given and self.message.startswith(f"{self.span.source.name} "):
            head = f"{self.code} {printable(self.message)}"  # it says whom it is about
        lines = [head, *(() if given else _caret_lines(self.span, self.label))]
        lines += [f"  help: {printable(text)}" for text in self.help]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        line, column = self.span.position
        end_line, end_column = self.span.source.position(max(self.span.start, self.span.end))
        found: dict[str, object] = {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "file": self.span.source.name,
            "line": line,
            "column": column,
            "end_line": end_line,
            "end_column": end_column,
            "label": self.label,
            "help": list(self.help),
        }
        if self.fix is not None:
            start, end = self.fix.span.start, self.fix.span.end
            found["fix"] = {"start": start, "end": end, "text": self.fix.replacement, "safe": self.fix.safe}
        return found


def _brief(text: str) -> str:
    """A sentence with what it quotes cut short: it may quote a name of a million letters."""
    if len(text) <= _LONGEST_QUOTE:
        return text
    shorter = _LONG_QUOTE.sub(lambda quote: f"{quote[0][:80]}…{quote[0][-30:]}", text)
    return shorter if len(shorter) <= _LONGEST_TEXT else f"{shorter[:_LONGEST_TEXT]}…"


def printable(text: str) -> str:
    """Text that cannot move the cursor, colour the terminal or break the line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


def _caret_lines(span: Span, label: str) -> list[str]:
    if not span.source.text:
        return []
    number, column = span.position
    raw = span.source.line(number)
    start = column - 1
    end = min(len(raw), start + max(1, span.end - span.start))
    offset = max(0, min(start - WIDEST_LINE // 2, len(raw) - WIDEST_LINE))
    before, marked = raw[offset:start], raw[start:end]
    shown = raw[offset : offset + WIDEST_LINE]
    lead = "…" if offset else ""
    tail = "…" if offset + WIDEST_LINE < len(raw) else ""
    expand = str.maketrans({"\t": "    "})
    before, marked, shown = (printable(part.translate(expand)) for part in (before, marked, shown))
    gutter = " " * len(str(number))
    carets = "^" * max(1, min(_width(marked), WIDEST_LINE))
    pointer = " " * (_width(before) + len(lead)) + carets
    return [
        f"  {number} | {lead}{shown}{tail}".rstrip(),
        f"  {gutter} | {pointer} {printable(label)}".rstrip(),
    ]


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sorted by file, place and code, without repeats."""
    unique = {(d.span.source.name, d.span.start, d.code, d.message): d for d in diagnostics}
    return [unique[key] for key in sorted(unique)]


def render(diagnostics: Sequence[Diagnostic], form: str = "text") -> str:
    """All findings as one text: `text`, `json`, `github` (workflow annotations) or `sarif`."""
    if form == "text":
        return "\n\n".join(d.render() for d in diagnostics)
    if form == "json":
        return json.dumps([d.as_dict() for d in diagnostics], indent=2, ensure_ascii=False)
    if form == "github":
        return "\n".join(_github(d) for d in diagnostics)
    if form == "sarif":
        return json.dumps(_sarif(diagnostics), indent=2, ensure_ascii=False)
    raise ValueError(f"no such form: {form}")


def _github(found: Diagnostic) -> str:
    kind = {"error": "error", "warning": "warning", "info": "notice"}[found.severity.value]
    line, column = found.span.position
    text = "\n".join([found.message, *found.help])
    data = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    name = found.span.source.name
    for bad, good in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), (":", "%3A"), (",", "%2C")):
        name = name.replace(bad, good)
    return f"::{kind} file={name},line={line},col={column},title={found.code}::{data}"


def _sarif(diagnostics: Sequence[Diagnostic]) -> dict[str, object]:
    levels = {"error": "error", "warning": "warning", "info": "note"}
    results = []
    for found in diagnostics:
        data = found.as_dict()
        region = {
            "startLine": data["line"],
            "startColumn": data["column"],
            "endLine": data["end_line"],
            "endColumn": data["end_column"],
        }
        place = {"artifactLocation": {"uri": data["file"]}, "region": region}
        results.append(
            {
                "ruleId": found.code,
                "level": levels[found.severity.value],
                "message": {"text": " ".join([found.message, *found.help])},
                "locations": [{"physicalLocation": place}],
            }
        )
    codes = sorted({d.code for d in diagnostics})
    driver = {"name": "vitals", "rules": [{"id": code} for code in codes]}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
