"""Lines of anybody's own that tell a step and numbers: `Step: 10, loss = 2.5, lr: 1e-4`, `epoch: 0|step: 3|loss: 1`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vitalsdsl_files.epochs import counted_on
from vitalsdsl_files.format import LAST_RESORT, Reading
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.printed import ALONE, NUMBER, Lines, Printed, to_float

_STEP = r"(?:global[ _]?)?(?:steps?|iter(?:ation)?s?)"
_AT = pattern(
    rf"(?<![\w./-])({_STEP}|epoch)\b\s*[:=#]?\s*\[?\s*(\d+)(?:\s*(?:/|of)\s*(\d+))?(?![\d.]*[\w])", re.IGNORECASE
)
_PAIR = pattern(
    rf"(?<![\w./-])([A-Za-z][\w./@-]*(?: [A-Za-z][\w./@-]*){{0,3}})\s?(?:[:=]| is)\s*({NUMBER}){ALONE}",
    re.IGNORECASE,
)
_LONGEST = 4096  # a longer line is no line of progress
_OTHERS = pattern(r"\[(?:logging|timer|loss_scaler|\w+_optimizer|stage\w+)\.py:|iter time \(s\):|\d%\|")
_LEVEL = pattern(r"^(?:(?:INFO|WARNING|DEBUG|ERROR)\b\s*)+")
_NO_METRIC = pattern(r"^(?:eta|time|date|elapsed|remaining|pid|rank|seed|port)$", re.IGNORECASE)


class Progress(Printed):
    """One row for each line with a step (`step`, `iter`, `iteration`, else `epoch`) and two or more other numbers, of
    which the epoch beside a step is one.

    Numbers have a name before them, with `:`, `=` or `is`. All lines that are read so are said, as anybody's lines can
    mean anything. A step that begins anew with each epoch is counted on. It is read only where no other format is found.
    """

    name = "lines of `name: number`"
    priority = LAST_RESORT - 5
    marks = pattern(r"(?i)step|iter|epoch")

    def recognises(self, head: str) -> bool:
        return super().recognises(head) and any(_row(line, Reading("")) for line in head.splitlines())

    def rows(self, lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
        return counted_on(_told(lines, reading), reading, "step", "epoch")


def _told(lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
    first = 0
    for text in lines:
        row = _row(text, reading)
        if row:
            if not first:
                first = lines.number
                reading.notes.append(
                    f"lines with a step and numbers are read as rows, the first is line {first}: "
                    f"{', '.join(f'`{name}`' for name in row)}"
                )
            yield row


def _row(text: str, reading: Reading) -> dict[str, object]:
    if "{" in text or len(text) > _LONGEST:
        return {}
    counts: dict[str, str] = {}
    length = reading.total_steps
    for found in _AT.finditer(text):
        name = "epoch" if found[1].lower() == "epoch" else "step"
        counts.setdefault(name, found[2])
        if name == "step" and found[3]:
            length = float(found[3])
    if not counts:
        return {}
    if len(counts) == 1:  # beside an epoch, it is the length of one
        reading.total_steps = length
    values: dict[str, object] = {}
    for name, value in _PAIR.findall(text):
        words = " ".join(_LEVEL.sub("", name).split())
        if not _AT.search(f"{words} 0") and not _NO_METRIC.match(words):
            values[words] = to_float(value)
    told = len(values) + (len(counts) - 1 if values else 0)
    return {**counts, **values} if told >= 2 and _OTHERS.search(text) is None else {}


FORMAT = Progress()
