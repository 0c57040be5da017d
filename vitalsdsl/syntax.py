"""What is wrong with a sentence that the grammar does not accept, in a reader's words."""

from __future__ import annotations

from lark.exceptions import UnexpectedInput, UnexpectedToken

from vitalsdsl.builder import Locator
from vitalsdsl.diagnostic import Diagnostic, Severity


def explain(error: UnexpectedInput, text: str, locator: Locator, start: int = 0, end: int = -1) -> Diagnostic:
    """One finding for one error of the parser over text[start:end]."""
    at = error.pos_in_stream or 0
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        at = max(start, len(text[: end if end >= 0 else None].rstrip()) - 1)
    return Diagnostic("V000", Severity.ERROR, "this does not fit here", locator.span(at, at + 1), "here")
