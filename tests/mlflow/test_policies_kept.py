"""Policies that MLflow keeps: those of runs, judged again from the run alone, and those of the prompt registry."""

from __future__ import annotations

import json
import logging
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result
from vitalsdsl_mlflow import attach, library
from vitalsdsl_mlflow.library import PolicyLibrary

from tests.mlflow.runs import LOSSES, recorded, short, vitals_tags
from tests.mlflow.test_on_the_run import log
from vitalsdsl import PolicyError, load
from vitalsdsl.cli.app import vitals
from vitalsdsl.ground.errors import MissingExtraError, SourceError, TrackerError, UsageError
from vitalsdsl.policies import references
from vitalsdsl.policies.references import Kept

BRACES = 'rule r {\n  when loss > 3 -> red\n  because "{{x}} {loss:.2f} {{y}}"\n}\n'


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library as the wheel declares it, whatever is installed here."""
    point = EntryPoint("mlflow", "vitalsdsl_mlflow.library:PolicyLibrary", references.GROUP)
    monkeypatch.setattr(references, "schemes", lambda: {"mlflow": point})


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(vitals, list(map(str, words)), prog_name="vitals")


def watched(client: Any, policy: Any, **options: Any) -> str:
    attachment = attach(policy, **options)
    run: str = client.create_run("0").info.run_id
    log(client, run, LOSSES)
    client.set_terminated(run)
    attachment.detach()
    return run


@pytest.fixture
def in_parts(folder: Path) -> Path:
    """A policy with a file that it uses, a param and a profile."""
    (folder / "common.vitals").write_text(
        'metric loss = "train/loss"\nparam k = 2\nphase warm = step < 2\n'
        "rule high { when loss > k for 2 steps -> orange -> red after 3 steps }\n"
    )
    (folder / "llm.vitals").write_text(
        'use "common.vitals" with k = 2.5\nprofile loose { k = 3 }\nwhen warm and loss > 0.5 -> yellow do tag\n'
    )
    return folder / "llm.vitals"


# -------------------------------------------------------------------- runs


def test_a_run_is_judged_again_by_its_own_copy_when_all_files_are_gone(client: Any, in_parts: Path) -> None:
    run = watched(client, in_parts, profile="loose")
    whole = load(in_parts, profile="loose")
    for file in in_parts.parent.glob("*.vitals"):
        file.unlink()
    live = recorded(client, run)
    assert [t for t in short(live) if t[0] == "high"] == [
        ("high", 3, "green", "orange"), ("high", 6, "orange", "red"), ("high", 9, "red", "green"),
    ]  # fmt: skip
    result = call("replay", "--policy-of", f"mlflow:{run}", f"mlflow:{run}", "--format", "jsonl")
    assert result.exit_code == 0 and result.stderr == ""
    assert [json.loads(line) for line in result.stdout.splitlines()] == live
    assert call("replay", "--policy-of", f"mlflow:{run}", "--format", "jsonl").stdout == result.stdout
    again = load(f"mlflow:{run}")
    assert again.digest == whole.digest == again.noted_digest == vitals_tags(client, run)["vitals.digest"]
    assert (again.name, again.file) == ("llm", "llm.vitals")
    assert "param k = 3" in call("policy", "show", f"mlflow:{run}").stdout


def test_two_runs_are_compared_in_words(client: Any, in_parts: Path) -> None:
    one, other = watched(client, in_parts), watched(client, in_parts, settings={"k": 4})
    result = call("policy", "diff", f"mlflow:{one}", f"mlflow:{other}")
    assert result.exit_code == 1
    assert result.stdout == "param k: 2.5 -> 4 (read by high)\n"
    assert call("policy", "diff", f"mlflow:{one}", in_parts).exit_code == 0


def test_a_run_under_two_policies_is_asked_for_one_of_them(client: Any, folder: Path) -> None:
    attach(load("one", text='when "train/loss" > 3 -> red'))
    run = watched(client, load("two", text='when "train/loss" > 4 -> red'))
    with pytest.raises(PolicyError, match="V074") as caught:
        load(f"mlflow:{run}")
    assert f"mlflow:{run}/one.vitals, mlflow:{run}/two.vitals" in str(caught.value)
    assert load(f"mlflow:{run}/one.vitals").digest == load("one", text='when "train/loss" > 3 -> red').digest
    with pytest.raises(PolicyError, match=r"keeps no nix.vitals"):
        load(f"mlflow:{run}/nix.vitals")


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"\xff\xfe", "is not UTF-8 text"), (b"when loss > -> red", "V0"), (b"#" * (2_000_001 * 4), "it is no policy")],
    ids=["not text", "broken", "huge"],
)
def test_a_hostile_copy_is_refused(data: bytes, said: str, client: Any, folder: Path) -> None:
    run = client.create_run("0").info.run_id
    (folder / "llm.vitals").write_bytes(data)
    client.log_artifact(run, str(folder / "llm.vitals"), "vitals/policy")
    with pytest.raises(PolicyError) as caught:
        load(f"mlflow:{run}")
    assert said in str(caught.value)


def test_a_run_that_was_not_watched_or_is_not_there_is_said_so(client: Any) -> None:
    run = client.create_run("0").info.run_id
    assert "it was not watched" in call("policy", "show", f"mlflow:{run}").output
    gone = call("replay", "--policy-of", "mlflow:0123456789abcdef0123456789abcdef", "-")
    assert gone.exit_code == 2 and "V074" in gone.output and "Traceback" not in gone.output


# -------------------------------------------------------------------- the prompt registry


class Heard(logging.Handler):
    """What MLflow says meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record.getMessage())


