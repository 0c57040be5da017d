"""What llm.c writes: its `main.log` (`s:10 trl:4.1 lr:0.0006 norm:1.2`) and its console (`step 10/100 | loss 4.1 | …`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vitalsdsl_files.format import Reading
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.printed import NUMBER, Lines, Printed, leading

_LOGGED = pattern(r"^s:(\d+)((?: +[A-Za-z_]\w*:\S+)+)")
_FIELD = pattern(rf"([A-Za-z_]\w*):({NUMBER})", re.IGNORECASE)
_PRINTED = pattern(r"(?:^|(?<=\s))step\s+(\d+)/(\d+)\s*\|")
_CELL = pattern(rf"^\s*([A-Za-z][A-Za-z _]*?)\s+({NUMBER})", re.IGNORECASE)
_MEASURED = pattern(rf"^\s*({NUMBER})\s*(ms|%[^|]*MFU|tok/s)", re.IGNORECASE)
_EVALUATED = pattern(rf"^(val loss|HellaSwag:?)\s+({NUMBER})", re.IGNORECASE)


class LlmC(Printed):
    """`main.log`: one row a line, under the names there: `trl`, `tel` (validation), `eval`, `lr`, `norm`.

    Console: one row for each `step N/M | …` (`loss`, `norm`, `lr`, `ms`, `MFU` in percent, `tok/s`), M being the run's
    length; a `val loss` printed by itself is at the step printed before it.
    """

    name = "llm.c text"
    marks = pattern(r"(?m)^s:\d+ +(?:trl|tel|eval):|(?:^|\s)step\s+\d+/\d+\s*\|\s*(?:train )?loss\s+[-+\dn]")

    def rows(self, lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
        latest = "0"
        for text in lines:
            if (found := _LOGGED.match(text)) is not None:
                fields = {name: leading(value) for name, value in _FIELD.findall(found[2])}
                if fields:
                    yield {"step": found[1], **fields}
            elif (found := _PRINTED.search(text)) is not None:
                latest = found[1]
                reading.total_steps = float(found[2])
                yield {"step": latest, **_cells(text[found.end() :])}
            elif (found := _EVALUATED.match(text)) is not None:
                yield {"step": latest, found[1].rstrip(":"): leading(found[2])}


def _cells(text: str) -> dict[str, object]:
    row: dict[str, object] = {}
    for cell in text.replace("(", "|").split("|"):
        if (named := _CELL.match(cell)) is not None:
            row[named[1]] = leading(named[2])
        elif (measured := _MEASURED.match(cell)) is not None:
            row["MFU" if measured[2].endswith("MFU") else measured[2]] = leading(measured[1])
    return row


FORMAT = LlmC()
