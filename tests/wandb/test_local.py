"""A run's files as rows and rewinds: every field that rules need, and what becomes of a run that is taken up again."""

from __future__ import annotations

import json
import math
import os
import random
from pathlib import Path
from typing import Any

import pytest

if "CI" not in os.environ:
    pytest.importorskip("wandb")

from vitalsdsl_wandb.local import LocalRun
from vitalsdsl_wandb.places import by_run, files_at

from tests.wandb import run_files as w
from vitalsdsl.ground.errors import RunGone, SourceError
from vitalsdsl.ground.points import Rewind, Row


def reading(place: Path, **options: Any) -> LocalRun:
    return LocalRun(lambda: files_at(place), **options)


def events(run: LocalRun) -> list[Row | Rewind]:
    return [event for found in run.read() for event in found]


def rows(place: Path, **options: Any) -> list[tuple[int, dict[str, float]] | int]:
    """Rows as (step, values), rewinds as the step alone."""
    found = events(reading(place, **options))
    return [event.step if isinstance(event, Rewind) else (event.step, dict(event.values)) for event in found]


def test_a_row_has_its_step_its_numbers_and_its_time(tmp_path: Path) -> None:
    payloads = [w.header(), w.run("a"), w.history({"loss": 2.5, "n": 3, "_runtime": 9.5}, 7, 1234.5), w.end()]
    assert events(reading(w.write(tmp_path, "a", payloads))) == [Row(7, {"loss": 2.5, "n": 3.0}, 1234.5)]


@pytest.mark.parametrize("typed", [False, True])
def test_numbers_that_are_not_finite_and_what_is_no_number(tmp_path: Path, typed: bool) -> None:
    values = {
        "a": math.nan,
        "b": math.inf,
        "c": -math.inf,
        "d": "NaN",
        "e": "Infinity",
        "f": "-Infinity",
        "g": None,
        "h": True,
        "i": "text",
        "j": [1, 2],
        "k": {"_type": "histogram", "bins": 4},
        "l": -3,
        "m": 10**17,
        "n" * 200: 1.5,
        "ключ": 2.5,
    }
    file = w.write(tmp_path, "a", [w.history(values, 0, typed=typed)])
    [(_, found)] = rows(file)  # type: ignore[misc]
    expected = {
        "a": "nan",
        "b": "inf",
        "c": "-inf",
        "d": "nan",
        "e": "inf",
        "f": "-inf",
        "l": "-3.0",
        "m": "1e+17",
        "n" * 200: "1.5",
        "ключ": "2.5",
    }
    assert {name: repr(value) for name, value in found.items()} == expected


def test_both_spellings_of_keys_are_read_and_nested_ones_are_joined(tmp_path: Path) -> None:
    record = w.messages.Record()
    record.history.item.add(key="old", value_json="1")
    record.history.item.add(key="old.nested", value_json='{"b": {"c": 2}, "t": "x"}')
    record.history.item.add(nested_key=["new"], value_json="3")
    record.history.item.add(nested_key=["n", "y", "z"], value_json="4")
    record.history.item.add(nested_key=["long" * 40, "x"], value_json="5")
    record.history.step.num = 2
    file = w.write(tmp_path, "a", [record.SerializeToString()])
    assert rows(file) == [(2, {"old": 1.0, "old.nested.b.c": 2.0, "new": 3.0, "n.y.z": 4.0, "long" * 40 + ".x": 5.0})]


def test_media_leave_nothing_whatever_the_order_of_their_parts(tmp_path: Path) -> None:
    record = w.messages.Record()
    for keys, value in ((("i", "size"), 3), (("i", "_type"), "image-file"), (("i", "width"), 4), (("ix",), 1)):
        record.history.item.add(nested_key=keys, value_json=json.dumps(value))
    record.history.step.num = 0
    assert rows(w.write(tmp_path, "a", [record.SerializeToString()])) == [(0, {"ix": 1.0})]


def test_a_typed_value_outranks_the_text_of_it(tmp_path: Path) -> None:
    record = w.messages.Record()
    record.history.item.add(nested_key=["x"], number=math.nan, value_json="null")
    record.history.step.num = 0
    [(_, found)] = rows(w.write(tmp_path, "a", [record.SerializeToString()]))  # type: ignore[misc]
    assert math.isnan(found["x"])


