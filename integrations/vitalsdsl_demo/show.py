"""Run the demo: train with a policy attached by an environment variable, then show what happened and replay it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from vitalsdsl import Transition, replay
from vitalsdsl.errors import MissingExtraError, VitalsError
from vitalsdsl.journal import journals_of
from vitalsdsl.policy import LoadedPolicy, load
from vitalsdsl.sources import read

HERE = Path(__file__).parent
Say = Callable[[str], None]


def run(folder: Path, say: Say) -> None:
    """The whole demo, in a folder of its own. Raises VitalsError where it cannot run or does not come out right."""
    for package in ("torch", "mlflow"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, "demo")
    folder.mkdir(parents=True, exist_ok=True)
    policy_file = folder / "demo.vitals"
    policy_file.write_text((HERE / "demo.vitals").read_text("utf-8"), "utf-8")
    policy = load(policy_file)
    say("Training a small language model in torch, logging to MLflow on sqlite. The script knows nothing of vitals:")
    say(f"  VITALS_POLICY=demo.vitals python {HERE.name}/train.py\n")
    began = time.monotonic()
    run_id = _train(folder)
    seconds = time.monotonic() - began
    _timeline(folder, run_id, say)
    _on_the_run(run_id, say)
    _replay(policy, run_id, folder, say)
    say(f"\nTrained in {seconds:.0f} s. Look at the run:")
    say(f"  {_program('mlflow')} server --backend-store-uri sqlite:///{(folder / 'mlflow.db').resolve()} --port 5000")
    say(f"Change {policy_file} and try it on the same run:")
    say(f"  MLFLOW_TRACKING_URI={_uri(folder)} {_program('vitals')} replay {policy_file} mlflow:{run_id}")


def _program(name: str) -> str:
    """A program of this environment as it has to be typed here: by its path, where the shell would not find it."""
    ours, found = Path(sys.executable).parent / name, shutil.which(name)
    if not ours.is_file() or (found is not None and Path(found).resolve() == ours.resolve()):
        return name
    return str(ours.relative_to(Path.cwd()) if ours.is_relative_to(Path.cwd()) else ours)


def _uri(folder: Path) -> str:
    return f"sqlite:///{(folder / 'mlflow.db').resolve()}"


def _train(folder: Path) -> str:
    environment = {
        **os.environ,
        "VITALS_POLICY": "demo.vitals",
        "MLFLOW_TRACKING_URI": _uri(folder),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "GIT_PYTHON_REFRESH": "quiet",
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "train.py")],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise VitalsError("the training script failed:\n" + "\n".join(done.stderr.strip().splitlines()[-8:]))
    os.environ["MLFLOW_TRACKING_URI"] = _uri(folder)
    runs = _client().search_runs(["0"], order_by=["attributes.start_time DESC"], max_results=1)
    return str(runs[0].info.run_id)


def _client() -> Any:
    return importlib.import_module("mlflow").MlflowClient()


def _timeline(folder: Path, run_id: str, say: Say) -> None:
    say("What the policy saw, and what was done:")
    done = {record["id"]: record for record in _journal(journals_of(run_id, folder / ".vitals")[0])}
    path = _client().download_artifacts(run_id, "vitals/transitions.jsonl")
    for line in Path(path).read_text("utf-8").strip().split("\n"):
        t = json.loads(line)
        say(f"  step {t['step']:>4}  {t['from']:>6} -> {t['to']:<6}  {t['rule']}: {t['message']}")
        record = done.get(t["id"], {})
        said = record.get("text") or record.get("why")
        if said and t["to"] != "green":
            say(f"{'':31}{said}")


def _journal(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text("utf-8").strip().split("\n"):
        record = json.loads(line)
        if record.get("type") in ("intent", "noted"):
            yield record


def _on_the_run(run_id: str, say: Say) -> None:
    client = _client()
    tags = {k: v for k, v in client.get_run(run_id).data.tags.items() if k.startswith("vitals.")}
    say(f"\nOn the run {run_id}:")
    for name in sorted(tags):
        say(f"  tag {name} = {tags[name].splitlines()[0][:100]}")
    for file in client.list_artifacts(run_id, "vitals"):
        say(f"  artifact {file.path}")


def _replay(policy: LoadedPolicy, run_id: str, folder: Path, say: Say) -> None:
    (recording,) = read(f"mlflow:{run_id}")
    again = replay(policy, recording.events, run=run_id, total_steps=recording.info.total_steps)
    live = Path(_client().download_artifacts(run_id, "vitals/transitions.jsonl")).read_text("utf-8").strip().split("\n")
    same = [json.loads(line)["id"] for line in live] == [t.id for t in again]
    if not same:
        raise VitalsError(f"the replay of {len(live)} transitions gave {len(again)} others: please report this")
    say(f"\nReplayed over the recorded metrics: the same {_count(again)}.")


def _count(transitions: list[Transition]) -> str:
    return f"{len(transitions)} transition{'s' * (len(transitions) != 1)}"
