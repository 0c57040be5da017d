"""Progress bars that tell metrics, as Lightning's and trlx's: `Epoch 3: 50%|██ | 5/10 [00:01<00:01, loss=0.5]`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vitalsdsl_files.format import LAST_RESORT, Reading
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.printed import Lines, Printed, pairs

_BAR = pattern(r"\d+%\|[^|]*\| *(\d{1,18})/(\d{1,18}) \[([^\]]*)\]")
_EPOCH = pattern(r"\bepoch\W{0,3}(\d+)", re.IGNORECASE)
_BEFORE = 1000
"""How much before a bar belongs to it, in characters."""
_NO_METRIC = frozenset({"v_num", "epoch", "step"})


class Bars(Printed):
    """One row for each batch at which a bar was drawn with numbers before or behind it: the last drawing of that batch.

    A bar that begins again, as in each epoch, is counted on by its length, and that is said. Read only where no other
    line tells metrics.
    """

    name = "progress bars"
    priority = LAST_RESORT - 7
    marks = pattern(
        r"%\|[^|\n]*\| *\d+/\d+ \[[^\]\n]*, *[\w/.-]+=[-+\d.n]|[\w/]: ?[-+]?[\d.]+\]?: *\d+%\|[^|\n]*\| *\d+/\d+ \["
    )

    def rows(self, lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
        row: dict[str, object] = {}
        batch, length, offset = 0, 0, 0
        for text in lines:
            if "%|" not in text:
                continue
            ended = 0
            for bar in _BAR.finditer(text):
                drawn, of, behind = bar.groups()
                before = text[max(ended, bar.start() - _BEFORE) : bar.start()]
                ended = bar.end()
                values = {**pairs(before), **pairs(behind)}
                metrics = {name: value for name, value in values.items() if name not in _NO_METRIC}
                if not metrics:
                    continue
                if row and int(drawn) != batch:
                    yield row
                if int(drawn) < batch and int(of) == length:
                    if not offset:
                        reading.notes.append("the progress bar begins again: its batches are counted on")
                    offset += length
                batch, length = int(drawn), int(of)
                epoch = _EPOCH.search(before)
                row = {"step": offset + batch, **({"epoch": epoch[1]} if epoch else {}), **metrics}
        if row:
            yield row


FORMAT = Bars()
