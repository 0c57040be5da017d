"""A lock beside a policy: what matches is used, what does not is refused, and without a lock nothing changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vitalsdsl import PolicyError, load
from vitalsdsl.cli.app import vitals
from vitalsdsl.ground.source import Source
from vitalsdsl.language.digest import digest
from vitalsdsl.language.parser import parse
from vitalsdsl.policies.policy import read

COMMON = 'use "sub/deep.vitals"\nwhen val > 3 -> red\n'
DEEP = "when x > 3 -> red\n"


def call(*words: str) -> Result:
    return CliRunner().invoke(vitals, list(words), prog_name="vitals")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy that uses a pack, a file, and a file through that, with a lock."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "deep.vitals").write_text(DEEP)
    (tmp_path / "common.vitals").write_text(COMMON)
    path = tmp_path / "llm.vitals"
    path.write_text('use "pack:core" as core\nuse "common.vitals"\nwhen loss > 3 -> orange\n')
    result = call("policy", "lock", str(path))
    assert result.exit_code == 0, result.output
    return path


def codes(policy: Path) -> list[tuple[str, str]]:
    return [(d.severity.value, d.message) for d in read(policy)[1] if d.code == "V077"]


def test_it_pins_each_file_and_pack_by_the_digest_of_its_meaning(policy: Path) -> None:
    text = policy.with_name("llm.vitals.lock").read_text("utf-8")
    pinned = json.loads(text)["uses"]
    assert list(pinned) == ["common.vitals", "pack:core", "pack:names", "sub/deep.vitals"]
    assert pinned["common.vitals"] == digest(parse(Source("x", COMMON)).policy)
    assert pinned["pack:names"] == load("pack:names").digest
    assert text == json.dumps({"lock": 1, "uses": pinned}, indent=2) + "\n"
    assert codes(policy) == []


def test_looks_of_a_used_file_do_not_matter_and_nor_does_the_policy_s_own_text(policy: Path) -> None:
    (policy.parent / "common.vitals").write_text("# more\n" + COMMON.replace("> 3", ">3.0"))
    policy.write_text(policy.read_text() + "when grad > 1 -> yellow\n")
    assert load(policy)


@pytest.mark.parametrize("name", ["common.vitals", "sub/deep.vitals"])
def test_a_change_in_what_is_used_is_refused_at_its_use_until_it_is_locked_again(name: str, policy: Path) -> None:
    path = policy.parent / name
    path.write_text(path.read_text().replace("> 3", "> 4"))
    with pytest.raises(PolicyError, match="V077") as caught:
        load(policy)
    assert f"`{name}` means something else" in str(caught.value)
    assert f"vitals policy lock {policy}" in str(caught.value)
    finding = next(d for d in caught.value.diagnostics if d.code == "V077")
    assert finding.span.source.name.endswith("llm.vitals" if name == "common.vitals" else "common.vitals")
    checked = call("check", str(policy))
    assert checked.exit_code == 1 and "V077" in checked.output
    assert call("policy", "lock", str(policy)).exit_code == 0
    assert load(policy)


def test_replay_and_attach_are_refused_too(policy: Path, tmp_path: Path) -> None:
    (policy.parent / "common.vitals").write_text("when val > 4 -> red\n")
    (tmp_path / "run.jsonl").write_text('{"step": 1, "loss": 9}\n')
    result = call("replay", str(policy), str(tmp_path / "run.jsonl"))
    assert result.exit_code == 2 and "V077" in result.output
    vitalsdsl_mlflow = pytest.importorskip("vitalsdsl_mlflow")
    with pytest.raises(PolicyError, match="V077"):
        vitalsdsl_mlflow.attach(policy)


def test_a_use_that_the_lock_does_not_know_is_refused_and_one_too_many_is_a_warning(policy: Path) -> None:
    policy.write_text('use "common.vitals"\nuse "new.vitals"\n')
    (policy.parent / "new.vitals").write_text("when y > 3 -> red\n")
    assert codes(policy) == [
        ("error", "`new.vitals` is used, and the lock does not pin it"),
        ("warning", "the lock pins `pack:core`, which is no longer used"),
        ("warning", "the lock pins `pack:names`, which is no longer used"),
    ]
    policy.write_text('use "common.vitals"\n')
    assert load(policy)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is no lock: it is not JSON"),
        (b"[" * 100_000, "is no lock"),
        (b"[]", "it has no `uses`"),
        (b'{"uses": {"a": 3}}', "it has no `uses`"),
        (b'{"lock": 2, "uses": {}}', "is of another version (2)"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_damaged_lock_locks(data: bytes, said: str, policy: Path) -> None:
    policy.with_name("llm.vitals.lock").write_bytes(data)
    ((severity, message),) = codes(policy)
    assert severity == "error" and said in message
    assert call("policy", "lock", str(policy)).exit_code == 0
    assert load(policy)


def test_the_command_says_whether_a_lock_is_up_to_date(policy: Path) -> None:
    again = call("policy", "lock", str(policy))
    assert again.exit_code == 0 and "up to date" in again.output
    assert call("policy", "lock", "--check", str(policy)).exit_code == 0
    before = policy.with_name("llm.vitals.lock").read_text()
    (policy.parent / "common.vitals").write_text("when val > 4 -> red\n")
    checked = call("policy", "lock", "--check", str(policy))
    assert checked.exit_code == 1 and "out of date" in checked.output
    assert policy.with_name("llm.vitals.lock").read_text() == before
    assert call("policy", "lock", str(policy.parent / "nix.vitals")).exit_code == 2


def test_a_broken_policy_is_not_locked(tmp_path: Path) -> None:
    (tmp_path / "p.vitals").write_text("when loss > -> red")
    result = call("policy", "lock", str(tmp_path / "p.vitals"))
    assert result.exit_code == 2 and "V0" in result.output
    assert not (tmp_path / "p.vitals.lock").exists()


def test_a_policy_that_uses_nothing_has_nothing_to_pin(tmp_path: Path) -> None:
    path = tmp_path / "alone.vitals"
    path.write_text("when loss > 3 -> red\n")
    for words in (("policy", "lock", str(path)), ("policy", "lock", "--check", str(path))):
        result = call(*words)
        assert (result.exit_code, result.output) == (0, f"{path} uses nothing: there is nothing to pin\n")
    assert list(tmp_path.iterdir()) == [path]


def test_a_policy_that_uses_nothing_any_more_gets_an_empty_lock(policy: Path) -> None:
    policy.write_text("when loss > 3 -> red\n")
    assert call("policy", "lock", "--check", str(policy)).exit_code == 1
    assert call("policy", "lock", str(policy)).exit_code == 0 and codes(policy) == []
