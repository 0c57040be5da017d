"""From a rule to a channel and back into the journal; where secrets are kept; the entry point."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from acting import R, Y, change, dispatcher
from click.testing import CliRunner
from sending import alert, port
from vitalsdsl_notify import Channels, channels

from vitalsdsl import channels as core
from vitalsdsl.acting.journal import Journal
from vitalsdsl.acting.tracker import Port
from vitalsdsl.cli.app import vitals
from vitalsdsl.configuration import Channel
from vitalsdsl.ground.errors import MissingExtraError, UsageError
from vitalsdsl.policies.policy import load

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEAM = 'level yellow do notify("team")\nlevel red do notify("team")\nrule a { when loss > 3 -> yellow }'


class _Point:
    """The entry point, whether or not this folder has been installed since it is there."""

    def load(self) -> object:
        return channels


@pytest.fixture(autouse=True)
def _entry_point(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(core, "entry_points", lambda group: [_Point()] if group == "vitalsdsl.channels" else [])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


def test_the_project_declares_the_entry_point_and_the_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    name = project["project"]["entry-points"][core.GROUP]["notify"]
    module, _, function = name.partition(":")
    assert getattr(importlib.import_module(module), function) is channels
    extras = project["project"]["optional-dependencies"]
    assert set(extras["notify"]) <= set(extras["all"]) and set(extras["notify"]) <= set(extras["dev"])
    assert "integrations/vitalsdsl_notify" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


def test_loading_the_package_loads_no_apprise() -> None:
    code = "import sys, vitalsdsl_notify; print([m for m in ('apprise', 'keyring') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_rule_s_message_goes_out_and_what_is_held_back_is_done_in_the_journal_as_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver
) -> None:
    team = port(monkeypatch, f"{receiver.url}/t0ken", "s3cret", at_most="1 per hour")
    acts = dispatcher(TEAM, team, journal=Journal(tmp_path / "j"), start_worker=True)
    for at, step in enumerate((10, 20, 30)):
        acts.take([change("a", step, Y, message="high", member=str(at))])
    acts.take([change("a", 40, R, Y, message="worse", member="0")])
    assert acts.close(20.0)
    assert [got.json["title"] for got in receiver.received] == [
        "yellow: a (0) at step 10 (run)", "red: a (0) at step 40 (run)"]  # fmt: skip
    assert receiver.received[1].json["text"].splitlines()[-1].startswith("2 more since ")
    done = [line for line in lines(tmp_path / "j") if line["type"] == "done"]
    held = "held back: 1 messages in 3600 s have gone to `team`"
    assert [line.get("note") for line in done] == [None, held, held, None]
    assert Journal(tmp_path / "j").unfinished("run") == []
    text = (tmp_path / "j").read_text()
    assert "t0ken" not in text and "s3cret" not in text and str(receiver.port) not in text


def test_a_channel_that_fails_is_asked_again_and_one_that_refuses_for_good_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver, caplog: pytest.LogCaptureFixture
) -> None:
    team = port(monkeypatch, f"{receiver.url}/t0ken", "s3cret")
    acts = dispatcher(TEAM, team, journal=Journal(tmp_path / "j"), start_worker=True)
    receiver.statuses = [503]
    acts.take([change("a", 10, Y)])
    assert acts.flush(20.0)
    assert [got.json["id"] for got in receiver.received] == [change("a", 10, Y).id] * 2
    receiver.statuses = [404, 404]
    acts.take([change("a", 20, R, Y)])
    acts.take([change("a", 30, R, Y, member="1")])
    assert acts.close(20.0)
    assert len(receiver.received) == 4
    cannot = 'vitals: channels: cannot post `notify("team")`: channel `team`'
    assert [r.getMessage() for r in caplog.records if r.name == "vitalsdsl"] == [
        f"{cannot} cannot take messages now (503); trying again (said once)",
        f"{cannot} refuses messages (404): its address holds no longer (said once)",
    ]
    assert [line["type"] for line in lines(tmp_path / "j")].count("failed") == 2
    assert "t0ken" not in (tmp_path / "j").read_text() + caplog.text


AT_THE_END = """
import os, sys
from sending import alert
from vitalsdsl.configuration import Channel
from vitalsdsl_notify import Channels

