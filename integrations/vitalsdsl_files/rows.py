"""From what one row of a log holds to a row of numbers at a step: names, times, and which key is the step."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from vitalsdsl.ground.errors import SourceError
from vitalsdsl.ground.points import Rewind, Row, number, planned_steps
from vitalsdsl_files.counting import COUNTED, are_of_a_training, counted
from vitalsdsl_files.format import Pieces, Reading

STEP_KEYS = (
    "step",
    "_step",
    "train/global_step",
    "trainer/global_step",
    "global_step",
    "iteration",
    "iter",
    "num_updates",
    "current_steps",
    "global_step/max_steps",
    "training/global_step",
    "time/total_timesteps",
    "total_timesteps",
    "timesteps_total",
    "training_iteration",
    "epoch",
    "episode",
)
"""The keys that are taken for the step, the first that is there; `epoch` only where it is whole numbers throughout."""

TIME_KEYS = ("_time", "_timestamp", "timestamp")
SAMPLE = 200
"""How many rows are looked at to choose the step."""

LoggedRow = Mapping[str, object]
"""What a row of a log holds, by name."""

Chunk = Sequence["dict[str, object] | Rewind"]
"""Rows as they stand in a log, one after another, not flat yet."""

LARGEST = 2**53
"""Beyond this not every whole number is a float."""

_NESTED = {dict, list}
_LONGEST_LIST = 64
_WRAPPERS = ("data", "metrics", "logs", "scalars")
"""Keys that say nothing of what they hold: verl writes `{"step": 3, "data": {"actor/lr": …}}`."""
_CALLED = ("name", "metric", "key", "tag", "domain", "task", "dataset", "split", "label", "id")
_ROLES = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev"})
_ROLES_IN_ORDER = ("split", "phase", "mode", "type", "stage", "kind", "event")
ROLE_KEYS = frozenset(_ROLES_IN_ORDER)
"""The keys under which a row may say that it is an evaluation's."""
_TIMES = frozenset(TIME_KEYS)
_OF_HOW_MANY = re.compile(r"\s*(\d{1,18})\s*/\s*(\d{1,18})\s*$")


def flat(row: dict[str, object]) -> dict[str, object]:
    """Nested objects as one: their keys joined by `.`. A short list of objects is taken apart by what each is called.

    What lies in `data`, `metrics`, `logs` or `scalars` keeps its own keys, where they are free.

    >>> flat({"step": 1, "train": {"loss": 2.0, "optim": {"lr": 0.1}}})
    {'step': 1, 'train.loss': 2.0, 'train.optim.lr': 0.1}
    >>> flat({"step": 1, "m": [{"name": "loss", "value": 2.0}, {"domain": "code", "ppl": 8.5}, {"acc": 0.5}]})
    {'step': 1, 'm.loss': 2.0, 'm.code.ppl': 8.5, 'm.2.acc': 0.5}
    >>> flat({"step": 1, "loss": 2.0, "metrics": {"loss": 3.0, "lr": 0.1}})
    {'step': 1, 'loss': 2.0, 'metrics.loss': 3.0, 'lr': 0.1}
    """
    if _NESTED.isdisjoint(map(type, row.values())):
        return row
    found: dict[str, object] = {}
    waiting = [("", iter(row.items()))]
    while waiting:
        prefix, items = waiting[-1]
        for key, value in items:
            inner = _taken_apart(value) if isinstance(value, list) else value
            if isinstance(inner, dict):
                if not prefix and key in _WRAPPERS:
                    inner = {
                        (f"{key}.{name}" if name in row or name in found else name): one for name, one in inner.items()
                    }
                    waiting.append(("", iter(inner.items())))
                    break
                waiting.append((f"{prefix}{key}.", iter(inner.items())))
                break
            found[prefix + key] = inner
        else:
            waiting.pop()
    return found


def _taken_apart(items: list[object]) -> object:
    """A list of objects as one object, by what each is called, else by its place; any other list as it is."""
    if not 0 < len(items) <= _LONGEST_LIST or not all(isinstance(item, dict) for item in items):
        return items
    apart: dict[str, object] = {}
    for at, item in enumerate(items):
        assert isinstance(item, dict)
        called = next((item[key] for key in _CALLED if isinstance(item.get(key), str)), None)
        rest = {key: value for key, value in item.items() if value is not called}
        name = str(at) if called is None or called in apart else str(called)
        apart[name] = rest["value"] if called is not None and list(rest) == ["value"] else rest
    return apart


def whole(value: object) -> int | None:
    """A step, or None where the value is no whole number. Of `12/100` it is the first.

    >>> whole("12"), whole(12.0), whole("12/100"), whole(0.5), whole(None)
    (12, 12, 12, None, None)
    """
    if value.__class__ is str and (parts := _OF_HOW_MANY.match(str(value))) is not None:
        value = int(parts[1])
    if value.__class__ is int and -LARGEST <= value <= LARGEST:
        return value
    found = number(value)
    if found is None or not abs(found) <= LARGEST or not found.is_integer():
        return None
    return int(found)


