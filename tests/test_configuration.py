"""vitals.toml: what it says, where it is found, and what is wrong with it in words of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from vitalsdsl.configuration import (
    Assigned,
    Channel,
    Configuration,
    configuration,
    files,
    home_here,
    known_channels,
    looked_in,
    settings_of,
)
from vitalsdsl.ground.errors import UsageError

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
    "chanels = {}": "there is no setting `chanels`; did you mean `channels`?",
    "xyz = 1": "there is no setting `xyz`; there are `home`, `channels`, `policies`",
    '[[policies]]\npolicy = "a.vitals"': "`policies.1.target` is missing",
    '[[policies]]\npolicy = "a.vitals"\ntargets = "mlflow:x"': "`policies.1.targets`; did you mean `target`?",
    '[[policies]]\npolicy = "a.vitals"\ntarget = "x"\nfolder = "b"': "there is no setting `policies.1.folder`",
    '[channels.team]\nurI = "env:A"': "there is no setting `channels.team.urI`; did you mean `url`?",
    '[channels.target]\nurl = "env:A"\nat_mots = "1 per day"': "`channels.target.at_mots`; did you mean `at_most`?",
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


LINES = {
    '# who\n\n[watch]\nretry = 3\n': 3,
    '[[policies]]\ntarget = "mlflow:x"\npolicy = "a"\n\n[[policies]]\n  project = "a"\npolicy = "b"\n': 6,
    'home = "a"\n[channels."my team"]\nurl = "https://hooks.slack.com/services/T0/B0/secret"\n': 3,
    'channels.bot.url = "env:A"\nchannels.bot.at_most = "ten"\n': 2,
    '[channels]\nbot = { url = "env:A", at_most = "ten" }\n': 2,
    '[channels.a]\nurl = "env:A"\n[channels.bot]\nsecret = "env:A"\n': 3,
    '[[policies]]\ntarget = "a:b"\npolicy = "p"\n[policies.tags]\nx = false\n': 1,
}  # fmt: skip


@pytest.mark.parametrize("text", LINES)
def test_a_mistake_is_said_with_its_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "vitals.toml").write_text(text)
    with pytest.raises(UsageError, match=rf"vitals\.toml:{LINES[text]}: ") as raised:
        configuration(tmp_path)
    assert "services/T0" not in str(raised.value)


def test_channels_are_known_where_a_file_is_there_even_one_that_names_none(tmp_path: Path) -> None:
    assert known_channels(tmp_path) is None
    (tmp_path / "vitals.toml").write_text("")
    assert known_channels(tmp_path) == frozenset()
    (tmp_path / "vitals.toml").write_text('[channels.bot]\nurl = "env:A"\nsecret = "keyring:vitals/bot"\n')
    assert known_channels(tmp_path) == {"bot"}
    assert configuration(tmp_path).channels["bot"].secret == "keyring:vitals/bot"


@pytest.mark.parametrize(
    ("title", "model"), [("Top level", Configuration), ("[channels.NAME]", Channel), ("[[policies]]", Assigned)]
)
def test_the_page_has_all_settings_and_no_other(title: str, model: type[BaseModel]) -> None:
    page = (Path(__file__).parents[1] / "docs" / "configuration.md").read_text("utf-8")
    part = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
    told = re.findall(r"^\| `(\w+)` \|([^|]*)\|", part, re.MULTILINE)
    assert [name for name, _ in told] == settings_of(model)
    required = [name for name, field in model.model_fields.items() if field.is_required()]
    assert [name for name, default in told if default.strip() == "must be given"] == required
    for name, default in told:
        field = model.model_fields[name]
        if isinstance(field.default, str):
            assert default.strip() == f"`{field.default}`"


def test_the_example_of_the_page_is_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "configuration.md").read_text("utf-8")
    (tmp_path / "vitals.toml").write_text(page.split("```toml\n")[1].split("```")[0])
    found = configuration(tmp_path)
    assert found.home == str(tmp_path / ".vitals") and list(found.channels) == ["team", "bot"]
    assert found.policies[0].reference == str(tmp_path / "policies/llm.vitals")


def test_where_a_setting_was_looked_for_is_said(tmp_path: Path) -> None:
    users = tmp_path / "config" / "vitals" / "vitals.toml"
    assert looked_in(tmp_path) == f", as there is no vitals.toml in {tmp_path} or above it, nor {users}"
    assert files(tmp_path) == []
    (tmp_path / "vitals.toml").touch()
    assert looked_in(tmp_path) == " in vitals.toml" and files(tmp_path) == [tmp_path / "vitals.toml"]


def test_a_policy_beside_the_folder_is_shown_without_detours(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "vitals.toml").write_text('[[policies]]\ntarget = "mlflow:x"\npolicy = "../b/p.vitals"\n')
    assert configuration(tmp_path / "a").policies[0].reference == f"{tmp_path}/b/p.vitals"
    (tmp_path / "far" / "b").mkdir(parents=True)
    (tmp_path / "far" / "b" / "p.vitals").touch()
    (tmp_path / "b" / "p.vitals").touch()
    (tmp_path / "far" / "in").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far" / "in")
    (tmp_path / "link" / "vitals.toml").write_text('[[policies]]\ntarget = "mlflow:x"\npolicy = "../b/p.vitals"\n')
    assert Path(configuration(tmp_path / "link").policies[0].reference).samefile(tmp_path / "far" / "b" / "p.vitals")
