"""Comments, which mean nothing and must not get lost: where they stand, and what they are about."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vitalsdsl.ground.quoting import STARTED
from vitalsdsl.ground.source import Source, is_yaml
from vitalsdsl.language import rules
from vitalsdsl.language.lines import Line
from vitalsdsl.language.yaml.tree import scalar_places

_QUOTED_OR_COMMENT = re.compile(rf"{STARTED}|#[^\n]*")
_SPACE = " \t\r\n"


@dataclass(frozen=True)
class Remarks:
    """The comments of a file by the statement that they are about: those above all else, and those after all else."""

    top: tuple[str, ...] = ()
    about: dict[rules.Statement, list[str]] = field(default_factory=dict)
    tail: tuple[str, ...] = ()

    @classmethod
    def of(cls, policy: rules.Policy) -> Remarks:
        """For writing a policy in its other form, where lines do not match."""
        own = sorted((s for s in policy.statements if s.span.source is policy.source), key=lambda s: s.span.start)
        starts = [s.span.start for s in own]
        text = policy.source.text
        head = _end_of_head(text, starts[0] if starts else len(text))
        top: list[str] = []
        tail: list[str] = []
        about: dict[rules.Statement, list[str]] = {}
        for at, comment in comments(policy.source):
            before = bisect_right(starts, at) - 1
            if at < head:
                top.append(comment)
            elif before >= 0 and (own[before].span.end > at or not _alone(text, at)):
                about.setdefault(own[before], []).append(comment)
            elif before + 1 < len(own):
                about.setdefault(own[before + 1], []).append(comment)
            else:
                tail.append(comment)
        return cls(tuple(top), about, tuple(tail))


def comments(source: Source) -> Iterator[tuple[int, str]]:
    """The comments of a file in either form, each with its place."""
    if not is_yaml(source.name):
        for found in _QUOTED_OR_COMMENT.finditer(source.text):
            if found[0][0] == "#":
                yield found.start(), found[0].rstrip()
        return
    at = 0
    for start, end in [*scalar_places(source), (len(source.text), len(source.text))]:
        for found in re.finditer(r"#[^\n]*", source.text[at:start]):
            yield at + found.start(), found[0].rstrip()
        at = max(at, end)


def attach(source: Source, lines: Sequence[Line]) -> list[tuple[str, bool]]:
    """Give each comment, and each blank line, of a `.vitals` file to the line that it belongs to.

    Above it, or beside it where it stood behind it; one in the middle goes above. What comes after all is returned.
    """
    text = source.text
    placed = sorted((line for line in lines if line.start is not None), key=lambda line: line.start or 0)
    starts = [line.start or 0 for line in placed]
    for line in placed:
        line.blank = _after_blank(text, line.start or 0)
    tail: list[tuple[str, bool]] = []
    hoisted: list[tuple[Line, str]] = []
    for at, comment in comments(source):
        before = bisect_right(starts, at) - 1
        if before >= 0 and placed[before].end > at:
            hoisted.append((placed[before], comment))
        elif before >= 0 and not _alone(text, at):
            placed[before].beside = comment
        elif before + 1 < len(placed):
            placed[before + 1].above.append((comment, _after_blank(text, at)))
        else:
            tail.append((comment, _after_blank(text, at)))
    for line, comment in hoisted:
        line.above.append((comment, line.blank))
        line.blank = False
    return tail


def _end_of_head(text: str, first: int) -> int:
    """Where the file's own lines end: comments before all else, the version, the policy's name."""
    found = re.search(r"^[ \t\ufeff]*[^\s#\ufeff]", text, re.MULTILINE)
    end = found.start() if found is not None else len(text)
    for line in re.finditer(r"^[ \t\ufeff]*(?:vitals|policy|title)\b[^\n]*", text[:first], re.MULTILINE):
        end = line.end()
    return end


def _alone(text: str, at: int) -> bool:
    """Whether nothing but white space stands before this place on its line."""
    return not text[text.rfind("\n", 0, at) + 1 : at].strip(_SPACE + "\ufeff")


def _after_blank(text: str, at: int) -> bool:
    """Whether a blank line comes before this place."""
    breaks = 0
    while at > 0 and text[at - 1] in _SPACE:
        at -= 1
        breaks += text[at] == "\n"
    return breaks > 1
