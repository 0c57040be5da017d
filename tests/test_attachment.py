"""A policy over the runs of a process, with a tracker in memory: several policies on one run, runs taken up again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vitalsdsl.acting.journal import journal_of
from vitalsdsl.acting.memory import Memory
from vitalsdsl.attaching.attachment import Attachment
from vitalsdsl.attaching.saved_state import state_path
from vitalsdsl.attaching.session import Monitor
from vitalsdsl.attaching.sharing import Sharing
from vitalsdsl.ground.home import home_of
from vitalsdsl.language.rules import Level
from vitalsdsl.policies.policy import LoadedPolicy, load

HOUSE = "when loss > 3 for 2 steps -> orange do alert, tag"
TEAM = "rule loss_orange { when loss > 9 -> red do alert, tag }\nwhen grad_norm > 5 -> yellow do alert, tag"


def policy(text: str = HOUSE, name: str = "house") -> LoadedPolicy:
    return load(name, text=text)


def watched(attachment: Attachment, port: Memory, run: str = "run") -> Monitor:
    monitor = attachment.monitor(run, lambda: port)
    assert monitor is not None
    return monitor


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


# ---------------------------------------------------------------- several policies


def test_of_two_policies_on_one_run_the_tag_shows_the_worst(home: Path) -> None:
    sharing, port = Sharing(), Memory()
    attachments = [Attachment(policy(), sharing), Attachment(policy(TEAM, "team"), sharing)]
    monitors = [watched(attachment, port) for attachment in attachments]
    for step, row in enumerate([{"loss": 5.0}, {"loss": 5.0, "grad_norm": 1.0}, {"loss": 5.0, "grad_norm": 9.0}]):
        for monitor in monitors:
            monitor.log(row, step)
    attachments[1].end("run")
    attachments[0].end("run")
    assert port.level is Level.ORANGE
    assert port.firing == {"loss_orange": "orange@1", "grad_norm_yellow": "yellow@2"}
    assert sorted(t.rule for t in port.transitions) == ["grad_norm_yellow", "loss_orange"]
    assert sorted(port.policies.values()) == sorted([HOUSE, TEAM])
    assert sorted(path.name for path in home.rglob("*.jsonl")) == ["house.journal.jsonl", "team.journal.jsonl"]


def test_of_two_rules_of_one_name_the_worse_one_shows() -> None:
    sharing, port = Sharing(), Memory()
    attachments = [Attachment(policy(TEAM, "team"), sharing), Attachment(policy(), sharing)]
    for step in range(3):
        for attachment in attachments:
            watched(attachment, port).log({"loss": 10.0}, step)
    for attachment in attachments:
        attachment.end("run")
    assert port.firing == {"loss_orange": "red@0"} and port.level is Level.RED


def test_what_one_policy_decided_holds_nothing_back_in_another(home: Path) -> None:
    """Their journals are apart: a cooldown, a budget or a silence is its own policy's."""
    sharing, port = Sharing(), Memory()
    slow = HOUSE.replace("when", "rule loss_orange { cooldown 500 steps when") + " }"
    for text, name in ((slow, "house"), (slow.replace("> 3", "> 4"), "team")):
        attachment = Attachment(policy(text, name), sharing)
        for step in range(3):
            watched(attachment, port).log({"loss": 5.0}, step)
        attachment.end("run")
    assert len(port.alerts) == 2


def test_two_settings_of_one_policy_have_a_journal_each(home: Path) -> None:
    sharing, port = Sharing(), Memory()
    for limit in (3, 4):
        text = f"param k = {limit}\nwhen loss > k for 2 steps -> orange do alert, tag"
        attachment = Attachment(policy(text), sharing)
        watched(attachment, port).log({"loss": 5.0}, 0)
        watched(attachment, port).log({"loss": 5.0}, 1)
    assert len(list(home.rglob("*.jsonl"))) == 2


def test_a_policy_that_is_detached_leaves_the_level_to_the_others() -> None:
    sharing, port = Sharing(), Memory()
    house, team = Attachment(policy(), sharing), Attachment(policy(TEAM, "team"), sharing)
    watched(house, port).log({"loss": 5.0}, 0)
    watched(house, port).log({"loss": 5.0}, 1)
    watched(team, port).log({"grad_norm": 9.0}, 0)
    house.detach()
    assert port.level is Level.ORANGE
    watched(team, port).log({"grad_norm": 1.0}, 1)
    team.end("run")
    assert port.level is Level.GREEN and port.firing == {}


