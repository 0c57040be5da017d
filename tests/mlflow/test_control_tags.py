"""The control channel as tags of a run: in every store of MLflow, through a watcher's and a person's commands."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import mlflow
import pytest
from click.testing import CliRunner
from mlflow.entities import Metric
from vitalsdsl_mlflow.control import RunTags, control
from vitalsdsl_mlflow.targets import store_of

from tests.mlflow.conftest import Server
from tests.mlflow.runs import BEGAN, LOSSES, rows_of
from vitalsdsl.acting.control import ControlFolder, control_of
from vitalsdsl.acting.tracker import Request
from vitalsdsl.cli.app import vitals as program
from vitalsdsl.ground.errors import RunGone, TrackerError, UsageError
from vitalsdsl.language.rules import Level

STORES = ("server", "sqlite", "folder")


def a_run(uri: str) -> str:
    """A finished run with some losses."""
    client = mlflow.MlflowClient(tracking_uri=uri)
    run = client.create_run("0").info.run_id
    client.log_batch(
        run, [Metric("loss", row["train/loss"], BEGAN + 1000 * row["step"], row["step"]) for row in rows_of(LOSSES)]
    )
    client.set_terminated(run)
    return str(run)


def request(id_: str = "id-1", **changes: Any) -> Request:
    return Request(**({
        "id": id_, "run": "a", "segment": 0, "seq": 1, "action": "pause", "level": Level.ORANGE, "rule": "hot",
        "member": None, "trip_step": 7, "onset": 5, "issued_at": 1000.0, "expires_at": 1600.0,
    } | changes))  # fmt: skip


@pytest.fixture(params=STORES)
def channel(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> RunTags:
    """The channel of a run that is there, in one of the stores."""
    if request.param == "server":
        where = request.getfixturevalue("server").uri
    elif request.param == "sqlite":
        where = request.getfixturevalue("uri")
    else:
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        where = str(folder / "mlruns")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", where)
    run = a_run(where)
    return RunTags(store_of(where), where, run)


def test_what_is_asked_is_there_once_in_order_with_its_answers(channel: RunTags) -> None:
    assert not channel.is_known
    channel.request(request("b", issued_at=2000.0))
    channel.request(request("a", reason="first"))
    channel.request(request("a", reason="second"))
    assert channel.is_known
    assert [(one.request["id"], one.request["reason"], one.state) for one in channel.asked()] == [
        ("a", "first", "open"), ("b", "", "open"),
    ]  # fmt: skip
    for state in ("received", "done"):
        channel.answer("a", {"id": "a", "state": state, "at_step": 12})
    assert [(one.request["id"], one.state) for one in channel.asked()] == [("a", "done"), ("b", "open")]


def test_a_request_comes_out_as_it_went_in(channel: RunTags) -> None:
    asked = request(reason="ünusual — “words”", evidence={"values": {"loss": "NaN", "a b/c": 1e300}}, params={"lr_factor": 0.9})  # fmt: skip
    channel.request(asked)
    assert [one.request for one in channel.asked()] == [json.loads(json.dumps(asked.as_dict()))]


def test_what_is_too_long_for_a_tag_goes_without_its_evidence(channel: RunTags) -> None:
    channel.request(request(reason="r" * 9_000, evidence={"values": {f"m{n}": 1.0 for n in range(2_000)}}))
    (one,) = channel.asked()
    assert one.request["action"] == "pause" and one.request["reason"].startswith("rrr")
    assert "evidence" not in one.request


def test_damage_and_other_peoples_tags_are_passed_over(channel: RunTags, caplog: pytest.LogCaptureFixture) -> None:
    hands = channel._hands
    hands.set_tag("vitals.request.bad", '{"id": "bad", "act')
    hands.set_tag("vitals.request.deep", "[" * 4_000)
    hands.set_tag("vitals.requests", "mine")
    channel.request(request("good"))
    hands.set_tag("vitals.answer.good", "no answer")
    for _ in range(2):
        assert [(one.request["id"], one.state) for one in channel.asked()] == [("good", "unreadable")]
    passed = [r.getMessage() for r in caplog.records if "passed over" in r.getMessage()]
    assert len(passed) == 3 and all("\n" not in line for line in passed)


def test_a_run_that_is_not_there_is_said(channel: RunTags) -> None:
    with pytest.raises(RunGone):
        RunTags(channel._store, channel._uri, "0" * 32).ask({"id": "a", "action": "pause"})


def test_a_server_that_is_down_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    with pytest.raises(TrackerError, match="nothing listens there"):
        list(control("a").asked())


def test_it_is_found_by_its_scheme(uri: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert isinstance(control_of("abc", "mlflow:"), RunTags)
    monkeypatch.setenv("VITALS_CONTROL", "mlflow:")
    assert isinstance(control_of("abc"), RunTags)
    assert isinstance(control_of("abc", "nothing:"), ControlFolder)  # a folder may be called so
    with pytest.raises(UsageError, match="write `mlflow:` alone: the run is abc"):
        control_of("abc", "mlflow:def")


def test_a_person_and_a_watcher_meet_there(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`vitals watch --control mlflow:` asks, `vitals requests` shows, `vitals resume` asks for the run to go on."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    run = a_run(server.uri)
    policy = folder / "hot.vitals"
    policy.write_text("policy hot\n\nrule hot {\n  when loss > 0.5 for 2 steps -> orange do pause\n}\n", "utf-8")
    runner = CliRunner()

    def said(*words: str) -> str:
        result = runner.invoke(program, list(words), prog_name="vitals", catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    said("watch", str(policy), f"mlflow:{run}", "--once", "--finished", "--control", "mlflow:")
    asked = said("requests", f"mlflow:{run}", "--control", "mlflow:")
    assert "open  pause by hot" in asked
    said("watch", str(policy), f"mlflow:{run}", "--once", "--finished", "--control", "mlflow:")
    assert said("requests", f"mlflow:{run}", "--control", "mlflow:") == asked
    assert "nothing has been asked" not in said(
        "resume", f"mlflow:{run}", "--because", "looks fine", "--control", "mlflow:"
    )
    assert ": looks fine" in said("requests", f"mlflow:{run}", "--control", "mlflow:")


def test_a_training_is_paused_over_the_tags_of_its_run(uri: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from vitalsdsl_torch import Guard
    from vitalsdsl_torch.exits import Paused

    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    run = a_run(uri)
    model = torch.nn.Linear(2, 1)
    guard = Guard(
        None, folder / "run", model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), allow=("pause",),
        run=run, control="mlflow:", poll=0.1,
    )  # fmt: skip
    channel = control(run)
    asked = threading.Thread(target=channel.ask, args=({"id": "p", "action": "pause", "reason": "lunch"},))
    until = time.monotonic() + 60
    with pytest.raises(Paused):
        for step in guard.steps(10**9):
            if step == 3:
                asked.start()
            guard.step({"loss": 1.0})
            assert time.monotonic() < until
            time.sleep(0.01)
    asked.join()
    (one,) = channel.asked()
    assert one.state == "done" and one.answer is not None and one.answer["result"]["paused"]


def test_a_guard_has_to_know_the_run_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from vitalsdsl_torch import Guard

    model = torch.nn.Linear(2, 1)
    with pytest.raises(UsageError, match="run=RUN_ID"):
        Guard(
            None, folder / "run", model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), control="mlflow:"
        )
