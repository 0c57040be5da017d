"""vitals.toml: what it says, where it is found, and what is wrong with it in words of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from vitalsdsl.configuration import configuration, home_here, known_channels
from vitalsdsl.errors import UsageError

WHOLE = """
home = "kept"

[channels.team]
url = "env:TEAM_URL"
at_most = "10 per hour"

[[policies]]
target = "mlflow:experiments/llm-*"
tags = { team = "nlp", baseline = true }
policy = "policies/llm.vitals"
profile = "big"
set = { k = 2.5 }

[[policies]]
target = "wandb:team/project"
policy = "pack:core"
"""


@pytest.fixture(autouse=True)
def _no_file_of_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_all_that_it_can_say_is_found_from_a_folder_below(tmp_path: Path) -> None:
    (tmp_path / "vitals.toml").write_text(WHOLE)
    (tmp_path / "a" / "b").mkdir(parents=True)
    found = configuration(tmp_path / "a" / "b")
    assert found.home == str(tmp_path / "kept")
    assert found.channels["team"].rate == (10, 3600.0)
    first, second = found.policies
    assert first.reference == str(tmp_path / "policies/llm.vitals")
    assert first.wanted_tags == {"team": "nlp", "baseline": None}
    assert dict(first.set) == {"k": 2.5}
    assert second.reference == "pack:core"


def test_the_home_is_as_given_or_in_the_environment_or_here_or_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this order, so that a training that is started by a command has the home that was given to the command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VITALS_HOME", raising=False)
    assert home_here() == Path(".vitals")
    (tmp_path / "vitals.toml").write_text('home = "kept"\n')
    assert home_here() == tmp_path / "kept"
    monkeypatch.setenv("VITALS_HOME", "set")
    assert home_here() == Path("set")
    assert home_here("given") == Path("given")


def test_the_projects_file_stands_over_the_users(tmp_path: Path) -> None:
    user, project = tmp_path / "config" / "vitals", tmp_path / "project"
    user.mkdir(parents=True)
    project.mkdir()
    (user / "vitals.toml").write_text('[channels.me]\nurl = "keyring:vitals/me"\n[channels.team]\nurl = "env:MINE"\n')
    assert set(configuration(project).channels) == {"me", "team"}
    (project / "vitals.toml").write_text('[channels.team]\nurl = "env:OURS"\n')
    found = configuration(project).channels
    assert {name: channel.url for name, channel in found.items()} == {"me": "keyring:vitals/me", "team": "env:OURS"}


def test_no_file_is_no_configuration(tmp_path: Path) -> None:
    assert configuration(tmp_path).policies == ()


WRONG = {
    "chanels = {}": "there is no setting `chanels`",
    '[[policies]]\npolicy = "a.vitals"': "`policies.1.target` is missing",
    '[channels.team]\nurl = "https://hooks.slack.com/services/T0/B0/secret"': "say where the address is kept",
    '[channels.team]\nurl = "env:A"\nsecret = "the-secret"': "say where the secret is kept, not the secret",
    '[channels.team]\nsecret = "env:A"': "`channels.team.url` is missing",
    '[channels.team]\nurl = "env:A"\nat_most = "often"': "write it as `10 per hour`",
    "home = 3": "`home` is of the wrong kind",
    '[[policies]]\ntarget = "a:b"\npolicy = "p"\ntags = { x = false }': "`policies.1.tags.x",
    "home =": "Invalid value",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_with_it_is_said_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "vitals.toml").write_text(text)
    with pytest.raises(UsageError, match="vitals.toml") as raised:
        configuration(tmp_path)
    assert WRONG[text] in str(raised.value)
    assert "services/T0" not in str(raised.value) and "the-secret" not in str(raised.value)


def test_channels_are_known_where_a_file_is_there_even_one_that_names_none(tmp_path: Path) -> None:
    assert known_channels(tmp_path) is None
    (tmp_path / "vitals.toml").write_text("")
    assert known_channels(tmp_path) == frozenset()
    (tmp_path / "vitals.toml").write_text('[channels.bot]\nurl = "env:A"\nsecret = "keyring:vitals/bot"\n')
    assert known_channels(tmp_path) == {"bot"}
    assert configuration(tmp_path).channels["bot"].secret == "keyring:vitals/bot"