def test_a_run_that_begins_again_has_a_port_of_its_own() -> None:
    attachment = Attachment(policy())
    ports = [Memory(), Memory()]
    for port in ports:
        watched(attachment, port).log({"loss": 5.0}, 0)
        attachment.end("run")
        attachment.resume("run")
    assert [list(port.policies.values()) for port in ports] == [[HOUSE], [HOUSE]]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not list open files")
def test_runs_that_are_over_hold_no_file_open(home: Path) -> None:
    attachment = Attachment(policy())
    for run in range(20):
        for step in range(2):
            watched(attachment, Memory(), f"run-{run}").log({"loss": 5.0}, step)
        attachment.end(f"run-{run}")
    opened = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]  # noqa: PTH208
    assert [path for path in opened if path.startswith(str(home))] == []
    assert len(list(home.rglob("*.jsonl"))) == 20


def test_the_journal_is_that_of_a_watcher_from_outside(home: Path) -> None:
    """So that what either has answered is not answered by the other."""
    watched(Attachment(policy()), Memory(), "run 1").log({"loss": 1.0}, 0)
    assert [*home.rglob("*.jsonl")] == [journal_of(home, "run 1", "house")]


@pytest.mark.parametrize(("said", "place"), [('home = "kept"', "kept"), ("home = ", ".vitals")])
def test_vitals_toml_says_where_a_training_keeps_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, place: str
) -> None:
    """There `vitals ack` and `silence` look for it; a file that cannot be read keeps no training from being watched."""
    monkeypatch.delenv("VITALS_HOME")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vitals.toml").write_text(f"{said}\n")
    assert Attachment(policy()).home == tmp_path / place


