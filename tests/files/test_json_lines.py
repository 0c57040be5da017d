"""JSON lines are read as people have them on disk, and canonical ones are taken at their word."""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import vitalsdsl_files
from hypothesis import given, settings
from hypothesis import strategies as st
from vitalsdsl_files import Recording, read

from vitalsdsl.ground.errors import SourceError
from vitalsdsl.ground.points import Rewind, Row


def runs(folder: Path, content: str | bytes, name: str = "log", **options: str) -> list[Recording]:
    """What is read from a file of this content."""
    place = folder / name
    place.write_bytes(content.encode() if isinstance(content, str) else content)
    return read(place, **options)


def rows(recording: Recording) -> list[tuple[object, ...]]:
    """Events in short: (step, values) of a row, ("rewind", step)."""
    return [("rewind", e.step) if isinstance(e, Rewind) else (e.step, dict(e.values)) for e in recording.events]


def one(folder: Path, content: str | bytes, **options: str) -> tuple[list[tuple[object, ...]], tuple[str, ...]]:
    [recording] = runs(folder, content, **options)
    return rows(recording), recording.info.notes


def test_a_canonical_row_has_a_step_values_and_a_time(tmp_path: Path) -> None:
    [run] = runs(tmp_path, '{"step": 12, "loss": 2.31, "grad_norm": NaN, "_time": 1764470000.5}\n', name="a.jsonl")
    [row] = run.events
    assert isinstance(row, Row)
    assert (row.step, row.values["loss"], row.time) == (12, 2.31, 1764470000.5)
    assert math.isnan(row.values["grad_norm"])
    assert list(row.values) == ["loss", "grad_norm"]
    assert (run.info.name, run.info.notes) == ("a.jsonl", ())
    assert math.isnan(run.info.total_steps)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("NaN", math.nan),
        ('"NaN"', math.nan),
        ('"nan"', math.nan),
        ("nan", math.nan),
        ("-nan", math.nan),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ('"-Infinity"', -math.inf),
        ("inf", math.inf),
        ('"1e-4"', 1e-4),
        ("3", 3.0),
        ("1" + "0" * 400, math.inf),
    ],
)
def test_numbers_are_read_as_python_c_and_people_write_them(tmp_path: Path, written: str, value: float) -> None:
    [(step, values)], _ = one(tmp_path, f'{{"step": 1, "x": {written}}}\n')
    assert step == 1
    assert isinstance(values, dict)
    assert values["x"] == value or (math.isnan(values["x"]) and math.isnan(value))


@pytest.mark.parametrize("written", ["null", '"high"', "true", "false", "[1, 2]", '"1/16"', '""', '"0:08:23"'])
def test_what_is_no_number_is_no_point(tmp_path: Path, written: str) -> None:
    assert one(tmp_path, f'{{"step": 1, "x": {written}, "y": 2}}\n')[0] == [(1, {"y": 2.0})]


@pytest.mark.parametrize("key", ["_time", "_timestamp", "timestamp"])
def test_a_time_is_no_metric(tmp_path: Path, key: str) -> None:
    [run] = runs(tmp_path, f'{{"step": 1, "{key}": 50.5, "_runtime": 3, "_wandb": {{"a": 1}}, "loss": 1}}\n')
    assert list(run.events) == [Row(1, {"loss": 1.0}, 50.5)]


@pytest.mark.parametrize("written", ["NaN", "null", '"yesterday"', "Infinity"])
def test_a_time_that_is_no_finite_number_is_unknown(tmp_path: Path, written: str) -> None:
    [run] = runs(tmp_path, f'{{"step": 1, "_time": {written}}}\n')
    [row] = run.events
    assert isinstance(row, Row)
    assert math.isnan(row.time)


def test_nested_objects_are_joined_by_points(tmp_path: Path) -> None:
    text = '{"step": 1, "train": {"loss": 2, "optim": {"lr": 0.1}}, "acc": 3}\n'
    assert one(tmp_path, text)[0] == [(1, {"train.loss": 2.0, "train.optim.lr": 0.1, "acc": 3.0})]


def test_rows_of_one_step_are_passed_on_as_they_come(tmp_path: Path) -> None:
    text = '{"step": 1, "a": 1}\n{"step": 1, "b": 2}\n{"step": 2, "a": 3}\n{"step": 1, "a": 4}\n'
    read_rows, _ = one(tmp_path, text)
    assert read_rows == [(1, {"a": 1.0}), (1, {"b": 2.0}), (2, {"a": 3.0}), (1, {"a": 4.0})]


