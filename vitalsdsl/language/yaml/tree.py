"""YAML text to a tree of keys, values and places, by the rules of YAML 1.2 and of prudence.

A scalar stays the text that it is: `on`, `yes`, `1:30` mean nothing yet. Anchors, aliases and tags are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.ground.source import Source, Span

MAX_DEPTH = 20
MAX_NODES = 200_000

_PROBLEMS = (
    (r"character '\\t'", "there is a tab here", "YAML is indented with spaces only"),
    (r"character '(.)' that cannot start", "a value cannot begin with `{0}`", "put the value in quotes"),
    (r"mapping values are not", "a second `:` on this line, or a line indented wrongly", "put the value in quotes"),
    (r"unknown escape character '(.)'", "`\\{0}` means nothing in double quotes", "use single quotes, or write `\\\\`"),
    (r"unexpected end of stream", "a quote is opened and not closed", "close it"),
    (r"expected ',' or '\]'", "a `[` is opened and not closed", "close it with `]`"),
    (r"expected ',' or '\}'", "a `{{` is opened and not closed", "close it with `}}`; quote values with commas"),
    (r"could not find expected ':'", "a key without a `:`", "write `key: value`"),
    (r"expected <block end>", "this line does not belong to the lines above it", "indent it like them, or use quotes"),
    (r"expected the node content", "a value is missing before this", "write it, or put it in quotes"),
    (r"<document start>", "something stands after the end of the policy", "remove it"),
)  # fmt: skip


@dataclass(eq=False)
class Scalar:
    """A text. `plain` if it stands without quotes."""

    text: str
    span: Span
    style: str = ""

    @property
    def plain(self) -> bool:
        return not self.style

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written at all."""
        return self.plain and not self.text

    @cached_property
    def positions(self) -> list[int]:
        """Where each character of the text stands in the file, and where the text ends."""
        return _positions(self)


@dataclass(eq=False)
class Mapping:
    """Keys and their values, in order, duplicates included."""

    entries: list[tuple[Scalar, Tree]]
    span: Span


@dataclass(eq=False)
class Sequence:
    """A list."""

    items: list[Tree]
    span: Span


Tree = Scalar | Mapping | Sequence


class Unreadable(Exception):
    """Why no tree came of the text."""

    def __init__(self, finding: Diagnostic) -> None:
        super().__init__(finding.message)
        self.finding = finding


def read_tree(source: Source) -> Tree | None:
    """The tree of a text; None where nothing but comments is written. Raises `Unreadable`."""
    growing = _Growing(source)
    for event in _events(source):
        growing.take(event)
    return growing.root


def scalar_places(source: Source) -> Iterator[tuple[int, int]]:
    """Where the scalars of a text stand, in order: a `#` in one of them begins no comment."""
    shift = _shift(source)
    for event in _events(source):
        if type(event).__name__ == "ScalarEvent":
            start, end = event.start_mark.index + shift, event.end_mark.index + shift
            if event.style in ("|", ">"):
                start = min(end, source.text.find("\n", start) % (len(source.text) + 1))
            yield start, end


def _shift(source: Source) -> int:
    return 1 if source.text.startswith("\ufeff") else 0


def _events(source: Source) -> Iterator[Any]:
    shift = _shift(source)
    try:
        yield from YAML(typ="safe", pure=True).parse(source.text[shift:])
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(_finding(source, error.problem or "", mark.index + shift if mark is not None else 0)) from None
    except YAMLError as error:
        at = getattr(error, "position", 0) + shift
        message = "this character cannot stand in a YAML file"
        finding = Diagnostic("V050", Severity.ERROR, message, source.span(at, at + 1), "here", ("remove it",))
        raise Unreadable(finding) from None


def _finding(source: Source, problem: str, at: int) -> Diagnostic:
    message, help_ = "this cannot be read as YAML", "put the value in quotes"
    for pattern, text, advice in _PROBLEMS:
        found = re.search(pattern, problem)
        if found is not None:
            message, help_ = text.format(*found.groups()), advice.format()
            break
    at = min(at, max(0, len(source.text.rstrip()) - 1))
    return Diagnostic("V050", Severity.ERROR, message, source.span(at, at + 1), "here", (help_,))