def test_a_script_that_changes_its_folder_keeps_its_journal(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VITALS_HOME", "kept")
    monkeypatch.chdir(tmp_path)
    attachment = Attachment(policy())
    (tmp_path / "elsewhere").mkdir()
    os.chdir(tmp_path / "elsewhere")
    for step in range(2):
        watched(attachment, Memory()).log({"loss": 5.0}, step)
    attachment.end("run")
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.jsonl")] == ["kept/run/house.journal.jsonl"]


def test_points_that_no_rule_read_are_said_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    attachment = Attachment(policy())
    for step in (5, 6, 3, 4, 7):
        watched(attachment, Memory()).log({"loss": 1.0}, step)
    attachment.end("run")
    assert caplog.text.count("2 points came after their step had closed") == 1


# ---------------------------------------------------------------- runs taken up again


def train(
    port: Memory,
    losses: list[float],
    first: int = 0,
    state: dict[str, object] | None = None,
    crashes: bool = True,
) -> Monitor:
    """A process of its own that logs some steps of the run. Where it crashes, the state of its rules is lost."""
    attachment = Attachment(policy())
    monitor = watched(attachment, port)
    if state is not None:
        monitor.load(state)
    for step, loss in enumerate(losses, start=first):
        monitor.log({"loss": loss}, step)
    attachment.end("run")
    if crashes:
        state_path(attachment.home, "run", "house").unlink()
    return monitor


def changes(port: Memory) -> list[tuple[int, int, str, str]]:
    return [(t.attempt, t.step, t.to.word, t.reason) for t in port.transitions]


def test_a_run_that_is_taken_up_further_back_is_answered_again(caplog: pytest.LogCaptureFixture) -> None:
    port = Memory()
    train(port, [1, 1, 5, 5, 5])
    train(port, [1, 5, 5, 5], first=1)
    assert changes(port) == [
        (0, 3, "orange", "condition"), (1, 0, "green", "superseded"), (1, 3, "orange", "condition"),
    ]  # fmt: skip
    assert [alert.level.word for alert in port.alerts] == ["orange", "green", "orange"]
    assert caplog.text.count("goes on at step 1, after a change at step 3: without their saved state") == 1


def test_a_run_that_is_taken_up_where_it_stopped_begins_no_attempt_and_its_tag_is_true() -> None:
    port = Memory()
    train(port, [1, 1, 5, 5, 5])
    train(port, [1, 1], first=5)
    assert changes(port) == [(0, 3, "orange", "condition"), (0, 4, "green", "superseded")]
    assert port.level is Level.GREEN and [alert.level.word for alert in port.alerts] == ["orange", "green"]


def test_a_run_that_is_taken_up_with_its_state_goes_on_as_if_nothing_had_been(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = Memory()
    state = train(port, [1, 1, 5, 5]).save()
    train(port, [5, 1, 1], first=4, state=state)
    assert changes(port) == [(0, 3, "orange", "condition"), (0, 6, "green", "condition")]
    assert "goes on" not in caplog.text


def test_the_state_path_the_rules_outlasts_the_process(caplog: pytest.LogCaptureFixture) -> None:
    port = Memory()
    for first, losses in ((0, [1, 1, 5]), (3, [5, 5]), (5, [1, 1])):
        train(port, losses, first, crashes=False)
    assert changes(port) == [(0, 3, "orange", "condition"), (0, 6, "green", "condition")]
    assert not [record for record in caplog.records if "orange" not in record.message]


def test_a_state_that_is_further_than_the_checkpoint_counts_no_more(caplog: pytest.LogCaptureFixture) -> None:
    port = Memory()
    train(port, [1, 1, 5, 5, 5], crashes=False)
    train(port, [1, 5, 5, 5], first=1, crashes=False)
    assert changes(port) == [
        (0, 3, "orange", "condition"), (1, 0, "green", "superseded"), (1, 3, "orange", "condition"),
    ]  # fmt: skip
    assert caplog.text.count("run run goes back to step 1: its rules start anew there") == 1


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"version": 1}'])
def test_a_state_that_is_damaged_or_anothers_is_none(damage: str) -> None:
    port = Memory()
    monitor = train(port, [1, 1, 5, 5], crashes=False)
    state_path(home_of().absolute(), monitor.run, "house").write_text(damage)
    train(port, [5, 5], first=4, crashes=False)
    assert changes(port)[-2:] == [(0, 3, "green", "superseded"), (0, 5, "orange", "condition")]


def test_a_state_path_further_back_begins_an_attempt() -> None:
    port = Memory()
    state = train(port, [1, 1]).save()
    train(port, [5, 5], first=2)
    train(port, [5, 5], first=2, state=state)
    assert changes(port)[-2:] == [(1, 1, "green", "superseded"), (1, 3, "orange", "condition")]
    assert [alert.level.word for alert in port.alerts] == ["orange", "green", "orange"]


def test_what_the_policy_does_not_read_takes_up_nothing() -> None:
    """A score that a later process logs to a run, at no step, changes no tag."""
    port = Memory()
    train(port, [1, 1, 5, 5])
    attachment = Attachment(policy())
    watched(attachment, port).log({"test_accuracy": 0.9}, 0)
    attachment.end("run")
    assert port.level is Level.ORANGE and len(port.transitions) == 1


def test_a_second_process_joins_a_run_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    port = Memory()
    train(port, [1, 1, 5, 5])
    monkeypatch.setattr("vitalsdsl.acting.journal.is_alive", bool)
    train(port, [1, 1, 5, 5])
    assert changes(port) == [(0, 3, "orange", "condition")]


def test_the_third_attempt_follows_the_second() -> None:
    port = Memory()
    for _ in range(3):
        train(port, [1, 5, 5])
    assert [t.attempt for t in port.transitions if t.to is Level.ORANGE] == [0, 1, 2]


def test_each_alert_is_a_line_where_the_training_prints(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    attachment = Attachment(policy('rule hot { when loss > 3 -> orange cooldown 100 steps because "it is {loss}" }'))
    monitor = watched(attachment, Memory())
    for step, loss in enumerate([1.0, 4.0, 4.0, 1.0, 4.0]):
        monitor.log({"loss": loss}, step=step)
    attachment.end_all()
    lines = [record.message for record in caplog.records if "orange" in record.message]
    assert lines == ["vitals: run run: step 1: orange: hot: it is 4"]
