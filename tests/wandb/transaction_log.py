"""What W&B wrote: a reader of `.wandb` files for tests, apart from the product's own, through W&B's own messages."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from wandb.proto import wandb_internal_pb2

BLOCK = 32 * 1024


def chunks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """LevelDB's log: blocks of 32 KiB, chunks of checksum, length and kind; W&B's own header before the first."""
    assert data[:4] in (b":W&B", b"")
    at = 7
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        if kind == 0:
            at += BLOCK - at % BLOCK
            continue
        if at + 7 + length > len(data):
            return  # it is being written
        yield kind, data[at + 7 : at + 7 + length]
        at += 7 + length


def records(path: Path) -> list[Any]:
    out, part = [], b""
    for kind, payload in chunks(path.read_bytes()):
        part = payload if kind in (1, 2) else part + payload
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(part)
            out.append(record)
    return out


def transaction_log(folder: Path, run_id: str) -> list[Any]:
    """The records of one finished run, wherever W&B put its file; its own process may still be writing."""
    (path,) = folder.rglob(f"run-{run_id}.wandb")
    until = time.monotonic() + 10
    while not of_kind(log := _so_far(path), "exit") and time.monotonic() < until:
        time.sleep(0.02)
    assert of_kind(log, "exit"), "W&B wrote no end of the run"
    return log


def _so_far(path: Path) -> list[Any]:
    try:
        return records(path)
    except DecodeError:  # read in the middle of a write
        return []


def history(log: list[Any]) -> list[tuple[int, dict[str, Any]]]:
    """Rows as (W&B's step, flat key to value), W&B's own keys left out."""
    out = []
    for record in log:
        if record.WhichOneof("record_type") == "history":
            row = {}
            for item in record.history.item:
                key = item.key or ".".join(item.nested_key)
                if not key.startswith("_"):
                    row[key] = json.loads(item.value_json)
            out.append((record.history.step.num, row))
    return out


def of_kind(log: list[Any], kind: str) -> list[Any]:
    return [getattr(record, kind) for record in log if record.WhichOneof("record_type") == kind]


def config(log: list[Any]) -> dict[str, Any]:
    """The run's configuration as it is in the end."""
    out: dict[str, Any] = {}
    for update in [run.config for run in of_kind(log, "run")] + of_kind(log, "config"):
        for item in update.update:
            _put(out, item)
    return out


def summary(log: list[Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for update in of_kind(log, "summary"):
        for item in update.update:
            _put(out, item)
    return out


def _put(out: dict[str, Any], item: Any) -> None:
    keys = [item.key] if item.key else list(item.nested_key)
    for key in keys[:-1]:
        out = out.setdefault(key, {})
    out[keys[-1]] = json.loads(item.value_json)