def test_without_steps_rows_are_counted(tmp_path: Path) -> None:
    payloads = [w.history({"a": i}, None) for i in range(3)]
    assert [step for step, _ in rows(w.write(tmp_path, "a", payloads))] == [0, 1, 2]  # type: ignore[misc]
    payloads = [w.run("b", starting_step=40), *payloads]
    assert [step for step, _ in rows(w.write(tmp_path, "b", payloads))] == [40, 41, 42]  # type: ignore[misc]


def test_fields_and_records_that_are_not_known_are_passed_over(tmp_path: Path) -> None:
    record = w.messages.Record()
    record.ParseFromString(w.history({"a": 1}, 3))
    record.num = 900
    record.history._info.stream_id = "x"
    later = record.SerializeToString() + b"\xfa\x3f\x03abc" + b"\xf8\x3f\x01"
    assert rows(w.write(tmp_path, "a", [w.output(90_000), later, w.output(5)])) == [(3, {"a": 1.0})]


def test_a_record_that_is_none_costs_itself_and_is_counted(tmp_path: Path) -> None:
    good = w.history({"a": 1}, 3)
    run = reading(w.write(tmp_path, "a", [good[:-3], w.history({"a": 2}, 4), b"\x12\xff\xff\xff\xff"]))
    assert [event.step for event in events(run)] == [4]
    assert "bad blocks: 2" in run.notes[-1]


def test_what_wandb_measures_of_the_machine_counts_at_the_next_row(tmp_path: Path) -> None:
    payloads = [
        w.stats(cpu=1.0),
        w.history({"a": 1}, 0),
        w.stats(cpu=2.0, mem=7.0),
        w.stats(cpu=3.0),
        w.history({"a": 2}, 5, 2000.0),
        w.stats(cpu=4.0),
    ]
    assert rows(w.write(tmp_path, "a", payloads)) == [
        (0, {"system.cpu": 1.0, "a": 1.0}),
        (5, {"system.cpu": 3.0, "system.mem": 7.0, "a": 2.0}),
    ]


class TestTheStep:
    def test_the_step_metric_of_all_is_the_step(self, tmp_path: Path) -> None:
        payloads = [w.step_metric("*", "k"), *(w.history({"a": i, "k": 10 * i}, i) for i in (1, 2))]
        run = reading(w.write(tmp_path, "a", payloads))
        assert [event.step for event in events(run)] == [10, 20]
        assert run.notes == ["the step is taken from `k`"]

    def test_one_step_metric_of_every_metric_is_the_step(self, tmp_path: Path) -> None:
        payloads = [w.step_metric("val/*", "k"), w.step_metric("loss", "k"), w.history({"loss": 1, "k": 30}, 0)]
        assert rows(w.write(tmp_path, "a", payloads)) == [(30, {"loss": 1.0, "k": 30.0})]

    def test_one_of_some_metrics_is_not(self, tmp_path: Path) -> None:
        payloads = [w.step_metric("val/*", "k"), w.history({"loss": 1}, 0), w.history({"val/acc": 1, "k": 30}, 1)]
        assert [step for step, _ in rows(w.write(tmp_path, "a", payloads))] == [0, 1]  # type: ignore[misc]

    def test_several_are_said_and_none_is_taken(self, tmp_path: Path) -> None:
        payloads = [w.step_metric("a", "k"), w.step_metric("b", "l"), w.history({"a": 1, "k": 5, "l": 6}, 0)]
        run = reading(w.write(tmp_path, "a", payloads))
        assert [event.step for event in events(run)] == [0]
        assert "several step metrics (`k`, `l`)" in run.notes[0]

    def test_what_is_asked_for_outranks_it_and_the_trainers_step_stands_behind(self, tmp_path: Path) -> None:
        row = {"mine": 3, "k": 40, "train/global_step": 500}
        file = w.write(tmp_path, "a", [w.step_metric("*", "k"), w.history(row, 0)])
        bare = w.write(tmp_path, "b", [w.history(row, 0)])
        assert [rows(file, step_key="mine")[0][0], rows(file)[0][0], rows(bare)[0][0]] == [3, 40, 500]  # type: ignore[index]
        assert rows(file, step_key="_step")[0][0] == 0  # type: ignore[index]


