"""A writer of `.wandb` files for tests, apart from the product's own reader, through W&B's own messages."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2 as messages

BLOCK = 32 * 1024
BEGINNING = b":W&B\xe1\xbe\x00"


def framed(payloads: Iterable[bytes]) -> bytes:
    """Records in blocks of 32 KiB, as LevelDB's log writer puts them."""
    out = bytearray(BEGINNING)
    for payload in payloads:
        rest, is_first = payload, True
        while is_first or rest:
            room = BLOCK - len(out) % BLOCK
            if room < 7:
                out += bytes(room)
                room = BLOCK
            part, rest = rest[: room - 7], rest[room - 7 :]
            kind = (2 if rest else 1) if is_first else (3 if rest else 4)
            out += struct.pack("<IHB", zlib.crc32(bytes([kind]) + part), len(part), kind) + part
            is_first = False
    return bytes(out)


def history(values: Mapping[str, Any], step: int | None, time: float = 1000.0, typed: bool = False) -> bytes:
    """A row of flat keys. `step` None: as a W&B that leaves counting to the reader writes it."""
    record = messages.Record()
    for key, value in {**values, "_timestamp": time, **({} if step is None else {"_step": step})}.items():
        item = record.history.item.add(nested_key=key.split(".") if isinstance(value, dict) else [key])
        if not typed:
            item.value_json = json.dumps(value)
        elif value is None:
            item.none = 0
        elif isinstance(value, bool):
            item.boolean = value
        elif isinstance(value, int):
            item.integer = value
        elif isinstance(value, float):
            item.number = value
        elif isinstance(value, str):
            item.text = value
        else:
            item.json = json.dumps(value)
    if step is not None:
        record.history.step.num = step
    return record.SerializeToString()


def header(version: str = "0.31.0") -> bytes:
    record = messages.Record()
    record.header.version_info.producer = f"{version}+0123abc"
    return record.SerializeToString()


def run(run_id: str, **fields: Any) -> bytes:
    """The run itself; `branch` is `(run id, step)` of what it was forked from or rewound to."""
    branch = fields.pop("branch", None)
    record = messages.Record(run=messages.RunRecord(run_id=run_id, **fields))
    if branch is not None:
        record.run.branch_point.run, record.run.branch_point.value = branch
        record.run.branch_point.metric = "_step"
    return record.SerializeToString()


def step_metric(pattern: str, key: str) -> bytes:
    record = messages.Record()
    if pattern.endswith("*"):
        record.metric.glob_name = pattern
    else:
        record.metric.name = pattern
    record.metric.step_metric = key
    return record.SerializeToString()


def stats(**values: float) -> bytes:
    record = messages.Record()
    for key, value in values.items():
        record.stats.item.add(key=key, value_json=json.dumps(value))
    return record.SerializeToString()


def output(size: int) -> bytes:
    """Console output, which rules have no use for."""
    record = messages.Record()
    record.output_raw.line = "x" * size
    return record.SerializeToString()


def end(code: int = 0) -> bytes:
    record = messages.Record()
    record.exit.exit_code = code
    record.exit.runtime = 5
    return record.SerializeToString()


def write(
    folder: Path, run_id: str, payloads: Iterable[bytes], stamp: str = "20260101_120000", online: bool = True
) -> Path:
    """A run's file where W&B puts it: `folder/run-STAMP-ID/run-ID.wandb`."""
    inside = folder / f"{'' if online else 'offline-'}run-{stamp}-{run_id}"
    inside.mkdir(parents=True, exist_ok=True)
    file = inside / f"run-{run_id}.wandb"
    file.write_bytes(framed(payloads))
    return file
