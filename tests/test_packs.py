"""Packs: found by entry points, whatever else is installed beside them."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from vitalsdsl import PolicyError, SourceError, load, replay
from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language.rules import Event, Let, Rule
from vitalsdsl.policies import packs as found
from vitalsdsl.policies.policy import read


def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, packages: dict[str, dict[str, bytes]]) -> None:
    """Packages with these files, each with an entry point of its own name, and our own packs beside them."""
    points = [EntryPoint("vitalsdsl", "vitalsdsl_rules", found.GROUP)]
    for package, files in packages.items():
        (tmp_path / package).mkdir()
        for name, data in {"__init__.py": b"", **files}.items():
            (tmp_path / package / name).write_bytes(data)
        points.append(EntryPoint(package, package, found.GROUP))
        monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: sorted(points, key=lambda p: p.name))


def test_a_third_partys_pack_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, {"f6_team": {"team.vitals": b"rule hot { when loss > 3 -> orange }"}})
    assert found.packs()["team"] == "f6_team"
    loaded = load("p", text='use "pack:team" as t')
    assert [rule.name for rule in loaded.policy.of(Rule)] == ["t.hot"]


BROKEN = {
    "does not import": {"__init__.py": b"raise RuntimeError('no')"},
    "is no package of files": {"__init__.py": b"__path__ = []"},
    "is not Python": {"__init__.py": b"def"},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_package_that_is_broken_hides_no_other(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, {"f6_broken": BROKEN[name]})
    assert "core" in found.packs()


def test_an_entry_point_that_outlived_its_package_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = [EntryPoint("gone", "f6_no_such_package", found.GROUP), EntryPoint("odd", "a:b c", found.GROUP)]
    own = EntryPoint("vitalsdsl", "vitalsdsl_rules", found.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [*gone, own])
    assert set(found.packs().values()) == {"vitalsdsl_rules"}


def test_nobody_takes_the_place_of_a_shipped_pack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, {"aaa_first": {"core.vitals": b"when loss > 3 -> red"}})
    assert found.packs()["core"] == "vitalsdsl_rules"


def test_a_pack_that_is_no_text_says_whose_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, {"f6_latin": {"latin.vitals": b"# \xe9"}})
    with pytest.raises(SourceError, match="`latin` of f6_latin"):
        found.pack("latin")


def test_a_pack_uses_packs_and_no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = {"one.vitals": b'use "pack:two"', "two.vitals": b"rule hot { when loss > 3 -> orange }"}
    install(monkeypatch, tmp_path, {"f6_pair": {**files, "out.vitals": b'use "two.vitals"'}})
    assert [rule.name for rule in load("pack:one").policy.of(Rule)] == ["hot"]
    with pytest.raises(PolicyError, match="only packs can be used from here"):
        load("pack:out")


@pytest.mark.parametrize("text", [None, 'use "pack:coer"'], ids=["as the policy", "in a use"])
def test_an_unknown_pack_names_the_nearest(text: str | None) -> None:
    loaded, diagnostics = read("pack:coer") if text is None else read("p", text=text)
    first: Diagnostic = diagnostics[0]
    assert loaded is None
    assert first.code == "V070" and "core" in first.help[0]


@pytest.mark.parametrize("name", sorted(found.packs()))
def test_every_shipped_pack_says_why_and_what_to_try(name: str) -> None:
    loaded = load(f"pack:{name}")
    assert not loaded.diagnostics
    for rule in loaded.policy.of(Rule):
        assert rule.title and rule.body.because is not None and rule.body.try_, rule.name


def test_the_core_pack_is_silent_on_a_run_that_logs_none_of_its_metrics() -> None:
    assert replay(load("pack:core"), [{"step": s, "reward": float(s)} for s in range(300)]) == []


def test_what_a_pack_defines_and_nothing_names_is_neither_evaluated_nor_guarded() -> None:
    loaded = load("p", text='use "pack:names"\nwhen val_loss > 3 -> yellow')
    rows = [{"step": 0, "eval_loss": 1.0, "lr": float("nan"), "loss": float("nan")}]
    assert not loaded.policy.of(Event) and replay(loaded, rows) == []


def test_what_a_named_part_of_a_pack_names_in_turn_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = {"parts.vitals": b"let a = loss + 1\nlet b = a + 1\nevent high = b > 5\nevent low = a < 0\nlet c = 2 * a"}
    install(monkeypatch, tmp_path, {"f6_parts": files})
    loaded = load("p", text='use "pack:parts" as p\nwhen p.high -> yellow')
    assert [s.name for s in loaded.policy.statements if isinstance(s, (Let, Event))] == ["p.a", "p.b", "p.high"]
    assert [t.step for t in replay(loaded, [{"step": 0, "loss": 3.0}, {"step": 1, "loss": 4.0}])] == [1]


def test_what_the_policy_itself_defines_stays_though_nothing_names_it() -> None:
    loaded = load("p", text="let gap = val_loss - loss\nwhen lr > 3 -> yellow")
    assert [t.rule for t in replay(loaded, [{"step": 0, "loss": float("nan")}])] == ["nonfinite(loss)"]


LOSSES = ["loss", "train/loss", "lm loss", "train/CE loss", "loss/train/total", "loss_metrics/global_avg_loss", "trl"]


@pytest.mark.parametrize("logged", LOSSES)
def test_two_packs_that_share_the_names_speak_of_one_loss(logged: str) -> None:
    loaded = load("p", text='use "pack:core"\nuse "pack:names"\nwhen loss > 3 -> yellow')
    rows = [{"step": 0, logged: 4.0}, {"step": 1, logged: float("nan")}]
    assert [t.rule for t in replay(loaded, rows)] == ["loss_yellow", "loss_nonfinite"]


def test_the_mean_of_the_whole_run_does_not_pass_for_its_last_loss() -> None:
    loaded = load("p", text='use "pack:names"\nwhen loss > 3 -> yellow')
    rows = [{"step": 0, "loss": 1.0}, {"step": 10, "train_loss": 4.0, "train/train_loss": 4.0}]
    assert replay(loaded, rows) == []


def test_all_shipped_packs_fit_into_one_policy() -> None:
    uses = "\n".join(f'use "pack:{name}"' for name, package in found.packs().items() if package == "vitalsdsl_rules")
    assert read("p", text=uses)[1] == []
