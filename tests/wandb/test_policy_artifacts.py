"""Policies that W&B keeps. The answers of its servers are played by objects of our own, from its public documentation;
what a run of this machine leaves behind, and what is kept for `wandb sync`, is W&B's own doing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

if "CI" not in os.environ:
    pytest.importorskip("wandb")

import vitalsdsl_wandb
import wandb
from vitalsdsl_wandb import library
from vitalsdsl_wandb.library import PolicyLibrary

from tests.wandb.transaction_log import of_kind, transaction_log
from vitalsdsl import load
from vitalsdsl.cli.app import vitals
from vitalsdsl.ground.errors import SourceError, TrackerError, UsageError
from vitalsdsl.policies import references
from vitalsdsl.policies.references import Kept

TEXT = "when loss > 3 for 2 steps -> orange do alert, tag\n"


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library as the wheel declares it, whatever is installed here."""
    point = EntryPoint("wandb", "vitalsdsl_wandb.library:PolicyLibrary", references.GROUP)
    monkeypatch.setattr(references, "schemes", lambda: {"wandb": point})


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(vitals, list(map(str, words)), prog_name="vitals")


class Entry:
    """A file of an artifact."""

    def __init__(self, name: str, data: bytes, size: int | None = None) -> None:
        self.name, self.data = name, data
        self.size = len(data) if size is None else size

    def download(self, root: str) -> str:
        path = Path(root) / self.name
        path.write_bytes(self.data)
        return str(path)


class Artifact:
    """One version, as far as reading it goes."""

    def __init__(self, name: str, *entries: Entry, kind: str = "vitals-policy", digest: str = "") -> None:
        self.name, self.type, self.version = name, kind, name.rpartition(":")[2]
        self.manifest = SimpleNamespace(entries={entry.name: entry for entry in entries})
        self.metadata = {"digest": digest, "git": "abc", "odd": 3}
        self.aliases = ["latest"]
        self.saved = 0

    def get_entry(self, name: str) -> Entry:
        entry: Entry = self.manifest.entries[name]
        return entry

    def save(self) -> None:
        self.saved += 1


class Api:
    """W&B's servers."""

    def __init__(self, *artifacts: Artifact, error: Exception | None = None) -> None:
        self.held = artifacts
        self.error = error
        self.asked: list[str] = []

    def artifact(self, name: str, **kind: str) -> Artifact:
        self.asked.append(name)
        if self.error is not None:
            raise self.error
        return self.held[0]

    def run(self, path: str) -> Any:
        self.asked.append(path)
        return SimpleNamespace(logged_artifacts=lambda: self.held)

    def artifact_collection_exists(self, name: str, kind: str) -> bool:
        return bool(self.held)

    def artifacts(self, type_name: str, name: str) -> tuple[Artifact, ...]:
        return self.held


def serve(monkeypatch: pytest.MonkeyPatch, api: Api) -> Api:
    monkeypatch.setattr(library, "_api", lambda: api)
    return api


def policy(name: str = "llm:v3", digest: str = "") -> Artifact:
    return Artifact(name, Entry("llm.vitals", TEXT.encode()), digest=digest or load("llm", text=TEXT).digest)


def test_an_artifact_is_read_by_its_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    api = serve(monkeypatch, Api(policy()))
    loaded = load("wandb:team/policies/llm:prod")
    assert api.asked == ["team/policies/llm:prod"]
    assert (loaded.text, loaded.name, loaded.commit) == (TEXT, "llm", "abc")
    assert loaded.digest == loaded.noted_digest


def test_the_policy_of_a_run_is_the_one_that_it_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    api = serve(monkeypatch, Api(Artifact("data:v0", kind="dataset"), policy("llm:v0")))
    assert load("wandb:team/pretraining/1a2b3c").text == TEXT
    assert api.asked == ["team/pretraining/1a2b3c"]
    serve(monkeypatch, Api(policy("llm:v0"), policy("vision:v2")))
    with pytest.raises(SourceError, match=r"wandb:team/pretraining/llm:v0, wandb:team/pretraining/vision:v2"):
        PolicyLibrary().get("team/pretraining/1a2b3c")
    serve(monkeypatch, Api(Artifact("data:v0", kind="dataset")))
    with pytest.raises(SourceError, match="it was not watched"):
        PolicyLibrary().get("team/pretraining/1a2b3c")


@pytest.mark.parametrize(
    ("artifact", "said"),
    [
        (Artifact("m:v0", kind="model"), "is of type model"),
        (Artifact("p:v0"), "holds no rule file"),
        (Artifact("p:v0", Entry("a.vitals", b""), Entry("b.vitals", b"")), "holds 2 rule files"),
        (Artifact("p:v0", Entry("a.vitals", b"\xff\xfe")), "is not UTF-8 text"),
        (Artifact("p:v0", Entry("a.vitals", b"", size=10**9)), "is too large"),
        (Artifact("p:v0", Entry("../../a.vitals", b"")), "leads out of it"),
        (Artifact("p:v0", Entry("/etc/a.vitals", b"")), "leads out of it"),
    ],
)
def test_what_is_no_policy_is_refused(artifact: Artifact, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, Api(artifact))
    with pytest.raises(SourceError, match=said):
        PolicyLibrary().get("team/policies/llm:prod")


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ValueError("no such\nartifact"), SourceError), (RuntimeError(f"key {'a1' * 20} refused"), TrackerError)],
)
def test_what_w_and_b_says_is_one_line_without_keys(
    error: Exception, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, Api(error=error))
    with pytest.raises(kind) as caught:
        PolicyLibrary().get("team/policies/llm:prod")
    assert "\n" not in str(caught.value) and "a1a1" not in str(caught.value)


