"""A tracking server that keeps no points: what it answers is worked out from how long its runs have gone on.

It stands in for MLflow's where that would take all of the machine: a fleet of hundreds of runs for half an hour of their
own time. It answers as MLflow 3.17 does, samples included; that a real server gives the same is tested elsewhere.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from vitalsdsl_mlflow.rest import NotThere

from tests.mlflow.watching import wave

BEGAN = 1_700_000_000_000

LATE_S = 4


class GrowingServer:
    """What `vitalsdsl_mlflow.rest.Rest` is to a server: `runs` runs of `metrics` metrics that log a step every `every`
    seconds, and run n begins `apart` steps after run n - 1. `now` is their time in seconds; `asked` counts the calls.

    `quiet` runs log no more after a minute. With `late`, one point in forty comes four seconds late.
    """

    uri = "http://memory"

    def __init__(
        self, runs: int, metrics: int, *, every: float = 2.0, apart: int = 0, quiet: int = 0, late: bool = True
    ) -> None:
        self.ids = [f"{number:032x}" for number in range(runs)]
        self.keys = [f"m/{number}" for number in range(metrics)]
        self.every = every
        self.now = 0.0
        self.is_over = False
        self.asked: Counter[str] = Counter()
        self._number = {run: number for number, run in enumerate(self.ids)}
        self._ahead = [number * apart for number in range(runs)]
        self._quiet = quiet
        self._tags: dict[str, dict[str, str]] = {}
        self._artifacts: dict[str, bytes] = {}
        self._has_late = late

    def steps(self, run: str) -> range:
        """The steps that a run has taken up to now."""
        number = self._number[run]
        seconds = min(self.now, 60.0) if number < self._quiet else self.now
        return range(1, 1 + self._ahead[number] + math.floor(seconds / self.every))

    def time(self, run: str, step: int) -> int:
        return BEGAN + round(1000 * self.every * (step - self._ahead[self._number[run]]))

    def _shown(self, run: str, key: str, step: int) -> bool:
        is_late = self._has_late and (step * 31 + self.keys.index(key) * 7 + self._number[run]) % 40 == 0
        return not is_late or self.is_over or self.time(run, step) <= BEGAN + 1000 * (self.now - LATE_S)

    def points(self, run: str, key: str, first: int = 1, last: int | None = None) -> list[dict[str, Any]]:
        steps = self.steps(run)
        stop = steps.stop if last is None else min(steps.stop, last + 1)
        return [self._point(run, key, step) for step in range(max(1, first), stop) if self._shown(run, key, step)]

    def _point(self, run: str, key: str, step: int) -> dict[str, Any]:
        value = wave(self.keys.index(key), step)
        written = (
            "NaN" if math.isnan(value) else math.copysign(1.7976931348623157e308, value) if math.isinf(value) else value
        )
        return {"key": key, "value": written, "step": str(step), "timestamp": str(self.time(run, step)), "run_id": run}

    def _run(self, run: str) -> dict[str, Any]:
        latest = []
        for key in self.keys:
            step = self.steps(run).stop - 1
            while step > 0 and not self._shown(run, key, step):
                step -= 1
            latest += [self._point(run, key, step)] if step else []
        info = {"run_id": run, "experiment_id": "1", "start_time": BEGAN + self._number[run],
                "status": "FINISHED" if self.is_over else "RUNNING", "lifecycle_stage": "active",
                "artifact_uri": f"mlflow-artifacts:/1/{run}/artifacts"}  # fmt: skip
        tags = [{"key": key, "value": value} for key, value in self._tags.get(run, {}).items()]
        return {"info": info, "data": {"metrics": latest, "tags": tags}}

    # ---------------------------------------------------------------- what is asked

    def get(self, call: str, **asked: Any) -> dict[str, Any]:
        self.asked[call] += 1
        answer: Callable[..., dict[str, Any]] = getattr(
            self, call.replace("mlflow", "").replace("/", "_").replace("-", "_")
        )
        return answer(**asked)

    def post(self, call: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked[call] += 1
        if call == "mlflow/runs/set-tag":
            self._tags.setdefault(body["run_id"], {})[body["key"]] = body["value"]
            return {}
        if call == "mlflow/runs/log-batch":
            self._tags.setdefault(body["run_id"], {}).update({tag["key"]: tag["value"] for tag in body["tags"]})
            return {}
        if call == "mlflow/runs/delete-tag":
            if self._tags.get(body["run_id"], {}).pop(body["key"], None) is None:
                raise NotThere(f"there is no tag {body['key']}")
            return {}
        return {"runs": [self._run(run) for run in self.ids if not (self.is_over and "RUNNING" in body["filter"])]}

    def version(self) -> tuple[int, ...]:
        return (3, 17, 2)

    def upload(self, path: str, content: bytes) -> None:
        self.asked["artifacts"] += 1
        self._artifacts[path] = content

    def download(self, path: str) -> bytes:
        if path not in self._artifacts:
            raise NotThere(f"there is no {path}")
        return self._artifacts[path]

    def close(self) -> None: ...

    def _experiments_get_by_name(self, experiment_name: str) -> dict[str, Any]:
        return {"experiment": {"experiment_id": "1"}}

    def _runs_get(self, run_id: str) -> dict[str, Any]:
        return {"run": self._run(run_id)}

    def _metrics_get_history(
        self, run_id: str, metric_key: str, max_results: int, page_token: str = ""
    ) -> dict[str, Any]:
        offset = json.loads(base64.b64decode(page_token))["offset"] if page_token else 0
        return {"metrics": self.points(run_id, metric_key)[offset : offset + max_results]}

    def _metrics_get_history_bulk_interval(
        self, run_ids: list[str], metric_key: str, start_step: int, end_step: int, max_results: int
    ) -> dict[str, Any]:
        assert len(run_ids) <= 100
        found = []
        for run in run_ids:
            points = self.points(run, metric_key, start_step, end_step)
            apart = max(1, math.ceil(len(points) / max_results))
            found += points[::apart]
        return {"metrics": found}
