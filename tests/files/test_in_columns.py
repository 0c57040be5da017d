"""A long log in columns: row for row what the same log is when it is read line by line."""

from __future__ import annotations

import io
import json
import math
import random
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import pytest
import vitalsdsl_files.lines
import vitalsdsl_files.reader
from click.testing import CliRunner
from vitalsdsl_files import read
from vitalsdsl_files.format import Format, Reading
from vitalsdsl_files.formats.jsonl import JsonLines
from vitalsdsl_files.formats.nanogpt import FORMAT as NANOGPT
from vitalsdsl_files.formats.table import Table as CommaSeparated
from vitalsdsl_files.in_columns import follow, rows_in
from vitalsdsl_files.segments import Track

import vitalsdsl.nodes.table
from vitalsdsl.cli.app import vitals
from vitalsdsl.ground.errors import SourceError
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.nodes.table import InPieces, Piece, Table
from vitalsdsl.runs.sources import Recording

NUMBERS = (2.5, 3, -0.0, 1e-300, 10**400, 2**60, float("nan"), float("inf"), True)
TEXTS = ("1e-4", "74.89%", "NaN", "high", "", "inf", "1_0", " 7 ", "val", "train")
NESTED = ({"loss": 1.0, "b": {"c": 2}}, [{"name": "x", "value": 3.0}, {"y": 4}], [1.0, 2.0], [{"a": 1}, 5], {}, [])
KEYS = ("loss", "lr", "acc", "_runtime", "_time", "timestamp", "epoch", "split", "data", "metrics", "loss.b", "extra")
STRANGE = ("", "   ", "no json", '{"step": 3, "loss": nan}', '{"step": 4, "loss": 1.0', "\0\0", "[1, 2]", "7", "\t", "null",
           '{“step”: 5, "loss": -Infinity}', '{"step": 6, "step": 7, "loss": 1}', '{"step": 1, "t": "\\ud800"}')  # fmt: skip


def shown(events: object, notes: list[str], reading: Reading) -> tuple[object, ...]:
    """All that comes of a log, so that NaN is like NaN."""
    return repr(events), notes, repr(reading.total_steps), reading.infers


def both(found: Format, text: str) -> tuple[tuple[object, ...], tuple[object, ...]]:
    told = []
    for way in (
        lambda one: found.read(io.StringIO(text), one),
        lambda one: rows_in(found.pieces(io.StringIO(text), one)),
    ):
        reading = Reading("log", total_steps=math.nan)
        try:
            events: object = [as_it_is(event) for event in way(reading)]
        except SourceError as problem:
            events = str(problem)
        told.append(shown(events, reading.notes, reading))
    return told[0], told[1]


def as_it_is(event: Row | Rewind) -> object:
    return event if isinstance(event, Rewind) else (event.step, sorted(event.values.items()), event.time)


def lines(chance: random.Random, is_plain: bool) -> Iterator[str]:
    step, keys = 0, chance.sample(KEYS, chance.randint(1, 6))
    key = chance.choice(("step", "step", "_step", "iter", "epoch", "steps so far"))
    for _ in range(chance.randint(1, 700)):
        step += chance.choice((0, 1, 1, 1, 3))
        if not is_plain and chance.random() < 0.02:
            yield chance.choice(STRANGE)
            continue
        row: dict[str, object] = {}
        if chance.random() < (1.0 if is_plain else 0.98):
            row[key] = (
                step if chance.random() < 0.98 else chance.choice((float(step), str(step), f"{step}/900", 0.5, None))
            )
        if chance.random() < (0.0 if is_plain else 0.02):
            row = {"rewind": max(0, step - 5)}
        for name in keys if chance.random() < 0.9 else chance.sample(KEYS, 3):
            row[name] = chance.random()
            if not is_plain and chance.random() < 0.1:
                row[name] = chance.choice((*NUMBERS, *TEXTS, *NESTED, None))
        yield json.dumps(row)


