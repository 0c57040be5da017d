"""How deep a text may nest, looked at before anything is built from it and once more afterwards."""

from __future__ import annotations

import re

from vitalsdsl import expressions as ex
from vitalsdsl.builder import Locator
from vitalsdsl.diagnostic import Diagnostic, Severity
from vitalsdsl.source import Span

MAX_NESTING = 60

_PARENTHESES = re.compile(r'"[^"\n]*"?|#[^\n]*|[()]')


def too_deep(text: str, locator: Locator) -> Diagnostic | None:
    """Parentheses nested beyond reason."""
    if text.count("(") <= MAX_NESTING:
        return None
    depth = 0
    for found in _PARENTHESES.finditer(text):
        if found[0] == "(":
            depth += 1
            if depth > MAX_NESTING:
                return _finding(locator.span(found.start(), found.end()))
        elif found[0] == ")":
            depth = max(0, depth - 1)
    return None


def built_too_deep(root: ex.Node) -> Diagnostic | None:
    """Parts nested beyond reason, such as a chain of a hundred `not`."""
    if root.span.end - root.span.start <= MAX_NESTING:
        return None  # A part takes a character at least.
    level = [root]
    for _ in range(MAX_NESTING + 8):
        level = [child for node in level for child in node.children()]
        if not level:
            return None
    return _finding(level[0].span)


def _finding(span: Span) -> Diagnostic:
    message = f"this is nested more than {MAX_NESTING} deep"
    return Diagnostic("V032", Severity.ERROR, message, span, "here", ("name the parts with `let` and `event`",))