def row_of(values: Mapping[str, object], key: str) -> Row | None:
    """The numbers of one flat row, or None where it has no step.

    The step's own key is left out (but for `epoch`, which rules may count in), and so are all that begin with `_`,
    texts that are no number, booleans and lists. A null is no point; a NaN is one; `74.89%` is 74.89.

    >>> row_of({"step": 3, "loss": "NaN", "lr": None, "phase": "train", "_runtime": 9.0, "_time": 5}, "step")
    Row(step=3, values={'loss': nan}, time=5.0)
    """
    step = whole(values.get(key))
    if step is None:
        return None
    numbers: dict[str, float] = {}
    for name, value in values.items():
        found = value if value.__class__ is float else number(without_percent(value))
        if found is not None and name[:1] != "_":
            numbers[name] = found
    numbers.pop("timestamp", None)
    if key != "epoch":
        numbers.pop(key, None)
    return Row(step, numbers, math.nan if _TIMES.isdisjoint(values) else _time(values))


def without_percent(value: object) -> object:
    """A text that is a share without its sign; anything else as it is."""
    return value.rstrip(" %") if isinstance(value, str) and value.rstrip().endswith("%") else value


def _time(values: Mapping[str, object]) -> float:
    for name in TIME_KEYS:
        if name in values:
            found = number(values[name])
            if found is not None and math.isfinite(found):
                return found
    return math.nan


class Stepping:
    """Rows with their steps, once it is settled which key holds them; rows without one are left out, and counted.

    With `canonical`, rows with a `step` are taken as they are: a step that goes back means nothing by itself. Where no row
    has a step, and they are a training's, their numbers are it. Raises SourceError where no row of anything else has one.
    """

    def __init__(self, coming: Iterator[LoggedRow | Rewind], reading: Reading, canonical: bool = False) -> None:
        key, self.sample, self._left_out = _settle(coming, reading)
        self.is_counted = key is None
        """Whether no row has a step."""
        self.key = "step" if key is None else key
        self._reading = reading
        self._told: dict[str, None] = {}
        if self.is_counted:
            reading.notes.append(COUNTED)
        reading.infers = not (canonical and self.key == "step")
        if math.isnan(reading.total_steps):
            reading.total_steps = _length(self.sample, self.key)

    def event(self, row: LoggedRow | Rewind) -> Row | Rewind | None:
        """A flat row as it is read; None for one that is left out."""
        if isinstance(row, Rewind):
            return row
        found = row_of(row, self.key)
        if found is None:
            self._left_out += 1
            return None
        role = role_of(row)
        if role is None:
            return found
        self._told.setdefault(role, None)
        return Row(found.step, _in_role(found.values, role), found.time)

    def finish(self) -> None:
        """Note what is to be said at the end."""
        for role in self._told:
            self._reading.notes.append(f"metrics of rows that say they are of `{role}` are called `{role}/…`")
        if self._left_out:
            them, are = ("1 row has", "is") if self._left_out == 1 else (f"{self._left_out} rows have", "are")
            self._reading.notes.append(f"{them} no whole number under `{self.key}` and {are} left out")


def stepped(rows: Iterable[LoggedRow | Rewind], reading: Reading, canonical: bool = False) -> Iterator[Row | Rewind]:
    """Rows with their steps, as `Stepping` says."""
    coming = iter(rows)
    stepping = Stepping(coming, reading, canonical)
    all_rows: Iterator[LoggedRow | Rewind] = chain(stepping.sample, coming)
    for row in counted(all_rows) if stepping.is_counted else all_rows:
        found = stepping.event(row)
        if found is not None:
            yield found
    stepping.finish()


def in_pieces(chunks: Iterator[Chunk], reading: Reading, canonical: bool = False) -> Pieces:
    """The same of rows that come many at once, and not flat yet: see `vitalsdsl_files.in_columns`."""
    # NumPy comes with it, and a short log is read without.
    found: Pieces = importlib.import_module("vitalsdsl_files.in_columns").in_pieces(chunks, reading, canonical)
    return found


def role_of(row: LoggedRow) -> str | None:
    """What an evaluation's row says it is of; None for any other."""
    if ROLE_KEYS.isdisjoint(row):
        return None
    for key in _ROLES_IN_ORDER:
        said = row.get(key)
        if isinstance(said, str) and said.lower() in _ROLES:
            return said
    return None


def _in_role(values: Mapping[str, float], role: str) -> dict[str, float]:
    """The values, with the role before the names that do not say it already: else they would pass for the training's."""
    return {
        (name if name == "epoch" or _ROLES & set(re.split(r"\W|_", name.lower())) else f"{role}/{name}"): value
        for name, value in values.items()
    }


