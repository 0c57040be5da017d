"""kill -9 over and over while guarded trainings save, go back, pause and train: `python -m tests.trials.guard_kills [--seed N]`.

Trainings are killed, and started again, until that was done 120 times: in turn at any moment, before one of their writes to
the disk, and before one of those while they go back or pause. One in three saves in the background, one in three is paused
by a rule twice as well. Another is of two gloo ranks, of which one is killed at a write, twelve times. In the end each must
have the weights, bit for bit, that it has without being killed, and its account must hold. Prints a table; some minutes.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import logging
import os
import random
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "torch"))  # where trainings and tests of them import each other from

from guarded_ranks import Outcome, context, deadly, plain, run
from killed_training import ELSEWHERE, GOING_BACK, PAUSING, SAVING, check, train
from training_loops import BATCHES, history

KILLS, KILLS_OF_ONE, KILLS_OF_RANKS = 120, 11, 12
MOST_FAILURES = 3
ANY_MOMENT = "at any moment"
KINDS = ("in the background", "paused twice", "plain")
COLUMNS = ("killed", SAVING, GOING_BACK, PAUSING, ELSEWHERE, ANY_MOMENT, "started", "same weights")

Row = collections.Counter[str]


def quietly(*arguments: Any, **named: Any) -> None:
    logging.getLogger("vitalsdsl").setLevel(logging.ERROR)
    train(*arguments, **named)


def one(folder: Path, options: dict[str, bool], kill_at: int | None = None, kill_after: float | None = None, during: str = "") -> int:  # fmt: skip
    """A process of a training; how it ended."""
    rest = 0.004 if kill_after else 0.0
    words = (str(folder), str(folder.parent / "home"), kill_at, rest, during)
    process = context().Process(target=quietly, args=words, kwargs=options)
    process.start()
    process.join(kill_after if kill_after is not None else 300)
    if process.is_alive():
        process.kill()
        process.join()
    return int(process.exitcode or 0)


def left_alone(folder: Path, options: dict[str, bool]) -> Iterator[int]:
    """To its end, started again whenever it was paused; gives how each process ended."""
    code = 75
    while code == 75:
        code = one(folder, options)
        yield code


def killed(folder: Path, kind: str, dice: random.Random) -> Row:
    """One training; raises AssertionError where it lost anything."""
    options = {"background": kind == KINDS[0], "pauses": kind == KINDS[1]}
    row: Row = collections.Counter()
    code = -9
    while row["killed"] < KILLS_OF_ONE and code != 0:
        at = row["started"] % 3
        if at == 0:
            during = PAUSING if options["pauses"] and dice.random() < 0.5 else GOING_BACK
            code = one(folder, options, dice.randrange(1, 18 if during == PAUSING else 5), during=during)
        elif at == 1:
            code = one(folder, options, dice.randrange(1, 45))
        else:
            code = one(folder, options, kill_after=dice.uniform(0.3, 1.2))
            row[ANY_MOMENT] += code == -9
        assert code in (-9, 75, 0), f"a process ended with {code}"
        row["started"] += 1
        row["killed"] += code == -9
    row["started"] += len(list(left_alone(folder, options)))
    row.update((folder / "killed.txt").read_text("utf-8").split())
    whole = folder.with_name("whole")
    list(left_alone(whole, options))
    told, expected = check(folder, options["pauses"]), check(whole, options["pauses"])
    row["same weights"] += told["tensors"] == expected["tensors"]
    assert row["same weights"], "the weights differ from those of a training that was never killed"
    return row


def killed_ranks(folder: Path, dice: random.Random) -> Row:
    """The same with two ranks; the first one's writes are many more."""
    play: dict[str, Any] = {"folder": str(folder), "kind": "ddp", "total": 300, "bad": range(65, 70), "every": 5}
    row: Row = collections.Counter()
    while row["killed"] < KILLS_OF_RANKS:
        rank = row["killed"] % 2
        found = run(folder.parent, 2, deadly, rank=rank, write=dice.randrange(1, 25 if rank else 60),
                    background=row["killed"] % 3 == 0, **play)  # fmt: skip
        row["started"] += 1
        if found.codes == [0, 0]:
            break
        assert found.codes[rank] is None and found.codes[1 - rank] in (76, 1), (found.codes, found.lines)
        row["killed"] += 1
    found = run(folder.parent, 2, plain, **play)
    row["started"] += 1
    whole = run(folder.parent, 2, plain, **{**play, "folder": str(folder.with_name("whole"))})
    for told in (*found.results, *whole.results):
        out = {batch for first, end in told["skipped"] for batch in range(first, end)}
        seen = told["tensors"]["seen"].tolist()
        assert seen == [int(batch < told["position"] and batch not in out) for batch in range(BATCHES)]
        assert not any(seen[65:70])
    assert sum(r["type"] == "turn" and r["ladder"] > 0 for r in history(folder)) == 1
    row["same weights"] += _weights(found) == _weights(whole)
    assert row["same weights"], "the weights differ from those of a training that was never killed"
    return row


def _weights(outcome: Outcome) -> list[dict[str, Any]]:
    return [{name: t.tolist() for name, t in told["tensors"].items()} for told in outcome.results]


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--seed", type=int, default=1)
    seed = words.parse_args().seed
    rows: dict[str, Row] = {kind: collections.Counter() for kind in (*KINDS, "two ranks")}
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        os.environ["VITALS_HOME"] = place
        for number in itertools.count():
            is_alone = sum(row["killed"] for row in rows.values()) < KILLS
            kind = KINDS[number % 3] if is_alone else "two ranks"
            folder, dice = Path(place, str(number), "run"), random.Random(f"{seed}/{number}")
            folder.mkdir(parents=True)
            try:
                found = killed(folder, kind, dice) if is_alone else killed_ranks(folder, dice)
                rows[kind] += found + collections.Counter({"trainings": 1})
            except AssertionError as error:
                failed += 1
                at = traceback.extract_tb(error.__traceback__)[-1]
                print(f"training {number + 1} ({kind}): {error or at.line}", flush=True)
            print(f"training {number + 1}, {kind}: {dict(rows[kind])}", file=sys.stderr)
            if not is_alone or failed > MOST_FAILURES:
                break
    print(f"| trainings | {' | '.join(COLUMNS)} |\n|---{'|---' * len(COLUMNS)}|")
    for kind, row in rows.items():
        print(f"| {row['trainings']} {kind} | {' | '.join(str(row[column]) for column in COLUMNS)} |")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
