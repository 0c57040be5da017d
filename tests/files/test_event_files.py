"""Event files of TensorBoard are read without TensorBoard."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest
from test_json_lines import rows, runs
from vitalsdsl_files import read

from vitalsdsl.ground.errors import SourceError
from vitalsdsl.ground.points import Row


def checksum(data: bytes) -> bytes:
    """The masked CRC-32C, bit by bit, as its definition says."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    size = struct.pack("<Q", len(data))
    return size + checksum(size) + data + checksum(data)


def number(value: int) -> bytes:
    out = b""
    value &= (1 << 64) - 1
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def part(field: int, content: bytes) -> bytes:
    return number(field << 3 | 2) + number(len(content)) + content


def event(step: int, time: float, rest: bytes = b"") -> bytes:
    return record(b"\x09" + struct.pack("<d", time) + (b"\x10" + number(step) if step else b"") + rest)


def scalar(step: int, time: float, tag: str, value: float) -> bytes:
    """As SummaryWriter.add_scalar writes it: one event for each scalar."""
    return event(step, time, part(5, part(1, part(1, tag.encode()) + b"\x15" + struct.pack("<f", value))))


def tensor(step: int, time: float, tag: str, content: bytes) -> bytes:
    """As Keras writes it: a tensor."""
    return event(step, time, part(5, part(1, part(1, tag.encode()) + part(8, content))))


BEGIN = event(0, 100.0, part(3, b"brain.Event:2"))


def test_scalars_of_a_step_are_one_row_with_their_time(tmp_path: Path) -> None:
    text = BEGIN
    for step in (10, 20):
        text += scalar(step, 100.5 + step, "Loss/train", step / 4) + scalar(step, 100.75 + step, "lr", 0.5)
    text += scalar(20, 121.5, "Loss/val", math.nan)
    [run] = runs(tmp_path, text, name="whatever")
    first, second = run.events
    assert first == Row(10, {"Loss/train": 2.5, "lr": 0.5}, 110.5)
    assert isinstance(second, Row)
    assert (second.step, list(second.values)) == (20, ["Loss/train", "lr", "Loss/val"])
    assert math.isnan(second.values["Loss/val"])
    assert run.info.notes == ()


@pytest.mark.parametrize(
    "content",
    [
        b"\x08\x01" + part(2, b"") + part(4, struct.pack("<f", 0.25)),  # float in tensor_content
        b"\x08\x01" + part(5, struct.pack("<f", 0.25)),  # packed float_val
        b"\x08\x01\x2d" + struct.pack("<f", 0.25),  # float_val that is not packed
        b"\x08\x02" + part(6, struct.pack("<d", 0.25)),
        b"\x08\x02" + part(4, struct.pack("<d", 0.25)),
        b"\x08\x13" + part(4, struct.pack("<e", 0.25)),
    ],
)
def test_a_tensor_of_one_number_is_a_scalar(tmp_path: Path, content: bytes) -> None:
    [run] = runs(tmp_path, BEGIN + tensor(3, 101.0, "epoch_loss", content))
    assert rows(run) == [(3, {"epoch_loss": 0.25})]


def test_what_is_no_scalar_is_left_out(tmp_path: Path) -> None:
    histogram = event(1, 101.0, part(5, part(1, part(1, b"weights") + part(5, b"\x09" + struct.pack("<d", 1.0)))))
    many = tensor(1, 101.0, "pr", b"\x08\x01" + part(4, struct.pack("<ff", 1.0, 2.0)))
    words = tensor(1, 101.0, "text", b"\x08\x07" + part(8, b"hello"))
    graph = event(0, 101.0, part(4, b"\x00" * 100_000))
    text = BEGIN + graph + histogram + many + words + scalar(1, 102.0, "loss", 0.5)
    [run] = runs(tmp_path, text + scalar(1, 102.0, "loss vs samples", 0.5))
    assert rows(run) == [(1, {"loss": 0.5})]
    assert run.info.notes == ("1 values of tags that end in `vs samples` repeat others and are left out",)


@pytest.mark.parametrize("missing", [1, 5, 30])
def test_a_file_that_breaks_off_is_read_up_to_there(tmp_path: Path, missing: int) -> None:
    [run] = runs(tmp_path, (BEGIN + scalar(1, 1.0, "loss", 0.5) + scalar(2, 2.0, "loss", 0.25))[:-missing])
    assert rows(run) == [(1, {"loss": 0.5})]
    assert run.info.notes == ("an event file breaks off: what came before is read",)


def test_a_record_with_a_wrong_checksum_ends_the_file(tmp_path: Path) -> None:
    damaged = bytearray(scalar(2, 2.0, "loss", 0.25))
    damaged[-6] ^= 1
    [run] = runs(tmp_path, BEGIN + scalar(1, 1.0, "loss", 0.5) + bytes(damaged) + scalar(3, 3.0, "loss", 0.5))
    assert rows(run) == [(1, {"loss": 0.5})]
    assert run.info.notes == ("an event file is damaged: what came before is read",)


def test_the_files_of_a_folder_are_one_run_and_a_resume_is_a_rewind(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "events.1").write_bytes(BEGIN + b"".join(scalar(s, 100.0 + s, "loss", 1.0) for s in range(100)))
    (folder / "events.2").write_bytes(BEGIN + b"".join(scalar(s, 300.0 + s, "loss", 0.5) for s in range(97, 120)))
    (folder / "events.3").write_bytes(BEGIN)
    [run] = read(folder)
    assert run.info.name == "run"
    assert [row[0] for row in rows(run)] == [*range(100), "rewind", *range(97, 120)]
    assert ("rewind", 96) in rows(run)


def test_files_written_at_the_same_time_are_read_by_their_times(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(BEGIN + b"".join(scalar(s, 100.0 + s, "loss", 1.0) for s in range(0, 40, 10)))
    (tmp_path / "b").write_bytes(BEGIN + b"".join(scalar(s, 100.5 + s, "val", 1.0) for s in range(0, 40, 20)))
    [run] = read(tmp_path)
    assert [(row[0], *row[1]) for row in rows(run)] == [  # type: ignore[misc]
        (0, "loss", "val"),
        (10, "loss"),
        (20, "loss", "val"),
        (30, "loss"),
    ]


def test_a_session_that_starts_at_a_step_throws_away_what_came_after(tmp_path: Path) -> None:
    start = event(50, 300.0, part(7, b"\x08\x01"))
    text = BEGIN + b"".join(scalar(s, 100.0 + s, "loss", 1.0) for s in range(0, 100, 10)) + start
    [run] = runs(tmp_path, text + scalar(50, 301.0, "loss", 0.5))
    assert rows(run)[-2:] == [("rewind", 49), (50, {"loss": 0.5})]


def test_an_event_file_without_scalars_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="`log` has no rows"):
        runs(tmp_path, BEGIN)
