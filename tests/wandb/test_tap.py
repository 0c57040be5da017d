"""The rows that rules see are the rows that W&B keeps: read back from the files that the real wandb wrote."""

from __future__ import annotations

import contextlib
import math
import os
import random
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest

if "CI" not in os.environ:
    pytest.importorskip("wandb")

import vitalsdsl_wandb
import wandb

import vitalsdsl as vitals
from tests.wandb.conftest import Seen
from tests.wandb.transaction_log import history, transaction_log

POLICY = vitals.load("spikes", text="when loss > 3 for 2 steps -> orange")


def kept(folder: Path, run_id: str) -> list[tuple[int, dict[str, float]]]:
    """The numbers of W&B's own rows: of media, texts, booleans and lists nothing is left."""
    rows = []
    for step, row in history(transaction_log(folder, run_id)):
        media = tuple(key.removesuffix("_type") for key in row if key.endswith("._type"))
        numbers = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
        flat = {
            key: float(numbers.get(value, value) if isinstance(value, str) else value)
            for key, value in row.items()
            if not (media and key.startswith(media))
            and key != "vitals/level"
            and (type(value) in (int, float) or (isinstance(value, str) and value in numbers))
        }
        rows.append((step, flat))
    return rows


def same(ours: list[tuple[int, dict[str, float]]], theirs: list[tuple[int, dict[str, float]]]) -> bool:
    """Equal, with NaN equal to itself; W&B writes no row for a call that logged nothing."""
    text = [[(s, sorted((k, repr(v)) for k, v in row.items())) for s, row in rows if row] for rows in (ours, theirs)]
    assert text[0] == text[1]
    return True


def test_every_kind_of_call_gives_the_rows_that_wandb_keeps(offline: Path, seen: Seen) -> None:
    vitalsdsl_wandb.attach(POLICY)
    with wandb.init(project="p") as run:
        wandb.log({"loss": 1.0, "ok": True, "name": "text"})
        run.log({"a": 1}, commit=False)
        run.log({"b": numpy.float32(2.5), "nest": {"y": {"z": 3}}})
        run.log(data={"loss": math.nan, "c": "NaN", "d": -math.inf, "e": "Infinity"}, step=10)
        run.log({"val/loss": 2})
        run.log({"late": 1}, step=3)
        run.log({"h": wandb.Histogram([1, 2, 3]), "i": wandb.Image(numpy.zeros((4, 4, 3), dtype=numpy.uint8)), "x": 1})
        run.log({"f": 1}, step=20, commit=True)
        run.log({"zero": numpy.array(4), "l": [1, 2]}, 30)
        run.log({"g": 1}, 30)
        run.log({"g": 2, "loss": 5}, 31)
    same(seen[run.id], kept(offline, run.id))
    assert len(seen[run.id]) == 7


@pytest.mark.parametrize("seed", range(6))
def test_random_calls_give_the_rows_that_wandb_keeps(offline: Path, seen: Seen, seed: int) -> None:
    dice = random.Random(seed)
    vitalsdsl_wandb.attach(POLICY)
    with wandb.init(project="p") as run:
        at = 0
        for _ in range(150):
            data: dict[str, Any] = {
                key: dice.choice(
                    [dice.random(), dice.randrange(9), math.nan, "NaN", {"n": 1, "m": {"o": 2}}, {"m": 3}, "text"]
                )
                for key in dice.sample(["loss", "a", "b/c", "d.e", "f"], dice.randrange(0, 4))
            }
            options: dict[str, Any] = {}
            if dice.random() < 0.4:
                at = max(0, at + dice.choice([-2, 0, 0, 1, 1, 5]))
                options["step"] = at
            if dice.random() < 0.4:
                options["commit"] = dice.choice([True, False, None])
            run.log(data, **options)
    assert same(seen[run.id], kept(offline, run.id))