def _length(sample: Iterable[LoggedRow | Rewind], key: str) -> float:
    """How many steps the run plans, by what the rows say (`total_steps`, a step such as `12/100`); NaN where nothing."""
    for row in sample:
        if isinstance(row, Rewind):
            continue
        parts = _OF_HOW_MANY.match(str(row.get(key)))
        found = float(parts[2]) if parts is not None else planned_steps(row)
        if not math.isnan(found):
            return found
    return math.nan


def _settle(coming: Iterator[LoggedRow | Rewind], reading: Reading) -> tuple[str | None, list[LoggedRow | Rewind], int]:
    """The key of the step (None: they are to be counted), what was read to find it and is still to be gone through, and
    how many rows without a step were passed over for it."""
    sample = list(islice(coming, 1 if reading.live else SAMPLE))
    seen, passed = list(sample), 0
    while (key := _choose(sample, reading)) is None:
        row = next(coming, None) if len(seen) != SAMPLE or not _may_be_counted(seen, reading) else None
        if row is None:
            if len(seen) <= SAMPLE and _may_be_counted(seen, reading):
                return None, seen, 0
            raise SourceError(_no_step(seen, reading))
        passed += sum(not isinstance(one, Rewind) for one in sample)
        sample = [row]
        if len(seen) <= SAMPLE:  # one more than are looked at: they are not all that there is
            seen.append(row)
    return key, sample, passed


def _may_be_counted(rows: Sequence[LoggedRow | Rewind], reading: Reading) -> bool:
    return reading.step_key is None and _no_step_of(rows) is None and are_of_a_training(rows)


def _no_step_of(rows: Sequence[LoggedRow | Rewind]) -> object:
    """What the rows hold under `step`, where that is no whole number."""
    return next(
        (row["step"] for row in rows if not isinstance(row, Rewind) and row.get("step") not in (None, "")), None
    )


def _choose(sample: Sequence[LoggedRow | Rewind], reading: Reading) -> str | None:
    """The key that holds the step in these rows. A key that few rows have gives way to one that twice as many have."""
    rows = [row for row in sample if not isinstance(row, Rewind)]
    if reading.step_key is not None:
        return reading.step_key if any(whole(row.get(reading.step_key)) is not None for row in rows) else None
    counts: dict[str, int] = {}
    for key in dict.fromkeys(key for row in rows for key in row):
        found = [whole(row[key]) for row in rows if row.get(key) not in (None, "")] if _rank(key) is not None else []
        count = sum(step is not None for step in found)
        if count and (key.lower() != "epoch" or count == len(found)):
            counts[key] = count
    if not counts:
        return None
    ordered = sorted(counts, key=lambda key: (_rank(key), key != key.lower()))
    chosen = next(key for key in ordered if counts[key] * 2 >= max(counts.values()))
    if chosen != "step":
        others = ", ".join(f"`{key}`" for key in ordered if key != chosen)
        also = f"; {others} could be read instead with --step" if others else ""
        reading.notes.append(f"the step is read from `{chosen}`{also}")
    return chosen


def _rank(key: str) -> int | None:
    lower = key.lower()
    return STEP_KEYS.index(lower) if lower in STEP_KEYS else None


def _no_step(sample: Sequence[LoggedRow | Rewind], reading: Reading) -> str:
    rows = [row for row in sample if not isinstance(row, Rewind)]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    if not keys:
        return f"`{reading.name}` has no rows"
    if reading.step_key is None and (held := _no_step_of(rows)) is not None:
        said = str(held)
        why = f", which is beyond {LARGEST:,}" if said.lstrip("-").isdecimal() else ""
        return (
            f"`{reading.name}` has `{said[:40]}` under `step`{why}: a step is a whole number; if another key is it, say so "
            "with --step"
        )
    listed = ", ".join(f"`{key}`" for key in keys[:8]) + (", …" if len(keys) > 8 else "")
    if reading.step_key is None:
        able = [key for key in keys if _counts_up([whole(row.get(key)) for row in rows])][:3]
        hint = f": is it {' or '.join(f'`{key}`' for key in able)}? then say --step {able[0]}" if able else (
            ', and no key that could be it: write one into each row, as in {"step": 12, …}'
        )  # fmt: skip
        return f"`{reading.name}` has no step{hint}; its keys are {listed}"
    if reading.step_key in keys:
        return f"`{reading.name}` has no whole number under `{reading.step_key}`, so it cannot be the step"
    return f"`{reading.name}` has no `{reading.step_key}` to be the step; its keys are {listed}"


def _counts_up(values: Sequence[int | None]) -> bool:
    """Whether a key may be the step that nobody calls so: whole in most rows, never falling, and not always the same."""
    known = [value for value in values if value is not None]
    return 2 * len(known) >= len(values) and known == sorted(known) and len(set(known)) > 1
