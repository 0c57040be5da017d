"""CSV and TSV files are read whoever wrote them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from test_json_lines import one, rows, runs

from vitalsdsl.ground.errors import SourceError
from vitalsdsl.ground.points import Row


@pytest.mark.parametrize(
    "text",
    [
        "step,loss,lr\n1,2.5,0.1\n2,2.0,0.1\n",
        "step\tloss\tlr\n1\t2.5\t0.1\n2\t2.0\t0.1\n",
        "step;loss;lr\r\n1;2.5;0.1\r\n2;2.0;0.1\r\n",
        "step|loss|lr\n1|2.5|0.1\n2|2.0|0.1\n",
        '\ufeff"step","loss","lr"\n"1","2.5","0.1"\n"2","2.0","0.1"\n',
        "“step”,“loss”,“lr”\n1,2.5,0.1\n\n2,2.0,0.1\n",
        "  step,     loss,   lr\n    1,      2.5,  0.1\n    2,      2.0,  0.1\n",
        "# written by hand\nstep,loss,lr\n1,2.5,0.1\n2,2.0,0.1\n",
        ",Step,loss,lr,note\n0,1,2.5,0.1,warm\n1,2,2.0,0.1,\n",
    ],
)
def test_delimiters_blanks_quotes_and_line_ends_do_not_matter(tmp_path: Path, text: str) -> None:
    assert one(tmp_path, text)[0] == [(1, {"loss": 2.5, "lr": 0.1}), (2, {"loss": 2.0, "lr": 0.1})]


def test_an_empty_cell_is_no_point_and_nan_is_one(tmp_path: Path) -> None:
    [(_, first), (_, second)], _ = one(tmp_path, "step,loss,acc\n1,,0.5\n2,nan,\n")
    assert first == {"acc": 0.5}
    assert isinstance(second, dict)
    assert list(second) == ["loss"]
    assert math.isnan(second["loss"])


def test_an_ultralytics_table_with_padded_names_is_read_by_epoch(tmp_path: Path) -> None:
    text = (
        "                  epoch,         train/box_loss,   metrics/mAP50(B)\n"
        "                      0,                 1.2345,            0.11000\n"
        "                      1,                 1.1234,            0.22000\n"
    )
    read_rows, notes = one(tmp_path, text)
    assert read_rows[1] == (1, {"epoch": 1.0, "train/box_loss": 1.1234, "metrics/mAP50(B)": 0.22})
    assert notes == ("the step is read from `epoch`",)


def test_lightning_rows_of_one_step_come_one_by_one_and_late_ones_are_no_rewind(tmp_path: Path) -> None:
    text = "epoch,step,train_loss,val_loss\n0,49,2.0,\n0,99,1.5,\n0,98,,1.7\n0,99,,1.6\n1,149,1.4,\n"
    [run] = runs(tmp_path, text)
    assert rows(run) == [
        (49, {"epoch": 0.0, "train_loss": 2.0}),
        (99, {"epoch": 0.0, "train_loss": 1.5}),
        (98, {"epoch": 0.0, "val_loss": 1.7}),
        (99, {"epoch": 0.0, "val_loss": 1.6}),
        (149, {"epoch": 1.0, "train_loss": 1.4}),
    ]
    assert run.info.notes == ()


def test_a_time_column_is_the_time(tmp_path: Path) -> None:
    [run] = runs(tmp_path, "_step,_timestamp,_runtime,loss\n1,100.5,3,2\n")
    assert list(run.events) == [Row(1, {"loss": 2.0}, 100.5)]


def test_a_table_without_column_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as refused:
        runs(tmp_path, "0,0.5,0.25\n1,0.4,0.5\n")
    assert str(refused.value) == (
        "`log` has no line of column names: its first line is `0,0.5,0.25`; write one above it, such as `step,loss`"
    )


def test_a_table_with_names_only_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="`log` has no rows"):
        runs(tmp_path, "step,loss\n")


def test_a_table_without_a_step_names_its_columns(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no step: .* its keys are `a`, `b`"):
        runs(tmp_path, "a,b\n1,2\n3,4\n")
    assert one(tmp_path, "a,b\n1,2\n3,4\n", step_key="a")[0] == [(1, {"b": 2.0}), (3, {"b": 4.0})]


def test_rows_of_another_length_are_left_out_and_named(tmp_path: Path) -> None:
    text = "step,loss\n1,2\n2,2,9\n3\n4,2\n5,2\n6"
    read_rows, notes = one(tmp_path, text)
    assert [r[0] for r in read_rows] == [1, 4, 5]
    assert notes == (
        "the last line, 7, is cut off and left out",
        "lines 3, 4 are no row of as many cells as there are column names and are left out",
    )


def test_column_names_that_come_again_hold_for_what_follows(tmp_path: Path) -> None:
    text = "step,loss\n1,2\nstep,loss\n2,3\nstep,loss,lr\n3,4,5\n"
    assert one(tmp_path, text) == (
        [(1, {"loss": 2.0}), (2, {"loss": 3.0}), (3, {"loss": 4.0, "lr": 5.0})],
        ("line 5 names other columns, which hold from there on",),
    )


def test_an_open_quote_spoils_its_own_line_only(tmp_path: Path) -> None:
    text = 'step,loss,note\n1,2,"ok, fine"\n2,3,"never closed\n3,4,x\n4,5,x\n'
    assert [r[0] for r in one(tmp_path, text)[0]][-2:] == [3, 4]


def test_appended_keras_runs_are_runs_of_their_own(tmp_path: Path) -> None:
    text = "epoch,accuracy,loss\n" + "".join(f"{e},0.5,{1 + e}\n" for e in [*range(6), *range(4), *range(3)])
    found = runs(tmp_path, text, name="training.log")
    assert [r.info.name for r in found] == ["training.log", "training.log#2", "training.log#3"]
    assert [[r[0] for r in rows(run)] for run in found] == [[*range(6)], [*range(4)], [*range(3)]]
    assert found[1].info.notes[-1] == "the step goes back from 5 to 0, read as the begin of a new run"


def test_the_progress_of_reinforcement_learning_is_read_by_its_time_steps(tmp_path: Path) -> None:
    text = "rollout/ep_rew_mean,time/iterations,time/total_timesteps,train/loss\n10.5,1,2048,\n11.5,2,4096,0.5\n"
    assert one(tmp_path, text) == (
        [
            (2048, {"rollout/ep_rew_mean": 10.5, "time/iterations": 1.0}),
            (4096, {"rollout/ep_rew_mean": 11.5, "time/iterations": 2.0, "train/loss": 0.5}),
        ],
        ("the step is read from `time/total_timesteps`",),
    )