@pytest.mark.parametrize(
    ("calls", "levels"),
    [
        ([({"loss": 5}, {})] * 6, {3: 2}),
        ([({"loss": 5}, {"step": 10 * i}) for i in range(7)], {30: 2}),
        ([({"loss": 5}, {"step": 9 + i, "commit": True}) for i in range(4)] + [({"loss": 5}, {})] * 2, {13: 2}),
        ([({"loss": 5}, {}), ({"a": 1}, {"commit": False})] * 4, {2: 2}),
        ([({"loss": 5}, {})] * 4 + [({1: 2}, {}), ({}, {}), ({"late": 1}, {"step": 1}), ({"loss": 5}, {})], {3: 2}),
        ([({"loss": 5}, {})] * 3, {}),
    ],
)
def test_the_level_is_logged_with_the_next_row_and_moves_no_row(
    offline: Path, seen: Seen, calls: list[tuple[Any, Any]], levels: dict[int, int]
) -> None:
    def train(run_id: str) -> list[tuple[int, dict[str, Any]]]:
        with wandb.init(project="p", id=run_id) as run:
            for at, (data, options) in enumerate(calls):
                with contextlib.suppress(TypeError):
                    run.log(data, **options)
                monitor = attachment.monitor(run_id) if attachment is not None else None
                if at >= 2 and monitor is not None:
                    monitor._acts.flush(5)  # type: ignore[union-attr]
        return history(transaction_log(offline, run_id))

    attachment = None
    plain = train("plain")
    attachment = vitalsdsl_wandb.attach(POLICY)
    rows = train("watched")
    assert {step: row.pop("vitals/level") for step, row in rows if "vitals/level" in row} == levels
    assert rows == plain


@pytest.mark.parametrize("first", [True, False], ids=["attached first", "begun first"])
def test_step_metrics_that_a_script_defines_are_known_by_whatever_name_it_calls(
    offline: Path, seen: Seen, first: bool
) -> None:
    if first:
        vitalsdsl_wandb.attach(POLICY)
    run = wandb.init(project="p")
    vitalsdsl_wandb.attach(POLICY)
    epoch = wandb.define_metric("epoch")
    wandb.define_metric("*", step_metric=epoch)
    run.define_metric("loss", "epoch", summary="min")
    for data in ({"loss": 1}, {"loss": 2, "epoch": 30}, {"a": 3}, {"loss": 4, "epoch": 31, "n": {"m": 1}}, {"t": "x"}):
        wandb.log(data)
    run.finish()
    assert [step for step, _ in seen[run.id]] == [0, 30, 30, 31, 31]
    ours = [(at, row) for at, (_, row) in enumerate(seen[run.id])]
    assert same(ours, kept(offline, run.id))


def test_calls_of_several_threads_are_all_seen(offline: Path, seen: Seen) -> None:
    vitalsdsl_wandb.attach(POLICY)
    with wandb.init(project="p") as run:
        run.log({"loss": 1})
        threads = [
            threading.Thread(target=lambda name=name: [run.log({name: i}) for i in range(100)]) for name in ("a", "b")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    ours, theirs = seen[run.id], kept(offline, run.id)
    assert [s for s, _ in ours] == [s for s, _ in theirs] == list(range(201))
    assert sorted(str(row) for _, row in ours) == sorted(str(row) for _, row in theirs)


def test_several_runs_of_a_process_are_kept_apart(offline: Path, seen: Seen) -> None:
    attachment = vitalsdsl_wandb.attach(POLICY)
    runs = [wandb.init(project="p", reinit="create_new") for _ in range(2)]
    for i in range(6):
        runs[i % 2].log({"loss": 5 if i % 2 else 1})
    monitors = [attachment.monitor(run.id) for run in runs]
    assert [m.level.word for m in monitors if m is not None] == ["green", "orange"]
    for run in runs:
        run.finish()
        same(seen[run.id], kept(offline, run.id))
        assert attachment.monitor(run.id) is None


def test_attached_after_init_the_modules_log_is_seen_and_steps_go_on(offline: Path, seen: Seen) -> None:
    run = wandb.init(project="p")
    for i in range(3):
        wandb.log({"loss": i})
    vitalsdsl_wandb.attach(POLICY)
    wandb.log({"loss": 3})
    run.log({"loss": 4}, step=8)
    wandb.log({"loss": 5}, step=9)
    run.finish()
    assert same(seen[run.id], kept(offline, run.id)[3:])
    assert [step for step, _ in seen[run.id]] == [3, 8, 9]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_forked_child_watches_nothing(offline: Path, seen: Seen) -> None:
    attachment = vitalsdsl_wandb.attach(POLICY)
    run = wandb.init(project="p")
    run.log({"loss": 1})
    child = os.fork()
    if child == 0:
        attachment.logged(run, 1, {"loss": 9}, None, None)
        attachment.ending(run)
        os._exit(0 if len(seen[run.id]) == 1 and attachment.monitor(run.id) is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    run.log({"loss": 2})
    run.finish()
    assert same(seen[run.id], kept(offline, run.id))
