"""What the records of a `.wandb` file say, read from their protobuf bytes: rows, step metrics, the run, its end.

Only the few fields that rules need are read; their numbers have been the same since W&B 0.16. Records of other kinds
(console output, artifacts, summaries, requests) are passed over.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from vitalsdsl.ground.points import number
from vitalsdsl_wandb.rows import flatten

_HISTORY, _CONFIG, _STATS, _METRIC, _RUN, _EXIT, _HEADER = 2, 5, 7, 12, 17, 18, 21
_KEY, _NESTED_KEY, _VALUE_JSON = 1, 2, 16
_NONE, _BOOLEAN, _INTEGER, _NUMBER, _TEXT, _JSON = range(3, 9)
_DOUBLE = struct.Struct("<d")
_MEDIA = "._type"
_SHORT = 64
"""A longer value of a configuration is no number, and is left out. In bytes of JSON."""


@dataclass(frozen=True)
class HistoryRow:
    """One row of `run.log`: its numbers under flat names. `step` is None where W&B leaves counting to the reader."""

    values: dict[str, float]
    step: int | None
    time: float


@dataclass(frozen=True)
class SystemStats:
    """What W&B measured of the machine, under the names of its pages (`system.memory_percent`)."""

    values: dict[str, float]


@dataclass(frozen=True)
class StepMetric:
    """What `run.define_metric` said: the step metric of a metric, or of all whose names begin as `val/*` does."""

    pattern: str
    step_metric: str


@dataclass(frozen=True)
class RunFacts:
    """The run, as its own process knew it. `resumes`: the process asked to go on with an earlier one.

    `first_step` is W&B's first step in this file, 0 where it is not known; `back_to` the step of this same run to which
    it was rewound, or None; `config` what is short and not nested of its configuration; `title`
    what people call it.
    """

    run_id: str = ""
    entity: str = ""
    project: str = ""
    tags: tuple[str, ...] = ()
    first_step: int = 0
    resumes: bool = False
    back_to: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    title: str = ""


@dataclass(frozen=True)
class Config:
    """What was added to the configuration of the run later, as far as it is short and not nested."""

    values: Mapping[str, object]


@dataclass(frozen=True)
class Producer:
    """The W&B that writes the file: `0.31.0`."""

    version: str


@dataclass(frozen=True)
class Exit:
    """The run has ended, and said so."""

    code: int


Record = HistoryRow | SystemStats | StepMetric | RunFacts | Config | Producer | Exit


@dataclass
class Decoder:
    """From the bytes of a record to what it says. It remembers the spelling of keys, which come again in every row."""

    _names: dict[bytes, str] = field(default_factory=dict)

    def decode(self, data: bytes) -> Record | None:
        """What a record says; None for one of a kind that rules have no use for.

        Raises ValueError where the bytes are no such record.
        """
        try:
            return self._decode(data)
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise ValueError("no W&B record") from error

    def _decode(self, data: bytes) -> Record | None:
        at, end = 0, len(data)
        while at < end:
            tag, at = _varint(data, at)
            kind = tag >> 3
            stop = _after(data, at, tag & 7)
            if stop > end:
                raise ValueError("a field is longer than its record")
            if tag & 7 != 2:
                at = stop
                continue
            _, at = _varint(data, at)
            if kind == _HISTORY:
                return self._history(data, at, stop)
            read = _READERS.get(kind)
            if read is not None:
                return read(data[at:stop])
            at = stop
        return None

    def _history(self, data: bytes, at: int, end: int) -> HistoryRow:
        values: dict[str, float] = {}
        media: list[str] = []
        names = self._names
        step: int | None = None
        while at < end:
            tag = data[at]
            if tag not in (0x0A, 0x12):
                tag, at = _varint(data, at)
                at = _after(data, at, tag & 7)
                continue
            size = data[at + 1]
            at += 2
            if size > 127:
                size, at = _varint(data, at - 1)
            stop = at + size
            if stop > end:
                raise ValueError("an item is longer than its row")
            if tag == 0x12:
                step = _step(data[at:stop])
                at = stop
                continue
            # Nearly always: a key of one part below 128 bytes, then a short JSON number, and no more.
            length = data[at + 1] if size > 4 else size
            value_at = at + 2 + length
            if value_at + 3 < stop and length < 128 and data[value_at] == 0x82 and data[value_at + 1] == 1:
                spelled = data[at:value_at]
                name = names.get(spelled)
                if name is None:
                    name = names[spelled] = _name(spelled)
                if value_at + 3 + data[value_at + 2] == stop:
                    try:
                        values[name] = float(data[value_at + 3 : stop])
                    except ValueError:
                        _put(values, media, name, data[value_at + 3 : stop].decode())
                    at = stop
                    continue
            _put_item(values, media, data[at:stop])
            at = stop
        for prefix in media:
            for name in [name for name in values if name.startswith(prefix)]:
                del values[name]
        time = values.pop("_timestamp", math.nan)
        own = values.pop("_step", None)
        values.pop("_runtime", None)
        return HistoryRow(values, int(own) if step is None and own is not None else step, time)


def _name(spelled: bytes) -> str:
    return ".".join(value.decode() for kind, value in _fields(spelled) if isinstance(value, bytes))


def _put_item(values: dict[str, float], media: list[str], item: bytes) -> None:
    """One key and its value, in the old spelling (`key`) or the new (`nested_key`), as JSON or typed."""
    key, nested, text = "", [], None
    typed: object = None
    for kind, value in _fields(item):
        if isinstance(value, bytes):
            if kind == _KEY:
                key = value.decode()
            elif kind == _NESTED_KEY:
                nested.append(value.decode())
            elif kind == _NUMBER:
                typed = _DOUBLE.unpack(value)[0]
            elif kind == _TEXT:
                typed = value.decode()
            elif kind in (_JSON, _VALUE_JSON):
                text = value.decode()
        elif kind == _INTEGER:
            typed = (value >> 1) ^ -(value & 1)
        elif kind == _BOOLEAN:
            typed = bool(value)
    name = key or ".".join(nested)
    if typed is None and text is not None:
        _put(values, media, name, text)
        return
    if name.endswith(_MEDIA) and isinstance(typed, str):
        media.append(name[: -len(_MEDIA) + 1])
    found = number(typed)
    if found is not None:
        values[name] = found


def _put(values: dict[str, float], media: list[str], name: str, text: str) -> None:
    """A value in JSON: a number, a word for one, a mapping of them, or what is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    if name.endswith(_MEDIA):
        media.append(name[: -len(_MEDIA) + 1])
    if isinstance(value, Mapping):
        values.update(flatten({name: value}))
        return
    found = number(value)
    if found is not None:
        values[name] = found


