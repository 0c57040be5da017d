"""Which lines a statement is written on, and where in the file each of them comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from vitalsdsl.ground.quoting import STARTED
from vitalsdsl.ground.source import Source, Span
from vitalsdsl.ground.words import RULE_PARTS
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules, sentences
from vitalsdsl.language.formatter import Wording

_TOKEN = STARTED + r"|#[^\n]*|\{\d+\.\.\d+\}|[A-Za-z_][\w./]*|[\d.]+|\S"
_FIELDS = frozenset(RULE_PARTS) - {"when", "clear"}


@dataclass(eq=False)
class Line:
    """One line of the result. `start` and `end` are where it comes from in the file, if it does.

    `opens` and `closes` are for the first and the last line of a block; `blank` where a blank line goes before it;
    `above` are comments on lines of their own, each with whether a blank line goes before it; `beside` is one behind.
    """

    text: str
    depth: int = 0
    start: int | None = None
    end: int = 0
    opens: bool = False
    closes: bool = False
    blank: bool = False
    above: list[tuple[str, bool]] = field(default_factory=list)
    beside: str = ""


def statement_lines(wording: Wording, statement: rules.Statement, source: Source | None = None) -> list[Line]:
    """The lines of one statement; with their places, where it was read from this source."""
    placed = source is not None and statement.span.source is source
    if sentences.is_block(statement):
        lines = list(_block(wording, statement, placed))
    elif isinstance(statement, rules.Rule):
        lines = list(_clause(wording, statement.body.clauses[0], 0))
    else:
        span = statement.span
        lines = [Line(sentences.sentence(wording, statement), start=span.start, end=span.end)]
    if not placed:
        for line in lines:
            line.start = None
    return lines


def head_lines(policy: rules.Policy) -> list[Line]:
    """The lines `vitals 1` and `policy NAME`, which are no statements and so are looked for between them."""
    text = policy.source.text
    jumps = {s.span.start: s.span.end for s in policy.statements if s.span.source is policy.source}
    found: list[Line] = []
    for start, end in tokens(text, 1 if text.startswith("\ufeff") else 0, len(text), jumps):
        if start in jumps:
            continue
        word = text[start:end]
        if word == "vitals" and not found:
            found.append(Line("vitals 1", start=start, end=end))
        elif word == "policy" and policy.name is not None:
            found.append(Line(sentences.policy_line(policy), start=start, end=end))
        elif found:
            found[-1].end = end
    return found


def tokens(text: str, start: int, end: int, jumps: dict[int, int]) -> Iterator[tuple[int, int]]:
    """The words and strings of a stretch without its comments; what begins at a key of `jumps` is taken as one."""
    at, token = start, re.compile(_TOKEN)
    while (found := token.search(text, at, end)) is not None:
        at = jumps.get(found.start(), found.end())
        if text[found.start()] != "#":
            yield found.start(), at


def _block(wording: Wording, statement: rules.Statement, placed: bool) -> Iterator[Line]:
    span = statement.span
    brace = _brace(span) if placed else span.start
    yield Line(sentences.opening(wording, statement), start=span.start, end=brace + 1, opens=True)
    if isinstance(statement, rules.Profile):
        for setting in statement.settings:
            yield Line(sentences.setting(wording, setting), 1, setting.span.start, setting.span.end)
    elif isinstance(statement, (rules.Rule, rules.Override)):
        yield from _body(wording, statement.body, Span(span.source, brace + 1, span.end - 1) if placed else None)
    yield Line("}", start=span.end - 1, end=span.end, closes=True)


def _brace(span: Span) -> int:
    """Where the brace of a block opens; the one of a range such as `{0..3}` is not it."""
    text = span.source.text
    return next(start for start, end in tokens(text, span.start, span.end, {}) if text[start:end] == "{")


def _body(wording: Wording, body: rules.RuleBody, inside: Span | None) -> Iterator[Line]:
    texts = sentences.parts(wording, body)
    places = _places(body, inside) if inside is not None else {}
    if set(places) != {*texts, *body.clauses}:
        places = dict.fromkeys([*body.clauses, *texts], None)
    for part, place in places.items():
        if isinstance(part, rules.Clause):
            yield from _clause(wording, part, 1)
        elif place is None:
            yield Line(texts[part], 1)
        else:
            yield Line(texts[part], 1, place.start, place.end)


def _places(body: rules.RuleBody, inside: Span) -> dict[rules.Clause | str, Span | None]:
    """The parts of a rule in the order in which they are written: clauses, and the names of the other fields."""
    source, text = inside.source, inside.source.text
    nodes: list[ex.Node] = [*body.clauses, *(body.inhibits or ())]
    nodes += [node for node in (body.clear, body.cooldown) if node is not None]
    begins = {node.span.start: node for node in nodes}
    found: dict[rules.Clause | str, Span | None] = {}
    last: rules.Clause | str = ""
    for start, end in tokens(text, inside.start, inside.end, {n.span.start: n.span.end for n in nodes}):
        node = begins.get(start)
        if isinstance(node, rules.Clause):
            last = node
        elif isinstance(node, rules.Clear):
            last = "clear"
        elif node is None and text[start:end] in _FIELDS:
            last = text[start:end]
        before = found.get(last)
        found[last] = source.span(before.start if before is not None else start, end)
    return found


def _clause(wording: Wording, node: rules.Clause, depth: int) -> Iterator[Line]:
    head, rungs = sentences.clause(wording, node)
    if len(rungs) == 1:
        yield Line(f"{head} {rungs[0]}", depth, node.span.start, node.span.end)
        return
    last = node.on or node.for_ or node.condition
    yield Line(head, depth, node.span.start, last.span.end)
    for text, rung in zip(rungs, node.rungs):
        yield Line(text, depth + 1, rung.span.start, rung.span.end)