def test_a_rewind_line_is_a_rewind(tmp_path: Path) -> None:
    text = '{"step": 999, "a": 1}\n{"rewind": 900}\n{"step": 901, "a": 2}\n'
    assert one(tmp_path, text) == ([(999, {"a": 1.0}), ("rewind", 900), (901, {"a": 2.0})], ())


def test_a_metric_called_rewind_is_a_metric(tmp_path: Path) -> None:
    assert one(tmp_path, '{"step": 9, "rewind": 4}\n')[0] == [(9, {"rewind": 4.0})]


def test_a_canonical_step_that_goes_back_is_neither_rewind_nor_run_but_said_aloud(tmp_path: Path) -> None:
    text = "".join(f'{{"step": {s}, "a": 1}}\n' for s in [*range(10), *range(10)])
    read_rows, notes = one(tmp_path, text)
    assert [r[0] for r in read_rows] == [*range(10), *range(10)]
    assert notes == ("the step goes back from 9 to 0: its rows are passed on as they are",)


@pytest.mark.parametrize(("mode", "count"), [("rewind", 1), ("new", 2), ("ignore", 1)])
def test_what_a_canonical_step_that_goes_back_means_can_be_set(tmp_path: Path, mode: str, count: int) -> None:
    text = "".join(f'{{"step": {s}, "a": 1}}\n' for s in [0, 1, 2, 1, 2])
    found = runs(tmp_path, text, on_decrease=mode)
    assert len(found) == count
    assert (("rewind", 0) in rows(found[0])) == (mode == "rewind")


STEP_KEYS = [
    "_step",
    "train/global_step",
    "trainer/global_step",
    "global_step",
    "iteration",
    "iter",
    "num_updates",
    "current_steps",
    "epoch",
]


@pytest.mark.parametrize("place", range(len(STEP_KEYS)))
def test_step_keys_are_tried_in_order_and_the_choice_is_noted(tmp_path: Path, place: int) -> None:
    chosen, *others = STEP_KEYS[place:]
    row = {**dict.fromkeys(reversed(others), 70), chosen: 7, "loss": 1.5}
    read_rows, notes = one(tmp_path, json.dumps(row) + "\n")
    assert read_rows[0][0] == 7
    assert notes[0].startswith(f"the step is read from `{chosen}`")


def test_step_comes_before_all_other_keys_without_a_note(tmp_path: Path) -> None:
    text = '{"_step": 5, "train/global_step": 60, "step": 7, "epoch": 1}\n'
    assert one(tmp_path, text) == ([(7, {"train/global_step": 60.0, "epoch": 1.0})], ())


def test_a_named_step_key_wins_over_step(tmp_path: Path) -> None:
    text = '{"step": 5, "train/global_step": 60, "loss": 1}\n'
    assert one(tmp_path, text, step_key="train/global_step")[0] == [(60, {"step": 5.0, "loss": 1.0})]
    assert one(tmp_path, '{"a": {"n": 4}, "loss": 1}\n', step_key="a.n")[0] == [(4, {"loss": 1.0})]


def test_an_epoch_is_a_step_only_where_all_are_whole_and_stays_a_metric(tmp_path: Path) -> None:
    assert one(tmp_path, '{"epoch": 1, "l": 2}\n{"epoch": 2.0, "l": 1}\n')[0] == [
        (1, {"epoch": 1.0, "l": 2.0}),
        (2, {"epoch": 2.0, "l": 1.0}),
    ]
    with pytest.raises(SourceError, match=r"`log` has no step, and no key that could be it"):
        runs(tmp_path, '{"epoch": 1, "l": 2}\n{"epoch": 1.5, "l": 1}\n')


def test_a_step_may_be_a_text_or_a_whole_float(tmp_path: Path) -> None:
    assert [r[0] for r in one(tmp_path, '{"step": "3"}\n{"step": 4.0}\n')[0]] == [3, 4]


def test_rows_without_a_step_are_left_out_and_counted(tmp_path: Path) -> None:
    text = '{"config": {"lr": 1}}\n{"step": 1, "a": 1}\n{"step": 1.5, "a": 1}\n{"step": null, "a": 1}\n'
    assert one(tmp_path, text) == (
        [(1, {"a": 1.0})],
        ("3 rows have no whole number under `step` and are left out",),
    )


