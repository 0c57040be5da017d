"""Tokens: the words and signs of a text, and which of them may stand at a place.

Which word it is depends on what could stand there: `max` is a name in `max > 3` and a function in `max(loss, 5 steps)`,
and `event` opens a statement only where one may begin. So each place of the grammar has a lexicon of its own, made when a
text first comes there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

END = "$END"
"""The kind of what stands behind the last word."""


class Token:
    """A word or a sign as it was written: which terminal of the grammar it is, and its offsets in the text."""

    __slots__ = ("end_pos", "start_pos", "type", "value")

    def __init__(self, kind: str, value: str, start: int, end: int) -> None:
        self.type = kind
        self.value = value
        self.start_pos = start
        self.end_pos = end

    def __str__(self) -> str:
        return self.value


class Unexpected(Exception):
    """Something that the grammar does not have at a place. `expected` are the terminals that could stand there, `is_over`
    says that the text ends there."""

    def __init__(self, at: int, expected: frozenset[str], is_over: bool) -> None:
        super().__init__(at)
        self.at = at
        self.expected = expected
        self.is_over = is_over


class Terminal(NamedTuple):
    """A word, a sign or a shape of words of the grammar.

    `text` is what it is, or a regular expression where it `is_shape`. `words` are the terminals, by their text, that take
    precedence over a shape that they have: `event` is a NAME where no statement can begin.
    """

    name: str
    text: str
    is_shape: bool
    words: Mapping[str, str] = {}


_Try = tuple[str, str, "Callable[[str, int, int], re.Match[str] | None] | None", "Mapping[str, str] | None"]
"""A terminal as it is tried: its name, its text or how to match its shape, and the words that precede it."""


class Lexicon:
    """The terminals that may stand at one place, in the order in which they are tried."""

    def __init__(self, terminals: Sequence[Terminal], shapes: dict[str, re.Pattern[str]]) -> None:
        names = {t.name for t in terminals}
        self._shapes = shapes
        words = [{text: name for text, name in t.words.items() if name in names} for t in terminals]
        preceding = {name for some in words for name in some.values()}
        self._tried = [(t, some) for t, some in zip(terminals, words) if t.name not in preceding]
        self._by_first: dict[str, tuple[_Try, ...]] = {}

    @property
    def names(self) -> Iterable[str]:
        """What is tried; words that a shape stands for are not among it."""
        return (terminal.name for terminal, _ in self._tried)

    def find(self, text: str, at: int, end: int) -> Token | None:
        """The token that begins at an offset before `end`; None where none of these does."""
        first = text[at]
        tries = self._by_first.get(first)
        if tries is None:
            tries = self._by_first[first] = tuple(self._beginning(first))
        for name, literal, match, words in tries:
            if match is None:
                if text.startswith(literal, at, end):
                    return Token(name, literal, at, at + len(literal))
                continue
            found = match(text, at, end)
            if found is not None:
                value = found[0]
                if words is not None:
                    name = words.get(value, name)
                return Token(name, value, at, found.end())
        return None

    def _beginning(self, first: str) -> Iterable[_Try]:
        for terminal, words in self._tried:
            if terminal.is_shape:
                yield terminal.name, "", self._shape(terminal).match, words or None
            elif terminal.text[0] == first:
                yield terminal.name, terminal.text, None, None

    def _shape(self, terminal: Terminal) -> re.Pattern[str]:
        """A shape is compiled once, for all places."""
        found = self._shapes.get(terminal.name)
        if found is None:
            found = self._shapes[terminal.name] = re.compile(terminal.text)
        return found
