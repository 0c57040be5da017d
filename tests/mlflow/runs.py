"""What the tests of the MLflow integration share: a policy, points, and the three ways to the same transitions."""

from __future__ import annotations

import importlib.util
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("mlflow") is None:
    if os.environ.get("CI"):
        raise RuntimeError("mlflow is not installed, and nothing may be skipped here")
    pytest.skip("mlflow is not installed", allow_module_level=True)

from vitalsdsl_mlflow import read

from vitalsdsl import replay
from vitalsdsl.policies.policy import LoadedPolicy, load

POLICY = """\
vitals 1
policy watched "For tests"

metric loss = "train/loss"
metric accuracy = "eval/accuracy" optional

rule loss_high {
  when loss > 3 for 2 steps -> orange -> red after 3 steps
  because "loss is {loss:.2f}"
}
rule accuracy_low { when accuracy < 0.5 -> yellow }
"""

LOSSES = [1.0, 2.0, 4.0, 4.5, 5.0, 5.0, 5.0, 5.0, 1.0, 1.0]
"""Above 3 from step 2: orange at 3, red at 6 (three steps after orange), green when it is over."""

CHANGES = [("loss_high", 3, "green", "orange"), ("loss_high", 6, "orange", "red"), ("loss_high", 9, "red", "green")]
"""What POLICY says of LOSSES, logged at steps 0 to 9, worked out by hand: two steps to fire, two to clear."""

BEGAN = 1_700_000_000_000
"""A time in milliseconds; points a second apart keep their order in any store."""


def policy_file(folder: Path, text: str = POLICY, name: str = "watched.vitals") -> Path:
    file = folder / name
    file.write_text(text, "utf-8")
    return file


def load_policy(text: str = POLICY) -> LoadedPolicy:
    return load("watched", text=text)


def recorded(
    client: Any, run: str, path: str = "vitals/transitions.jsonl", folder: Path | None = None
) -> list[dict[str, Any]]:
    """The lines of one of our artifacts; none where it is not there."""
    if all(file.path != path for file in client.list_artifacts(run, "vitals")):
        return []
    text = Path(client.download_artifacts(run, path)).read_text("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def short(transitions: list[dict[str, Any]]) -> list[tuple[str, int, str, str]]:
    return [(t["rule"], t["step"], t["from"], t["to"]) for t in transitions]


def again(policy: LoadedPolicy, run: str) -> list[dict[str, Any]]:
    """The transitions of the run as MLflow gives it back."""
    (recording,) = read(run)
    found = replay(policy, recording.events, run=run, total_steps=recording.info.total_steps)
    return [t.as_dict() for t in found]


def of_rows(policy: LoadedPolicy, run: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The transitions of the rows as the test logged them."""
    return [t.as_dict() for t in replay(policy, rows, run=run)]


def rows_of(losses: list[float], first: int = 0) -> list[dict[str, Any]]:
    return [{"step": first + at, "train/loss": loss} for at, loss in enumerate(losses)]


def assert_same(client: Any, policy: LoadedPolicy, run: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Live, read back, and as logged: the same transitions, to the last field."""
    live = recorded(client, run)
    assert live == again(policy, run)
    assert live == of_rows(policy, run, rows)
    return live


def vitals_tags(client: Any, run: str) -> dict[str, str]:
    return {k: v for k, v in client.get_run(run).data.tags.items() if k.startswith("vitals.")}


NON_FINITE = [1.0, math.nan, 1.0, math.inf, 1.0, -math.inf, 1.0, math.inf, math.inf, 4.0, 1.0, 1.0]
