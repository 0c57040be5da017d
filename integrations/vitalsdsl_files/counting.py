"""Rows of a training that have no step: they are counted, and that is said."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from vitalsdsl.ground.points import Rewind, number

COUNTED = "the rows have no step: they are counted, and the first is step 1"

_TRAINING = re.compile(r"(?:^|[\W_])(?:loss|ppl|perplexity|reward|grad_norm)(?:$|[\W_])", re.IGNORECASE)


def are_of_a_training(rows: Sequence[Mapping[str, object] | Rewind]) -> bool:
    """Whether half of the rows or more tell a number that trainings log: any list of objects could be counted, and not
    every file of JSON lines is a log.

    >>> are_of_a_training([{"train/loss": 2.5}, {"lr": 0.1}]), are_of_a_training([{"id": 7, "lossless": 1}])
    (True, False)
    """
    told = [
        any(_TRAINING.search(name) and number(value) is not None for name, value in row.items())
        for row in rows
        if not isinstance(row, Rewind)
    ]
    return len(told) > 1 and 2 * sum(told) >= len(told)


def counted(rows: Iterable[Mapping[str, object] | Rewind]) -> Iterator[Mapping[str, object] | Rewind]:
    """Rows with numbers, from 1 on. Those of one epoch value that tell other metrics (an evaluation) share a number. Where
    the epoch falls, the run was resumed or begun anew, and the numbers fall with it."""
    epochs: list[float] = []
    seen: set[str] = set()
    for row in rows:
        if isinstance(row, Rewind):
            del epochs[max(row.step, 0) :]
            seen = set()
            yield row
            continue
        epoch = number(row.get("epoch"))
        now = math.nan if epoch is None else epoch
        names = row.keys() - {"epoch"}
        if epochs and now < epochs[-1]:
            del epochs[bisect_left(epochs, now) :]
            seen = names | {""}
            epochs.append(now)
        elif not epochs or now != epochs[-1] or names & seen:
            epochs.append(now)
            seen = set(names)
        else:
            seen |= names
        yield {"step": len(epochs), **row}