def _step(data: bytes) -> int:
    return next((_signed(value) for kind, value in _fields(data) if kind == 1 and isinstance(value, int)), 0)


def _stats(data: bytes) -> SystemStats:
    values: dict[str, float] = {}
    for kind, item in _fields(data):
        if kind == 3 and isinstance(item, bytes):
            found: dict[str, float] = {}
            _put_item(found, [], item)
            values.update({f"system.{name}": value for name, value in found.items()})
    return SystemStats(values)


def _metric(data: bytes) -> StepMetric | None:
    texts = {kind: value.decode() for kind, value in _fields(data) if isinstance(value, bytes) and kind in (1, 2, 4)}
    is_expanded = any(kind == 10 and value for kind, value in _fields(data))
    if 4 not in texts or is_expanded:
        return None
    return StepMetric(texts.get(2) or texts.get(1, ""), texts[4])


def _run(data: bytes) -> RunFacts:
    texts: dict[int, str] = {}
    numbers: dict[int, int] = {}
    tags: list[str] = []
    branch: dict[int, str | float] = {}
    config: dict[str, object] = {}
    for kind, value in _fields(data):
        if not isinstance(value, bytes):
            numbers[kind] = _signed(value)
        elif kind in (1, 2, 3, 8):
            texts[kind] = value.decode()
        elif kind == 10:
            tags.append(value.decode())
        elif kind == 4:
            config = _config(value)
        elif kind == 23:
            branch = {
                inner: _DOUBLE.unpack(at)[0] if inner == 2 else at.decode()
                for inner, at in _fields(value)
                if isinstance(at, bytes)
            }
    run_id = texts.get(1, "")
    is_rewound = branch.get(1) == run_id and branch.get(3, "_step") == "_step"
    return RunFacts(
        run_id,
        texts.get(2, ""),
        texts.get(3, ""),
        tuple(tags),
        first_step=max(0, numbers.get(14, 0)),
        resumes=bool(numbers.get(18) or numbers.get(24)),
        back_to=int(branch.get(2, 0)) if is_rewound else None,
        config=config,
        title=texts.get(8, ""),
    )


def _config(data: bytes) -> dict[str, object]:
    found: dict[str, object] = {}
    for kind, item in _fields(data):
        if kind != 1 or not isinstance(item, bytes):
            continue
        texts = [(inner, text) for inner, text in _fields(item) if isinstance(text, bytes)]
        keys = [text.decode() for inner, text in texts if inner in (_KEY, _NESTED_KEY)]
        value = next((text for inner, text in texts if inner == _VALUE_JSON), b"")
        if len(keys) == 1 and len(value) <= _SHORT:
            with contextlib.suppress(ValueError):
                found[keys[0]] = json.loads(value)
    return found


def _exit(data: bytes) -> Exit:
    return Exit(next((_signed(value) for kind, value in _fields(data) if kind == 1 and isinstance(value, int)), 0))


def _header(data: bytes) -> Producer:
    for kind, info in _fields(data):
        if kind == 1 and isinstance(info, bytes):
            for inner, value in _fields(info):
                if inner == 1 and isinstance(value, bytes):
                    return Producer(value.decode().partition("+")[0])
    return Producer("")


_READERS: dict[int, Callable[[bytes], Record | None]] = {
    _CONFIG: lambda data: Config(_config(data)),
    _STATS: _stats,
    _METRIC: _metric,
    _RUN: _run,
    _EXIT: _exit,
    _HEADER: _header,
}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers as they are on the wire, all else as its bytes."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        stop = _after(data, at, wire)
        if wire == 2:
            _, at = _varint(data, at)
        if stop > end:
            raise ValueError("a field is longer than its message")
        yield tag >> 3, data[at:stop]
        at = stop


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _after(data: bytes, at: int, wire: int) -> int:
    if wire == 0:
        return _varint(data, at)[1]
    if wire == 1:
        return at + 8
    if wire == 5:
        return at + 4
    if wire == 2:
        size, at = _varint(data, at)
        return at + size
    raise ValueError("no such wire type")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
