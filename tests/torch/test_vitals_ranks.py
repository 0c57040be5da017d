"""Several processes under DistributedDataParallel measure what one process does on the whole batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torch.nets import loss_of, net, words

torch = pytest.importorskip("torch")
from vitalsdsl_torch.vitals import Vitals  # noqa: E402

from vitalsdsl.errors import UsageError  # noqa: E402

HOME = Path(__file__).parents[2]
PATHS = os.pathsep.join([str(HOME), str(HOME / "integrations"), os.environ.get("PYTHONPATH", "")])


def test_two_processes_measure_what_one_does(tmp_path: Path) -> None:
    model = net(tied=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    vitals = Vitals(model, optimizer, every={"grad_groups": 1, "grad_share": 1, "param_norm": 1})
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, words(step, rows=8)).backward()
        vitals.clip_grad_norm_(0.5)
        optimizer.step()
        alone = vitals.step()
    command = [sys.executable, "-m", "tests.torch.ranks"]
    started = [
        subprocess.Popen(
            [*command, str(rank), "2", str(tmp_path / "meeting")],
            stdout=subprocess.PIPE,
            cwd=HOME,
            env={**os.environ, "PYTHONPATH": PATHS},
        )
        for rank in range(2)
    ]
    found = [json.loads(one.communicate(timeout=120)[0].splitlines()[-1]) for one in started]
    compared = [name for name in alone if name.startswith(("grad_", "param_", "clip_"))]
    assert len(compared) > 20
    for name in compared:
        assert found[0][name] == found[1][name] == pytest.approx(alone[name], rel=1e-4, abs=1e-9), name
    assert found[0]["collector/hook_dead"] == 0 and "act/layer0/mean" in found[0]
    assert found[0]["tokens"] == 3 * 36  # its own only
    assert "gns" not in found[0]


def test_sharded_parameters_are_refused() -> None:
    model = torch.nn.Linear(2, 2)
    model.weight.placements = ("Shard(0)",)  # what tells a DTensor from a tensor
    with pytest.raises(UsageError, match="sharded"):
        Vitals(model, torch.optim.SGD(model.parameters(), lr=0.1))
