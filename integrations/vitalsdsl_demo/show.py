"""The demo: train with a guard round the loop, tell what happened, and hold it against the same training on clean data."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vitalsdsl import replay
from vitalsdsl.ground.errors import MissingExtraError, VitalsError
from vitalsdsl.policies.policy import load
from vitalsdsl.runs.sources import read
from vitalsdsl_demo.progress import Progress
from vitalsdsl_demo.story import event, told

HERE = Path(__file__).parent
Say = Callable[[str], None]

_EXPERIMENT = "vitals-demo"
STEPS = 340
POISONED = range(240, 280)
_POISON = event(0, POISONED.start + 1, "the first poisoned batch")

PAUSED = 75
"""The exit code by which a guard says that it paused the training."""

CLOSE_ENOUGH = 0.02
"""By how much, as a share, the poisoned run may end above the clean one."""


def run(folder: Path, say: Say, scenario: str = "rollback") -> None:
    """One scenario of `SCENARIOS`, in a folder. Raises VitalsError where it cannot run or does not come out right."""
    for package in ("torch", "mlflow"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, "demo")
    folder.mkdir(parents=True, exist_ok=True)
    for policy in HERE.glob("*.vitals"):
        (folder / policy.name).write_text(policy.read_text("utf-8"), "utf-8")
    os.environ.update(
        MLFLOW_TRACKING_URI=_uri(folder), MLFLOW_DISABLE_TELEMETRY="true", GIT_PYTHON_REFRESH="quiet",
        MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR="false", MLFLOW_LOGGING_LEVEL="WARNING",
    )  # fmt: skip
    began = time.monotonic()
    run_id, policy_file = SCENARIOS[scenario](folder, say)
    say(f"\nAll in {time.monotonic() - began:.0f} s. Look at the runs:")
    say(f"  {_program('mlflow')} server --backend-store-uri {_uri(folder)} --port 5000")
    say(f"Change {policy_file} and try it on the same run:")
    say(f"  MLFLOW_TRACKING_URI={_uri(folder)} {_program('vitals')} replay {policy_file} mlflow:{run_id}")


def _rollback(folder: Path, say: Say) -> tuple[str, Path]:
    say("A small language model in torch is trained twice at once, on clean data and on data in which batches")
    say(f"{POISONED.start} to {POISONED.stop - 1} are poisoned: noise where language should be. Both have a guard.\n")
    progress = Progress(STEPS)
    clean, poisoned = _Training(folder, "clean", progress), _Training(folder, "poisoned", progress)
    say(f"  $ {poisoned.typed('demo.vitals', POISONED)}")
    clean.start("demo.vitals")
    poisoned.start("demo.vitals", POISONED)
    try:
        for training in (clean, poisoned):
            training.end(0)
    finally:
        for training in (clean, poisoned):
            training.kill()
        progress.clear()
    say("")
    for line in told(poisoned.transitions, poisoned.history, [_POISON]):
        say(line)
    loss, without = poisoned.loss, clean.loss
    say(f"  step {STEPS:>4}  the end\n\nThe loss on held-out text in the end:")
    say(f"  on clean data     {without:.4f}   {_alarms(clean)}")
    say(f"  on poisoned data  {loss:.4f}   {abs(loss / without - 1):.1%} {'above' if loss > without else 'below'} it")
    if loss > (1 + CLOSE_ENOUGH) * without:
        raise VitalsError(f"the guarded run ended more than {CLOSE_ENOUGH:.0%} above the clean one: please report this")
    _on_the_run(poisoned, say)
    _replayed(poisoned, folder / "demo.vitals", say)
    return poisoned.id, folder / "demo.vitals"


def _pause(folder: Path, say: Say) -> tuple[str, Path]:
    say(f"A small language model in torch is trained; its batches from {POISONED.start} on are poisoned: noise where")
    say("language should be. With pause.vitals orange pauses the run, until a person has had a look.\n")
    progress = Progress(STEPS)
    training = _Training(folder, "paused", progress, VITALS_CONTROL=str((folder / "control").resolve()))
    say(f"  $ {training.typed('pause.vitals', POISONED)}")
    training.start("pause.vitals", POISONED)
    training.end(PAUSED)
    progress.clear()
    first = told(training.transitions, training.history, [_POISON])
    for line in first:
        say(line)
    say("\nThe person finds the broken batches, takes them out of the data, and gives the word:")
    control = ["--control", str(folder / "control")]
    _vitals(["resume", training.id, "--because", "the broken batches are taken out", *control], say)
    say("\nThe same script, started again, goes on from where it was:")
    say(f"  $ {training.typed('pause.vitals')}")
    training.start("pause.vitals")
    training.end(0)
    progress.clear()
    for line in told(training.transitions, training.history, [_POISON])[len(first) :]:
        say(line)
    say(f"  step {STEPS:>4}  the end; the loss on held-out text is {training.loss:.4f}\n")
    _vitals(["requests", training.id, *control], say)
    _on_the_run(training, say)
    _replayed(training, folder / "pause.vitals", say)
    return training.id, folder / "pause.vitals"


SCENARIOS: dict[str, Callable[[Path, Say], tuple[str, Path]]] = {"rollback": _rollback, "pause": _pause}


class _Training:
    """A run of train.py in a process of its own, with a run in MLflow and a folder for its guard."""

    def __init__(self, folder: Path, name: str, progress: Progress, **environment: str) -> None:
        self._folder, self._name, self._progress = folder, name, progress
        self._client = importlib.import_module("mlflow").MlflowClient()
        self.id = str(self._client.create_run(_experiment(self._client, folder), run_name=name).info.run_id)
        self._home = f"{name}-{self.id[:8]}"  # a demo may be run twice in one folder
        self._environment = {**os.environ, **environment, "MLFLOW_RUN_ID": self.id}
        self._process: subprocess.Popen[str] | None = None
        self._threads: list[threading.Thread] = []
        self._complaints: list[str] = []

    @property
    def history(self) -> Path:
        return self._folder / self._home / "history.jsonl"

    @property
    def transitions(self) -> list[dict[str, Any]]:
        """What the guard's rules saw, from the run's own record of it."""
        if all(file.path != "vitals/transitions.jsonl" for file in self._client.list_artifacts(self.id, "vitals")):
            return []
        text = Path(self._client.download_artifacts(self.id, "vitals/transitions.jsonl")).read_text("utf-8")
        return [json.loads(line) for line in text.splitlines()]

    @property
    def loss(self) -> float:
        """The newest on held-out text."""
        return float(self._client.get_run(self.id).data.metrics["eval/loss"])

    def typed(self, policy: str, poisoned: range = range(0)) -> str:
        """The command as a person would type it."""
        return " ".join(["python", f"{HERE.name}/train.py", *self._words(policy, poisoned)])

    def start(self, policy: str, poisoned: range = range(0)) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "train.py"), *self._words(policy, poisoned)], cwd=self._folder,
            env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._progress.begins(self._name)
        out, complaints = self._process.stdout, self._process.stderr
        self._complaints.clear()
        self._threads = [
            threading.Thread(target=self._progress.follow, args=(self._name, out), daemon=True),
            threading.Thread(target=self._complaints.extend, args=(complaints,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _words(self, policy: str, poisoned: range) -> list[str]:
        words = [policy, self._home, "--steps", str(STEPS)]
        return [*words, "--poisoned", str(poisoned.start), str(poisoned.stop)] if poisoned else words

    def end(self, expected: int) -> None:
        """Wait for the process. Raises VitalsError where it ends otherwise than expected."""
        assert self._process is not None
        for thread in self._threads:
            thread.join()
        self._process.wait()
        if self._process.returncode != expected:
            raise VitalsError("the training script failed:\n" + "".join(self._complaints[-8:]).rstrip())

    def kill(self) -> None:
        """End the process, should it still be there."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _experiment(client: Any, folder: Path) -> str:
    """Where the runs are, their artifacts in the demo's own folder."""
    found = client.get_experiment_by_name(_EXPERIMENT)
    if found is not None:
        return str(found.experiment_id)
    return str(client.create_experiment(_EXPERIMENT, (folder / "artifacts").resolve().as_uri()))


