"""The text that detectron2 prints: `d2.utils.events INFO:  eta: 0:12:05  iter: 79  total_loss: 3.2  lr: 1e-04`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vitalsdsl_files.format import Reading
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.printed import Lines, Printed, pairs

_LINE = pattern(r"\biter: (?=\d+  \S+: )")


class Detectron(Printed):
    """One row for each line with `iter: N`, under the names that are printed. Its `metrics.json` is read as JSON lines."""

    name = "detectron2 text"
    marks = pattern(r"\biter: \d+  (?:total_)?loss\w*: ")

    def rows(self, lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
        for text in lines:
            if "iter: " in text and (found := _LINE.search(text)) is not None:
                yield pairs(text[found.start() :])


FORMAT = Detectron()