class _Growing:
    """A tree under construction: the open mappings and lists, outermost first."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.shift = _shift(source)
        self.root: Tree | None = None
        self.open: list[Mapping | Sequence] = []
        self.keys: list[Scalar | None] = []
        self.nodes = 0
        self.documents = 0

    def take(self, event: Any) -> None:
        kind = type(event).__name__
        span = self.source.span(event.start_mark.index + self.shift, event.end_mark.index + self.shift)
        if kind == "DocumentStartEvent":
            self.documents += 1
            if self.documents > 1:
                self._refuse("V059", "a second document begins here", span, "one policy a file")
        elif kind == "AliasEvent":
            self._refuse("V054", f"`*{event.anchor}` repeats a part by reference", span, "write the part out")
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            self._close(span)
        elif kind in ("ScalarEvent", "MappingStartEvent", "SequenceStartEvent"):
            self._refuse_marks(event, span)
            self._grow(kind, event, span)

    def _refuse_marks(self, event: Any, span: Span) -> None:
        word = self.source.span(span.start, span.start + 1)
        if event.anchor is not None:
            self._refuse("V054", f"`&{event.anchor}` marks a part for repetition", word, "remove the mark")
        if event.tag is not None or span.text.startswith("!"):
            self._refuse("V055", "a `!` tag says what a value is; a policy has none", word, "remove the tag")
        self.nodes += 1
        deep = len(self.open) >= MAX_DEPTH and type(event).__name__ != "ScalarEvent"
        if self.nodes > MAX_NODES or deep:
            what = f"more than {MAX_NODES:,} values" if self.nodes > MAX_NODES else f"nested more than {MAX_DEPTH} deep"
            self._refuse("V056", f"this is {what}", word, "no policy needs that")

    def _grow(self, kind: str, event: Any, span: Span) -> None:
        if kind == "ScalarEvent":
            block = event.style in ("|", ">")
            end = span.start + len(span.text.rstrip()) if block else span.end
            self._place(Scalar(event.value, self.source.span(span.start, end), event.style or ""), span)
            return
        tree: Mapping | Sequence = Mapping([], span) if kind == "MappingStartEvent" else Sequence([], span)
        self._place(tree, span)
        self.open.append(tree)
        self.keys.append(None)

    def _place(self, tree: Tree, span: Span) -> None:
        if not self.open:
            self.root = tree
            return
        parent = self.open[-1]
        if isinstance(parent, Sequence):
            parent.items.append(tree)
        elif self.keys[-1] is None:
            if not isinstance(tree, Scalar):
                self._refuse("V050", "a key is a word", span, "write `key: value`")
            else:
                self.keys[-1] = tree
        else:
            key = self.keys[-1]
            if isinstance(tree, Scalar) and tree.is_empty:
                tree.span = self.source.span(key.span.end, key.span.end)
            parent.entries.append((key, tree))
            self.keys[-1] = None

    def _close(self, span: Span) -> None:
        tree = self.open.pop()
        self.keys.pop()
        inner = [value for _, value in tree.entries] if isinstance(tree, Mapping) else tree.items
        # A block ends where the next begins, comments between them included; we want where its last value ends.
        flow = span.end > span.start and span.text in ("}", "]")
        last = max([tree.span.start, *(value.span.end for value in inner)])
        if isinstance(tree, Mapping):
            last = max([last, *(key.span.end for key, _ in tree.entries)])
        tree.span = self.source.span(tree.span.start, span.end if flow else last)

    def _refuse(self, code: str, message: str, span: Span, help_: str) -> None:
        raise Unreadable(Diagnostic(code, Severity.ERROR, message, span, "here", (help_,)))


def _positions(scalar: Scalar) -> list[int]:
    raw, end = scalar.span.source.text, scalar.span.end
    at = scalar.span.start
    if scalar.style in ("|", ">"):
        at = raw.find("\n", at, end) + 1 or end
    elif scalar.style:
        at, end = at + 1, end - 1
    found: list[int] = []
    for char in scalar.text:
        blank = char in " \t\n"
        while at < end and (skipped := _skipped(raw, at, scalar.style, blank)):
            at += skipped
        found.append(min(at, end))
        if blank and at < end and raw[at] not in " \t\r\n\\":
            continue
        at += _width(raw, at, scalar.style, char)
    return [*found, min(max(at, (found[-1] + 1) if found else at), end)]


def _skipped(raw: str, at: int, style: str, before_blank: bool) -> int:
    """How many characters here have been taken away by folding: white space, or a line break that is escaped."""
    if style == '"' and raw.startswith(("\\\n", "\\\r\n"), at):
        return 2
    return 0 if before_blank or raw[at] not in " \t\r\n" else 1


def _width(raw: str, at: int, style: str, char: str) -> int:
    """How many characters of the file one character of the text is written with."""
    if style == "'" and char == "'":
        return 2
    if style == '"' and raw[at : at + 1] == "\\":
        return {"x": 4, "u": 6, "U": 10}.get(raw[at + 1 : at + 2], 2)
    return 1