def _alarms(training: _Training) -> str:
    found = len(training.transitions)
    return f"{found} alarm{'s' * (found != 1)}" if found else "no alarm"


def _on_the_run(training: _Training, say: Say) -> None:
    """What is left for those who look later."""
    client = importlib.import_module("mlflow").MlflowClient()
    tags = {k: v for k, v in client.get_run(training.id).data.tags.items() if k.startswith("vitals.")}
    say(f"\nOn the run {training.id}:")
    for name in sorted(tags):
        say(f"  tag {name} = {tags[name].splitlines()[0][:100]}")
    for file in client.list_artifacts(training.id, "vitals"):
        say(f"  artifact {file.path}")
    say(f"  beside its checkpoints, what the guard did: {training.history}")


def _replayed(training: _Training, policy_file: Path, say: Say) -> None:
    """The rules give the same over what MLflow has recorded, or else VitalsError is raised."""
    (recording,) = read(f"mlflow:{training.id}")
    again = replay(load(policy_file), recording.events, run=training.id, total_steps=STEPS)
    if [t["id"] for t in training.transitions] != [t.id for t in again]:
        raise VitalsError(f"a replay gave {len(again)} other transitions: please report this")
    say(f"\nReplayed over the recorded metrics: the same {len(again)} transitions.")


def _vitals(words: Sequence[str], say: Say) -> None:
    """A command as a person types it, and what it says."""
    say("  $ vitals " + " ".join(f'"{word}"' if " " in word else word for word in words))
    done = subprocess.run(
        [sys.executable, "-m", "vitalsdsl", *words], capture_output=True, text=True, check=False
    )  # fmt: skip
    if done.returncode:
        raise VitalsError(done.stderr.strip())
    for line in done.stdout.splitlines():
        say(f"  {line}")


def _program(name: str) -> str:
    """A program of this environment as it has to be typed here: by its path, where the shell would not find it."""
    ours, found = Path(sys.executable).parent / name, shutil.which(name)
    if not ours.is_file() or (found is not None and Path(found).resolve() == ours.resolve()):
        return name
    return str(ours.relative_to(Path.cwd()) if ours.is_relative_to(Path.cwd()) else ours)


def _uri(folder: Path) -> str:
    return f"sqlite:///{(folder / 'mlflow.db').resolve()}"
