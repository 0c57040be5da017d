"""Runs for lints that ask what runs say: series in the notation of tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vitalsdsl.ground.points import Row, RunInfo
from vitalsdsl.language.rules import Policy
from vitalsdsl.language.series import points
from vitalsdsl.lints.runs import Runs, Tries
from vitalsdsl.trial import Trial


def tried_on(runs: Sequence[Mapping[str, tuple[str, int]]], healthy: bool = True) -> Tries:
    """Runs of so many metrics, each a series in the notation of tests and the steps between two of its points."""

    def tries(policy: Policy) -> Runs:
        trial = Trial(policy)
        for place, metrics in enumerate(runs):
            rows: dict[int, dict[str, float]] = {}
            for name, (series, every) in metrics.items():
                for step, value in points(series, "seed"):
                    rows.setdefault(step * every, {})[name] = value
            trial.take(RunInfo(f"run{place}"), [Row(step, rows[step]) for step in sorted(rows)], healthy)
        return trial.result()

    return tries
