"""A policy over the runs of a process, with a tracker in memory: several policies on one run, runs taken up again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vitalsdsl.attachment import Attachment
from vitalsdsl.memory import Memory
from vitalsdsl.policy import LoadedPolicy, load
from vitalsdsl.rules import Level
from vitalsdsl.session import Monitor
from vitalsdsl.sharing import Sharing

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
