"""The JSON lines of mmcv (`*.log.json`) and mmengine (`scalars.json`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO

from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl_files.epochs import counted_on
from vitalsdsl_files.format import Reading
from vitalsdsl_files.formats.jsonl import JsonLines, rows_of
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.rows import stepped, whole

_VALIDATION = "a validation counts its own batches: it is read at the training step before it"


class MMLabJson(JsonLines):
    """Rows under their keys; those of a validation with `val/` before them, at the training step before it.

    mmcv's `iter` begins anew with each epoch, so it is counted on.
    """

    name = "OpenMMLab JSON lines"
    priority = 5
    live = False

    _marks = pattern(
        r'"mode": *"train"[^\n]*"epoch": *\d+[^\n]*"iter": *\d+|"data_time":[^\n]*"iter": *\d+[^\n]*"step": *\d+'
    )

    def recognises(self, head: str) -> bool:
        return self._marks.search(head) is not None and super().recognises(head)

    def read(self, stream: TextIO, reading: Reading) -> Iterator[Row | Rewind]:
        rows = (row for row in rows_of(stream, reading) if not isinstance(row, Rewind))
        return stepped(_placed(counted_on(_trained(rows), reading, "iter", "epoch"), reading), reading)


def _trained(rows: Iterable[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """The rows with their steps under `iter` alone, and those of a validation without."""
    for row in rows:
        mode = row.get("mode", "train" if "iter" in row else "val" if "step" in row else None)
        if mode == "train":
            yield {key: value for key, value in row.items() if key != "step"}
        elif mode is not None:  # else it is about the machine
            yield {f"val/{key}": value for key, value in row.items() if key not in ("mode", "iter", "step", "epoch")}


def _placed(rows: Iterable[Mapping[str, object]], reading: Reading) -> Iterator[Mapping[str, object]]:
    latest = 0
    told = False
    for row in rows:
        step = whole(row.get("iter"))
        if step is not None:
            latest = step
            yield row
        else:
            if not told:
                reading.notes.append(_VALIDATION)
                told = True
            yield {"iter": latest, **row}


FORMAT = MMLabJson()
