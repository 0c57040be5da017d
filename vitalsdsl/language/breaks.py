"""Where a line that is too long is broken: where its author broke it, and a list of logged names wherever it must be."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from vitalsdsl.language.lines import Line, tokens

WIDTH = 120
"""Columns of a line: what fits into them stands on one line, whatever its author did."""


_DEEPEST = 8


def broken(line: Line, indent: str, source: str | None = None) -> list[str]:
    """The text of a line as one or several, all but the first indented once more, or as they were below the first.

    A longer one keeps the breaks that it had in the source, as far as words stand there that still stand beside each
    other; one that had none stays as it is, but for a `metric` with many names, which is filled up line by line. Broken
    again, it stays as it is.

    >>> line = Line("when a > 3 and b > 3 -> red", start=0, end=26)
    >>> broken(line, "  ", "when a > 3 and\\nb>3 -> red")
    ['when a > 3 and b > 3 -> red']
    """
    text = line.text
    if len(indent) * line.depth + len(text) <= WIDTH:
        return [text]
    places = dict(_as_before(text, line.start, line.end, source)) if source and line.start is not None else {}
    if not places and text.startswith("metric "):
        places = dict.fromkeys(_filled(text, WIDTH - len(indent) * (line.depth + 1)), 1)
    ends = [*places, len(text)]
    pieces = [indent * deep + text[begin:end].strip() for (begin, deep), end in zip(places.items(), ends[1:])]
    return [text[: ends[0]].strip(), *pieces]


def _as_before(text: str, start: int, end: int, source: str) -> Iterator[tuple[int, int]]:
    """The places in a text at which what it was made of had a new line, and how much deeper that was indented."""
    written = source[start:end]
    old, new = list(tokens(written, 0, len(written), {})), list(tokens(text, 0, len(text), {}))
    breaks = [at for at in range(1, len(old)) if "\n" in written[old[at - 1][1] : old[at][0]]]
    if not breaks:
        return
    words = [[string[a:b] for a, b in found] for string, found in ((written, old), (text, new))]
    same = {
        block.a + at: block.b + at
        for block in SequenceMatcher(None, words[0], words[1], autojunk=False).get_matching_blocks()
        for at in range(block.size)
    }
    first = source[source.rfind("\n", 0, start) + 1 : start]
    own = len(first) - len(first.lstrip())
    for at in breaks:
        place = new[same[at]][0] if at in same else 0
        if place and text[place - 1] == " ":
            column = old[at][0] - (written.rfind("\n", 0, old[at][0]) + 1)
            yield place, max(1, min(_DEEPEST, column - own) // 2)


def _filled(text: str, room: int) -> Iterator[int]:
    """The places in a declaration of a metric at which its list is broken: behind the `=`, then before the name, or the
    word after the names, for which there is no more room."""
    found = list(tokens(text, 0, len(text), {}))
    begin = next(end for start, end in found if text[start:end] == "=") + 1
    yield begin
    for (_, before), (start, end) in zip(found, found[1:]):
        comma = text[end : end + 1] == ","
        if start > begin and text[before - 1] in ',"' and end + comma - begin > room:
            begin = start
            yield begin