def test_a_step_that_begins_late_is_found(tmp_path: Path) -> None:
    text = '{"message": "loading"}\n' * 500 + '{"iteration": 3, "a": 1}\n'
    read_rows, notes = one(tmp_path, text)
    assert read_rows == [(3, {"a": 1.0})]
    assert notes[-1] == "500 rows have no whole number under `iteration` and are left out"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            None,
            '`log` has no step, and no key that could be it: write one into each row, as in {"step": 12, …}; its keys are',
        ),
        ("score", "`log` has no whole number under `score`, so it cannot be the step"),
        ("it", "`log` has no `it` to be the step; its keys are `score`, `phase`"),
    ],
)
def test_a_log_without_a_step_is_refused_with_its_keys(tmp_path: Path, key: str | None, message: str) -> None:
    (tmp_path / "log").write_text('{"score": 0.5, "phase": "x"}\n' * 3)
    with pytest.raises(SourceError) as refused:
        read(tmp_path / "log", step_key=key)
    assert str(refused.value).startswith(message) and str(refused.value).endswith((message, "`score`, `phase`"))


def test_a_key_that_counts_up_is_asked_for_where_no_row_has_a_step(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f'{{"it": {n}, "fixed": 7, "score": 0.5}}\n' for n in range(3)))
    with pytest.raises(
        SourceError, match=r"`log` has no step: is it `it`\? then say --step it; its keys are `it`, `fixed`"
    ):
        read(tmp_path / "log")
    assert [step for step, _ in one(tmp_path, (tmp_path / "log").read_text(), step_key="it")[0]] == [0, 1, 2]


COUNTED = ("the rows have no step: they are counted, and the first is step 1",)


def test_rows_of_a_training_without_a_step_are_counted_and_that_is_said(tmp_path: Path) -> None:
    text = "".join(f'{{"train": {{"loss": {n}}}}}\n' for n in range(3))
    counted = [(1, {"train.loss": 0.0}), (2, {"train.loss": 1.0}), (3, {"train.loss": 2.0})]
    assert one(tmp_path, text) == (counted, COUNTED)
    [piped] = read("-", stdin=io.StringIO(text))
    assert (rows(piped), piped.info.notes) == (counted, COUNTED)


def test_an_evaluation_at_the_same_epoch_shares_the_number_of_the_row_before(tmp_path: Path) -> None:
    listed = [
        {"loss": 3, "epoch": 0.5},
        {"eval_loss": 4, "epoch": 0.5},
        {"loss": 2, "epoch": 0.9},
        {"loss": 1, "epoch": 0.5},
    ]
    found, notes = one(tmp_path, "".join(json.dumps(row) + "\n" for row in listed))
    assert ([step for step, _ in found], notes[0]) == ([1, 1, 2, 1], COUNTED[0])


def test_a_step_that_comes_within_the_first_rows_is_no_matter_of_counting(tmp_path: Path) -> None:
    text = '{"loss": 9}\n' * 150 + '{"step": 3, "loss": 1}\n'
    found, notes = one(tmp_path, text)
    assert (found, notes) == ([(3, {"loss": 1.0})], ("150 rows have no whole number under `step` and are left out",))
    [piped] = read("-", stdin=io.StringIO(text))
    assert rows(piped) == found


def test_a_last_line_that_is_cut_off_is_left_out_and_noted(tmp_path: Path) -> None:
    assert one(tmp_path, '{"step": 1, "a": 1}\n{"step": 2, "a') == (
        [(1, {"a": 1.0})],
        ("the last line, 2, is cut off and left out",),
    )


def test_bad_lines_are_left_out_and_named(tmp_path: Path) -> None:
    good = '{"step": 1, "a": 1}\n'
    assert one(tmp_path, good + "oops\n" + good)[1] == ("line 2 is no JSON object and is left out",)
    text = good + "x\n[1]\n7\n" + good * 2 + "{]}\n" + good * 4
    assert one(tmp_path, text)[1] == ("lines 2, 3, 4 and 1 more are no JSON object and are left out",)


def test_a_log_of_mostly_bad_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"18 of 32 lines are no JSON object, the first is line 15"):
        runs(tmp_path, '{"step": 1, "a": 1}\n' * 14 + "Epoch begins\n" * 18)


