"""Rows are built by W&B's rules; none of this needs wandb."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy
import pytest
from vitalsdsl_wandb.rows import Rows, flatten


class Taken(list[tuple[int, dict[str, float]]]):
    def __call__(self, values: dict[str, float], step: int) -> None:
        self.append((step, values))


def rows_of(*calls: tuple[dict[str, Any], dict[str, Any]], axis: str | None = None, first: int = 0) -> Taken:
    taken = Taken()
    rows = Rows("run", taken, axis, first)
    for data, options in calls:
        rows.log(data, **options)
    rows.finish()
    return taken


def test_each_plain_call_is_a_row_of_its_own() -> None:
    assert rows_of(({"a": 1}, {}), ({"a": 2}, {})) == [(0, {"a": 1.0}), (1, {"a": 2.0})]


def test_commit_false_gathers_until_a_call_commits() -> None:
    assert rows_of(({"a": 1}, {"commit": False}), ({"b": 2}, {}), ({"a": 3}, {})) == [
        (0, {"a": 1.0, "b": 2.0}),
        (1, {"a": 3.0}),
    ]


def test_a_call_without_a_step_joins_the_open_step_and_commits_it() -> None:
    assert rows_of(({"f": 1}, {"step": 25}), ({"val/loss": 2}, {})) == [(25, {"f": 1.0, "val/loss": 2.0})]


def test_a_row_with_a_step_waits_for_the_next_step_or_the_end() -> None:
    taken = Taken()
    rows = Rows("run", taken)
    rows.log({"a": 1}, step=3)
    assert taken == []
    rows.log({"a": 2}, step=4)
    assert taken == [(3, {"a": 1.0})]
    rows.finish()
    assert taken == [(3, {"a": 1.0}), (4, {"a": 2.0})]


def test_a_step_below_the_current_one_is_dropped_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    taken = rows_of(({"a": 1}, {"step": 9}), ({"a": 2}, {"step": 5}), ({"a": 3}, {"step": 6}), ({"a": 4}, {"step": 10}))
    assert taken == [(9, {"a": 1.0}), (10, {"a": 4.0})]
    assert caplog.text.count("W&B drops a row") == 1


def test_what_is_no_number_is_left_out_and_media_leave_nothing() -> None:
    class Image:
        width = 3

    given = {"t": "text", "b": True, "n": None, "l": [1, 2], "i": Image(), "h": {"_type": "histogram", "bins": 3}}
    assert flatten({**given, "x": numpy.float32(1.5), "z": numpy.array(2), "d": {"e": {"f": 1}}}) == {
        "x": 1.5,
        "z": 2.0,
        "d.e.f": 1.0,
    }


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (1, {"n": 1}, {"f.n": 1.0}),
        ({"n": 1}, 1, {"f": 1.0}),
        ({"n": 1}, {"m": 2}, {"f.n": 1.0, "f.m": 2.0}),
        (1, "text", {}),
        (1, None, {}),
        (1, {}, {"f": 1.0}),
        ({"n": {"o": 1}}, {"n": 1}, {"f.n": 1.0}),
        ({"n": 1}, [1, 2], {}),
        (2, {1: 3}, {"f.1": 3.0}),
    ],
)
def test_a_later_value_of_an_open_row_replaces_an_earlier_one_as_in_wandb(
    first: object, second: object, kept: dict[str, float]
) -> None:
    """What the real W&B keeps of the same calls."""
    assert rows_of(({"f": first}, {"commit": False}), ({"f": second}, {"commit": False})) == [(0, kept)]


class Tensor:
    """As torch has it: `size` is a method."""

    ndim = 1

    def __init__(self, *values: float) -> None:
        self.values = values

    def size(self) -> tuple[int, ...]:
        return (len(self.values),)

    def numel(self) -> int:
        return len(self.values)

    def item(self) -> float:
        return self.values[0]


def test_a_tensor_of_one_number_is_one_as_in_wandb() -> None:
    assert flatten({"a": Tensor(2.5), "b": Tensor(1.0, 2.0), "c": numpy.array([3.5])}) == {"a": 2.5, "c": 3.5}


def test_what_wandb_writes_itself_or_leaves_out_is_no_value_of_the_script() -> None:
    assert flatten({"": 9, "_step": 77, "_runtime": 1.0, "_own": 4, "n": {"": 3}}) == {"_own": 4.0, "n.": 3.0}


def test_mappings_are_followed_as_deep_as_wandb_does() -> None:
    deep: dict[str, Any] = {"v": 1}
    for _ in range(60):
        deep = {"k": deep}
    assert list(flatten(deep).values()) == [1.0]


class Word(str):
    """A text of a kind of its own, such as NumPy's."""


