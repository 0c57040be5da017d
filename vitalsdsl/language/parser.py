"""Parse: the text of a policy to its objects, and what is wrong with the text. Nothing here knows what names mean."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from vitalsdsl.ground.diagnostic import Diagnostic, Severity, in_order
from vitalsdsl.ground.quoting import QUOTED, STARTED
from vitalsdsl.ground.source import Locator, Source, Span
from vitalsdsl.ground.uncollected import uncollected
from vitalsdsl.ground.words import RULE_PARTS, STATEMENTS
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.builder import Builder, Part
from vitalsdsl.language.reading import Reader
from vitalsdsl.language.tables import tables
from vitalsdsl.language.tokens import Unexpected

MAX_CHARACTERS = 2_000_000
MAX_STATEMENTS = 10_000
MAX_WORDS = 400_000
"""Words and signs in one file: what the parser needs time and memory for."""
MAX_NESTING = 60
MAX_PARTS = 5_000
"""Of one `or`, one sum, one call."""
MAX_ERRORS = 100

_NAME_PARTS = ("name the parts with `let` and `event`",)
_SCAN = STARTED + r"|#[^\n]*|[{}()]|(?m:^)[ \t]*([a-z]+)\b|[A-Za-z_][\w./]*"
_WORDS = QUOTED + r"|#[^\n]*|\w+|[^\w\s]"
_DEFINES = r"\s*(?:metric|param|let|event|phase|rule|profile)\s+([A-Za-z_][\w./]*)"


class Parsed(NamedTuple):
    """What came of a text: the policy as far as it could be read, the findings, and names whose statements are broken
    (so that nothing else complains about them)."""

    policy: rules.Policy
    diagnostics: tuple[Diagnostic, ...] = ()
    broken_names: frozenset[str] = frozenset()

    @property
    def ok(self) -> bool:
        return not any(d.is_error for d in self.diagnostics)


def parse(source: Source) -> Parsed:
    """Read a policy in the vitals language.

    >>> parsed = parse(Source("a.vitals", "when loss > 3 -> red"))
    >>> parsed.policy.statements[0].body.clauses[0].rungs[0].level.word
    'red'
    """
    refusal = refuse(source)
    if refusal is not None:
        return Parsed(rules.Policy.build(source.span(0, 0), source=source), (refusal,))
    return _Reading(source).run()


def parse_expression(text: str, locator: Locator, start: str = "condition") -> tuple[Any | None, list[Diagnostic]]:
    """Read one condition (or another rule of the grammar) by itself; `locator` says where its characters stand."""
    finding = _too_deep(text, locator)
    if finding is not None:
        return None, [finding]
    try:
        return _build(text, locator, start)
    except Unexpected as error:
        return None, [_explained(error, text, locator)]


def refuse(source: Source) -> Diagnostic | None:
    """Why a text is not even looked at: too large, or not text."""
    text = source.text
    if len(text) > MAX_CHARACTERS:
        size = f"{len(text) / 1e6:.1f} million characters"
        message = f"this file has {size}; a policy has at most {MAX_CHARACTERS // 1_000_000} million"
        head = Source(source.name, text[:200])
        return Diagnostic("V030", Severity.ERROR, message, head.span(0, 1), help=("split it and `use` the parts",))
    if len(text) > MAX_WORDS:
        count = sum(1 for found in re.finditer(_WORDS, text) if found[0][0] != "#")
        if count > MAX_WORDS:
            message = f"this file has {count:,} words and signs; a policy has at most {MAX_WORDS:,}"
            return Diagnostic(
                "V030", Severity.ERROR, message, source.span(0, 1), help=("split it and `use` the parts",)
            )
    at = text.find("\0")
    if at >= 0:
        message = "this file holds a NUL character: it is not text"
        return Diagnostic("V031", Severity.ERROR, message, source.span(at, at + 1), "here")
    return None


class _Reading:
    """One pass over one file. The whole text at once where it is right; statement by statement where it is not."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        if self.text.startswith("\ufeff"):
            self.text = " " + self.text[1:]
        self.locator = Locator(source)
        self.diagnostics: list[Diagnostic] = []
        self.items: list[Any] = []
        self.broken: set[str] = set()

    def run(self) -> Parsed:
        with uncollected():
            deep = _too_deep(self.text, self.locator)
            if deep is None and self._whole():
                pass
            else:
                if deep is not None:
                    self.diagnostics.append(deep)
                self._by_statement()
        policy = self._policy()
        return Parsed(policy, tuple(in_order(self.diagnostics)[:MAX_ERRORS]), frozenset(self.broken))

    def _whole(self) -> bool:
        try:
            self._take(self.text)
        except Unexpected:
            return False
        return True

    def _take(self, text: str, start: int = 0, end: int | None = None) -> None:
        built, found = _build(text, self.locator, "start", start, end)
        self.items += built or []
        self.diagnostics += found

    def _by_statement(self) -> None:
        for start, end in _stretches(self.text, STATEMENTS, depth=0):
            if len(self.diagnostics) >= MAX_ERRORS:
                return
            self._statement(start, end)

    def _statement(self, start: int, end: int) -> None:
        """Parse a statement; where a part of it is wrong, blank that part and look at the rest."""
        text = self.text
        if _too_deep(text[start:end], self.locator) is not None:
            return
        for _ in range(20):
            try:
                if text is self.text:
                    self._take(text, start, end)
                else:
                    _build(text, self.locator, "start", start, end)
            except Unexpected as error:
                self.diagnostics.append(_explained(error, text, self.locator, start, end))
                defined = re.compile(_DEFINES).match(text, start, end)
                if defined is not None:
                    self.broken.add(defined[1])
                blanked = _blank_part(text, start, end, error.at)
                if blanked is None:
                    return
                text = blanked
                continue
            return

    def _policy(self) -> rules.Policy:
        name: tuple[str | None, str | None] = (None, None)
        statements: list[rules.Statement] = []
        version = 1
        for item in self.items:
            if isinstance(item, rules.Statement):
                statements.append(item)
            elif isinstance(item, Part):
                if name[0] is not None:
                    self._error("V014", "the policy is named twice", item.span, "one name a file")
                name = (item.field, item.value)
        if len(statements) > MAX_STATEMENTS:
            message = f"{len(statements):,} statements; a policy has at most {MAX_STATEMENTS:,}"
            self._error("V030", message, statements[MAX_STATEMENTS].span, "split it and `use` the parts")
            statements = []
        place = self.source.span(0, len(self.text))
        return rules.Policy.build(
            place, source=self.source, version=version, name=name[0], title=name[1], statements=tuple(statements)
        )

    def _error(self, code: str, message: str, span: Span, label: str) -> None:
        self.diagnostics.append(Diagnostic(code, Severity.ERROR, message, span, label))