@pytest.mark.parametrize(
    "content",
    [
        '\ufeff\n{"step": 1, "a": 1}\n',
        '{"step": 1, "a": 1}\r\n\r\n',
        "{“step”: 1, “a”: 1}\n",
        "{‘step’: 1, ‘a’: 1}\n",
        '\n\n  {"step": 1, "a": 1}  \n\n',
        '{"step": 1, "a": 1}',
        '{"step": 1, "a": 1}\n\0\0\0\0',
        b'{"step": 1, "a": 1, "who": "Andr\xe9"}\n',
        '\ufeff{"step": 1, "a": 1}\n'.encode("utf-16-le"),
        '{"step": 1, "a": 1}\r\n'.encode("utf-16"),
        '{"step": 1, "a": 1}\r\n'.encode("utf-32"),
        gzip.compress(b'{"step": 1, "a": 1}\n', mtime=0),
        gzip.compress('{"step": 1, "a": 1}\n'.encode("utf-16"), mtime=0),
    ],
)
def test_encodings_line_ends_quotes_and_compression_do_not_matter(tmp_path: Path, content: str | bytes) -> None:
    assert one(tmp_path, content) == ([(1, {"a": 1.0})], ())


def test_compressed_data_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    lines = b"".join(b'{"step": %d, "a": 0.%d}\n' % (i, i * 7919 % 10007) for i in range(20_000))
    packed = gzip.compress(lines, mtime=0)
    read_rows, notes = one(tmp_path, packed[: len(packed) * 3 // 4])
    assert 10_000 < len(read_rows) < 20_000
    assert "`log` breaks off in its compressed data: what came before is read" in notes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "`log` is empty"),
        (b" \n\n", "`log` is empty"),
        (b"\xef\xbb\xbf", "`log` is empty"),
        (gzip.compress(b"", mtime=0), "`log` is empty"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "`log` is a Git LFS pointer, not the log itself: run `git lfs pull`",
        ),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0", "`log` is a binary file, not a text log"),
        (bytes(range(128, 256)) * 9, "`log` is a binary file, not a text log"),
    ],
)
def test_what_is_no_log_is_refused_in_one_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(SourceError) as refused:
        runs(tmp_path, content)
    assert str(refused.value).startswith(message) and str(refused.value).endswith((message, "`score`, `phase`"))


@pytest.mark.parametrize("content", ["hello\n", '{\n "a": 1\n}\n', "[1, 2]\n", "{", "INFO, loss 3\nINFO, loss 2\n"])
def test_other_texts_are_refused_with_the_formats_that_there_are(tmp_path: Path, content: str) -> None:
    with pytest.raises(SourceError, match=r"`log` is in no known log format \(.*JSON lines.*CSV.*\)"):
        runs(tmp_path, content)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="`none.jsonl` cannot be read: no such file or directory"):
        read(tmp_path / "none.jsonl")


@pytest.mark.parametrize("depth", [900, 100_000])
def test_deep_nesting_is_a_value_or_a_bad_line_but_no_crash(tmp_path: Path, depth: int) -> None:
    good = '{"step": 1, "a": 1}\n'
    deep = '{"step": 2, "x": ' + '{"y": ' * depth + "1" + "}" * depth + "}\n"
    assert one(tmp_path, good + deep + good)[0][0] == (1, {"a": 1.0})


def test_a_huge_line_is_left_out_without_holding_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitalsdsl_files.lines.LONGEST", 1000)
    text = '{"step": 1, "a": 1}\n{"step": 2, "x": "' + "y" * 5000 + '"}\n{"step": 3, "a": 1}\n'
    assert one(tmp_path, text) == (
        [(1, {"a": 1.0}), (3, {"a": 1.0})],
        ("line 2 is no JSON object and is left out",),
    )


def test_a_first_line_longer_than_what_is_looked_at_is_read(tmp_path: Path) -> None:
    text = json.dumps({"step": 1, "text": "y" * 200_000, "a": 1}) + "\n"
    assert one(tmp_path, text)[0] == [(1, {"a": 1.0})]


def test_a_big_canonical_log_is_not_read_ahead_and_can_be_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vitalsdsl_files.reader, "HELD", 20)
    [run] = runs(tmp_path, '{"step": 1, "a": 1}\n' * 900 + "oops\n")
    assert not isinstance(run.events, tuple)
    assert run.info.notes == ()
    assert len(list(run.events)) == len(list(run.events)) == 900
    assert run.late_notes == ["line 901 is no JSON object and is left out"]


