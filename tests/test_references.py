"""Where policies come from: commits, runs' folders, libraries; and what is said where one cannot be had."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vitalsdsl import PolicyError, SourceError, load
from vitalsdsl.ground.errors import TrackerError
from vitalsdsl.language.rules import Rule
from vitalsdsl.policies import git, references
from vitalsdsl.policies.policy import read
from vitalsdsl.policies.references import Kept


def run_git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, **texts: str) -> str:
    for name, text in texts.items():
        path = folder / (name.replace("__", "/") + ".vitals")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "--quiet", "--message", "a version")
    return run_git(folder, "rev-parse", "HEAD")


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A repository with two versions of `rules/llm.vitals`, of which the first is tagged v1."""
    folder = tmp_path / "team"
    folder.mkdir()
    run_git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, rules__llm='use "common.vitals"\nwhen loss > 3 -> orange\n', rules__common="when val > 3 -> red\n")
    run_git(folder, "tag", "v1")
    commit(folder, rules__llm='use "common.vitals"\nwhen loss > 4 -> orange\n', rules__common="when val > 5 -> red\n")
    return folder


@pytest.fixture
def bare(team: Path, tmp_path: Path) -> str:
    """The same repository as another machine would have it."""
    run_git(tmp_path, "clone", "--quiet", "--bare", str(team), "team.git")
    return f"git+file://{tmp_path}/team.git"


def texts(reference: str) -> list[str]:
    return [rule.body.clauses[0].condition.span.text for rule in load(reference).policy.of(Rule)]


def message(reference: str) -> str:
    loaded, (found,) = read(reference)
    assert loaded is None and found.code == "V074"
    assert "\n" not in found.message and len(found.message) < 500
    return found.message


# -------------------------------------------------------------------- git


def test_a_file_at_a_commit_comes_with_its_folder_at_that_commit(team: Path) -> None:
    assert texts(f"{team}/rules/llm.vitals@v1") == ["val > 3", "loss > 3"]
    assert texts(f"{team}/rules/llm.vitals@HEAD~1") == ["val > 3", "loss > 3"]
    assert texts(f"{team}/rules/llm.vitals@main") == texts(f"{team}/rules/llm.vitals") == ["val > 5", "loss > 4"]


def test_a_file_that_is_gone_is_still_there_at_its_commit(team: Path) -> None:
    (team / "rules" / "llm.vitals").unlink()
    assert texts(f"{team}/rules/llm.vitals@v1") == ["val > 3", "loss > 3"]


@pytest.mark.parametrize("revision", ["v1", "main", "", "whole", "short"])
def test_another_repository_is_read_at_a_branch_a_tag_or_a_commit(revision: str, bare: str, team: Path) -> None:
    first = run_git(team, "rev-parse", "v1")
    at = {"": "", "whole": "@" + first, "short": "@" + first[:10]}.get(revision, "@" + revision)
    loaded = load(f"{bare}//rules/llm.vitals{at}")
    old = revision in ("v1", "whole", "short")
    assert loaded.commit == (first if old else run_git(team, "rev-parse", "main"))
    assert [r.name for r in loaded.policy.of(Rule)] == ["val_red", "loss_orange"]
    assert (loaded.name, loaded.file, loaded.digest) == (
        "llm", "llm.vitals", load(team / "rules" / "llm.vitals").digest if not old
        else load(f"{team}/rules/llm.vitals@v1").digest,
    )  # fmt: skip


def test_findings_in_a_file_at_a_commit_name_the_commit(team: Path) -> None:
    commit(team, rules__llm='use "common.vitals"\nwhen lss > -> orange\n')
    _, found = read(f"{team}/rules/llm.vitals@main")
    assert found[0].span.source.name == "main:llm.vitals"


