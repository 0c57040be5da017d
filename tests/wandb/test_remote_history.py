"""Histories that go back, axes, and states, read from outside."""

from __future__ import annotations

import json
import math
import time

import pytest
from vitalsdsl_wandb import facts
from vitalsdsl_wandb.progress import Mark, Progress

from tests.wandb.reading import Watcher, history_of, losses, shown, values
from tests.wandb.server import Server
from vitalsdsl.ground.points import Rewind, Row


def rewritten(count: int, keep: int, again: int) -> tuple[list[str], list[str]]:
    """A history, and what it is after it was rewound to the first `keep` rows and logged anew."""
    old = [json.dumps({"_step": at, "_timestamp": 100.0 + at, "loss": at}) for at in range(count)]
    new = [
        json.dumps({"_step": at, "_timestamp": 5_000.0 + at, "loss": 1_000 + at}) for at in range(keep, keep + again)
    ]
    return old, old[:keep] + new


@pytest.mark.parametrize("again", [0, 3, 300])
@pytest.mark.parametrize("keep", [0, 1, 40, 95, 99])
def test_a_history_that_was_cut_and_goes_on_is_rewound(server: Server, keep: int, again: int) -> None:
    run = server.run()
    run.lines, changed = rewritten(100, keep, again)
    watcher = Watcher()
    watcher.poll()
    run.lines = changed
    for _ in range(3):
        watcher.poll()
    if not changed:
        return
    (at,) = [i for i, event in enumerate(watcher.events) if isinstance(event, Rewind)]
    back = watcher.events[at].step
    after = [(event.step, event.values["loss"]) for event in watcher.events[at + 1 :] if isinstance(event, Row)]
    assert at == 100 and back == keep - 1
    assert after == [(s, float(json.loads(line)["loss"])) for s, line in enumerate(changed) if s > back]
    assert any("went back" in note for note in watcher.notes)


def test_an_answer_that_is_older_than_the_one_before_is_no_rewind(server: Server) -> None:
    run = server.run()
    run.log(*losses(100))
    watcher = Watcher()
    watcher.poll()
    lines = run.lines
    run.lines = lines[:90]
    watcher.poll()
    run.lines = lines
    run.log(*losses(5, 100))
    watcher.poll()
    assert values(watcher.rows) == list(range(105)) and len(watcher.events) == 105


def test_a_last_step_without_its_row_neither_ends_the_run_early_nor_hangs_it(server: Server) -> None:
    run = server.run(state="finished", last_step=500)
    run.log(*losses(100))
    watcher = Watcher()
    watcher.poll()
    assert not watcher.is_over
    watcher.to_the_end()
    assert values(watcher.rows) == list(range(100))
    assert watcher.notes == ["W&B names step 500, but does not give its row"]


def test_a_row_that_comes_late_is_given_late(server: Server) -> None:
    run = server.run()
    run.log(*losses(20))
    late = run.lines.pop(17)
    watcher = Watcher()
    watcher.poll()
    run.lines.append(late)
    watcher.poll()
    watcher.poll()
    assert watcher.steps == [*range(17), 18, 19, 17]


def test_marks_thin_out_and_keep_the_first_and_the_newest() -> None:
    progress = Progress()
    for at in range(10_000):
        progress.add(Mark(at, float(at), at, at))
        if at % 50 == 0:
            progress.thin()
    progress.thin()
    steps = [mark.step for mark in progress.marks]
    assert steps[0] == 0 and steps[-8:] == list(range(9_992, 10_000)) and len(steps) < 40
    ages = [10_000 - step for step in steps]
    assert all(older <= 8 * newer for older, newer in zip(ages[1:], ages[2:]))


def test_a_trainers_own_step_is_the_step_and_said(server: Server, small: None) -> None:
    run = server.run()
    for at in range(0, 50, 10):
        run.log({"train/loss": 1, "train/global_step": at}, {"eval/loss": 2, "train/global_step": at}, {"other": 1})
    watcher = Watcher()
    watcher.poll()
    assert watcher.steps == [step for at in range(0, 50, 10) for step in (at, at, at)]
    assert watcher.notes == ["the step is taken from `train/global_step`"]


