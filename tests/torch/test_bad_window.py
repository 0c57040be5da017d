"""Why the data is kept and the window passed over: what each answer to thirty bad batches costs.

`python -m tests.trials.bad_window` makes the table of docs/guard.md, over twenty seeds.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bad_windows import ANSWERS, KEPT, PASSED, REWOUND, RIDE, train


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_keeping_the_data_and_passing_over_the_window_has_the_fewest_bad_steps(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))
    found = {answer: train(answer, seed, tmp_path / answer.replace(" ", "-").replace(",", "")) for answer in ANSWERS}
    bad = {answer: outcome.bad_steps for answer, outcome in found.items()}
    print(found)
    assert bad[PASSED] == 0
    # 20 bad batches are left at the trip; with the data rewound all 30 come once more.
    assert 20 <= bad[KEPT] <= bad[RIDE] + 5 < bad[REWOUND]
    # It costs the 35 batches since the checkpoint, and with the window passed the 20 that were left of it.
    assert [found[answer].left_out for answer in ANSWERS] == [0, 0, 35, 55]