def test_a_policy_goes_to_the_registry_and_comes_back_unharmed(client: Any, folder: Path) -> None:
    (folder / "llm.vitals").write_text(BRACES)
    talk = logging.getLogger("mlflow")
    level, heard = talk.level, Heard()
    talk.addHandler(heard)
    pushed = call("policy", "push", folder / "llm.vitals", "mlflow:policies/llm@prod")
    talk.removeHandler(heard)
    assert heard.records == [] and talk.level == level
    assert pushed.exit_code == 0 and "version 1 of policy llm; prod is version 1" in pushed.stdout
    for reference in ("policies/llm@prod", "policies/llm@1", "policies/llm"):
        assert PolicyLibrary().get(reference).text == BRACES
        assert load(f"mlflow:{reference}").digest == load(folder / "llm.vitals").digest
    assert client.get_prompt_version("llm", 1).template == BRACES
    assert call("policy", "pull", "mlflow:policies/llm@prod", folder / "mine.vitals").exit_code == 0
    assert (folder / "mine.vitals").read_text() == BRACES


def test_looks_make_no_new_version_and_an_alias_goes_back(client: Any, folder: Path) -> None:
    def push(text: str, alias: str) -> str:
        (folder / "llm.vitals").write_text(text)
        result = call("policy", "push", folder / "llm.vitals", f"mlflow:policies/llm{alias}")
        assert result.exit_code == 0, result.output
        return result.stdout

    assert "version 1" in push("when loss > 3 -> red\n", "@prod")
    assert "version 1 of policy llm has this meaning already" in push("when (loss > 3.0) -> fatal\n", "@prod")
    assert "version 2 of policy llm; prod is version 2" in push("when loss > 4 -> red\n", "@prod")
    assert "has this meaning already; prod is version 1" in push("when loss > 3 -> red\n", "@prod")
    assert PolicyLibrary().get("policies/llm@prod").text == "when loss > 3 -> red\n"
    assert PolicyLibrary().get("policies/llm").text == "when loss > 4 -> red\n"
    assert "version 3" in push("when loss > 3 -> red\n", "")
    client.delete_prompt_version("llm", 2)
    assert "version 3 of policy llm has this meaning already" in push("when loss > 3 -> red\n", "")
    assert "version 4" in push("when loss > 4 -> red\n", "@prod")


@pytest.mark.parametrize(
    ("reference", "error", "said"),
    [
        ("policies/a b@prod", UsageError, "it is written"),
        ("policies/llm@", UsageError, "it is written"),
        ("policies/llm@3", UsageError, "numbers versions itself"),
        ("policies/llm@latest", UsageError, "numbers versions itself"),
        ("abc", UsageError, "pushed to a name"),
    ],
)
def test_a_push_to_no_place_is_refused(reference: str, error: type[Exception], said: str, client: Any) -> None:
    with pytest.raises(error, match=said):
        PolicyLibrary().put(reference, Kept("when loss > 3 -> red", "llm.vitals", "sha256:1"))


def test_what_is_too_long_for_the_registry_is_refused_before_it_is_sent(client: Any) -> None:
    with pytest.raises(UsageError, match="takes 100,000"):
        PolicyLibrary().put("policies/llm@prod", Kept("#" * 100_001, "llm.vitals", "sha256:1"))


@pytest.mark.parametrize("alias", ["", "@prod", "@3"])
def test_what_the_registry_does_not_have_is_said_so(alias: str, client: Any) -> None:
    with pytest.raises(SourceError, match="has no policy nix"):
        PolicyLibrary().get(f"policies/nix{alias}")


def test_a_prompt_that_is_no_policy_is_refused(client: Any) -> None:
    client.register_prompt("chat", [{"role": "user", "content": "hello"}])
    with pytest.raises(SourceError, match="a chat prompt"):
        PolicyLibrary().get("policies/chat")
    client.register_prompt("plain", "You are a helpful assistant.")
    with pytest.raises(PolicyError):
        load("mlflow:policies/plain")


def test_a_server_that_is_down_is_one_line(folder: Path) -> None:
    import mlflow

    mlflow.set_tracking_uri("http://127.0.0.1:1")
    with pytest.raises(TrackerError) as caught:
        PolicyLibrary().get("policies/llm@prod")
    assert "\n" not in str(caught.value)


def test_without_mlflow_the_install_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(library.importlib, "import_module", fail)  # type: ignore[attr-defined]
    with pytest.raises(MissingExtraError, match=r"pip install 'vitalsdsl\[mlflow\]'"):
        PolicyLibrary().get("abc")


def test_a_policy_that_mlflow_keeps_cannot_be_had_inside_its_own_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.importlib, "import_module", ModuleType)  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="attach this policy in the script"):
        PolicyLibrary().get("policies/llm@prod")


def test_an_mlflow_without_a_registry_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_client", lambda uri: object())
    with pytest.raises(UsageError, match="has no prompt registry"):
        PolicyLibrary().get("policies/llm")


def test_a_store_that_mlflow_refuses_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(tracking_uri: str | None = None) -> None:
        raise OSError("this kind of store\nis in maintenance mode")

    monkeypatch.setattr("mlflow.MlflowClient", refused)
    with pytest.raises(TrackerError, match="MLflow does not open its store: this kind of store is in maintenance mode"):
        PolicyLibrary().get("0123456789abcdef0123456789abcdef")