@pytest.mark.parametrize("seed", range(60))
def test_pieces_hold_the_rows_that_reading_line_by_line_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(vitalsdsl_files.lines, "BLOCK", chance.choice((300, 3_000, 300_000)))
    if seed % 5 == 0:
        monkeypatch.setattr(vitalsdsl_files.lines, "LONGEST", 400)
    text = "\n".join(lines(chance, seed % 3 == 0)) + chance.choice(("\n", "", "\n\n"))
    row_by_row, in_columns = both(JsonLines(), text)
    assert in_columns == row_by_row


def test_plain_rows_do_become_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above would compare rows with themselves."""
    monkeypatch.setattr(vitalsdsl_files.lines, "BLOCK", 2_000)
    rows = [
        {"step": s, "loss": 1 / (s + 1), "lr": None if s % 2 else 1, "phase": "train", "_time": s} for s in range(900)
    ]
    text = "\n".join(map(json.dumps, rows)) + "\n"
    pieces = list(JsonLines().pieces(io.StringIO(text), Reading("log")))
    assert sum(len(one) for one in pieces if isinstance(one, Piece)) > 600
    assert sum(map(len, pieces)) == 900


@pytest.mark.parametrize("seed", range(12))
def test_where_a_log_goes_back_is_seen_in_columns_as_in_rows(seed: int) -> None:
    text = "\n".join(lines(random.Random(100 + seed), seed % 2 == 0)) + "\n"
    events, pieces = Track(), Track()
    try:
        for event in JsonLines().read(io.StringIO(text), Reading("log")):
            events.add(event)
    except SourceError:
        return
    follow(pieces, JsonLines().pieces(io.StringIO(text), Reading("log")))
    assert (pieces.steps, pieces.kinds, pieces.rows) == (events.steps, events.kinds, events.rows)


def logged(folder: Path, key: str, back: int | None = None) -> Path:
    place = folder / "run.jsonl"
    steps = [*range(3_000), *([] if back is None else range(back, 3_200))]
    place.write_text("".join(json.dumps({key: s, "loss": s / 7, "lr": 0.1}) + "\n" for s in steps), "utf-8")
    return place


@pytest.mark.parametrize("key", ["step", "_step"])
def test_a_long_log_is_had_in_pieces_and_is_the_same_as_a_short_one(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = logged(tmp_path, key)
    [held] = read(place)
    monkeypatch.setattr(vitalsdsl_files.reader, "HELD", 500)
    [long] = read(place)
    assert not isinstance(held.events, InPieces) and isinstance(long.events, InPieces)
    assert long.info == held.info
    assert list(long.events) == list(held.events) == list(long.events)
    assert list(chain.from_iterable(p.rows() if isinstance(p, Piece) else p for p in long.events.pieces())) == list(
        held.events
    )
    table, other = Table.of(long.events), Table.of(held.events)
    assert table is not None and other is not None
    assert repr([*map(as_it_is, table.events())]) == repr([*map(as_it_is, other.events())])


@pytest.mark.parametrize("key", ["step", "_step"])
@pytest.mark.parametrize("back", [None, 2_950])
def test_a_log_that_is_not_short_is_held_in_columns_and_is_the_same(
    key: str, back: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = logged(tmp_path, key, back)
    [short] = read(place)
    monkeypatch.setattr(vitalsdsl_files.reader, "SHORT", 500)
    [held] = read(place)
    assert isinstance(short.events, tuple) and isinstance(held.events, Sequence)
    assert isinstance(held.events, InPieces) is (key == "step" or back is None)
    assert held.info == short.info
    assert len(held.events) == len(short.events)
    assert list(held.events) == list(short.events) and held.events[2_500] == short.events[2_500]
    assert repr(list(map(as_it_is, table_rows(held)))) == repr(list(map(as_it_is, table_rows(short))))


def table_rows(recording: Recording) -> list[Row]:
    table = Table.of(recording.events)
    return [] if table is None else list(table.events())


def test_a_long_log_that_goes_back_is_gone_through_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = logged(tmp_path, "_step", back=2_950)
    [held] = read(place)
    monkeypatch.setattr(vitalsdsl_files.reader, "HELD", 500)
    [long] = read(place)
    assert long.info == held.info
    assert list(long.events) == list(held.events)
    assert Rewind(2_949) in list(long.events)


def test_a_long_canonical_log_that_goes_back_is_noted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = logged(tmp_path, "step", back=2_950)
    monkeypatch.setattr(vitalsdsl_files.reader, "HELD", 500)
    [long] = read(place)
    assert Table.of(long.events) is None
    assert len(list(long.events)) == 3_250
    assert long.late_notes == ["the step goes back from 2999 to 2950: its rows are passed on as they are"]


@pytest.mark.parametrize("seed", range(0, 20, 3))
def test_a_table_in_pieces_has_the_rows_of_its_lines(seed: int) -> None:
    chance = random.Random(seed)
    names = ["step", *chance.sample(KEYS[:7], 3)]
    text = ",".join(names) + "\n"
    for step in range(3_000):
        cells = [
            chance.choice(("1.5", "7", "", *TEXTS)) if chance.random() < seed / 500 else repr(chance.random())
            for _ in "abc"
        ]
        text += ",".join([str(step), *cells]) + "\n"
    row_by_row, in_columns = both(CommaSeparated(), text)
    assert in_columns == row_by_row


def test_a_format_without_columns_of_its_own_is_had_in_pieces_all_the_same() -> None:
    text = "".join(f"iter {s}: loss {s / 7:.4f}, time 80.50ms, mfu 12.50%\n" for s in range(5_000))
    row_by_row, in_pieces = both(NANOGPT, text)
    assert in_pieces == row_by_row and "5.0" in str(row_by_row[0])


@pytest.mark.parametrize("joined", [2, 3, 1_000])
@pytest.mark.parametrize("seed", range(6))
def test_columns_of_many_pieces_are_those_of_one(seed: int, joined: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that come at some rows only, together or apart, and steps in several rows."""
    chance = random.Random(seed)
    rows, step, here = list[Row](), 0, set[str]()
    for _ in range(400):
        further = chance.choice((0, 1, 1, 2))
        step, here = step + further, set() if further else here
        names = [name for name in "abcde" if chance.random() < 0.6 and name not in here]
        here.update(names)
        rows.append(Row(step, {name: chance.random() for name in names}, float(step)))
    wanted = Table.of(rows)
    assert wanted is not None
    monkeypatch.setattr(vitalsdsl.nodes.table, "AT_ONCE", 7)
    monkeypatch.setattr(vitalsdsl.nodes.table, "JOINED", joined)
    found = Table.of(rows)
    assert found is not None
    assert list(found.points) == list(wanted.points)
    assert repr(list(found.events())) == repr(list(wanted.events()))


POLICY = """
when loss > 420 -> orange
when (loss > 400 for 2 epochs) for 5 samples -> red
when mean(lr, 50 steps) > 1 -> red
"""


@pytest.mark.parametrize("key", ["step", "_step"])
def test_a_long_log_is_replayed_as_a_short_one(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the rules one is left to the stream, which is given the rows that the columns come to."""
    place = logged(tmp_path, key)
    (tmp_path / "p.vitals").write_text(POLICY, "utf-8")
    with place.open("a", encoding="utf-8") as file:
        file.write('oops\n{"loss": 2}\n')
    said = []
    for held in (vitalsdsl_files.reader.HELD, 500):
        monkeypatch.setattr(vitalsdsl_files.reader, "HELD", held)
        done = CliRunner().invoke(vitals, ["replay", str(tmp_path / "p.vitals"), str(place)])
        assert done.exit_code == 0, done.output
        said.append(sorted(done.output.splitlines()))
    assert said[0] == said[1]
    assert any("loss_orange" in line for line in said[0])
