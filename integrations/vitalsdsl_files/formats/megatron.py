"""The text that Megatron-LM, Megatron-DeepSpeed and GPT-NeoX print: `iteration 10/ 100 | lm loss: 3.2E+00 | …`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from vitalsdsl_files.format import Reading
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.printed import Lines, Printed, leading

_TRAINING = pattern(r"\biteration\s+(\d+)\s*/\s*(\d+)\s*\|")
_EVALUATION = pattern(
    r"\b(?:(validation|test) (?:loss|results) at |(?:validation|test) loss on )"
    r"(?:the end of training for (val|test|validation)\b|[^|]*?\biteration (\d+))(?: on (validation|test) set)?[^|]*\|"
)


class Megatron(Printed):
    """One row for each `iteration N/ M | …`, under the names that are printed; M is the run's length.

    A skipped iteration has no loss printed, and gets none. Evaluations come under the names that Megatron gives them in
    TensorBoard: `lm loss validation` and `lm loss validation ppl`, or `test` for the test set; one at the end of the
    training is at the last iteration. Labels of ranks before a line (`[default7]:`) and between lines do not matter.
    What DeepSpeed prints in between repeats these rows, and is not read.
    """

    name = "Megatron text"
    marks = pattern(r"\biteration\s+\d+\s*/\s*\d+\s*\|[^\n]*?:")

    def rows(self, lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
        latest = "0"
        for text in lines:
            if "iteration" in text and (starts := list(_TRAINING.finditer(text))):
                before = text[: starts[0].start()]
                for start, end in zip(starts, [*(one.start() for one in starts[1:]), len(text)], strict=True):
                    latest = start[1]
                    reading.total_steps = float(start[2])
                    cells = [*_named(before), *text[start.end() : end].split("|")]
                    yield _row(latest, cells)
                    before = ""
            elif ("validation" in text or "test loss" in text) and (found := _EVALUATION.search(text)):
                of_test = "test" in (found[1], found[2], found[4])
                yield _evaluation(
                    found[3] or latest, text[found.end() :].split("|"), "test" if of_test else "validation"
                )


def _named(before: str) -> list[str]:
    """The cells that GPT-NeoX prints before the iteration."""
    return [cell for cell in before.split("|") if cell.strip().startswith("samples/sec:")]


def _row(step: str, cells: list[str]) -> dict[str, object]:
    return {"iteration": step, **dict(_pairs(cells))}


def _evaluation(step: str, cells: list[str], on: str) -> dict[str, object]:
    row: dict[str, object] = {"iteration": step}
    for name, value in _pairs(cells):
        what, _, form = name.removesuffix("_ppl value").rpartition(" ")
        if name.endswith("_ppl value"):
            row[f"{name.removesuffix('_ppl value')} {on} ppl"] = value
        elif form in ("value", "PPL"):
            row[f"{what} {on} ppl" if form == "PPL" else f"{what} {on}"] = value
        else:
            row[f"{name} {on}"] = value
    return row


def _pairs(cells: list[str]) -> Iterator[tuple[str, float]]:
    for cell in cells:
        name, colon, text = cell.rpartition(":")
        value = leading(text) if colon else None
        if value is not None:
            yield _plain(name), value


@lru_cache(1024)
def _plain(name: str) -> str:
    return " ".join(name.split())


FORMAT = Megatron()