class TestTakenUpAgain:
    """A run that is started again has a second file."""

    def two(self, folder: Path, first: list[bytes], second: list[bytes]) -> Path:
        w.write(folder, "other", [w.history({"a": 99}, 0)], "20260101_115000")
        w.write(folder, "a", [w.run("a"), *first], "20260101_120000")
        return w.write(folder, "a", second, "20260102_120000", online=False)

    def test_its_files_are_one_run_in_the_order_of_their_start(self, tmp_path: Path) -> None:
        file = self.two(
            tmp_path,
            [w.history({"a": 0}, 0), w.history({"a": 1}, 1)],
            [w.run("a", resume=True), w.history({"a": 2}, 2), w.end()],
        )
        run = reading(file)
        assert [event.step for event in events(run)] == [0, 1, 2] and run.is_over

    def test_one_that_starts_over_goes_back(self, tmp_path: Path) -> None:
        file = self.two(tmp_path, [w.history({"a": i}, i) for i in range(5)], [w.run("a"), w.history({"a": 7}, 0)])
        assert rows(file)[-2:] == [-1, (0, {"a": 7.0})]

    def test_one_that_goes_on_before_the_end_of_what_was_logged_goes_back_there(self, tmp_path: Path) -> None:
        file = self.two(
            tmp_path,
            [w.history({"a": i}, i) for i in range(5)],
            [w.run("a", resume=True, starting_step=3), w.history({"a": 7}, 3), w.history({"a": 8}, 4)],
        )
        assert rows(file)[-3:] == [2, (3, {"a": 7.0}), (4, {"a": 8.0})]

    def test_a_rewound_one_goes_back_to_where_it_says(self, tmp_path: Path) -> None:
        file = self.two(
            tmp_path,
            [w.history({"a": i}, i) for i in range(50)],
            [w.run("a", branch=("a", 20)), w.history({"a": 7}, 30), w.history({"a": 8}, None)],
        )
        assert rows(file)[-3:] == [20, (30, {"a": 7.0}), (31, {"a": 8.0})]

    def test_a_fork_of_another_run_has_nothing_to_go_back_from(self, tmp_path: Path) -> None:
        file = w.write(tmp_path, "b", [w.run("b", branch=("a", 20)), w.history({"a": 7}, 21)])
        assert rows(file) == [(21, {"a": 7.0})]

    def test_a_trainer_that_goes_back_to_a_checkpoint_goes_back(self, tmp_path: Path) -> None:
        key = "train/global_step"
        file = self.two(
            tmp_path,
            [w.history({"a": i, key: 10 * i}, i) for i in range(1, 6)],
            [w.run("a", resume=True), w.history({"b": 1}, 6), w.history({"a": 7, key: 30}, 7)],
        )
        assert rows(file)[-3:] == [(50, {"b": 1.0}), 29, (30, {"a": 7.0, key: 30.0})]