def test_a_step_key_outranks_what_the_run_defines_and_that_a_trainers(server: Server) -> None:
    defined = {"m": [{"1": "mine", "6": [3]}, {"2": "val/*", "5": 3}, {"1": "epoch"}, {"2": "*", "5": 1}]}
    run = server.run(config={"_wandb": {"value": defined}})
    run.log({"loss": 1, "mine": 7, "train/global_step": 9, "k": 5})
    assert (first := Watcher(step_key="k")).poll() and first.steps == [5] and first.notes == []
    second = Watcher()
    second.poll()
    assert second.steps == [7]
    assert second.notes == ["the step is taken from `mine`"]


@pytest.mark.parametrize(
    ("metrics", "found"),
    [
        ([{"2": "*", "4": "s"}], [("*", "s")]),
        ([{"2": "val/*", "5": 2}, {"1": "epoch"}], [("val/*", "epoch")]),
        ([{"1": "s"}, {"1": "loss", "5": 1}], [("loss", "s")]),
        ([{"2": "*", "5": 9}, {"2": "*", "5": 0}, {"2": "*", "5": "1"}], []),
        ("strange", []),
        ([None, 3], []),
    ],
)
def test_definitions_of_metrics_are_read_from_the_configuration(metrics: object, found: list[tuple[str, str]]) -> None:
    assert facts.definitions({"_wandb": {"m": metrics}}) == found


def test_a_trainer_that_was_resumed_at_a_checkpoint_is_a_rewind_and_a_late_evaluation_none(
    server: Server, small: None
) -> None:
    run = server.run()
    for at in (0, 10, 20, 30):
        run.log({"loss": at, "train/global_step": at})
    run.log({"eval/loss": 1, "train/global_step": 25})
    run.log({"loss": 40, "train/global_step": 40})
    for at in (20, 30):
        run.log({"loss": 100 + at, "train/global_step": at})
    watcher = Watcher()
    watcher.poll()
    assert [e.step if isinstance(e, Row) else f"back to {e.step}" for e in watcher.events] == [
        0, 10, 20, 30, 25, 40, "back to 19", 20, 30,
    ]  # fmt: skip
    assert any("goes back (from 40 to 20)" in note for note in watcher.notes)


@pytest.mark.parametrize(("state", "heard", "over"), [("crashed", 60, False), ("crashed", 7_200, True),
                                                      ("preempted", 7_200, True), ("running", 99_999, False)])  # fmt: skip
def test_a_run_that_wandb_hears_nothing_of_is_over_only_after_an_hour(
    server: Server, state: str, heard: float, over: bool
) -> None:
    run = server.run()
    run.log(*losses(3))
    run.state, run.heartbeat = state, time.time() - heard
    watcher = Watcher()
    watcher.poll()
    watcher.poll()
    assert watcher.is_over == over
    if state == "crashed" and not over:
        assert "W&B calls the run crashed, reading goes on in case it comes back" in watcher.notes
        run.state = "running"
        run.log({"loss": 9})
        assert values([e for e in watcher.poll() if isinstance(e, Row)]) == [9]


@pytest.mark.parametrize("state", ["finished", "failed", "killed"])
def test_a_run_that_ended_is_over_after_one_more_look(server: Server, state: str) -> None:
    run = server.run(state=state)
    run.log(*losses(3))
    watcher = Watcher()
    watcher.poll()
    run.log({"loss": 9})
    watcher.poll()
    assert values(watcher.rows) == [0, 1, 2, 9] and not watcher.is_over
    watcher.poll()
    assert watcher.is_over


def test_a_run_without_rows_ends_too(server: Server) -> None:
    server.run(state="finished")
    watcher = Watcher()
    assert watcher.to_the_end() == []


def test_media_leave_nothing_whether_nested_or_flat_and_texts_of_numbers_are_numbers(server: Server) -> None:
    run = server.run()
    run.log(
        {
            "img": {"_type": "image-file", "size": 3},
            "h._type": "histogram",
            "h.bins": 4,
            "nan": "NaN",
            "inf": "-Infinity",
            "x": 1,
            "_runtime": 3,
            "_wandb": {"x": 1},
        }
    )
    watcher = Watcher()
    watcher.poll()
    assert shown(watcher.rows) == "[(0, {'inf': -inf, 'nan': nan, 'x': 1.0})]"


def test_a_row_without_time_or_step_is_read(server: Server) -> None:
    server.run()
    lines = ['{"loss": 1}', '{"loss": 2, "_timestamp": "?"}']
    server.fail("HistoryPage", change=history_of(lambda _: lines))
    watcher = Watcher()
    watcher.once()
    assert watcher.steps == [0, 1] and all(math.isnan(row.time) for row in watcher.rows)
