"""`vitals watch` over a real server, killed at random moments: the small form of `tests/trials/kills.py`."""

from __future__ import annotations

import random
from pathlib import Path

from tests.trials import kills, scene


def test_watchers_that_are_killed_ask_once_tell_all_and_leave_the_lists_whole(
    tmp_path: Path, server: scene.Server
) -> None:
    folder, hook, reckoning = tmp_path / "scene", scene.Hook(), scene.Reckoning()
    scene.prepare(folder)
    round_ = kills.Round(
        folder,
        hook,
        server.uri,
        server.uri,
        "killed",
        ("one", "two"),
        "mlflow:",
        runs=1,
        steps=150,
        pause=0.05,
        quiet=2.0,
    )
    assert round_.play(4, random.Random(5)) == 4
    round_.reckon(reckoning)
    assert reckoning.wrong == []
    assert reckoning.counts["requests"] > 0 and reckoning.counts["alerts due (artifact)"] > 0