team = Channels({"team": Channel(url="env:TEAM_URL", secret="env:TEAM_SECRET", at_most="1 per hour")})
for number in (1, 2, 3):
    team.notify("team", alert(number))
if os.fork() == 0:
    sys.exit()  # a child that was forked off tells nothing of its own
os.wait()
"""


def test_what_is_held_back_at_the_end_of_the_process_is_told_then(receiver) -> None:
    environment = {**os.environ, "TEAM_URL": receiver.url, "TEAM_SECRET": "s3cret"}
    folder = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_END], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [got.json["title"] for got in receiver.received] == [
        "orange: spike at step 1 (run-a)", "orange: 2 messages held back"]  # fmt: skip


# -------------------------------------------------------------------- where secrets are kept


def test_an_address_comes_from_the_keyring(monkeypatch: pytest.MonkeyPatch, receiver) -> None:
    kept = {("vitals", "team/slack"): f"{receiver.url}/t0ken", ("vitals", "secret"): "s3cret"}
    keyring = importlib.import_module("keyring")
    monkeypatch.setattr(keyring, "get_password", lambda service, user: kept.get((service, user)))
    Channels({"team": Channel(url="keyring:vitals/team/slack", secret="keyring:vitals/secret")}).notify("team", alert())
    assert receiver.received[0].path == "/t0ken"
    with pytest.raises(UsageError, match="the keyring holds nothing of vitals/nobody"):
        Channels({"team": Channel(url="keyring:vitals/nobody")})

    def locked(service: str, user: str) -> str:
        raise RuntimeError("t0ken")

    monkeypatch.setattr(keyring, "get_password", locked)
    with pytest.raises(UsageError, match=r"the keyring cannot be read here .RuntimeError.") as raised:
        Channels({"team": Channel(url="keyring:vitals/team")})
    assert "t0ken" not in str(raised.value) and raised.value.__context__ is None


def test_without_its_variable_a_channel_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEAM_URL", raising=False)
    with pytest.raises(UsageError, match="channel `team`: the environment variable TEAM_URL is not set"):
        core.channel_ports({"team": Channel(url="env:TEAM_URL")})


def test_without_the_package_the_message_is_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "entry_points", lambda group: [])
    with pytest.raises(MissingExtraError, match=r"pip install 'vitalsdsl\[notify\]'"):
        core.channel_ports({"team": Channel(url="env:TEAM_URL")})
    assert core.channel_ports({}) == []


# -------------------------------------------------------------------- at the start of a watch and of a training

TOML = '[channels.team]\nurl = "env:TEAM_URL"\nsecret = "env:TEAM_SECRET"\n[channels.other]\nurl = "env:NOT_SET"\n'


def test_a_training_uses_the_channels_that_its_policy_names_and_says_what_is_wrong_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "vitals.toml").write_text(TOML)
    monkeypatch.setenv("TEAM_URL", f"{receiver.url}/t0ken")
    monkeypatch.setenv("TEAM_SECRET", "s3cret")

    def reached(names: str) -> list[set[str]]:
        caplog.clear()
        text = f"when loss > 3 for 2 steps -> yellow do {names}"
        found: list[Port] = core.configured_ports(load("p", text=text).policy)
        return [set(one.channels) for one in found]

    assert reached('notify("team")') == [{"team"}] and not caplog.records
    assert reached("alert") == [] and not caplog.records
    assert reached('notify("team"), notify("other"), notify("nobody")') == [{"team"}]
    assert [r.getMessage() for r in caplog.records] == [
        "vitals: no channel `nobody` in vitals.toml: messages to it reach nobody",
        "vitals: no messages are sent to `other`: channel `other`: the environment variable NOT_SET is not set",
    ]
    (tmp_path / "vitals.toml").unlink()
    assert reached('notify("team")') == []
    assert f"no channel `team`, as there is no vitals.toml in {tmp_path} or above it, nor" in caplog.text


def call(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(vitals, list(words), prog_name="vitals")
    return done.exit_code, done.output


def test_check_warns_of_a_channel_that_vitals_toml_does_not_know(tmp_path: Path) -> None:
    policy = tmp_path / "p.vitals"
    policy.write_text('when loss > 3 for 2 steps -> yellow do notify("taem")\n')
    assert call("check", str(policy)) == (0, "1 file: no findings\n")
    (tmp_path / "vitals.toml").write_text(TOML)
    code, said = call("check", str(policy))
    assert code == 1 and "V608" in said and "did you mean `team`?" in said
    (tmp_path / "vitals.toml").write_text("nonsense")
    code, said = call("check", str(policy))
    assert code == 2 and "vitals.toml" in said and "Traceback" not in said
    policy.write_text("when loss > 3 for 2 steps -> yellow\n")
    assert call("check", str(policy))[0] == 0


# -------------------------------------------------------------------- doctor


def test_doctor_tells_whether_channels_have_what_they_need_and_never_what_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vitals.toml").write_text(TOML)
    monkeypatch.setenv("TEAM_URL", "https://host.example/t0ken")
    monkeypatch.setenv("TEAM_SECRET", "s3cret")
    code, said = call("doctor", "--format", "jsonl")
    found = {line["what"]: line for line in map(json.loads, said.splitlines())}
    assert code == 1
    assert found["channel team"]["state"] == "ok"
    assert found["vitals.toml"]["said"] == str(tmp_path / "vitals.toml")
    assert found["channel team"]["said"] == "env:TEAM_URL, signed with env:TEAM_SECRET, at most 30 per hour"
    assert found["channel other"]["state"] == "bad" and "NOT_SET is not set" in found["channel other"]["said"]
    assert "t0ken" not in said and "s3cret" not in said and "host.example" not in said
    monkeypatch.setattr(core, "entry_points", lambda group: [])
    code, said = call("doctor")
    assert code == 1 and "pip install 'vitalsdsl[notify]'" in said
    (tmp_path / "vitals.toml").unlink()
    code, said = call("doctor")
    assert code == 0 and "`notify` reaches nobody" in said
    assert f"none (optional), as there is no vitals.toml in {tmp_path} or above it" in said
    code, said = call("doctor", "--send-test", "team")
    assert code == 2 and f"there is no channel `team`, as there is no vitals.toml in {tmp_path} or above it" in said
    (tmp_path / "vitals.toml").write_text("channels = 3")
    code, said = call("doctor")
    assert code == 1 and "`channels` is of the wrong kind" in said


def test_doctor_sends_a_test_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver) -> None:
    (tmp_path / "vitals.toml").write_text(TOML)
    monkeypatch.setenv("TEAM_URL", f"{receiver.url}/t0ken")
    monkeypatch.setenv("TEAM_SECRET", "s3cret")
    assert call("doctor", "--send-test", "team") == (0, "a test message has been sent to team\n")
    assert receiver.received[0].json["title"].startswith("test: a message from vitals on ")
    receiver.statuses = [404]
    code, said = call("doctor", "--send-test", "team")
    assert (code, said) == (1, "channel `team` refuses messages (404): its address holds no longer\n")
    code, said = call("doctor", "--send-test", "taem")
    assert code == 2 and "there is no channel `taem` in vitals.toml; there are: `team`, `other`" in said
    code, said = call("doctor", "--send-test", "other")
    assert code == 2 and "NOT_SET is not set" in said and "Traceback" not in said
