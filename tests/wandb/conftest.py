"""Real offline runs of W&B, in a folder of their own."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from vitalsdsl_wandb import feed, remote
from vitalsdsl_wandb.tap import wandb_module

from tests.wandb.server import Server
from vitalsdsl.attaching.session import Monitor

attach_module = importlib.import_module("vitalsdsl_wandb.attach")

Seen = dict[str, list[tuple[int, dict[str, float]]]]


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that W&B and the journals write to; whatever is running or attached is ended after the test."""
    for name, value in {"MODE": "offline", "SILENT": "true", "DIR": str(tmp_path)}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "vitals"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    wandb = wandb_module()
    if wandb.run is not None:
        wandb.finish()
    for attachment in tuple(attach_module._attached):
        attachment.detach()
    wandb.teardown()  # it reads its environment once


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """What monitors are given: by run, step and values."""
    rows: Seen = {}
    original = Monitor.take

    def take(self: Monitor, values: Any, step: Any = None, **options: Any) -> Any:
        rows.setdefault(self.run, []).append((step, dict(values)))
        return original(self, values, step, **options)

    monkeypatch.setattr(Monitor, "take", take)
    return rows


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of W&B on the loopback, to which all programs of W&B in this test are set."""
    with Server() as server:
        for name in ("NETRC", "WANDB_CONFIG_DIR", "WANDB_APP_URL", "WANDB_IDENTITY_TOKEN_FILE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {**server.environment(), "WANDB_DIR": str(tmp_path), "HOME": str(tmp_path)}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("VITALS_HOME", str(tmp_path / "vitals"))
        monkeypatch.chdir(tmp_path)
        yield server


@pytest.fixture
def online(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The same, for runs that are logged by W&B itself, which sends them every second."""
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_X_FILE_STREAM_TRANSMIT_INTERVAL", "1")
    yield server
    wandb = wandb_module()
    if wandb.run is not None:
        wandb.finish()
    for attachment in tuple(attach_module._attached):
        attachment.detach()
    wandb.teardown()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of seven points."""
    monkeypatch.setattr(feed, "MOST_POINTS", 7)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that reading a recorded run makes, not slept."""
    slept: list[float] = []
    monkeypatch.setattr(remote, "_sleep", slept.append)
    return slept
