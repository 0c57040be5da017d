"""Event files of TensorBoard (`events.out.tfevents.…`), whoever wrote them."""

from __future__ import annotations

import heapq
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl_files.format import BinaryFormat, Reading
from vitalsdsl_files.framing import DamagedError, records
from vitalsdsl_files.protobuf import BYTES, FIXED32, FIXED64, VARINT, fields, signed

_START = 1
_PACKED = {5: "f", 6: "d"}
_CONTENT = {1: "f", 2: "d", 3: "i", 9: "q", 19: "e"}
_LARGEST = 2**53
_VS_SAMPLES = " vs samples"


@dataclass
class _Event:
    """What one record says: scalars, or that steps from `step` on were thrown away."""

    step: int = 0
    time: float = math.nan
    scalars: list[tuple[str, float]] = field(default_factory=list)
    starts: bool = False


class EventFiles(BinaryFormat):
    """One row for each step's scalars that stand together, under their tags; wall times are kept.

    The event files of one folder are one run, as in TensorBoard: they are read together in the order of their wall
    times. A start of a session at a step (`purge_step`) is a rewind to just before it. A tag that Megatron writes a
    second time `vs samples` is left out; so are histograms, texts, pictures and tensors of more than one number.
    """

    name = "TensorBoard event file"
    joins = True

    def recognises(self, start: bytes) -> bool:
        return b"brain.Event:" in start[:64]

    def read(self, files: Sequence[BinaryIO], reading: Reading) -> Iterator[Row | Rewind]:
        each = [_events(file, reading) for file in files]
        return _rows(heapq.merge(*each, key=lambda event: event.time) if len(each) > 1 else each[0], reading)


def _rows(events: Iterator[_Event], reading: Reading) -> Iterator[Row | Rewind]:
    values: dict[str, float] = {}
    step, time, on_samples = 0, math.nan, 0
    for event in events:
        if event.starts or event.step != step or any(tag in values for tag, _ in event.scalars):
            if values:
                yield Row(step, values, time)
            values, step = {}, event.step
            time = event.time if math.isfinite(event.time) else math.nan
            if event.starts:
                yield Rewind(event.step - 1)
        for tag, value in event.scalars:
            if tag.endswith(_VS_SAMPLES):
                on_samples += 1
            else:
                values[tag] = value
    if values:
        yield Row(step, values, time)
    if on_samples:
        reading.notes.append(
            f"{on_samples} values of tags that end in `{_VS_SAMPLES.strip()}` repeat others and are left out"
        )


def _events(file: BinaryIO, reading: Reading) -> Iterator[_Event]:
    """The events of a file that have scalars, or tell a start. Their times do not go back, so that files can be merged."""
    latest = -math.inf
    logged = False
    try:
        for data in records(file):
            event = _event(data)
            if event.starts and not (logged or event.step > 0):
                continue  # a session that starts at step 0 throws nothing away
            if (not event.scalars and not event.starts) or abs(event.step) > _LARGEST:
                continue
            logged = True
            latest = event.time = max(latest, event.time) if math.isfinite(event.time) else latest
            yield event
    except DamagedError as problem:
        reading.notes.append(f"an event file {problem}: what came before is read")
    except ValueError:
        reading.notes.append("an event file is damaged: what came before is read")


def _event(data: bytes) -> _Event:
    event = _Event()
    for number, kind, value in fields(data):
        if number == 1 and kind == FIXED64 and isinstance(value, bytes):
            event.time = struct.unpack("<d", value)[0]
        elif number == 2 and isinstance(value, int):
            event.step = signed(value)
        elif number == 5 and isinstance(value, bytes):
            event.scalars.extend(_scalars(value))
        elif number == 7 and isinstance(value, bytes):
            event.starts = any(one == 1 and status == _START for one, _, status in fields(value))
    return event


def _scalars(summary: bytes) -> Iterator[tuple[str, float]]:
    for number, _, value in fields(summary):
        if number != 1 or not isinstance(value, bytes):
            continue
        tag, scalar = "", None
        for part, kind, content in fields(value):
            if part == 1 and isinstance(content, bytes):
                tag = content.decode("utf-8", "replace")
            elif part == 2 and kind == FIXED32 and isinstance(content, bytes):
                scalar = struct.unpack("<f", content)[0]
            elif part == 8 and isinstance(content, bytes):
                scalar = _tensor(content)
        if scalar is not None:
            yield tag, scalar


def _tensor(tensor: bytes) -> float | None:
    """The number of a tensor that holds just one; None for any other."""
    dtype = 0
    numbers: list[float] = []
    content = b""
    for number, kind, value in fields(tensor):
        if number == 1 and isinstance(value, int):
            dtype = value
        elif number == 4 and isinstance(value, bytes):
            content = value
        elif number in _PACKED and isinstance(value, bytes) and kind in (BYTES, FIXED32, FIXED64):
            numbers += _unpacked(value, _PACKED[number])
        elif number in (7, 10) and kind == VARINT and isinstance(value, int):
            numbers.append(float(signed(value)))
        elif number in (7, 10) and isinstance(value, bytes):
            numbers += [float(signed(one)) for one in _varints(value)]
    if content and dtype in _CONTENT:
        numbers += _unpacked(content, _CONTENT[dtype])
    return float(numbers[0]) if len(numbers) == 1 else None


def _unpacked(data: bytes, code: str) -> list[float]:
    return [one for (one,) in struct.iter_unpack(f"<{code}", data)] if len(data) % struct.calcsize(code) == 0 else []


def _varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0


FORMAT = EventFiles()
