"""What a step that goes back is taken for, in logs that are not canonical."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import vitalsdsl_files
from test_json_lines import rows, runs
from vitalsdsl_files import read

from vitalsdsl.ground.errors import UsageError

RESUME = [*range(10, 5250, 10), *range(5010, 5500, 10)]
ROLLBACK = [*range(100), *range(60, 120)]
SWEEP = [*range(0, 100, 5), *range(0, 50, 5), *range(0, 75, 5)]


def in_short(folder: Path, steps: list[int], key: str = "iteration", **options: str) -> list[list[object]]:
    """Each run's steps, rewinds written as `<step`."""
    text = "".join(json.dumps({key: step, "loss": place}) + "\n" for place, step in enumerate(steps))
    found = runs(folder, text, **options)
    return [[f"<{r[1]}" if r[0] == "rewind" else r[0] for r in rows(run)] for run in found]


def test_a_resume_rewinds_to_just_before_it(tmp_path: Path) -> None:
    assert in_short(tmp_path, RESUME) == [[*range(10, 5250, 10), "<5009", *range(5010, 5500, 10)]]


def test_a_return_to_an_older_checkpoint_rewinds_too(tmp_path: Path) -> None:
    assert in_short(tmp_path, ROLLBACK) == [[*range(100), "<59", *range(60, 120)]]


def test_a_return_to_the_first_step_begins_a_new_run(tmp_path: Path) -> None:
    assert in_short(tmp_path, SWEEP) == [[*range(0, 100, 5)], [*range(0, 50, 5)], [*range(0, 75, 5)]]


def test_a_run_of_two_steps_can_be_followed_by_another(tmp_path: Path) -> None:
    assert in_short(tmp_path, [0, 1, 0, 1]) == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("rewind", [[0, 1, 2, "<-1", 0, 1]]),
        ("new", [[0, 1, 2], [0, 1]]),
        ("ignore", [[0, 1, 2, 0, 1]]),
    ],
)
def test_the_decision_can_be_set(tmp_path: Path, mode: str, expected: list[list[object]]) -> None:
    assert in_short(tmp_path, [0, 1, 2, 0, 1], on_decrease=mode) == expected


def test_an_unknown_decision_is_refused() -> None:
    with pytest.raises(UsageError, match="`merge` is not what .*: write one of auto, rewind, new, ignore"):
        read("x", on_decrease="merge")


def test_of_two_writers_the_first_rows_are_kept(tmp_path: Path) -> None:
    steps = [s for s in range(10, 400, 10) for _ in range(2)]
    assert in_short(tmp_path, steps) == [[*range(10, 400, 10)]]


def test_of_two_writers_that_drift_apart_the_first_rows_are_kept(tmp_path: Path) -> None:
    fast, slow = iter(range(10, 1010, 10)), iter(range(10, 1010, 10))
    steps = [next(fast) for _ in range(3)]
    for step in fast:
        steps += [step, next(slow)]
    text = "".join(json.dumps({"current_steps": s, "loss": 1}) + "\n" for s in [*steps, *slow])
    [run] = runs(tmp_path, text)
    assert [r[0] for r in rows(run)] == [*range(10, 1010, 10)]
    assert run.info.notes[-1].startswith("the same steps with the same metrics are there twice (100 rows)")


def test_of_eight_writers_the_first_rows_are_kept(tmp_path: Path) -> None:
    text = "".join(
        json.dumps({"iteration": 10 * (at - rank % 3), "loss": rank}) + "\n"
        for at in range(3, 60)
        for rank in range(8)
        if at >= 3 + rank % 3
    )
    [run] = runs(tmp_path, text)
    assert [r[0] for r in rows(run)] == [*range(30, 600, 10)]
    assert run.info.notes[-1].startswith("the same steps with the same metrics are there 8 times (")


def test_fourteen_runs_one_after_the_other_are_fourteen_runs(tmp_path: Path) -> None:
    assert in_short(tmp_path, [*range(0, 100, 10)] * 14) == [[*range(0, 100, 10)]] * 14


def test_two_runs_one_after_the_other_are_not_two_writers(tmp_path: Path) -> None:
    assert in_short(tmp_path, [*range(50), *range(50)]) == [[*range(50)], [*range(50)]]


def test_a_late_evaluation_is_not_a_step_back(tmp_path: Path) -> None:
    text = '{"iter": 100, "loss": 1}\n{"iter": 150, "loss": 1}\n{"iter": 120, "val": 1}\n{"iter": 200, "loss": 1}\n'
    [run] = runs(tmp_path, text)
    assert [r[0] for r in rows(run)] == [100, 150, 120, 200]


def test_rows_whose_metrics_all_differ_show_a_new_run_by_staying_below(tmp_path: Path) -> None:
    text = "".join(
        json.dumps({"iter": s, f"m{place}": 1}) + "\n" for place, s in enumerate([*range(0, 50, 5), *range(0, 20, 5)])
    )
    assert [len(rows(run)) for run in runs(tmp_path, text)] == [10, 4]


def test_a_rewind_line_in_such_a_log_is_no_second_step_back(tmp_path: Path) -> None:
    lines = [{"iter": 10}, {"iter": 20}, {"rewind": 10}, {"iter": 15}, {"iter": 20}]
    [run] = runs(tmp_path, "".join(json.dumps({**line, "a": 1} if "iter" in line else line) + "\n" for line in lines))
    assert [r[0] for r in rows(run)] == [10, 20, "rewind", 15, 20]


def test_the_times_it_went_back_are_counted(tmp_path: Path) -> None:
    text = "".join(json.dumps({"iter": s, "a": 1}) + "\n" for s in [*range(100), *range(98, 150), *range(147, 160)])
    [run] = runs(tmp_path, text)
    assert run.info.notes[-1] == (
        "the step goes back from 99 to 98 and once more: read as a resume, which replaces those steps"
    )


@pytest.mark.parametrize("steps", [RESUME, ROLLBACK, SWEEP, [s for s in range(50) for _ in range(2)]])
def test_a_big_log_read_again_from_the_file_gives_what_a_held_one_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[int]
) -> None:
    held = in_short(tmp_path, steps)
    monkeypatch.setattr(vitalsdsl_files.reader, "HELD", 10)
    assert in_short(tmp_path, steps) == held
