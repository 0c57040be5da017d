"""Reading on after an error: where statements begin, and how the rest of a broken one is judged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from lark.exceptions import UnexpectedInput

from vitalsdsl.builder import Builder, Locator, ParseExpression
from vitalsdsl.diagnostic import Diagnostic
from vitalsdsl.grammar import RULE_PARTS, STATEMENTS, read
from vitalsdsl.mistakes.sentence import Edit, stopped_at
from vitalsdsl.source import Source, Span
from vitalsdsl.syntax import diagnose

MAX_TRIES = 20
MAX_CHARACTERS_TRIED = 400_000
"""A long statement is read again less often."""

_SCAN = re.compile(r'"[^"\n]*"?|#[^\n]*|\{\d+\.\.\d+\}|[{}]|(?m:^)([ \t]*)([a-z]+)\b', re.ASCII)
_TOP = frozenset(STATEMENTS) - frozenset(RULE_PARTS)
_GOES_ON = frozenset(
    "for on after do within and or then is in until with as every stale unit reduce optional allow apart before at each"
    " per no not".split()
)
_FILLER = "shadow"


class Reading(NamedTuple):
    """What came of a text: what could be built, what is wrong, and whether something was lost."""

    built: list[Any]
    diagnostics: list[Diagnostic]
    broken: bool


class Stretch:
    """A piece of a file while it is being mended: its text as mended so far, and where its characters stand."""

    def __init__(self, text: str, source: Source, positions: Sequence[int]) -> None:
        self.text = text
        self.source = source
        self.positions = positions
        self.blanked: list[Span] = []

    @property
    def locator(self) -> Locator:
        return Locator(self.source, self.positions)

    def edit(self, edit: Edit) -> None:
        """What is put in stands where the text that it replaces stood, or the character before it."""
        places = list(self.positions)
        old = places[edit.start : edit.end] or places[max(0, edit.start - 1) : edit.start] or places[:1] or [0]
        new = [old[min(at, len(old) - 1)] for at in range(len(edit.text))]
        places[edit.start : edit.end] = new
        self.text, self.positions = edit.apply(self.text), places

    def blank(self, start: int, end: int) -> None:
        """Something that is sure to be a part of a rule, in the place of one that is broken."""
        self.blanked.append(self.locator.span(start, end))
        filler = _FILLER if end - start >= len(_FILLER) else ""
        rest = re.sub(r"\S", " ", self.text[start + len(filler) : end])
        self.text = self.text[:start] + filler + rest + self.text[end:]

    def after(self, at: int) -> Stretch:
        return Stretch(self.text[at:], self.source, self.positions[at:])


def read_on(stretch: Stretch, rule: str, parse_field: ParseExpression) -> Reading:
    """Every error is mended as proposed where that lets reading go on; else the part of the rule is passed over."""
    built: list[Any] = []
    found: list[Diagnostic] = []
    before = -1
    for _ in range(max(1, min(MAX_TRIES, MAX_CHARACTERS_TRIED // (len(stretch.text) + 1)))):
        builder = Builder(stretch.locator, parse_field)
        try:
            result = read(stretch.text, rule, builder)
        except UnexpectedInput as error:
            at = stopped_at(error, stretch.text)
            if not found and rule == "start" and (whole := _whole_before(stretch, at, parse_field)) is not None:
                built += whole.built
                found += whole.diagnostics
                stretch, before = stretch.after(at), -1
                continue
            finding, edit = diagnose(error, stretch.text, stretch.locator, rule)
            found.append(finding)
            part = None if edit is not None and len(stretch.text) - at != before else _part_at(stretch.text, at)
            if edit is not None and len(stretch.text) - at != before:
                before = len(stretch.text) - at
                stretch.edit(edit)
            elif part is not None:
                stretch.blank(*part)
            else:
                return Reading(built, found, True)
            continue
        broken = bool(found)
        found += [d for d in builder.diagnostics if not _inside(d.span, stretch.blanked)]
        return Reading(built if broken else [*built, result], found, broken)
    return Reading(built, found, True)


def _inside(span: Span, places: list[Span]) -> bool:
    return any(place.start <= span.start and span.end <= place.end for place in places)


def _whole_before(stretch: Stretch, at: int, parse_field: ParseExpression) -> Reading | None:
    """The statements before a line that begins with a word which nobody knows, where they are right."""
    text = stretch.text
    word = re.match(r"[A-Za-z_]\w*|\}", text[at : at + 40])
    opens_line = not text[text.rfind("\n", 0, at) + 1 : at].strip()
    if word is None or not opens_line or word[0] in _GOES_ON or not text[:at].strip():
        return None
    builder = Builder(stretch.locator, parse_field)
    try:
        built = read(text[:at], "start", builder)
    except UnexpectedInput:
        return None
    return Reading([built], builder.diagnostics, False)


class _Mark(NamedTuple):
    """A brace, or the word that opens a line, and how far it is indented."""

    text: str
    start: int
    indent: int


def stretches(text: str) -> Iterator[tuple[int, int]]:
    """Where statements begin and end: each at a keyword that opens a line.

    Braces that do not match are no reason to take two rules for one, or one for two: within a block a statement begins
    only where the block is not closed before the next one opens.
    """
    marks = [
        _Mark(m[2] or m[0], m.start(2) if m[2] else m.start(), len(m[1] or "")) for m in _SCAN.finditer(text)
        if m[0] in "{}" or m[2] in STATEMENTS
    ]  # fmt: skip
    closed = _closed_before_opened(marks)
    begins, depth, indent = [0], 0, 0
    for at, mark in enumerate(marks):
        if mark.text == "{":
            depth += 1
        elif mark.text == "}":
            depth = max(0, depth - 1)
        elif depth == 0 or not closed[at] and (mark.text in _TOP or mark.indent <= indent):
            depth, indent = 0, mark.indent
            begins.append(mark.start)
    bounds = [*begins, len(text)]
    yield from ((a, b) for a, b in zip(bounds, bounds[1:]) if text[a:b].strip())


def _closed_before_opened(marks: list[_Mark]) -> list[bool]:
    """For each mark, whether the next brace after it is a closing one."""
    closed = [False] * len(marks)
    following = False
    for at in range(len(marks) - 1, -1, -1):
        closed[at] = following
        if marks[at].text in ("{", "}"):
            following = marks[at].text == "}"
    return closed


def _part_at(text: str, at: int) -> tuple[int, int] | None:
    """The part of a rule in which an error stands; None where it is not in one, or where nothing is left of it."""
    depth = 0
    begins: list[int] = []
    end = len(text)
    for found in _SCAN.finditer(text):
        token = found[0]
        if token == "{":
            depth += 1
            if depth == 1:
                begins.append(found.end())
        elif token == "}":
            depth -= 1
            if depth <= 0:
                end = found.start()
                break
        elif found[2] in RULE_PARTS and depth == 1:
            begins.append(found.start(2))
    bounds = [*begins, end]
    part = next(((a, b) for a, b in zip(bounds, bounds[1:]) if a <= at < b and text[a:b].strip()), None)
    if part is None or text[part[0] : part[1]].split() == [_FILLER]:
        return None
    return part
