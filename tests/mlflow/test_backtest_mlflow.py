"""A backtest over the runs of an experiment: each found without its points, and read by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from runs import CHANGES, LOSSES, policy_file

from vitalsdsl.backtesting.backtest import Backtest, backtest
from vitalsdsl.backtesting.kept import Kept
from vitalsdsl.cli.app import vitals


def changes(found: Backtest) -> list[list[tuple[str, int, str, str]]]:
    return [[(c.rule, c.step, c.from_.word, c.to.word) for c in run.changes] for run in found.runs]


def test_the_runs_of_an_experiment_are_judged_and_labelled_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    for name, losses in (("good", [1.0] * 10), ("bad", LOSSES)):
        run = client.create_run("0", run_name=name).info.run_id
        for step, loss in enumerate(losses):
            client.log_metric(run, "train/loss", loss, 1_700_000_000_000 + 1000 * step, step)
        client.set_terminated(run)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:mlruns")
    (tmp_path / "labels.csv").write_text("run,label,onset\ngood,healthy,\nbad,diverged,2\n")
    policy = policy_file(tmp_path)
    kept = Kept(tmp_path / "home")
    found = backtest(policy, "mlflow:experiments/Default", labels="labels.csv", kept=kept)
    assert [run.title for run in found.runs] == ["good", "bad"] and found.unread == ()
    assert changes(found) == [[], CHANGES]
    assert found.score is not None and found.score.incidents[0].is_found and not found.score.disturbances
    again = backtest(policy, "mlflow:experiments/Default", kept=kept)
    resumed = backtest(policy, "mlflow:experiments/Default", kept=Kept(tmp_path / "home", resume=True))
    assert (again.work.taken, resumed.work.taken, changes(resumed)) == (0, 2, changes(found))
    one = backtest(policy, f"mlflow:{found.runs[1].run}")
    assert changes(one) == [CHANGES]
    gone = CliRunner().invoke(vitals, ["backtest", str(policy), "mlflow:experiments/nix"])
    assert gone.exit_code == 2 and "there is no experiment called `nix`" in gone.stderr


def test_a_folder_of_runs_is_judged_run_by_run_whatever_server_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    other = client.create_experiment("other")
    for experiment, name, losses in (("0", "good", [1.0] * 10), ("0", "bad", LOSSES), (other, "short", [1.0] * 3)):
        run = client.create_run(experiment, run_name=name).info.run_id
        for step, loss in enumerate(losses):
            client.log_metric(run, "train/loss", loss, 1_700_000_000_000 + 1000 * step, step)
        client.set_terminated(run)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://host.invalid:5000")
    policy = policy_file(tmp_path)
    found = backtest(policy, "mlruns", jobs=2)
    assert found.unread == () and {run.title: len(run.changes) for run in found.runs} == {
        "good": 0, "bad": len(CHANGES), "short": 0,
    }  # fmt: skip
    assert [run.title for run in backtest(policy, f"mlruns/{other}").runs] == ["short"]
    bad = next(run.run for run in found.runs if run.title == "bad")
    assert changes(backtest(policy, f"mlruns/0/{bad}")) == [CHANGES]
