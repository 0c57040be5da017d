"""The text that mmcv and mmengine print (mmdetection, mmsegmentation, …): `Epoch [1][50/930] lr: 1e-2, loss: 1.1`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vitalsdsl_files.format import Reading
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.printed import Lines, Printed, pairs

_LINE = pattern(
    r"\b(Epoch|Iter)(?:\((train|val|test)\))?\s*\[\s*(\d{1,9})(?:\s*/\s*(\d{1,9}))?\](?:\s*\[\s*(\d{1,9})(?:\s*/\s*(\d{1,9}))?\])?\s+(?=\S)"
)
_NO_METRIC = frozenset({"time", "data_time", "memory"})


class MMLab(Printed):
    """One row a line, under the names that are printed; those of a validation with `val/` (or `test/`) before them.

    The step is the iteration: of `Epoch [2][50/930]` it is 980. A validation counts its own batches, so it is at the
    training step before it; its lines that tell nothing but how long it takes are left out.
    """

    name = "OpenMMLab text"
    marks = pattern(
        r"\bEpoch(?:\(\w+\))?\s*\[\d+\]\[\s*\d+/\d+\]\s+[^\n]{0,2000}\w: |\bIter(?:\(\w+\))?\s*\[\s*\d+/\d+\]\s+[^\n]{0,2000}\w: "
    )

    def rows(self, lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
        latest = 0
        for text in lines:
            if "[" not in text or (found := _LINE.search(text)) is None:
                continue
            unit, role, first, length, inner, size = found.groups()
            values = pairs(text[found.end() :])
            if role in ("val", "test"):
                if values.keys() - _NO_METRIC:
                    yield {"step": latest, **{f"{role}/{name}": value for name, value in values.items()}}
                continue
            if unit == "Iter":
                latest = int(first)
                reading.total_steps = float(length) if length else reading.total_steps
                yield {"step": latest, **values}
            elif inner and size:
                latest = (int(first) - 1) * int(size) + int(inner)
                yield {"step": latest, "epoch": first, **values}


FORMAT = MMLab()