class Pipe(io.RawIOBase):
    """A pipe whose writer writes a line only when it is read, and notes how far it got."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self.given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        if self.given == len(self.lines):
            return 0
        line = self.lines[self.given]
        self.given += 1
        buffer[: len(line)] = line
        return len(line)


def test_rows_of_a_pipe_are_there_as_soon_as_they_are_written() -> None:
    pipe = Pipe([b'{"_step": %d, "a": 1}\n' % i for i in range(100)])
    [run] = read("-", stdin=io.TextIOWrapper(io.BufferedReader(pipe)))
    assert pipe.given == 1
    assert (run.info.name, run.info.notes[0]) == ("stdin", "the step is read from `_step`")
    events: Iterator[object] = iter(run.events)
    for place in range(50):
        assert next(events) == Row(place, {"a": 1.0})
        assert pipe.given <= place + 2
    assert len(list(events)) == 50


def test_a_pipe_says_that_it_can_be_read_only_once() -> None:
    [run] = read("-", stdin=io.StringIO('{"step": 1, "a": 1}\n{"step": 2, "a'))
    assert [r[0] for r in rows(run)] == [1]
    assert run.late_notes == ["the last line, 2, is cut off and left out"]
    with pytest.raises(SourceError, match="`stdin` can be read only once"):
        list(run.events)


def test_a_pipe_never_infers_unless_asked_to() -> None:
    text = "".join(f'{{"iteration": {s}, "a": 1}}\n' for s in [1, 2, 3, 1, 2, 3])
    [run] = read("-", stdin=io.StringIO(text))
    assert [r[0] for r in rows(run)] == [1, 2, 3, 1, 2, 3]
    assert run.info.notes[-1] == "it is read as it comes: where the step goes back, rows are passed on as they are"
    assert [r.info.name for r in read("-", stdin=io.StringIO(text), on_decrease="new")] == ["stdin", "stdin#2"]


@pytest.mark.parametrize(
    "content",
    [
        b"step,loss\n1,2\n",
        gzip.compress(b'{"step": 1, "loss": 2}\n', mtime=0),
        b'\n\nstarting\n{"step": 1, "loss": 2}\n',
    ],
)
def test_a_pipe_may_carry_any_format(content: bytes) -> None:
    [run] = read("-", stdin=io.BytesIO(content))
    assert rows(run) == [(1, {"loss": 2.0})]


def test_an_empty_pipe_is_refused() -> None:
    with pytest.raises(SourceError, match="`stdin` is empty"):
        read("-", stdin=io.StringIO(""))


NAMES = st.text(st.characters(exclude_categories=()), min_size=1, max_size=8).filter(
    lambda name: name[0] != "_" and name not in ("step", "timestamp")
)
VALUES = st.dictionaries(NAMES, st.floats(), max_size=4)
ROWS = st.lists(st.tuples(st.integers(-5, 2**53), VALUES, st.floats(0, 2e9)), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(ROWS)
def test_any_rows_written_as_json_lines_read_back_equal(tmp_path_factory: pytest.TempPathFactory, data: list) -> None:  # type: ignore[type-arg]
    place = tmp_path_factory.mktemp("property") / "rows.jsonl"
    lines = [json.dumps({"step": step, **values, "_time": time}) for step, values, time in data]
    place.write_text("\n".join(lines) + "\n")
    [run] = read(place)
    back = [(e.step, repr(dict(e.values)), e.time) for e in run.events if isinstance(e, Row)]
    assert back == [(step, repr(values), time) for step, values, time in data]


def test_a_wrapper_that_says_nothing_is_no_part_of_the_names(tmp_path: Path) -> None:
    text = '{"step": 1, "data": {"actor/pg_loss": -0.5}}\n{"step": 2, "metrics": [{"name": "loss", "value": 2.5}]}\n'
    assert one(tmp_path, text)[0] == [(1, {"actor/pg_loss": -0.5}), (2, {"loss": 2.5})]


def test_a_wrapped_key_that_is_taken_keeps_its_wrapper(tmp_path: Path) -> None:
    text = '{"step": 1, "metrics": {"loss": 2.5}, "logs": {"loss": 3.5}, "lr": 0.5}\n'
    assert one(tmp_path, text)[0] == [(1, {"loss": 2.5, "logs.loss": 3.5, "lr": 0.5})]