@pytest.mark.parametrize("value", [math.nan, "NaN", numpy.float32("nan"), Word("NaN"), numpy.str_("NaN")])
def test_nan_is_kept_as_a_number_and_as_a_word(value: object) -> None:
    assert math.isnan(flatten({"loss": value})["loss"])


@pytest.mark.parametrize("key", ["train/global_step", "trainer/global_step"])
def test_a_trainers_own_step_is_the_step(key: str) -> None:
    assert rows_of(({"a": 1, key: 10}, {}), ({"b": 2}, {}), ({"a": 3, key: 20}, {})) == [
        (10, {"a": 1.0, key: 10.0}),
        (10, {"b": 2.0}),
        (20, {"a": 3.0, key: 20.0}),
    ]


def test_the_policys_axis_outranks_a_trainers_step() -> None:
    assert rows_of(({"a": 1, "my_step": 7, "train/global_step": 10}, {}), axis="my_step")[0][0] == 7


def test_a_trainers_step_that_begins_below_the_steps_so_far_is_not_taken() -> None:
    calls = [({"a": i}, {}) for i in range(5)] + [({"a": 9, "train/global_step": 1}, {})]
    assert [step for step, _ in rows_of(*calls)] == [0, 1, 2, 3, 4, 5]


def defined(definitions: list[tuple[str, str]], *rows: dict[str, Any], sync: bool | None = None) -> Taken:
    taken = Taken()
    one = Rows("run", taken)
    for pattern, key in definitions:
        one.define(pattern, key, sync)
    for row in rows:
        one.log(row)
    return taken


def test_the_step_metric_of_all_metrics_is_the_step_and_outranks_a_trainers() -> None:
    row = {"a": 1, "k": 20, "train/global_step": 500}
    assert defined([("*", "k")], row)[0][0] == 20
    assert defined([("a", "k"), ("train/*", "k")], row)[0][0] == 20
    assert defined([("b", "k")], row)[0][0] == 500


def test_step_metrics_of_some_metrics_or_several_are_not_the_step() -> None:
    assert [step for step, _ in defined([("a", "k")], {"b": 1}, {"a": 1, "k": 20})] == [0, 1]
    assert [step for step, _ in defined([("a", "k"), ("b", "l")], {"a": 1, "k": 20, "l": 30})] == [0]


def test_a_row_without_its_step_metric_is_given_the_last_one_as_in_wandb() -> None:
    rows = ({"a": 1}, {"a": 2, "k": 20}, {"a": 3}, {}, {"t": "text"}, {"b": 4, "k": 21})
    assert defined([("*", "k")], *rows) == [
        (0, {"a": 1.0, "k": 0.0}),
        (20, {"a": 2.0, "k": 20.0}),
        (20, {"a": 3.0, "k": 20.0}),
        (20, {}),
        (20, {"k": 20.0}),
        (21, {"b": 4.0, "k": 21.0}),
    ]
    assert defined([("a", "k")], {"a": 1, "k": 5}, {"b": 2}, {"a": 3})[1:] == [
        (5, {"b": 2.0}),
        (5, {"a": 3.0, "k": 5.0}),
    ]
    assert defined([("*", "k")], *rows[:3], sync=False)[2] == (20, {"a": 3.0})


def test_a_trainers_step_that_has_just_counted_as_wandbs_is_not_taken() -> None:
    """The row before, at W&B's step 0, has closed: another row of that step would be read by no rule."""
    assert [step for step, _ in rows_of(({"a": 1}, {}), ({"a": 2, "train/global_step": 0}, {}))] == [0, 1]


def test_wandbs_own_step_can_be_named_as_the_axis() -> None:
    assert [s for s, _ in rows_of(*(({"a": 1, "train/global_step": 9}, {}) for _ in "ab"), axis="_step")] == [0, 1]


def test_what_wandb_calls_its_own_is_no_metric() -> None:
    assert rows_of(({"a": 1, "_timestamp": 5, "_step": 9, "_runtime": 2}, {})) == [(0, {"a": 1.0})]


def test_an_axis_that_goes_back_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    rows_of(*(({"a": 1, "k": k}, {}) for k in (10, 20, 15, 12)), axis="k")
    assert caplog.text.count("went back") == 1 and "`monitor(run_id).rewind(step)`" in caplog.text


def test_a_nan_on_the_axis_leaves_the_step_where_it_was() -> None:
    assert [s for s, _ in rows_of(*(({"k": k}, {}) for k in (4, math.nan, math.inf, 6)), axis="k")] == [4, 4, 4, 6]


def test_importing_the_package_imports_no_wandb() -> None:
    code = "import sys, vitalsdsl_wandb; sys.exit('wandb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
