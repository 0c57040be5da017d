"""Folders, formats of others, and logs that are damaged in any way."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_event_files import BEGIN, scalar
from test_json_lines import rows
from vitalsdsl_files import BinaryFormat, Format, Reading, read, registry

from vitalsdsl.ground.errors import SourceError
from vitalsdsl.ground.points import Rewind, Row


def test_a_folder_gives_its_logs_in_order_of_name_and_says_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("step,loss\n1,2\n")
    (tmp_path / "a.txt").write_text('{"step": 1, "loss": 3}\n')
    (tmp_path / "c.bin").write_bytes(b"\0\1\2")
    (tmp_path / "d.json").write_text("")
    (tmp_path / "inner").mkdir()
    found = read(tmp_path)
    assert [run.info.name for run in found] == ["a.txt", "b.csv"]
    assert found[0].info.notes == (
        f"left out of `{tmp_path.name}`: `c.bin` is a binary file, not a text log; `d.json` is empty",
    )
    assert found[1].info.notes == ()


def test_a_folder_without_logs_is_refused_with_the_reasons(tmp_path: Path) -> None:
    (tmp_path / "c.bin").write_bytes(b"\0\1\2")
    (tmp_path / "version_0").mkdir()
    with pytest.raises(SourceError) as refused:
        read(tmp_path)
    assert str(refused.value) == (
        f"no training log lies in `{tmp_path}`: `c.bin` is a binary file, not a text log; "
        "read one of its folders instead: `version_0`"
    )


def test_the_name_of_a_file_does_not_tell_its_format(tmp_path: Path) -> None:
    for name, text in {"x.csv": '{"step": 1, "a": 2}\n', "x.json": "step,a\n1,2\n"}.items():
        (tmp_path / name).write_text(text)
        assert rows(read(tmp_path / name)[0]) == [(1, {"a": 2.0})]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_read_like_stdin(tmp_path: Path) -> None:
    place = tmp_path / "pipe"
    os.mkfifo(place)
    writer = threading.Thread(target=place.write_text, args=('{"step": 1, "a": 2}\n',))
    writer.start()
    [run] = read(place)
    assert rows(run) == [(1, {"a": 2.0})]
    writer.join()


class Marks(Format):
    """A format of someone else: lines of `step=value`."""

    name = "marks"
    priority = 5

    def recognises(self, head: str) -> bool:
        return head.startswith("#marks")

    def read(self, stream: TextIO, reading: Reading) -> Iterator[Row | Rewind]:
        reading.notes.append("marks are read")
        for line in list(stream)[1:]:
            step, value = line.split("=")
            yield Row(int(step), {"mark": float(value)})


class Entry:
    def __init__(self, name: str, loaded: Any) -> None:
        self.name = name
        self.loaded = loaded

    def load(self) -> Any:
        if isinstance(self.loaded, Exception):
            raise self.loaded
        return self.loaded


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    entries = [Entry("marks", Marks()), Entry("torn", ImportError("no module `xyz`")), Entry("odd", "text")]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries if group == "vitalsdsl.formats" else [])
    registry.known.cache_clear()
    yield
    registry.known.cache_clear()


def test_a_third_party_adds_a_format_by_an_entry_point(tmp_path: Path, foreign: None) -> None:
    (tmp_path / "m").write_text("#marks\n1=2\n2=3\n")
    [run] = read(tmp_path / "m")
    assert rows(run) == [(1, {"mark": 2.0}), (2, {"mark": 3.0})]
    assert run.info.notes == (
        "the format `torn` of another package cannot be used: no module `xyz`",
        "the format `odd` of another package cannot be used: `text` is no vitalsdsl_files.Format object",
        "marks are read",
    )


def test_every_format_has_a_name_of_its_own_and_a_page() -> None:
    formats, binary, notes = registry.known()
    assert notes == ()
    every = [*formats, *binary]
    assert len({one.name for one in every}) == len(every) >= 3
    page = (Path(__file__).parents[2] / "docs" / "sources.md").read_text("utf-8")
    assert [one.name for one in every if f"| {one.name} |" not in page] == []
    assert all(type(one).__doc__ and type(one).__doc__ not in (Format.__doc__, BinaryFormat.__doc__) for one in every)


SAMPLES = [
    "".join(json.dumps({"step": s, "loss": 1 / (s + 1), "t": {"é": s}}) + "\n" for s in range(40)).encode(),
    "".join(json.dumps({"iteration": s % 13, "loss": s}) + "\n" for s in range(40)).encode("utf-16"),
    ("epoch,loss,acc\n" + "".join(f'{s % 20},{s / 3},"{s}"\n' for s in range(40))).encode(),
    json.dumps(
        {"max_steps": 9, "log_history": [{"step": s, "loss": s, "grad_norm": "nan"} for s in range(30)]}
    ).encode(),
    "".join(f"[7]: iteration {s % 21}/ 40 | lm loss: {s}.5E+00 | grad norm: nan |\n" for s in range(40)).encode(),
    "".join(f"{{'loss': {s}, 'epoch': {s / 9}}}\r {s}%|█ | {s}/40 [00:01<00:02]\n" for s in range(40)).encode(),
    BEGIN + b"".join(scalar(s % 25, 100.0 + s, "loss", s) for s in range(40)),
    json.dumps({"loss": [*range(40)], "m": [{"name": "x", "value": 1}]}, indent=1).encode(),
    gzip.compress(b"".join(b"%d,%d\n" % (i, i) if i else b"step,a\n" for i in range(300)), mtime=0),
]


def survives(folder: Path, content: bytes) -> None:
    """Reads a damaged log by file and by pipe: it is read or refused, never anything else."""
    place = folder / "damaged"
    place.write_bytes(content)
    for source, stdin in ((place, None), ("-", io.BytesIO(content))):
        try:
            for run in read(source, stdin=stdin):
                for event in run.events:
                    assert isinstance(event.step, int)
        except SourceError as refused:
            assert "\n" not in str(refused)


@pytest.mark.parametrize("sample", range(len(SAMPLES)))
def test_a_log_cut_off_anywhere_is_read_or_refused(tmp_path: Path, sample: int) -> None:
    content = SAMPLES[sample]
    for end in random.Random(sample).sample(range(len(content)), 60):
        survives(tmp_path, content[:end])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, len(SAMPLES) - 1), st.floats(0, 1), st.floats(0, 1), st.binary(max_size=12))
def test_a_log_with_any_bytes_in_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, sample: int, begin: float, length: float, junk: bytes
) -> None:
    content = SAMPLES[sample]
    start = int(begin * len(content))
    end = start + int(length * (len(content) - start))
    survives(tmp_path_factory.mktemp("junk"), content[:start] + junk + content[end:])


CORPUS = os.environ.get("VITALS_CORPUS")
KINDS = ("jsonl", "csv", "trainer_state")


def corpus_files() -> list[Path]:
    if not CORPUS:
        return []
    inside = sorted(place for place in Path(CORPUS).rglob("*") if place.is_file())
    return [place for place in inside if any(kind in str(place.relative_to(CORPUS)) for kind in KINDS)]


@pytest.mark.skipif(not CORPUS, reason="VITALS_CORPUS names no folder of real logs")
@pytest.mark.parametrize("place", corpus_files(), ids=str)
def test_every_real_log_of_these_formats_is_read(place: Path) -> None:
    found = read(place)
    assert found
    for run in found:
        assert any(isinstance(event, Row) and event.step >= 0 for event in run.events)
