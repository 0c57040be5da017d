"""The text that fairseq and metaseq print, in either of their log formats, and their JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vitalsdsl_files.format import Reading
from vitalsdsl_files.json_text import parse
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.printed import Lines, Printed, leading, pairs

_INNER = pattern(r"\bepoch (\d+):\s+\d+ / \d+ (?=\w+=)")
_SUMMARY = pattern(r"\bepoch (\d+) \|(?: valid on '([^']+)' subset \|)?(?= *\w+ )")
_CELL = pattern(r"^\s*(\w+)\s+(\S+)\s*$")
_OBJECT = pattern(r'\{"epoch":[^{}]{0,8000}\}')


class Fairseq(Printed):
    """One row for each line of training (`epoch 001: 10 / 31621 loss=15.2, … num_updates=11`), under the names there.

    Summaries of an epoch and validations are rows of their own, under the names that fairseq gives them as JSON: `loss`
    is `train_loss` (a mean over the epoch), and `valid_loss` or what the subset is called. The step is `num_updates`.
    """

    name = "fairseq text"
    priority = 5
    marks = pattern(
        r"epoch \d+:\s+\d+ / \d+ \w+=[^\n]{0,1000}\bnum_updates="
        r"|\| +epoch \d+ \|[^\n]{0,1000}\bnum_updates +\d"
        r'|\{"epoch":[^\n]{0,1000}"(?:\w+_)?num_updates": *"?\d'
    )

    def rows(self, lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
        for text in lines:
            if "epoch" not in text:
                continue
            if (found := _OBJECT.search(text)) is not None:
                row = _object(found[0])
            elif (found := _INNER.search(text)) is not None:
                row = {"epoch": found[1], **pairs(text[found.end() :])}
            elif (found := _SUMMARY.search(text)) is not None:
                row = _summary(found[1], found[2] or "train", text[found.end() :])
            else:
                continue
            if "num_updates" in row:
                yield row


def _object(text: str) -> dict[str, object]:
    try:
        row = parse(text)
    except ValueError:
        return {}
    if not isinstance(row, dict):
        return {}
    steps = [key for key in row if key.endswith("num_updates")]
    return {("num_updates" if key in steps else key): value for key, value in row.items()} if len(steps) == 1 else {}


def _summary(epoch: str, subset: str, text: str) -> dict[str, object]:
    row: dict[str, object] = {"epoch": epoch}
    for cell in text.split("|"):
        if (found := _CELL.match(cell)) is not None and (value := leading(found[2])) is not None:
            row["num_updates" if found[1] == "num_updates" else f"{subset}_{found[1]}"] = value
    return row


FORMAT = Fairseq()
