"""JSON lines: one object a row. With a `step` they are canonical, and what they say is taken as it is."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO

from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl_files.format import Format, Pieces, Reading
from vitalsdsl_files.json_text import parse
from vitalsdsl_files.lines import Tally, blocks_of, line_of, lines_of
from vitalsdsl_files.rows import flat, in_pieces, stepped, whole

_LOOKED_AT = 20
_LONG = 32 * 1024


class JsonLines(Format):
    """Rows as JSON objects, one a line; `{"rewind": 900}` is a rewind to step 900.

    In canonical rows, which have a `step`, a step that goes back means nothing by itself. Rows whose step has another
    name are some framework's own, and may be taken apart into runs.
    """

    name = "JSON lines"
    live = True

    def recognises(self, head: str) -> bool:
        ended = head.endswith(("\n", "\r"))
        lines = [line for line in head.lstrip("\ufeff").splitlines() if line.strip(" \t\0")]
        if len(lines) == 1 and not ended and len(head) > _LONG:
            return lines[0].lstrip().startswith("{")
        looked_at = lines[:_LOOKED_AT]
        if not ended and len(lines) == len(looked_at) > 1:
            looked_at.pop()
        return sum(_object(line) is not None for line in looked_at) * 2 >= max(len(looked_at), 1)

    def read(self, stream: TextIO, reading: Reading) -> Iterator[Row | Rewind]:
        return stepped(rows_of(stream, reading), reading, canonical=True)

    def pieces(self, stream: TextIO, reading: Reading) -> Pieces:
        return in_pieces(_chunks(stream, reading), reading, canonical=True)


def rows_of(stream: TextIO, reading: Reading) -> Iterator[Mapping[str, object] | Rewind]:
    """The objects of a log of JSON lines, flat; `{"rewind": 900}` is a rewind. What is no object is counted."""
    tally = Tally(reading, "JSON object")
    for line in lines_of(stream):
        row = _object(line.text) if line.text is not None else None
        if row is None:
            tally.bad(line)
            continue
        tally.good()
        back = whole(row.get("rewind")) if "rewind" in row and "step" not in row else None
        yield flat(row) if back is None else Rewind(back)
    tally.finish()


def _chunks(stream: TextIO, reading: Reading) -> Iterator[list[dict[str, object] | Rewind]]:
    """As `rows_of`, many lines at once, and not flat yet."""
    tally = Tally(reading, "JSON object")
    # Three times as quick as the standard library's; to load it takes longer than to read a short log.
    from_json: Callable[..., Any] = importlib.import_module("pydantic_core").from_json
    for first, lines, is_whole in blocks_of(stream):
        chunk: list[dict[str, object] | Rewind] = []
        for number, text in enumerate(lines, first):
            try:
                row = from_json(text, cache_strings="keys") if text is not None else None
            except ValueError:  # empty, or JSON only to those who are less strict
                row = None
            if row.__class__ is not dict:
                line = line_of(number, text, is_whole or number < first + len(lines) - 1)
                row = _object(line.text) if line is not None and line.text is not None else None
                if row is None:
                    if line is not None:
                        tally.bad(line)
                    continue
            back = whole(row["rewind"]) if "rewind" in row and "step" not in row else None
            chunk.append(row if back is None else Rewind(back))
        tally.good(len(chunk))
        yield chunk
    tally.finish()


def _object(text: str) -> dict[str, object] | None:
    text = text.strip(" \t\0")
    if not text.startswith("{"):
        return None
    try:
        found = parse(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


FORMAT = JsonLines()
