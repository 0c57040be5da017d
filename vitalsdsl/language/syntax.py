"""What is wrong with a sentence that the grammar does not accept, in a reader's words.

The first mistake that knows the place speaks. They look at the text, not at the parser's own words.
"""

from __future__ import annotations

from collections.abc import Callable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.source import Locator
from vitalsdsl.language.mistakes import (
    conditions,
    definitions,
    english,
    letters,
    levels,
    names,
    numbers,
    signs,
    statements,
)
from vitalsdsl.language.mistakes.place import FORMS, WORD, Place, keyword
from vitalsdsl.language.tokens import Unexpected

MISTAKES: tuple[Callable[[Place], Diagnostic | None], ...] = (
    letters.quotes,
    letters.letters,
    levels.broken_arrow,
    conditions.samples,
    english.phrases,
    english.multiples,
    letters.small_letters,
    levels.levels,
    levels.behind_level,
    numbers.durations,
    numbers.numbers,
    signs.operators,
    names.reserved,
    signs.brackets,
    levels.arrow,
    signs.division,
    conditions.bounds,
    definitions.one_word,
    definitions.equals,
    definitions.phases,
    definitions.bodies,
    definitions.quoted_name,
    definitions.reasons,
    conditions.counted,
    conditions.steps,
    conditions.sequences,
    definitions.members,
    levels.no_arrow,
    definitions.texts,
    conditions.values,
    english.joined,
    names.side_by_side,
    names.strange_signs,
    names.words,
    statements.keywords,
    signs.commas,
)
"""In this order: what is surest first."""


def explain(error: Unexpected, text: str, locator: Locator, start: int = 0, end: int = -1) -> Diagnostic:
    """One finding for one error of the parser over text[start:end]."""
    end = len(text) if end < 0 else end
    at = end if error.is_over else error.at
    place = Place(text, start, at, end, error.expected, locator)
    for mistake in MISTAKES:
        found = mistake(place)
        if found is not None:
            return found
    return _fallback(place)


def _fallback(p: Place) -> Diagnostic:
    at, previous = p.previous
    form = FORMS.get(keyword(p))
    form = f"it is written `{form}`" if form else ""
    if p.is_over:
        whole = definitions.completed(p)
        form = f"write `{whole}`" if whole else form
        return p.error("V036", "the sentence is not complete", "ends here", form, at=at, length=len(previous))
    shown = p.word if WORD.match(p.rest) else p.rest[:1]
    after = f" after `{previous}`" if previous else ""
    return p.error("V000", f"`{shown}` does not fit here{after}", "not expected", _could(p) or form)


def _could(p: Place) -> str:
    kinds = [
        ({"NUMBER", "NAME", "STRING"}, "a metric, a number or a function"),
        ({"COMPARE"}, "a comparison such as `> 3`"),
        ({"ARROW"}, "`-> LEVEL`"),
        ({"RPAR"}, "`)`"),
        ({"NUMBER", "PERCENT", "MINUS"}, "a number such as `3` or `30%`, or a length such as `20 steps`"),
        ({"STRING"}, 'a text in `"…"`'),
        ({"NAME"}, "a name"),
    ]
    said = [text for needs, text in kinds if needs <= p.expected]
    return f"what could stand here: {', '.join(said[:3])}" if said else ""