@pytest.mark.parametrize("seed", range(8))
def test_reading_in_any_pieces_and_from_any_cursor_gives_the_same_events(tmp_path: Path, seed: int) -> None:
    """The file grows by any number of bytes between readings, and each reading begins from a cursor that was kept."""
    dice = random.Random(seed)

    def part(first: int, count: int) -> list[bytes]:
        out = []
        for i in range(first, first + count):
            out.append(w.history({"a": dice.random(), "k": i // 2}, i if seed % 2 else None))
            out += dice.choice([[], [], [w.stats(cpu=i)], [w.output(dice.choice([10, 40_000]))]])
        return out

    extra = [w.step_metric("*", "k")] if seed % 3 else []
    parts = [[w.header(), w.run("a"), *extra, *part(0, 60)], [w.run("a", resume=True), *part(40, 60), w.end()]]
    files = [w.write(tmp_path, "a", parts[i], f"2026010{i + 1}_120000") for i in range(2)]
    whole = reading(files[0])
    wanted = events(whole)
    data = [file.read_bytes() for file in files]
    for file in files:
        file.unlink()
    found: list[Row | Rewind] = []
    cursor: Any = None
    for file, content in zip(files, data):
        at = 0
        while at < len(content):
            at += dice.choice([1, 40, dice.randrange(1, 30_000)])
            file.write_bytes(content[:at])
            run = reading(files[0], cursor=cursor)
            for new in run.read():
                found += new
                if dice.random() < 0.1:
                    break
            cursor = json.loads(json.dumps(run.cursor()))
    run = reading(files[0], cursor=cursor)
    found += events(run)
    assert found == wanted and len(wanted) >= 120
    assert run.is_over and len(json.dumps(cursor)) < 1000


def test_damage_is_said_with_its_count_and_the_rest_is_read(tmp_path: Path) -> None:
    file = w.write(tmp_path, "a", [w.header("0.17.3"), w.run("a"), *(w.history({"a": i}, i) for i in range(4000))])
    data = bytearray(file.read_bytes())
    for block in (1, 3):
        data[block * w.BLOCK + 20_000] ^= 4
    file.write_bytes(data)
    run = reading(file)
    found = events(run)
    assert all(event.step == event.values["a"] for event in found if isinstance(event, Row))
    assert 4000 - len(found) < 2 * w.BLOCK / 50 and found[-1].step == 3999
    assert "bad blocks: 2" in run.notes[-1] and "0.17.0 to 0.17.5" in run.notes[-1]


def test_a_file_that_is_gone_is_said(tmp_path: Path) -> None:
    file = w.write(tmp_path, "a", [w.history({"a": 1}, 0)])
    run = reading(file)
    assert len(events(run)) == 1
    file.unlink()
    with pytest.raises(RunGone, match="there no longer"):
        events(reading(file, cursor=run.cursor()))


def test_a_file_that_has_been_replaced_by_a_shorter_one_is_said(tmp_path: Path) -> None:
    file = w.write(tmp_path, "a", [w.history({"a": 1}, i) for i in range(9)])
    run = reading(file)
    events(run)
    w.write(tmp_path, "a", [w.history({"a": 1}, 0)])
    with pytest.raises(SourceError, match="has been replaced"):
        events(reading(file, cursor=run.cursor()))


def test_an_earlier_file_that_is_gone_is_passed_over(tmp_path: Path) -> None:
    first = w.write(tmp_path, "a", [w.history({"a": 1}, 0)], "20260101_120000")
    second = w.write(tmp_path, "a", [w.run("a", resume=True), w.history({"a": 2}, 1)], "20260102_120000")
    run = reading(first)
    assert len(list(zip([0], run.read()))) == 1
    first.unlink()
    assert [event.step for event in events(reading(second, cursor=run.cursor()))] == [1]


@pytest.mark.parametrize(
    ("version", "said"),
    [("0.22.3", "in blocks of 32 KiB"), ("0.31.0", "every 15 s"), ("1.0.0", "every 15 s"), ("0.16.6", None)],
)
def test_how_late_rows_show_is_said_to_who_watches(tmp_path: Path, version: str, said: str | None) -> None:
    file = w.write(tmp_path, "a", [w.header(version), w.history({"a": 1}, 0)])
    watched, replayed = reading(file, live=True), reading(file)
    events(watched), events(replayed)
    assert replayed.notes == []
    assert (said in watched.notes[0]) if said else watched.notes == []


def test_processes_of_one_run_that_begin_in_one_second_are_files_of_one_run(tmp_path: Path) -> None:
    """W&B then ends the later folders in -1, -2 and so on; ids of runs may end so, too."""
    wanted = {
        "r1": [
            "run-20260131_120000-r1",
            *(f"run-20260131_120000-r1-{n}" for n in range(1, 12)),
            "run-20260131_120001-r1",
        ],
        "r1-1": ["run-20260131_120000-r1-1-1"],
    }
    for run, folders in wanted.items():
        for folder in folders:
            (tmp_path / folder).mkdir()
            (tmp_path / folder / f"run-{run}.wandb").touch()
    found = {run: [file.parent.name for file in files] for run, files in by_run(files_at(tmp_path)).items()}
    assert found == wanted
    one = tmp_path / "run-20260131_120000-r1-3" / "run-r1.wandb"
    assert [file.parent.name for file in files_at(one)] == wanted["r1"]
    assert [file.parent.name for file in files_at(one.parent)] == wanted["r1"]
