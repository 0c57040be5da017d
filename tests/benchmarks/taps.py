"""What a call of a tracker takes more for being watched: ten metrics, from the tap to the rules."""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.benchmarks.contest import Contender, Contest, Measured, outcomes
from tests.benchmarks.work import Work
from vitalsdsl.attaching.session import Monitor, watch
from vitalsdsl.policies.policy import LoadedPolicy, load

BEGAN = 1_700_000_000_000
WARM_UP = 600
"""Calls until the code for them is written and windows are full."""

Call = Callable[[int], object]
"""One call at a step."""


def _one_rule(work: Work) -> LoadedPolicy:
    return load("one", text="when m0 > 100 -> yellow")


def _port() -> Any:
    return SimpleNamespace(name="nobody", can=frozenset(), channels=frozenset())


def _dict(work: Work) -> Call:
    values, taken = work.values(), {}

    def call(step: int) -> None:
        for name, value in values[step].items():
            taken[name] = value

    return call


def _monitor(policy: Callable[[Work], LoadedPolicy]) -> Callable[[Work], Call]:
    def prepare(work: Work) -> Call:
        monitor: Monitor = watch(policy(work))
        values = work.values()
        return lambda step: monitor.log(values[step], step)

    return prepare


def _mlflow(policy: Callable[[Work], LoadedPolicy]) -> Callable[[Work], Call]:
    def prepare(work: Work) -> Call:
        from mlflow.entities import Metric
        from vitalsdsl_mlflow.attach import MlflowAttachment
        from vitalsdsl_mlflow.tap import instrument

        class Store:
            def log_batch(self, run_id: str, metrics: Any, params: Any, tags: Any) -> None:
                """Keeps nothing."""

        attachment = MlflowAttachment(policy(work))
        attachment._port = lambda run_id, store: _port()  # type: ignore[method-assign]
        store = Store()
        instrument(store, attachment)
        batches = [[Metric(k, v, BEGAN + step, step) for k, v in row.items()] for step, row in enumerate(work.values())]
        return lambda step: store.log_batch(run_id="r", metrics=batches[step], params=[], tags=[])

    return prepare


def _wandb(policy: Callable[[Work], LoadedPolicy]) -> Callable[[Work], Call]:
    def prepare(work: Work) -> Call:
        from vitalsdsl_wandb.attach import WandbAttachment

        attachment = WandbAttachment(policy(work))
        attachment._port = lambda run: _port()  # type: ignore[method-assign]
        run = SimpleNamespace(id="w", offline=True, url="", config={}, name="")
        values = work.values()
        return lambda step: attachment.logged(run, step, values[step], None, None)

    return prepare


def _fifty(work: Work) -> LoadedPolicy:
    return work.policy()


TAPS = (
    Contender("vitalsdsl without a tracker, one rule", _monitor(_one_rule)),
    Contender("vitalsdsl without a tracker, fifty rules", _monitor(_fifty)),
    Contender("vitalsdsl on MLflow's log_metrics, one rule", _mlflow(_one_rule), "mlflow"),
    Contender("vitalsdsl on MLflow's log_metrics, fifty rules", _mlflow(_fifty), "mlflow"),
    Contender("vitalsdsl on W&B's run.log, one rule", _wandb(_one_rule), "wandb"),
    Contender("vitalsdsl on W&B's run.log, fifty rules", _wandb(_fifty), "wandb"),
    Contender("limit: the ten values put into a dict", _dict, finds="nothing"),
)


def race_taps(rounds: int, calls: int) -> Contest:
    """Each makes its next calls by turns. The trackers' own methods do nothing, so what is measured is ours."""
    work = Work.made(WARM_UP + rounds * calls, short=50, long=500, healthy=True)
    there = [one for one in TAPS if one.is_installed]
    measured: Measured = {one.name: [] for one in there}
    with tempfile.TemporaryDirectory() as home:
        before, os.environ["VITALS_HOME"] = os.environ.get("VITALS_HOME"), home
        try:
            made: dict[str, Call] = {one.name: one.prepare(work) for one in there}
            for call in made.values():
                _calls(call, 0, WARM_UP)
            for n in range(rounds):
                begin = WARM_UP + n * calls
                for name, call in made.items():
                    measured[name].append(_calls(call, begin, begin + calls) / calls * 1e6)
        finally:
            os.environ.pop("VITALS_HOME")
            if before is not None:
                os.environ["VITALS_HOME"] = before
    return Contest("what a call of ten metrics takes more for being watched", outcomes(TAPS, measured), "us a call")


def _calls(call: Call, begin: int, end: int) -> float:
    """Seconds of this thread: what a library does in the background is not what a call waits for."""
    gc.collect()
    began = time.thread_time()
    for step in range(begin, end):
        call(step)
    return time.thread_time() - began
