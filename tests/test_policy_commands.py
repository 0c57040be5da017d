"""vitals policy: digests, texts, differences, pulling and pushing, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from vitalsdsl import load
from vitalsdsl.cli.app import vitals
from vitalsdsl.policies import references
from vitalsdsl.policies.references import Kept


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(vitals, ["policy", *map(str, words)], prog_name="vitals")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.vitals").write_text(
        "param k = 3\nrule high { when loss > k * baseline(500) for 20 steps -> orange }\n"
    )
    (tmp_path / "looks.vitals").write_text(
        "# the same\nparam k = 3.0\nrule high {\n  when (loss > k * baseline(500 steps)) for 20 steps -> critical }\n"
    )
    (tmp_path / "b.vitals").write_text('use "a.vitals" with k = 2.5\nwhen val > 3 -> red\n')
    return tmp_path


class Shelf:
    """A library in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}

    def load(self) -> Any:
        return lambda: self

    def get(self, reference: str) -> Kept:
        return self.kept[reference]

    def put(self, reference: str, kept: Kept) -> str:
        self.kept[reference] = kept
        return "version 1"


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    shelf = Shelf()
    monkeypatch.setattr(references, "schemes", lambda: {"shelf": shelf})
    return shelf


def test_digest_prints_one_a_line_and_takes_params(folder: Path) -> None:
    result = call("digest", folder / "a.vitals", folder / "looks.vitals")
    one, other = result.stdout.splitlines()
    assert one == f"{load(folder / 'a.vitals').digest}  {folder / 'a.vitals'}"
    assert one.split()[0] == other.split()[0]
    set_ = call("digest", folder / "a.vitals", "--set", "k=2.5").stdout.split()[0]
    assert set_ == load(folder / "a.vitals", settings={"k": 2.5}).digest != one.split()[0]
    line = json.loads(call("digest", folder / "a.vitals", "--format", "jsonl").stdout)
    assert line == {"type": "policy", "reference": str(folder / "a.vitals"), "name": "a", "digest": one.split()[0],
                    "commit": None}  # fmt: skip


def test_show_gives_one_text_that_stands_alone(folder: Path) -> None:
    text = call("show", folder / "b.vitals").stdout
    assert "use" not in text and "param k = 2.5" in text
    assert load("b.vitals", text=text).digest == load(folder / "b.vitals").digest
    assert json.loads(call("show", folder / "b.vitals", "--format", "jsonl").stdout)["text"] == text


def test_diff_says_what_changed_and_exits_1(folder: Path) -> None:
    result = call("diff", folder / "a.vitals", folder / "b.vitals")
    assert result.exit_code == 1
    assert result.stdout == "param k: 3 -> 2.5 (read by high)\nadded rule val_red: when val > 3 -> red\n"
    same, *changes = map(json.loads, call("diff", folder / "a.vitals", folder / "b.vitals", "--format", "jsonl").stdout.splitlines())  # fmt: skip
    assert (same["type"], same["same"]) == ("comparison", False)
    assert [(c["kind"], c["what"], c["name"]) for c in changes] == [
        ("changed", "param", "k"),
        ("added", "rule", "val_red"),
    ]


def test_diff_of_looks_alone_says_so_and_exits_0(folder: Path) -> None:
    result = call("diff", folder / "a.vitals", folder / "looks.vitals")
    assert result.exit_code == 0 and result.stdout.startswith("the same meaning, written differently (sha256:")
    assert call("diff", folder / "a.vitals", folder / "a.vitals").stdout.startswith("the same meaning (")
    assert json.loads(call("diff", folder / "a.vitals", folder / "looks.vitals", "--format", "jsonl").stdout)["same"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "nix.vitals"), "nix.vitals cannot be read"),
        (("show", "nix:llm"), "no policies are kept under"),
        (("diff", "{folder}/a.vitals", "pack:nix"), "no pack called `nix`"),
        (("push", "{folder}/a.vitals", "nix:llm"), "no policies are kept under"),
        (("push", "{folder}/a.vitals", "{folder}/c.vitals"), "no policies are kept under"),
        (("pull", "{folder}/a.vitals", "{folder}/c.yaml"), "into a .vitals file"),
        (("pull", "{folder}/a.vitals", "{folder}/nix/c.vitals"), "cannot be written"),
        (("digest", "{folder}"), "is a folder"),
        (("nix",), "No such command"),
    ],
)
def test_wrong_usage_is_one_message_and_exit_2(words: tuple[str, ...], said: str, folder: Path) -> None:
    result = call(*[word.format(folder=folder) for word in words])
    assert result.exit_code == 2
    assert said in result.output and "Traceback" not in result.output