@pytest.mark.parametrize("reference", ["llm", "team/llm:prod", "a/b/c/d:prod", "a/b/c:x:y", "a//c:prod", "a/b c/d"])
def test_a_reference_that_is_none_is_explained(reference: str) -> None:
    with pytest.raises(UsageError, match="it is written wandb:ENTITY/PROJECT/NAME:ALIAS"):
        PolicyLibrary().get(reference)


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WANDB_MODE", "online")
    wandb.teardown()  # it reads its environment once
    yield
    wandb.teardown()


def test_pushing_what_is_there_moves_the_alias_alone(online: None, monkeypatch: pytest.MonkeyPatch) -> None:
    held = policy("llm:v3", "sha256:1")
    serve(monkeypatch, Api(policy("llm:v4", "sha256:2"), held))
    said = PolicyLibrary().put("team/policies/llm:prod", Kept(TEXT, "llm.vitals", "sha256:1"))
    assert said == "version v3 of llm has this meaning already; prod is v3"
    assert (held.aliases, held.saved) == (["latest", "prod"], 1)
    PolicyLibrary().put("team/policies/llm:prod", Kept(TEXT, "llm.vitals", "sha256:1"))
    assert held.saved == 1


@pytest.mark.parametrize("reference", ["team/policies/llm", "team/policies/llm:v3", "team/policies/llm:latest"])
def test_a_push_needs_an_alias_of_its_own(reference: str) -> None:
    with pytest.raises(UsageError):
        PolicyLibrary().put(reference, Kept(TEXT, "llm.vitals", "sha256:1"))


def test_offline_a_pushed_policy_is_kept_for_sync(offline: Path) -> None:
    (offline / "llm.vitals").write_text(TEXT)
    result = call("policy", "push", offline / "llm.vitals", "wandb:team/policies/llm:prod")
    assert result.exit_code == 0 and "is kept in the offline run" in result.stdout, result.output
    run = result.stdout.partition("offline run ")[2].split(",")[0]
    (artifact,) = of_kind(transaction_log(offline, run), "artifact")
    assert (artifact.entity, artifact.project, artifact.type, artifact.name) == (
        "team",
        "policies",
        "vitals-policy",
        "llm",
    )
    assert sorted(artifact.aliases) == ["latest", "prod"]
    assert json.loads(artifact.metadata)["digest"] == load("llm", text=TEXT).digest
    (entry,) = artifact.manifest.contents
    assert (entry.path, Path(entry.local_path).read_text()) == ("llm.vitals", TEXT)


def test_an_offline_run_is_judged_again_by_the_copy_in_its_folder(offline: Path) -> None:
    (offline / "common.vitals").write_text("param k = 2\nrule high { when loss > k for 2 steps -> orange do tag }\n")
    (offline / "llm.vitals").write_text('use "common.vitals" with k = 3\nwhen loss > 4.5 -> red do tag\n')
    vitalsdsl_wandb.attach(offline / "llm.vitals")
    losses = [1.0, 2.0, 4.0, 4.0, 5.0, 1.0, 1.0, 1.0]
    with wandb.init(project="p") as run:
        for loss in losses:
            wandb.log({"loss": loss})
    digest = load(offline / "llm.vitals").digest
    for name in ("llm.vitals", "common.vitals"):
        (offline / name).unlink()
    (path,) = offline.rglob("files/vitals/transitions.jsonl")
    live = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(t["rule"], t["step"], t["to"]) for t in live] == [
        ("high", 3, "orange"), ("loss_red", 4, "red"), ("loss_red", 5, "green"), ("high", 6, "green"),
    ]  # fmt: skip
    rows = "".join(json.dumps({"step": step, "loss": loss}) + "\n" for step, loss in enumerate(losses))
    (offline / f"{run.id}.jsonl").write_text(rows)
    folder = path.parent.parent.parent
    result = call("replay", "--policy-of", folder, offline / f"{run.id}.jsonl", "--format", "jsonl")
    assert result.exit_code == 0, result.output
    again = [json.loads(line) for line in result.stdout.splitlines()]
    facts = ("rule", "step", "from", "to", "onset", "message", "digest")
    assert [[t[key] for key in facts] for t in again] == [[t[key] for key in facts] for t in live]
    assert {t["digest"] for t in again} == {digest}
    (log,) = folder.glob("run-*.wandb")
    assert load(log).digest == digest


def test_a_run_that_was_not_watched_keeps_none(offline: Path) -> None:
    with wandb.init(project="p") as run:
        run.log({"loss": 1})
    (folder,) = offline.glob("wandb/offline-run-*")
    result = call("policy", "show", folder)
    assert result.exit_code == 2 and "no policy is kept in" in result.output and "it was not watched" in result.output