def test_nothing_of_another_repository_is_left_behind(
    bare: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(git.tempfile, "tempdir", str(tmp_path / "scratch"))  # type: ignore[attr-defined]
    load(f"{bare}//rules/llm.vitals@v1")
    assert "cannot be had" in message(f"{bare}//rules/nix.vitals@v1")
    assert "cannot be had" in message(f"{bare}//nix/llm.vitals@v1")
    assert not any((tmp_path / "scratch").iterdir())


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("{bare}//rules/llm.vitals@nix", "nix"),
        ("{bare}//rules/nix.vitals@v1", "there is no file nix.vitals"),
        ("git+file:///nowhere//llm.vitals@v1", "git says"),
        ("{bare}//../llm.vitals@v1", "it is written git+https://"),
        ("{bare}", "it is written git+https://"),
        ("{bare}//rules/llm.vitals@", "nothing stands behind"),
        ("{bare}//rules/llm.vitals@--upload-pack=touch", "is no revision"),
        ("git+ext::sh -c touch% x//llm.vitals", "git+https://"),
        ("git+http://127.0.0.1:1/r.git//llm.vitals", "https, ssh, file"),
        ("git+https://user:secret@127.0.0.1:1/r.git//llm.vitals@v1", "git says"),
        ("{team}/rules/llm.vitals@nix", "there is no revision `nix`"),
        ("{team}/rules/llm.vitals@--help", "is no revision"),
        ("{team}/rules/nix.vitals@v1", "there is no file nix.vitals"),
        ("{team}/nix/llm.vitals@v1", "there is no folder"),
        ("{outside}/llm.vitals@v1", "is in no git repository"),
    ],
)
def test_what_git_cannot_give_is_one_clear_line(
    reference: str, said: str, bare: str, team: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    text = message(reference.format(bare=bare, team=team, outside=tmp_path / "outside"))
    assert said in text and "secret" not in text.partition("cannot be had:")[2]


def test_huge_and_binary_files_of_a_commit_are_refused_before_they_are_read(team: Path) -> None:
    (team / "rules" / "huge.vitals").write_bytes(b"#" * (4 * references.MAX_CHARACTERS + 1))
    (team / "rules" / "binary.vitals").write_bytes(b"\xff\xfe\x00")
    (team / "rules" / "link.vitals").symlink_to("/etc/passwd")
    run_git(team, "add", "--all")
    run_git(team, "commit", "--quiet", "--message", "odd")
    assert "it is no rule file" in message(f"{team}/rules/huge.vitals@main")
    assert "is not UTF-8 text" in message(f"{team}/rules/binary.vitals@main")
    assert "there is no file link.vitals" in message(f"{team}/rules/link.vitals@main")


def test_a_policy_of_a_commit_uses_nothing_outside_its_folder(team: Path) -> None:
    commit(team, rules__llm='use "../top.vitals"\n', top="when loss > 3 -> red\n")
    with pytest.raises(PolicyError, match="V072"):
        load(f"{team}/rules/llm.vitals@main")


def test_the_commit_of_a_policy_is_dirty_where_a_file_that_it_uses_differs(team: Path) -> None:
    head = run_git(team, "rev-parse", "HEAD")
    path = team / "rules" / "llm.vitals"
    assert load(path).commit == head
    (team / "rules" / "common.vitals").write_text("when val > 6 -> red\n")
    assert load(path).commit == f"{head}-dirty"
    (team / "rules" / "other.vitals").write_text("when val > 6 -> red\n")
    run_git(team, "checkout", "--quiet", "rules/common.vitals")
    assert load(path).commit == head
    assert load("p", text="when val > 6 -> red").commit == ""


# -------------------------------------------------------------------- folders of runs


def test_the_folder_of_a_run_gives_the_policy_that_is_kept_in_it(tmp_path: Path) -> None:
    kept = tmp_path / "offline-run-1" / "files" / "vitals" / "policy"
    kept.mkdir(parents=True)
    (tmp_path / "offline-run-1" / "run-1.wandb").touch()
    assert "no policy is kept in" in message(str(tmp_path / "offline-run-1"))
    (kept / "llm.vitals").write_text("when loss > 3 -> red\n")
    assert (
        texts(str(tmp_path / "offline-run-1")) == texts(str(tmp_path / "offline-run-1" / "run-1.wandb")) == ["loss > 3"]
    )
    assert load(tmp_path / "offline-run-1").name == "llm"
    (kept / "more.vitals").write_text("when loss > 4 -> red\n")
    assert "was watched by several policies" in message(str(tmp_path / "offline-run-1"))


# -------------------------------------------------------------------- libraries


class Point:
    """An entry point."""

    def __init__(self, get: Callable[[str], Kept]) -> None:
        self.get = get

    def load(self) -> Callable[[], Point]:
        return lambda: self


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], Kept]], None]:
    """Puts up a library under `shelf:`."""

    def put_up(get: Callable[[str], Kept]) -> None:
        monkeypatch.setattr(references, "schemes", lambda: {"shelf": Point(get)})

    return put_up


def test_a_library_is_asked_for_what_stands_behind_its_scheme(shelf: Any) -> None:
    asked: list[str] = []

    def get(reference: str) -> Kept:
        asked.append(reference)
        return Kept("when loss > 3 -> red\n", "llm.vitals", "sha256:1", "abc")

    shelf(get)
    loaded = load("shelf:team/llm:prod")
    assert asked == ["team/llm:prod"]
    assert (loaded.name, loaded.file, loaded.noted_digest, loaded.commit) == ("llm", "llm.vitals", "sha256:1", "abc")


def test_a_library_s_yaml_is_read_as_yaml_and_used_files_are_out_of_reach(shelf: Any) -> None:
    shelf(lambda _: Kept("vitals: 1\nrules: {r: {when: [{if: 'loss > 3', level: red}]}}\n", "llm.yaml"))
    assert texts("shelf:x") == ["loss > 3"]
    shelf(lambda _: Kept('use "secret.vitals"\n', "llm.vitals"))
    with pytest.raises(PolicyError, match="V072"):
        load("shelf:x")
    shelf(lambda _: Kept('use "pack:core" as core\n', "llm.vitals"))
    assert load("shelf:x").policy.of(Rule)


@pytest.mark.parametrize("error", [SourceError("no such\nthing" + "x" * 999), TrackerError("it does not answer")])
def test_what_a_library_cannot_give_is_one_finding(error: Exception, shelf: Any) -> None:
    def get(_: str) -> Kept:
        raise error

    shelf(get)
    assert str(error).split()[0] in message("shelf:x")


def test_a_library_s_huge_text_is_refused(shelf: Any) -> None:
    shelf(lambda _: Kept("#" * (references.MAX_CHARACTERS + 1), "llm.vitals"))
    with pytest.raises(PolicyError, match="V030"):
        load("shelf:x")


def test_an_unknown_scheme_is_named_with_those_that_are_installed(shelf: Any) -> None:
    shelf(lambda _: Kept("", "x.vitals"))
    assert "installed: shelf:…" in message("nix:llm")


def test_the_libraries_of_the_integrations_are_declared() -> None:
    toml = (Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8")
    section = toml.partition('[project.entry-points."vitalsdsl.policies"]\n')[2].partition("\n\n")[0]
    assert section.split("\n") == ['mlflow = "vitalsdsl_mlflow.library:PolicyLibrary"',
                                   'wandb = "vitalsdsl_wandb.library:PolicyLibrary"']  # fmt: skip
    code = "import sys; import vitalsdsl_mlflow.library, vitalsdsl_wandb.library; print('mlflow' in sys.modules, 'wandb' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
