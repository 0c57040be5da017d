"""What is wrong with a sentence that the grammar does not accept, in a reader's words."""

from __future__ import annotations

from lark.exceptions import UnexpectedInput

from vitalsdsl.builder import Locator
from vitalsdsl.diagnostic import Diagnostic, Fix, Severity
from vitalsdsl.mistakes import brackets, leftovers, levels, numbers, operators, phrases, quoting, statements
from vitalsdsl.mistakes.sentence import Edit, Mistake, Recogniser, Sentence

RECOGNISERS: tuple[Recogniser, ...] = (
    leftovers.comment,
    *quoting.RECOGNISERS,
    *statements.EARLY_RECOGNISERS,
    *numbers.RECOGNISERS,
    *operators.RECOGNISERS,
    *levels.RECOGNISERS,
    *leftovers.RECOGNISERS,
    *brackets.RECOGNISERS,
    *phrases.RECOGNISERS,
    *statements.RECOGNISERS,
    *phrases.LATE_RECOGNISERS,
    *statements.LATE_RECOGNISERS,
    *quoting.LATE_RECOGNISERS,
    *leftovers.LATE_RECOGNISERS,
)
"""Asked in turn. The first whose proposal lets reading go on is right."""


def explain(error: UnexpectedInput, text: str, locator: Locator, rule: str = "start") -> Diagnostic:
    """One finding for one error of the parser over a text, read by this rule of the grammar."""
    return diagnose(error, text, locator, rule)[0]


def diagnose(
    error: UnexpectedInput, text: str, locator: Locator, rule: str = "start"
) -> tuple[Diagnostic, Edit | None]:
    """The finding, and the edit after which the rest of the text can be judged."""
    sentence = Sentence(error, text, locator, rule)
    mistake = _recognise(sentence)
    span = sentence.span(mistake.start, mistake.end)
    fix = None
    if mistake.edit is not None:
        fix = Fix(sentence.span(mistake.edit.start, mistake.edit.end), mistake.edit.text)
    finding = Diagnostic(mistake.code, Severity.ERROR, mistake.message, span, mistake.label, mistake.help, fix)
    return finding, mistake.edit


def _recognise(sentence: Sentence) -> Mistake:
    unproved: Mistake | None = None
    for recogniser in RECOGNISERS:
        mistake = recogniser(sentence)
        if mistake is None:
            continue
        if mistake.edit is None or sentence.improved(mistake.edit):
            return mistake
        unproved = unproved or mistake._replace(edit=None)
    return unproved or leftovers.last_resort(sentence)
