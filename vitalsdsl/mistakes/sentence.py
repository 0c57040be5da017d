"""A stretch of text that could not be read, cut into words, and the place at which reading stopped."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, TypeAlias

from lark.exceptions import UnexpectedInput, UnexpectedToken

from vitalsdsl.builder import Builder, Locator
from vitalsdsl.grammar import read
from vitalsdsl.source import Source, Span

STATEMENTS = tuple(
    "policy use axis metric param let event phase level limit nonfinite rule when override disable profile".split()
)
RULE_PARTS = tuple("when clear cooldown inhibits unknown because try owner runbook shadow disabled".split())
LEVELS = ("yellow", "orange", "red", "green", "warning", "critical", "fatal", "ok")
COMPARES = (">", "<", ">=", "<=", "==", "!=")
LONGEST_CHECKED = 20_000
"""Longer sentences are not read again to see whether a proposal holds."""
LONGEST_SHOWN = 96

_WORD = re.compile(
    r"""(?P<gap>\s+|\#[^\n]*)
    |(?P<string>"[^"\n]*")|(?P<open>"[^\n]*)
    |(?P<percent>\d+(?:\.\d+)?%)
    |(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?:[kMBT](?![A-Za-z]))?)
    |(?P<family>[A-Za-z_][\w.]*/(?:[\w.]+/)*(?:[\w.]*(?:\*|\{\d+\.\.\d+\}))(?:/[\w./*]*)?(?!\w))
    |(?P<name>[A-Za-z_]\w*(?:[./][A-Za-z0-9_]+)*)
    |(?P<mark>-->|==>|===|!==|->|=>|<=|>=|=<|==|!=|<>|:=|&&|\|\||\*\*|\.\.|//|/\*|[][(){}<>=!,:;&|^~%@$?.'`*/+-])
    |(?P<other>.)""",
    re.VERBOSE | re.ASCII,
)


class Word(NamedTuple):
    """A word of the sentence: what kind, its letters, and where it stands."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        return self.kind == "name"

    @property
    def is_number(self) -> bool:
        return self.kind == "number"


class Edit(NamedTuple):
    """Put `text` in the place of [start, end)."""

    start: int
    end: int
    text: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.text + text[self.end :]


class Mistake(NamedTuple):
    """A mistake as it will be told: code, sentence, place, word under the caret, what to write, and the edit for it."""

    code: str
    message: str
    start: int
    end: int
    label: str = ""
    help: tuple[str, ...] = ()
    edit: Edit | None = None
    guess: bool = False
    """Whether the edit puts words into somebody's mouth: shown, but what follows is not judged by it."""


def words_of(text: str) -> list[Word]:
    """The words of a text, without white space and comments.

    >>> [w.text for w in words_of('when loss >= 3 -> red  # why')]
    ['when', 'loss', '>=', '3', '->', 'red']
    """
    found = (Word(m.lastgroup or "", m[0], m.start(), m.end()) for m in _WORD.finditer(text))
    return [word for word in found if word.kind != "gap"]


def stopped_at(error: UnexpectedInput, text: str) -> int:
    """Where reading stopped; the end of the text where more was wanted."""
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return len(text)
    return min(error.pos_in_stream or 0, len(text))


def remaining(text: str, rule: str) -> int:
    """How much of a text is left where reading stops; -1 where all can be read."""
    try:
        read(text, rule, Builder(Locator(Source("", text)), lambda _text, _span: None))
    except UnexpectedInput as error:
        return len(text) - stopped_at(error, text)
    return -1


class Sentence:
    """Words, and the one at which reading stopped: `s[0]` is that one, `s[-1]` the one before."""

    def __init__(self, error: UnexpectedInput, text: str, locator: Locator, rule: str = "start") -> None:
        self.text = text
        self.locator = locator
        self.rule = rule
        self.at = stopped_at(error, text)
        self.words = words_of(text)
        self.index = bisect_right([w.end for w in self.words], self.at)
        tokens = getattr(error, "expected", None) or getattr(error, "allowed", None) or ()
        self.expected = frozenset(str(token) for token in tokens)

    def __getitem__(self, offset: int) -> Word:
        at = self.index + offset
        if 0 <= at < len(self.words):
            return self.words[at]
        place = 0 if at < 0 else len(self.text.rstrip())
        return Word("end", "", place, place)

    @property
    def before(self) -> list[Word]:
        return self.words[: self.index]

    @property
    def at_end(self) -> bool:
        return self.index >= len(self.words)

    @cached_property
    def keyword(self) -> str:
        """The word that opens the statement."""
        return self.words[0].text if self.words and self.index > 0 else ""

    @cached_property
    def opening(self) -> int:
        """The index of the word that opens the part of the rule, or the statement, in which reading stopped."""
        for at in range(min(self.index, len(self.words) - 1), -1, -1):
            word = self.words[at]
            if at < self.index and word.text in RULE_PARTS + STATEMENTS and (at == 0 or self.opens_line(word)):
                return at
            if at < self.index and word.text == "when" and self.words[at - 1].text in ("{", "clear"):
                return at
        return 0

    @property
    def part(self) -> str:
        """The word that opens the part in which reading stopped, or an empty text."""
        return self.words[self.opening].text if self.words else ""

    def opens_line(self, word: Word) -> bool:
        """Whether nothing stands before it on its line but an opening brace."""
        line = self.text[self.text.rfind("\n", 0, word.start) + 1 : word.start]
        return not line.strip() or line.rstrip().endswith("{")

    def ends_line(self, word: Word) -> bool:
        line = self.text[word.end :].split("\n", 1)[0]
        return not line.strip() or line.lstrip().startswith("#")

    def operand_wanted(self) -> bool:
        """Whether a number, a name or a condition could stand here."""
        return {"NUMBER", "FUNCTION"} <= self.expected or {"NUMBER", "NAME", "PERCENT", "FAMILY"} <= self.expected

    def touches(self, first: Word, second: Word) -> bool:
        return first.end == second.start

    def span(self, start: int, end: int) -> Span:
        """Where this stands in the file. An empty place is that of the character before it."""
        if self.locator.positions is None or start < end <= len(self.locator.positions):
            return self.locator.span(start, end)
        last = self.locator.positions[-1] + 1 if len(self.locator.positions) else 0
        at = self.locator.positions[start] if start < len(self.locator.positions) else last
        return Span(self.locator.source, at, at)

    def said(self, start: int, end: int) -> str:
        """What they wrote, on one line."""
        return " ".join(self.text[start:end].split())

    def improved(self, edit: Edit) -> bool:
        """Whether reading gets further with it."""
        if len(self.text) > LONGEST_CHECKED:
            return True
        return remaining(edit.apply(self.text), self.rule) < len(self.text) - self.at

    def shown(self, edit: Edit) -> str:
        """Their line as it would read: what stands in `write …`."""
        after = edit.apply(self.text)
        first = after.rfind("\n", 0, edit.start) + 1
        last = after.find("\n", edit.start + len(edit.text))
        line = after[first : last if last >= 0 else len(after)]
        words = words_of(line)
        if not words:
            return ""
        line = " ".join(line[words[0].start : words[-1].end].split())
        if len(line) <= LONGEST_SHOWN:
            return line
        here = [w for w in words if w.end >= edit.start - first - 24 and w.start <= edit.start + len(edit.text) - first + 24]
        return " ".join(after[first + here[0].start : first + here[-1].end].split())[:LONGEST_SHOWN]

    def write(self, edit: Edit) -> tuple[str, ...]:
        return (f"write `{self.shown(edit)}`",)


Recogniser: TypeAlias = Callable[[Sentence], "Mistake | None"]


def swap(s: Sentence, word: Word, by: str) -> Edit:
    """The edit that puts another word in the place of this one, with white space where words would run together."""
    left = s.text[word.start - 1 : word.start]
    right = s.text[word.end : word.end + 1]
    before = " " if by[:1].isalnum() and (left.isalnum() or left in ("_", ")", "%", '"')) and left else ""
    after = " " if by[-1:].isalnum() and (right.isalnum() or right in ("_", "(", '"')) and right else ""
    return Edit(word.start, word.end, before + by + after)
