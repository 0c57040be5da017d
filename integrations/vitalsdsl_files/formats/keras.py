"""What Keras prints: `Epoch 1/20`, then a bar of batches with metrics: `5/5 [====] - 62s 13s/step - loss: 1.2`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vitalsdsl_files.format import Reading
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.printed import Lines, Printed, pairs

_EPOCH = pattern(r"(?:^|\s)Epoch (\d+)/(\d+)\s*$")
_BAR = pattern(r"(?:^|\s)(\d+)/(\d+) (?:\[=*\]|\u2501+) [^:]{0,80}?/(?:step|epoch|sample) - (?=\w)")


class Keras(Printed):
    """One row an epoch: the last bar that is full, under the names that are printed, at the epoch.

    Bars that are not full yet are left out, and so are those of another number of batches (`evaluate`, `predict`).
    """

    name = "Keras console"
    marks = pattern(r"(?:^|\s)\d+/\d+ (?:\[=*\]|\u2501+) [^:\n]{0,80}?/(?:step|epoch|sample) - \w+: ")

    def rows(self, lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
        row: dict[str, object] = {}
        epoch, batches = "", ""
        for text in lines:
            if (found := _EPOCH.search(text)) is not None:
                if row:
                    yield row
                row, batches, epoch = {}, "", found[1]
                reading.total_steps = float(found[2])
            elif epoch and "/" in text:
                for bar in _BAR.finditer(text):
                    batches = batches or bar[2]
                    if bar[1] == bar[2] == batches and "ETA" not in bar[0]:
                        row = {"epoch": epoch, **pairs(text[bar.end() :])}
        if row:
            yield row


FORMAT = Keras()
