"""A whole policy file in its one style: what stands on which line, with the comments and the blank lines kept."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vitalsdsl import expressions as ex
from vitalsdsl import rules, sentences
from vitalsdsl.errors import PolicyError
from vitalsdsl.formatter import AS_WRITTEN, Wording
from vitalsdsl.parser import RULE_PARTS, Parsed
from vitalsdsl.source import Source, Span

_INDENT = "  "
_TOKEN = re.compile(r'"[^"\n]*"?|#[^\n]*|\{\d+\.\.\d+\}|[A-Za-z_][\w./]*|[\d.]+|\S')
_FIELDS = frozenset(RULE_PARTS) - {"when", "clear"}


@dataclass
class Line:
    """One line of the result. `start` and `end` are where it comes from in the file, if it does.

    `opens` and `closes` are for the first and the last line of a block; `blank` where a blank line goes before it.
    """

    text: str
    depth: int = 0
    start: int | None = None
    end: int = 0
    opens: bool = False
    closes: bool = False
    blank: bool = False
    kind: str = ""
    above: list[tuple[str, bool]] = field(default_factory=list)
    beside: str = ""


def format_policy(policy: Parsed | rules.Policy) -> str:
    """The text of a policy file in its one style. Formatting it again changes nothing, and its meaning is the same.

    Comments stay with the statement, the part of a rule or the rung that they stand above or beside. A policy that was
    not read from a `.vitals` file has no comments. Raises `PolicyError` where the text could not be read.

    >>> from vitalsdsl.parser import parse
    >>> print(format_policy(parse(Source("a.vitals", "when loss>3 for 1 step->fatal # bad"))), end="")
    when loss > 3 for 1 steps -> red  # bad
    """
    if isinstance(policy, Parsed):
        if not policy.ok:
            raise PolicyError(policy.diagnostics)
        policy = policy.policy
    if is_yaml_name(policy.source.name):
        return _joined(_lines_without_file(policy))
    lines = _lines(policy)
    tail = _attach_comments(policy.source.text, lines)
    return _joined(lines, tail)


def is_yaml_name(name: str) -> bool:
    """Whether a file of this name holds the YAML form of a policy."""
    return name.lower().endswith((".yaml", ".yml"))


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
    lines[0].kind = type(statement).__name__
    return lines


def _lines(policy: rules.Policy) -> list[Line]:
    own = [s for s in policy.statements if s.span.source is policy.source]
    lines: list[Line] = []
    heads = list(_heads(policy, own))
    for statement in policy.statements:
        if statement.span.source is policy.source:
            while heads and heads[0].start is not None and heads[0].start < statement.span.start:
                lines.append(heads.pop(0))
        lines += statement_lines(AS_WRITTEN, statement, policy.source)
    return lines + heads


def _lines_without_file(policy: rules.Policy) -> list[Line]:
    lines = [Line("vitals 1", kind="Policy")]
    if policy.name is not None:
        lines.append(Line(sentences.policy_line(policy), kind="Policy"))
    for statement in policy.statements:
        more = statement_lines(AS_WRITTEN, statement)
        more[0].blank = more[0].kind != next(line.kind for line in reversed(lines) if line.kind)
        lines += more
    return lines


def _heads(policy: rules.Policy, own: Sequence[rules.Statement]) -> Iterator[Line]:
    """The lines `vitals 1` and `policy NAME`, which are no statements and so are looked for between them."""
    text = policy.source.text
    jumps = {s.span.start: s.span.end for s in own}
    found: Line | None = None
    for start, end in _tokens(text, 0, len(text), jumps):
        if start in jumps:
            continue
        word = text[start:end]
        if word == "vitals" and found is None:
            found = Line("vitals 1", start=start, end=end)
            yield found
        elif word == "policy":
            found = Line(sentences.policy_line(policy), start=start, end=end)
            yield found
        elif found is not None:
            found.end = end


def _tokens(text: str, start: int, end: int, jumps: dict[int, int]) -> Iterator[tuple[int, int]]:
    """The words and strings of a stretch without its comments; what begins at a key of `jumps` is taken as one."""
    at = start
    while (found := _TOKEN.search(text, at, end)) is not None:
        at = jumps.get(found.start(), found.end())
        if text[found.start()] != "#":
            yield found.start(), at


# -------------------------------------------------------------------- blocks


def _block(wording: Wording, statement: rules.Statement, placed: bool) -> Iterator[Line]:
    span = statement.span
    brace = _brace(span) if placed else span.start
    yield Line(sentences.opening(wording, statement), start=span.start, end=brace + 1, opens=True)
    if isinstance(statement, rules.Profile):
        for setting in statement.settings:
            yield Line(sentences.setting(wording, setting), 1, setting.span.start, setting.span.end)
    else:
        assert isinstance(statement, (rules.Rule, rules.Override))
        yield from _body(wording, statement.body, Span(span.source, brace + 1, span.end - 1) if placed else None)
    yield Line("}", start=span.end - 1, end=span.end, closes=True)


def _brace(span: Span) -> int:
    """Where the brace of a block opens; the one of a range such as `{0..3}` is not it."""
    text = span.source.text
    return next(start for start, end in _tokens(text, span.start, span.end, {}) if text[start:end] == "{")


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
    for start, end in _tokens(text, inside.start, inside.end, {n.span.start: n.span.end for n in nodes}):
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


# -------------------------------------------------------------------- comments and blank lines


def _attach_comments(text: str, lines: list[Line]) -> list[tuple[str, bool]]:
    """Give each comment, and each blank line, to the line that it belongs to; what comes after the last is returned."""
    placed = sorted((line for line in lines if line.start is not None), key=lambda line: line.start or 0)
    starts = [line.start or 0 for line in placed]
    for line in placed:
        line.blank = _after_blank(text, line.start or 0)
    tail: list[tuple[str, bool]] = []
    hoisted: list[tuple[Line, str]] = []
    for found in re.finditer(r'"[^"\n]*"?|#[^\n]*', text):
        at, comment = found.start(), found[0].rstrip()
        if text[at] != "#":
            continue
        before = bisect_right(starts, at) - 1
        if before >= 0 and placed[before].end > at:
            hoisted.append((placed[before], comment))
        elif before >= 0 and text[text.rfind("\n", 0, at) + 1 : at].strip():
            placed[before].beside = comment
        elif before + 1 < len(placed):
            placed[before + 1].above.append((comment, _after_blank(text, at)))
        else:
            tail.append((comment, _after_blank(text, at)))
    for line, comment in hoisted:
        line.above.append((comment, line.blank))
        line.blank = False
    return tail


def _after_blank(text: str, at: int) -> bool:
    """Whether a blank line comes before this place."""
    return text[: at][len(text[:at].rstrip()) :].count("\n") > 1


def _joined(lines: Sequence[Line], tail: Sequence[tuple[str, bool]] = ()) -> str:
    out: list[str] = []
    after_block = after_opening = False

    def put(text: str, blank: bool) -> None:
        if blank and out:
            out.append("")
        out.append(text)

    for line in lines:
        forced = after_block or line.opens
        lead = _INDENT * (line.depth + line.closes)
        for comment, blank in line.above:
            put(lead + comment, (blank or forced) and not after_opening)
            forced = after_opening = False
        beside = f"  {line.beside}" if line.beside else ""
        put(_INDENT * line.depth + line.text + beside, (line.blank or forced) and not (after_opening or line.closes))
        after_block, after_opening = line.closes, line.opens
    for comment, blank in tail:
        put(comment, blank or after_block)
        after_block = False
    return "\n".join(out) + "\n" if out else ""
