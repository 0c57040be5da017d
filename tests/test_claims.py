"""What is written without a scheme: who takes it, and what is said where nobody does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vitalsdsl.ground import claims
from vitalsdsl.ground.claims import in_full, run_name
from vitalsdsl.ground.errors import UsageError
from vitalsdsl.policies import references
from vitalsdsl.policies.policy import load
from vitalsdsl.policies.references import Kept
from vitalsdsl.runs import sources
from vitalsdsl.watching.feeds import Wanted, target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE = "https://host/team/runs/7"


class Point:
    """An entry point whose object is at hand."""

    def __init__(self, name: str, found: Any) -> None:
        self.name = name
        self._found = found

    def load(self) -> Any:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


def _shelf(reference: str) -> str | None:
    if reference == "7" * 32:
        raise UsageError(f"did you mean shelf:{reference}?")
    return f"shelf:{reference}" if reference in (PAGE, "./runs") else None


@pytest.fixture(autouse=True)
def _one_tracker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A tracker called `shelf`, and one whose package is missing."""
    points = [Point("gone", ImportError("no module")), Point("shelf", _shelf)]
    monkeypatch.setattr(claims, "_points", lambda: {point.name: point for point in points})
    monkeypatch.chdir(tmp_path)


def only(function: Callable[..., Any]) -> Callable[[], dict[str, Point]]:
    return lambda: {"shelf": Point("shelf", function)}


def test_a_page_or_a_path_is_watched_as_with_its_scheme(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("vitalsdsl.watching.feeds.schemes", only(lambda rest, wanted: ("opened", rest)))
    (tmp_path / "runs").mkdir()
    for reference in (PAGE, "./runs"):
        assert target(reference, Wanted()) == target(f"shelf:{reference}", Wanted()) == ("opened", reference)


def test_a_path_that_is_there_comes_before_a_scheme(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("vitalsdsl.watching.feeds.schemes", only(lambda rest, wanted: rest))
    assert target("shelf:x", Wanted()) == "x"
    (tmp_path / "shelf:x").mkdir()
    with pytest.raises(UsageError, match="nothing here watches `shelf:x`"):
        target("shelf:x", Wanted())


@pytest.mark.parametrize("reference", ["nothing", "https://host/else", "sacred:x", "x" * 5000, "a\0b"])
def test_what_nobody_knows_is_said_with_what_can_be_watched(reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitalsdsl.watching.feeds.schemes", only(lambda rest, wanted: rest))
    with pytest.raises(UsageError, match=r"nothing here watches `.*what can be watched: shelf:…"):
        target(reference, Wanted())


@pytest.mark.parametrize("reference", ["./nothing", "../nothing", "/nothing/at/all", "~/nothing at all"])
def test_a_folder_that_is_not_there_is_said_to_be_so(reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitalsdsl.watching.feeds.schemes", only(lambda rest, wanted: rest))
    with pytest.raises(UsageError) as said:
        target(reference, Wanted())
    assert str(said.value) == (
        f"there is no folder `{reference}` (what can be watched: shelf:…, the folder of a tracker, such as ./wandb)"
    )


def test_what_has_to_be_written_otherwise_is_asked_for_everywhere() -> None:
    bare = "7" * 32
    for ask in (lambda: target(bare, Wanted()), lambda: sources.read(bare), lambda: load(bare)):
        with pytest.raises(Exception, match=f"did you mean shelf:{bare}"):
            ask()


def test_a_page_is_replayed_and_its_policy_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        def get(self, reference: str) -> Kept:
            return Kept("when loss > 3 -> red\n", f"of-{len(reference)}.vitals")

    monkeypatch.setattr(sources, "schemes", only(lambda rest, step_key: [rest]))
    monkeypatch.setattr(references, "schemes", only(Library))
    assert sources.read(PAGE) == [PAGE]
    assert load(PAGE).name == f"of-{len(PAGE)}"


@pytest.mark.parametrize(
    ("written", "name"),
    [("7", "7"), ("shelf:7", "7"), ("shelf:team/llm/7", "7"), (PAGE, "7"), ("shelf:", "shelf:"), ("nix:7", "nix:7"),
     ("7" * 32, "7" * 32), ("https://host/else", "https://host/else")],
)  # fmt: skip
def test_a_run_is_known_by_its_own_id_however_it_is_written(written: str, name: str) -> None:
    assert run_name(written) == name


def test_every_tracker_that_can_be_watched_says_what_it_takes_without_a_scheme() -> None:
    points = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["entry-points"]
    assert set(points["vitalsdsl.claims"]) == set(points["vitalsdsl.targets"])


def test_a_reference_with_a_scheme_is_left_alone() -> None:
    assert in_full("shelf:x") == "shelf:x"