def _build(
    text: str, locator: Locator, start: str, at: int = 0, end: int | None = None
) -> tuple[Any | None, list[Diagnostic]]:
    """What text[at:end] says, and what is wrong with it beside its grammar. Raises Unexpected."""
    found: list[Diagnostic] = []

    def parse_field(text: str, span: Span) -> ex.Expression | None:
        positions = None if locator.positions is None else range(span.start, span.end)
        inner = _Shifted(span) if positions is None else Locator(locator.source, positions)
        expression, more = parse_expression(text, inner)
        found.extend(more)
        return expression

    builder = Builder(locator, parse_field)
    built = _reader().read(text, start, builder, at, end)
    found = builder.diagnostics + found
    items = built if isinstance(built, list) else [built]
    nodes = (item for item in items if isinstance(item, ex.Node) and _may_be_large(item.span.text))
    large = next((d for node in nodes if (d := _too_large(node))), None)
    if large is not None:
        return None, [*found, large]
    return built, found


class _Shifted(Locator):
    """A text that stands at an offset in its file, character by character."""

    def __init__(self, span: Span) -> None:
        super().__init__(span.source)
        self.offset = span.start

    def span(self, start: int, end: int) -> Span:
        return Span(self.source, start + self.offset, end + self.offset)


def _too_deep(text: str, locator: Locator) -> Diagnostic | None:
    """Brackets nested beyond reason, found before the parser builds anything from them."""
    if text.count("(") <= MAX_NESTING:
        return None
    depth = 0
    for found in re.finditer(rf"{STARTED}|#[^\n]*|[()]", text):
        if found[0] == "(":
            depth += 1
            if depth > MAX_NESTING:
                return _deep(locator.span(found.start(), found.end()))
        elif found[0] == ")":
            depth = max(0, depth - 1)
    return None