def test_what_is_pushed_stands_alone_and_is_pulled_with_the_same_meaning(folder: Path, shelf: Shelf) -> None:
    pushed = call("push", folder / "b.vitals", "shelf:llm", "--set", "k=2")
    assert pushed.exit_code == 0 and "shelf:llm: version 1 (sha256:" in pushed.stdout
    kept = shelf.kept["llm"]
    assert kept.digest == load(folder / "b.vitals", settings={"k": 2}).digest
    assert (kept.file, kept.text.count("use ")) == ("b.vitals", 0)
    assert call("pull", "shelf:llm", folder / "c.vitals").exit_code == 0
    assert load(folder / "c.vitals").digest == kept.digest
    assert "has this meaning already" in call("pull", "shelf:llm", folder / "c.vitals").stdout


def test_pulling_never_replaces_another_meaning_unasked(folder: Path, shelf: Shelf) -> None:
    shelf.kept["llm"] = Kept("when x > 3 -> red\n", "llm.vitals")
    before = (folder / "a.vitals").read_text()
    refused = call("pull", "shelf:llm", folder / "a.vitals")
    assert refused.exit_code == 2 and "vitals policy diff" in refused.output
    assert (folder / "a.vitals").read_text() == before
    assert call("pull", "shelf:llm", folder / "a.vitals", "--force").exit_code == 0
    assert (folder / "a.vitals").read_text() == "when x > 3 -> red\n"


def test_a_copy_that_means_something_else_than_is_noted_beside_it_is_warned_of(folder: Path, shelf: Shelf) -> None:
    shelf.kept["llm"] = Kept("when x > 3 -> red\n", "llm.vitals", "sha256:" + "0" * 64)
    result = call("show", "shelf:llm")
    assert result.stdout == "when x > 3 -> red\n" and "warning: shelf:llm: this copy means sha256:" in result.stderr
    shelf.kept["llm"] = Kept("when x > 3 -> red\n", "llm.vitals", load("p", text="when x > 3 -> red").digest)
    assert call("show", "shelf:llm").stderr == ""


def test_replay_takes_the_policy_of_a_run_and_by_default_that_run(folder: Path) -> None:
    kept = folder / "run" / "files" / "vitals" / "policy"
    kept.mkdir(parents=True)
    (kept / "llm.vitals").write_text("when loss > 3 -> red\n")
    (folder / "log.jsonl").write_text('{"step": 1, "loss": 9}\n')
    result = CliRunner().invoke(
        vitals, ["replay", "--policy-of", str(folder / "run"), str(folder / "log.jsonl"), "--format", "jsonl"]
    )
    assert result.exit_code == 0 and json.loads(result.stdout)["rule"] == "loss_red"
    alone = CliRunner().invoke(vitals, ["replay", str(folder / "a.vitals")])
    assert alone.exit_code == 2 and "vitals replay POLICY SOURCE" in alone.output


def test_check_takes_what_is_kept_elsewhere(shelf: Shelf) -> None:
    shelf.kept["llm"] = Kept("when loss > -> red\n", "llm.vitals")
    checked = CliRunner().invoke(vitals, ["check", "shelf:llm"])
    assert checked.exit_code == 1 and "shelf:llm/llm.vitals:1:11" in checked.output
    unknown = CliRunner().invoke(vitals, ["check", "nix:llm"])
    assert unknown.exit_code == 1 and "V074" in unknown.output
