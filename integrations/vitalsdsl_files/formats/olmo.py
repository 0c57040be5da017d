"""The text that OLMo and OLMo-core print: `[step=10/15000,epoch=0]`, then one `name=value` a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vitalsdsl_files.format import Reading
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.printed import NUMBER, Lines, Printed, to_float

_HEAD = pattern(r"\[step=(\d+)(?:/(\d+))?(?:,epoch=(\d+))?[^\]]*\]\s*$")
_VALUE = pattern(rf"([A-Za-z][\w ().%@-]*/[\w ()./%@-]*)=({NUMBER})", re.IGNORECASE)


class Olmo(Printed):
    """One row for each `[step=…]`, with the lines below it, under their names. Thousands may have commas.

    Metrics below another line, as those of an evaluation, are a row of their own at the step before it.
    """

    name = "OLMo text"
    marks = pattern(r"\[step=\d+[^\]\n]*\]\s*\n\s*[A-Za-z][\w ().%@-]*/[^=\n]*=")

    def rows(self, lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
        row: dict[str, object] = {}
        step: str | None = None
        for text in lines:
            if (found := _HEAD.search(text)) is not None:
                if len(row) > 1:
                    yield row
                step = found[1]
                row = {"step": step} if found[3] is None else {"step": step, "epoch": found[3]}
                if found[2]:
                    reading.total_steps = float(found[2])
            elif step is None:
                continue
            elif (value := _VALUE.fullmatch(text.strip())) is not None:
                row[value[1]] = to_float(value[2])
            elif len(row) > 1:
                yield row
                row = {"step": step}
        if len(row) > 1:
            yield row


FORMAT = Olmo()
