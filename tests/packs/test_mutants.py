"""That the tests of the shipped packs hold their numbers, and that the mutants which ask it are the ones that they say."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.packs.killing import Killer
from tests.packs.survivors import Survivors
from vitalsdsl.policies.packs import packs
from vitalsdsl.testing import load_tests

SAMPLE = 10
"""Mutants of each pack that are tried here, others whenever the pack or its tests change; `python -m tests.trials.mutants`
tries all."""

POLICY = """
param most = 4 in 1 .. 9
let smooth = mean(loss, 3 samples)
rule high "loss over most" { when loss > most for 4 samples -> orange }
rule odd "two of three" { when 2 of (kl > 1, loss > 100, kl < -1) for 2 of 3 samples -> yellow }
rule off "switched off" { when loss > 3 -> red disabled }
"""
TESTS = """
policy: p.vitals
tests:
  - name: goes up
    series: {loss: "1 x5, 5 x4, 1 x9"}
    expect: [{step: 8, rule: high, to: orange, onset: 5}, {step: 12, rule: high, to: green}]
  - name: other
    set: {most: "7"}
    series: {kl: "0 x5"}
    expect: []
"""
SHIPPED = [name for name, package in packs().items() if package == "vitalsdsl_rules"]


@pytest.fixture
def killer(tmp_path: Path) -> Killer:
    (tmp_path / "p.vitals").write_text(POLICY)
    (tmp_path / "p.vtest.yaml").write_text(TESTS)
    return Killer("p", load_tests(tmp_path / "p.vtest.yaml"))


def test_each_number_comparison_and_span_that_a_rule_reads_is_wronged(killer: Killer) -> None:
    condition = "2 of (kl > 1, loss > 100, kl < -1)"
    assert [m.text for m in killer.mutants] == [
        "most: 4 times 1.3",
        "most: 4 times 0.7",
        "high: `loss > most` turned",
        "high: 4 samples halved",
        "high: 4 samples doubled",
        "odd: 2 of the conditions, one less",
        "odd: 2 of the conditions, one more",
        f"odd: `kl > 1` turned in {condition}",
        f"odd: 1 times 1.3 in {condition}",
        f"odd: 1 times 0.7 in {condition}",
        f"odd: `loss > 100` turned in {condition}",
        f"odd: 100 times 1.3 in {condition}",
        f"odd: 100 times 0.7 in {condition}",
        f"odd: `kl < -1` turned in {condition}",
        f"odd: -1 times 1.3 in {condition}",
        f"odd: -1 times 0.7 in {condition}",
        "odd: 2 of 3 one less",
        "odd: 2 of 3 one more",
    ]


def test_a_mutant_is_noticed_where_it_changes_what_the_tests_expect(killer: Killer) -> None:
    # 4 * 1.3 = 5.2 is above the 5 of the series; 2.8 is below it and above the 1: no test tells it from 4. A span of 8
    # samples is longer than the 4 that are high; one of 2 fires at step 6. Nothing ever fires `odd`: of it all survive.
    noticed = {m.text: killer.noticed_by(m) for m in killer.mutants}
    assert {text: name for text, name in noticed.items() if text.startswith(("most", "high"))} == {
        "most: 4 times 1.3": "goes up",
        "most: 4 times 0.7": None,
        "high: `loss > most` turned": "goes up",
        "high: 4 samples halved": "goes up",
        "high: 4 samples doubled": "goes up",
    }
    assert noticed["odd: 2 of the conditions, one more"] is None
    assert all(killer.survives(m) is (noticed[m.text] is None) for m in killer.mutants)


def test_parts_of_a_condition_windows_and_tolerances_are_wronged_and_the_other_numbers_of_functions_are_not(
    tmp_path: Path,
) -> None:
    text = """
    param back = 5 samples
    when flat(loss, back, tol: 4%) and quantile(loss, 0.9, 7 samples) < greatest(2, loss) for 6 samples -> orange
    """
    (tmp_path / "p.vitals").write_text(text)
    (tmp_path / "p.vtest.yaml").write_text("policy: p.vitals\ntests: [{name: n, series: {loss: '1 x9'}, expect: []}]")
    found = [m.text.split(" in ")[0] for m in Killer("p", load_tests(tmp_path / "p.vtest.yaml")).mutants]
    assert found == [
        "back: 5 samples halved", "back: 5 samples doubled", "loss_orange: `flat(loss, back, tol: 4%)` left out",
        "loss_orange: `quantile(loss, 0.9, 7 samples) < greatest(2, loss)` left out", "loss_orange: 4% times 1.3", "loss_orange: 4% times 0.7",
        "loss_orange: `quantile(loss, 0.9, 7 samples) < greatest(2, loss)` turned",
        "loss_orange: 7 samples halved", "loss_orange: 7 samples doubled",
        "loss_orange: 2 times 1.3", "loss_orange: 2 times 0.7", "loss_orange: 6 samples halved", "loss_orange: 6 samples doubled",
    ]  # fmt: skip


def test_only_the_rules_that_read_a_statement_are_run(killer: Killer) -> None:
    assert {m.statement[1]: set(m.rules) for m in killer.mutants} == {
        "most": {"high"},
        "high": {"high"},
        "odd": {"odd"},
    }


@pytest.fixture(scope="module")
def killers() -> dict[str, Killer]:
    return {pack: killer for pack in SHIPPED if (killer := Killer.of(pack)) is not None}


@pytest.mark.parametrize("pack", SHIPPED)
def test_a_packs_tests_notice_what_is_wrong(pack: str, killers: dict[str, Killer]) -> None:
    if pack not in killers:
        pytest.skip(f"{pack} has no rules of its own")
    killer = killers[pack]
    known = Survivors().known(pack)
    asked = [m for m in killer.mutants if m.text not in known]
    drawn = random.Random(killer.state).sample(asked, min(SAMPLE, len(asked)))
    assert killer.passes_unharmed(drawn[0]), "the control fails: the pack's tests do"
    assert not [m.text for m in drawn if killer.survives(m)]


def test_another_state_of_a_pack_or_of_its_tests_draws_other_mutants(killer: Killer, tmp_path: Path) -> None:
    changed = [("p.vitals", POLICY.replace("param most = 4", "param most = 5")), ("p.vtest.yaml", TESTS + "seed: 1\n")]
    states = {killer.state, Killer("p", killer.suite).state}
    assert len(states) == 1
    for name, text in changed:
        (tmp_path / name).write_text(text)
        states.add(Killer("p", load_tests(tmp_path / "p.vtest.yaml")).state)
    assert len(states) == 3


def test_what_is_listed_exists_and_what_is_equivalent_has_its_reason(killers: dict[str, Killer]) -> None:
    listed = Survivors()
    for pack, killer in killers.items():
        assert not listed.known(pack) - {m.text for m in killer.mutants}
        assert all(listed.equivalent.get(pack, {}).values())


def test_survivors_are_noted_beside_those_of_other_packs(tmp_path: Path) -> None:
    file = tmp_path / "survivors.yaml"
    file.write_text("# why\nequivalent: {a: {x: same}}\nopen: {b: [y], c: [z]}\n")
    Survivors(file).note({"b": [], "d": ["`w > 1` turned"]})
    again = Survivors(file)
    assert again.open == {"c": ["z"], "d": ["`w > 1` turned"]} and again.known("a") == {"x"}
    assert file.read_text().startswith("# why")