def _may_be_large(text: str) -> bool:
    """Whether it is worth a look: a call is two levels, each other one takes a `-` or, in words, four characters."""
    return 2 * text.count("(") + text.count("-") + len(text) / 4 > MAX_NESTING


def _too_large(root: ex.Node) -> Diagnostic | None:
    """Nested beyond reason without brackets (`not not not …`), or a chain that nobody reads."""
    level = [root]
    for _ in range(MAX_NESTING + 8):
        inner: list[ex.Node] = []
        for node in level:
            before = len(inner)
            inner += node.children()
            count = len(inner) - before
            if count > MAX_PARTS and isinstance(node, ex.Expression):
                message = f"this has {count:,} parts; {MAX_PARTS:,} at most"
                return Diagnostic("V032", Severity.ERROR, message, node.span, "too long", _NAME_PARTS)
        level = inner
        if not level:
            return None
    return _deep(level[0].span)


def _deep(span: Span) -> Diagnostic:
    message = f"this is nested more than {MAX_NESTING} deep"
    return Diagnostic("V032", Severity.ERROR, message, span, "here", _NAME_PARTS)


def _stretches(
    text: str, keywords: Sequence[str], depth: int, start: int = 0, end: int = -1
) -> Iterator[tuple[int, int]]:
    """Where statements (or, at depth 1, the parts of a rule) begin and end: each at a keyword that opens a line."""
    begins = [start]
    now = 0
    top = set(STATEMENTS) - set(RULE_PARTS)
    for found in re.compile(_SCAN).finditer(text, start, len(text) if end < 0 else end):
        token = found[0]
        if token == "{":
            now += 1
        elif token == "}":
            now = max(0, now - 1)
        elif found[1] in keywords and now == depth or depth == 0 and found[1] in top and token == found[1]:
            if depth == 0:
                now = 0
            begins.append(found.start(1))
    bounds = [*begins, len(text) if end < 0 else end]
    yield from ((a, b) for a, b in zip(bounds, bounds[1:]) if text[a:b].strip())


def _blank_part(text: str, start: int, end: int, at: int) -> str | None:
    """The text without the part of the rule in which the error stands; None where the whole statement is lost."""
    if "{" not in text[start:end]:
        return None
    for a, b in _stretches(text, RULE_PARTS, depth=1, start=start, end=end):
        if a == start:
            continue
        closing = text.rfind("}", a, b)
        b = closing if closing >= 0 and b == end else b
        if a <= at <= b:
            blank = re.sub(r"\S", " ", text[a:b])
            return None if blank == text[a:b] else text[:a] + blank + text[b:]
    return None


def _explained(error: Unexpected, text: str, locator: Locator, start: int = 0, end: int = -1) -> Diagnostic:
    """One finding for one error. All that knows of mistakes is loaded once somebody made one."""
    found: Diagnostic = importlib.import_module("vitalsdsl.language.syntax").explain(error, text, locator, start, end)
    return found


@cache
def _reader() -> Reader:
    """One for all: it learns which words may stand where."""
    return Reader(tables())
