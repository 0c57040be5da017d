"""The rows that a Hugging Face Trainer prints: `{'loss': 2.1, 'grad_norm': nan, 'epoch': 0.01}`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise

from vitalsdsl.ground.points import Rewind, number
from vitalsdsl_files.counting import COUNTED, counted
from vitalsdsl_files.format import Reading
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.printed import NUMBER, Lines, Printed
from vitalsdsl_files.rows import STEP_KEYS, whole

_QUOTE = "['\"‘’“”]"
_FIRST = "['‘’]"  # a dict with double quotes is JSON, and read as such
_TOKEN = pattern(rf"(\{{\s*{_FIRST}[^{{}}]*\}})|(?:^|(?<=[\s}}]))\d+%(?:\|[^|]*\|)?\s*(\d{{1,18}})/(\d{{1,18}})\s*\[")
_OPEN = pattern(rf"\{{\s*{_FIRST}[^{{}}]*$")
_ITEM = pattern(
    rf"{_QUOTE}([^'\"‘’“”]+){_QUOTE}\s*:\s*(?:{_QUOTE}([^'\"‘’“”]*){_QUOTE}|(?:[\w.]+\()?({NUMBER}))", re.IGNORECASE
)
_LOOKED_AT = 50
"""How many rows are looked at to see whether progress bars tell their steps."""
_CONTINUED = 4

_Bar = tuple[int, int]
_Event = dict[str, object] | _Bar


class Console(Printed):
    """One row for each dict with a `loss`, or with an `epoch` and a metric, whatever it is glued to.

    Numbers may be bare, quoted (transformers 5), `nan`, or in curly quotes; a dict may go on over a few lines. The
    dict with `train_runtime` holds means over the whole run, so it is left out. The Trainer prints no step. It is read,
    the first of these that can be:

    - from a key that holds it (`step`, `global_step/max_steps`), or `epoch` where that is whole and different in every
      training row;
    - from the progress bar that is printed again right after each row, where those are evenly spaced;
    - else rows are counted from 1; rows of one epoch value with other metrics (an evaluation) share a number.

    The Trainer prints a loss of NaN as 0.0 unless told otherwise: where the same row's `grad_norm` is NaN, a loss of
    exactly 0.0 is read as NaN, as in `trainer_state.json`.
    """

    name = "Hugging Face console"
    marks = pattern(
        rf"\{{\s*{_FIRST}(?:(?:eval_)?loss{_QUOTE}\s*:|[^{{}}\n]{{1,2000}}{_QUOTE}epoch{_QUOTE}\s*:\s*{_QUOTE}?[\d.])"
    )

    def rows(self, lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
        events = _kept(_events(lines), reading)
        start: list[_Event] = []
        count = 0
        while count < _LOOKED_AT and (event := next(events, None)) is not None:
            start.append(event)
            count += isinstance(event, dict)
        coming = chain(start, events)
        if reading.step_key is not None or _tell_steps(start):
            yield from (event for event in coming if isinstance(event, dict))
        elif _bars_tell(start):
            reading.notes.append("the rows have no step: it is read from the progress bar after each of them")
            yield from _by_bars(coming, reading)
        else:
            reading.notes.append(COUNTED)
            numbered = counted(event for event in coming if isinstance(event, dict))
            yield from (row for row in numbered if not isinstance(row, Rewind))


def _events(lines: Lines) -> Iterator[_Event]:
    """The dicts with metrics and the progress bars, in their order."""
    open_text, continued = "", 0
    for text in lines:
        if open_text:
            text, open_text = f"{open_text} {text}", ""
            continued += 1
        if "{" not in text and "%" not in text:
            continue
        for found in _TOKEN.finditer(text):
            if found[1] is None:
                yield int(found[2]), int(found[3])
            elif row := _row(found[1]):
                yield row
        if continued < _CONTINUED and (rest := _OPEN.search(text)) is not None:
            open_text = rest[0]
        else:
            continued = 0


def _row(text: str) -> dict[str, object]:
    row: dict[str, object] = {name: quoted or bare for name, quoted, bare in _ITEM.findall(text)}
    numbers = [name for name, value in row.items() if number(value) is not None]
    return row if "loss" in numbers or "eval_loss" in numbers or ("epoch" in numbers and len(numbers) > 1) else {}


def _kept(events: Iterable[_Event], reading: Reading) -> Iterator[_Event]:
    """The events less the rows of means over the run, and with the losses that the Trainer wrote as 0.0."""
    means = filtered = 0
    for event in events:
        if isinstance(event, dict):
            if "train_runtime" in event:
                means += 1
                continue
            if number(event.get("loss")) == 0.0 and math.isnan(number(event.get("grad_norm")) or 0.0):
                event["loss"] = math.nan
                filtered += 1
        yield event
    if means:
        reading.notes.append("the row with `train_runtime` is left out: its `train_loss` is a mean over the whole run")
    if filtered:
        reading.notes.append(
            f"a `loss` of 0.0 in {filtered} {'row' if filtered == 1 else 'rows'}, where `grad_norm` is NaN, is read as "
            "NaN: the Trainer's logging_nan_inf_filter writes it so"
        )


def _tell_steps(start: Iterable[_Event]) -> bool:
    rows = [event for event in start if isinstance(event, dict)]
    keys = [key for key in STEP_KEYS if key != "epoch"]
    if any(whole(row.get(key)) is not None for row in rows for key in keys):
        return True
    epochs = [row.get("epoch") for row in rows if "loss" in row]
    return len(set(epochs)) == len(epochs) and all(whole(row.get("epoch")) is not None for row in rows)


def _bars_tell(start: list[_Event]) -> bool:
    """Whether nearly each training row has a bar right after it, and those go forward evenly, as rows are logged.

    Output that was held back comes in lumps instead; what was copied from a terminal has the last bar drawn.
    """
    rows = [at for at, event in enumerate(start[:-1]) if isinstance(event, dict) and "loss" in event]
    followed = [bar[0] for at in rows if not isinstance(bar := start[at + 1], dict)]
    if not len(followed) * 5 >= len(rows) * 4 > 0:
        return False
    gaps = Counter(after - before for before, after in pairwise(followed))
    return not gaps or (min(gaps) > 0 and gaps.most_common(1)[0][1] * 3 >= (len(followed) - 1) * 2)


def _by_bars(events: Iterable[_Event], reading: Reading) -> Iterator[dict[str, object]]:
    held: list[dict[str, object]] = []
    latest, length = 0, 0
    for event in events:
        if isinstance(event, dict):
            if held and held[-1].get("epoch") != event.get("epoch"):
                yield from ({"step": latest, **row} for row in held)
                held = []
            held.append(event)
            continue
        step, total = event
        if held and "loss" in held[-1]:
            length = total  # the bar right after a training row is the training's, not one of an evaluation
            reading.total_steps = float(total)
        if total == length:
            latest = step
            yield from ({"step": step, **row} for row in held)
            held = []
    yield from ({"step": latest, **row} for row in held)


FORMAT = Console()
