"""What people write for runs of W&B without `wandb:`, and with it where a policy is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from vitalsdsl_wandb.library import PolicyLibrary
from vitalsdsl_wandb.references import claims

from vitalsdsl.ground.errors import SourceError, UsageError
from vitalsdsl.policies.policy import load

RUN = "run-20260131_120000-3kx9"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WANDB_BASE_URL", raising=False)
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run that was watched."""
    kept = tmp_path / "wandb" / RUN / "files" / "vitals" / "policy"
    kept.mkdir(parents=True)
    (kept / "llm.vitals").write_text("when loss > 3 -> red\n")
    (tmp_path / "wandb" / RUN / "run-3kx9.wandb").touch()
    return tmp_path / "wandb" / RUN


@pytest.mark.parametrize(
    "path", ["wandb", "./wandb", ".", f"wandb/{RUN}", f"wandb/{RUN}/run-3kx9.wandb", "{absolute}/wandb"]
)
def test_a_path_to_runs_needs_no_scheme(path: str, run: Path, tmp_path: Path) -> None:
    path = path.format(absolute=tmp_path)
    assert claims(path) == f"wandb:{path}"


def test_a_folder_for_runs_to_come_is_taken_and_any_other_is_not(tmp_path: Path) -> None:
    assert claims("wandb") == "wandb:./wandb" and claims("./wandb") == "wandb:./wandb"
    (tmp_path / "logs").mkdir()
    (tmp_path / "log.jsonl").touch()
    assert claims("logs") is claims("log.jsonl") is claims("nix/wandb") is claims("team/llm") is claims("a\0b") is None


@pytest.mark.parametrize("more", ["", "/", "/overview?nw=nwuser", "?nw=x", "#top"])
def test_the_address_of_a_run_is_taken_without_what_stands_behind_the_run(more: str) -> None:
    assert claims(f"https://wandb.ai/team/my%20llm/runs/3kx9{more}") == "wandb:https://wandb.ai/team/my%20llm/runs/3kx9"


def test_addresses_of_others_are_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert claims("http://host:5000/#/experiments/1/runs/0123456789abcdef0123456789abcdef") is None
    assert claims("https://example.org/logs/run.jsonl") is None
    assert claims("https://wandb.ai/team/llm") == "wandb:https://wandb.ai/team/llm"
    assert claims("https://own.org/team/llm/workspace") is None
    monkeypatch.setenv("WANDB_BASE_URL", "https://own.org")
    assert claims("https://own.org/team/llm/workspace") == "wandb:https://own.org/team/llm/workspace"


def test_the_policy_of_a_run_on_this_disk_is_had_with_and_without_the_scheme(run: Path) -> None:
    wanted = load("p", text="when loss > 3 -> red").digest
    for place in (f"./wandb/{RUN}", str(run), f"./wandb/{RUN}/run-3kx9.wandb"):
        assert load(place).digest == load(f"wandb:{place}").digest == wanted


def test_a_run_on_this_disk_without_a_policy_is_said_so(run: Path) -> None:
    (run / "files" / "vitals" / "policy" / "llm.vitals").unlink()
    with pytest.raises(SourceError, match="no policy is kept in .*: it was not watched"):
        PolicyLibrary().get(str(run))


def test_the_policy_of_a_page_on_another_server_is_not_asked_for() -> None:
    with pytest.raises(UsageError, match="this page is on own.org, but W&B is set to api.wandb.ai"):
        PolicyLibrary().get("https://own.org/team/llm/runs/3kx9")
