"""The `trainer_log.jsonl` of LLaMA-Factory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO

from vitalsdsl.ground.points import Rewind, Row, number
from vitalsdsl_files.format import Reading
from vitalsdsl_files.formats.jsonl import JsonLines, rows_of
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.rows import stepped

_COUNTERS = frozenset(
    {"current_steps", "total_steps", "epoch", "percentage", "cur_time", "elapsed_time", "remaining_time"}
)


class LlamaFactory(JsonLines):
    """Rows under their keys, at `current_steps` of `total_steps`.

    Rows with nothing but counters are the progress of an evaluation or a prediction, which counts its own batches: they
    are left out, and said.
    """

    name = "LLaMA-Factory trainer_log.jsonl"
    priority = 5
    live = False

    _marks = pattern(r'^\s*\{[^\n]*"current_steps": *\d+, *"total_steps": *\d+')

    def recognises(self, head: str) -> bool:
        return self._marks.search(head.lstrip("\ufeff")) is not None and super().recognises(head)

    def read(self, stream: TextIO, reading: Reading) -> Iterator[Row | Rewind]:
        return stepped(_logged(rows_of(stream, reading), reading), reading)


def _logged(rows: Iterable[Mapping[str, object] | Rewind], reading: Reading) -> Iterator[Mapping[str, object] | Rewind]:
    left_out = 0
    for row in rows:
        if isinstance(row, Rewind) or any(number(row[name]) is not None for name in row.keys() - _COUNTERS):
            yield row
        else:
            left_out += 1
    if left_out:
        them, are = ("1 row has", "is") if left_out == 1 else (f"{left_out} rows have", "are")
        reading.notes.append(f"{them} nothing but counters and {are} left out")


FORMAT = LlamaFactory()
