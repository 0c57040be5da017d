"""Read: a text by the tables of the grammar, straight to what a builder makes of it.

An LALR(1) reader: it takes a token, and where the tables say that something is complete, the builder's method of that name
makes it of its parts. No tree stands between, since building one takes as long as all the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from vitalsdsl.language.tables import Tables
from vitalsdsl.language.tokens import END, Lexicon, Token, Unexpected

Makes = Callable[[Sequence[Any]], Any]


class Reader:
    """Reads texts of one grammar; all that it keeps of them is which words may stand where."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._skip = re.compile(f"(?:{'|'.join(tables.ignored)})*")
        self._shapes: dict[str, re.Pattern[str]] = {}
        self._lexicons: list[Lexicon | None] = [None] * len(tables.states)
        self._of_same: dict[frozenset[str], Lexicon] = {}
        self._all: Lexicon | None = None

    def read(self, text: str, start: str, builder: Any, at: int = 0, end: int | None = None) -> Any:
        """What the builder makes of text[at:end]. Raises Unexpected where that is no `start` of the grammar."""
        end = len(text) if end is None else end
        states, productions = self._tables.states, self._tables.productions
        first, last = self._tables.starts[start]
        makers: list[Makes | None] = [getattr(builder, p.method) if p.method else None for p in productions]
        lexicons, skip = self._lexicons, self._skip.match
        stack, values = [first], []  # type: list[int], list[Any]
        while True:
            at = skip(text, at, end).end()  # type: ignore[union-attr]  # it matches nothing, too
            state = stack[-1]
            token: Token | None = None
            kind = END
            if at < end:
                lexicon = lexicons[state] or self._lexicon(state)
                token = lexicon.find(text, at, end)
                if token is None:
                    raise self._strange(text, at, end, stack, last)
                kind, at = token.type, token.end_pos
            while True:
                leads = states[state].get(kind)
                if leads is None:
                    place = end if token is None else token.start_pos
                    raise Unexpected(place, self._could_stand(stack, last), token is None)
                if leads >= 0:
                    stack.append(leads)
                    values.append(token)
                    break
                makes, size, _, passes_on, spread = productions[~leads]
                if (
                    passes_on
                ):  # a single part stands for the whole, as most do on the way up from a number to a condition
                    stack.pop()
                else:
                    parts: list[Any] = []
                    if size:
                        parts = values[-size:]
                        del stack[-size:], values[-size:]
                        if spread:
                            parts = _spread(parts, spread)
                    maker = makers[~leads]
                    values.append(parts if maker is None else maker(parts))
                state = states[stack[-1]][makes]
                stack.append(state)
                if token is None and state == last:
                    return values[-1]

    def _lexicon(self, state: int) -> Lexicon:
        """What may stand at a state; states at which the same may stand share it."""
        names = frozenset(self._tables.states[state])
        found = self._of_same.get(names)
        if found is None:
            may_stand = [t for t in self._tables.terminals if t.name in names]
            found = self._of_same[names] = Lexicon(may_stand, self._shapes)
        self._lexicons[state] = found
        return found

    def _strange(self, text: str, at: int, end: int, stack: list[int], last: int) -> Unexpected:
        """Where nothing that may stand there stands: a word that could stand elsewhere, or none at all."""
        if self._all is None:
            self._all = Lexicon(self._tables.terminals, self._shapes)
        if self._all.find(text, at, end) is not None:
            return Unexpected(at, self._could_stand(stack, last), False)
        return Unexpected(at, frozenset(self._lexicon(stack[-1]).names), False)

    def _could_stand(self, stack: list[int], last: int) -> frozenset[str]:
        """The terminals with which the text could go on. Some that a state has lead to none in this place."""
        names = (name for name in self._tables.states[stack[-1]] if name.isupper())
        return frozenset(name for name in names if self._goes_on(list(stack), name, last))

    def _goes_on(self, stack: list[int], kind: str, last: int) -> bool:
        states, productions = self._tables.states, self._tables.productions
        while True:
            leads = states[stack[-1]].get(kind)
            if leads is None:
                return False
            if leads >= 0:
                return True
            made = productions[~leads]
            if made.size:
                del stack[-made.size :]
            stack.append(states[stack[-1]][made.makes])
            if kind == END and stack[-1] == last:
                return True


def _spread(parts: list[Any], places: tuple[int, ...]) -> list[Any]:
    """The parts with those of a repetition in its place. It grows in place: one of n parts is n times longer by one."""
    found: list[Any] = []
    for place, part in enumerate(parts):
        if place in places:
            found = part if not found else found + part
        else:
            found.append(part)
    return found
