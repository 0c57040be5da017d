"""A guard in trainers of several processes: the same decisions as in one, and every rank's own counts in step."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from guarded_ranks import Company, Outcome
from trained_ranks import fitted, transformed
from trainers import turns, verdict

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytest.importorskip("lightning.pytorch")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the processes are forked")

RED = "when loss > 5 for 3 steps -> red"
ORANGE = "when loss > 5 for 3 steps -> orange"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    company = Company(
        tmp_path_factory.mktemp("two") / "out", 2, ["vitalsdsl_torch.huggingface", "vitalsdsl_torch.lightning"]
    )
    yield company
    company.dismiss()


def both(outcome: Outcome) -> list[dict[str, Any]]:
    """What the two ranks came to, which is the same but for their own samples."""
    assert outcome.codes == [0, 0], (outcome.errors, outcome.lines)
    first, second = outcome.results
    assert torch.equal(first["weight"], second["weight"])
    for name in first.keys() - {"weight", "order"}:
        assert first[name] == second[name], name
    return [first, second]


def dealt(found: list[dict[str, Any]]) -> list[int]:
    """The samples in the order in which one process would have had them."""
    assert len(found[0]["order"]) == len(found[1]["order"])
    return [one for pair in zip(found[0]["order"], found[1]["order"]) for one in pair]


def test_two_ranks_of_transformers_decide_as_one_process_does(tmp_path: Path, two: Company) -> None:
    play: dict[str, Any] = {"text": RED, "bad": range(90, 100), "max_steps": 70, "save_strategy": "steps", "save_steps": 10,
                            "save_total_limit": 3}  # fmt: skip
    one = transformed(str(tmp_path / "one" / "run"), **play)
    outcome = two.play(transformed, folder=str(tmp_path / "two" / "run"), **play)
    found = both(outcome)
    assert turns(tmp_path / "two" / "run") == turns(tmp_path / "one" / "run")
    (turn,) = turns(tmp_path / "two" / "run")
    assert (turn["trip_step"], turn["step"], turn["position"]) == (48, 20, 68)  # the third bad batch is 47
    assert dealt(found) == one["order"] == [*range(2 * 48), *range(2 * 68, 2 * (68 + 50))]
    assert torch.allclose(found[0]["weight"], one["weight"], atol=1e-6)
    assert (found[0]["step"], found[0]["epoch"], found[0]["done"]) == (one["step"], one["epoch"], 70)
    assert [row["step"] for row in found[0]["log"]] == [row["step"] for row in one["log"]]
    assert [row["vitals/attempt"] for row in found[0]["log"][:-1]] == [0, 0, 1, 1, 1, 1, 1]
    known = {path.name: verdict(path / "vitals.json") for path in (tmp_path / "two" / "out").iterdir()}
    assert known == {path.name: verdict(path / "vitals.json") for path in (tmp_path / "one" / "out").iterdir()}
    assert not any("rule" in line for line in outcome.lines[1])  # one of them speaks
    alone = transformed(str(tmp_path / "two" / "run"), **{**play, "max_steps": 75})
    assert alone["order"] == list(range(2 * 118, 2 * 123))  # a batch of one process is one of each of two


def test_nan_on_the_second_rank_of_transformers_takes_both_back(tmp_path: Path, two: Company) -> None:
    play = {"text": "when loss is nan -> red", "bad": [91], "loss": math.nan, "max_steps": 60}
    found = both(two.play(transformed, folder=str(tmp_path / "run"), **play))
    (turn,) = turns(tmp_path / "run")
    assert (turn["trip_step"], turn["step"]) == (46, 20)  # sample 91 is the second rank's share of batch 45
    assert found[0]["done"] == 60 and found[0]["weight"].isfinite().all()


def test_two_ranks_of_transformers_are_paused_and_go_on_in_the_same_order(tmp_path: Path, two: Company) -> None:
    play: dict[str, Any] = {"max_steps": 60, "samples": 50, "shuffled": True}
    whole = both(two.play(transformed, folder=str(tmp_path / "whole" / "run"), text=RED, **play))
    folder, text = str(tmp_path / "part" / "run"), "when step == 37 -> orange"  # in the midst of the second epoch
    assert two.play(transformed, folder=folder, text=text, **play).codes == [75, 75]
    rest = both(two.play(transformed, folder=folder, text=text, **play))
    for all_of_it, what_was_left in zip(whole, rest):
        assert what_was_left["order"] == all_of_it["order"][37:]
        assert torch.equal(all_of_it["weight"], what_was_left["weight"])
        assert (all_of_it["log"], all_of_it["epoch"]) == (what_was_left["log"], what_was_left["epoch"])


def test_the_best_of_transformers_is_none_that_is_suspect_on_any_rank(tmp_path: Path, two: Company) -> None:
    found = both(two.play(
        transformed, folder=str(tmp_path / "run"), text="when loss > 5 -> yellow", bad=range(116, 128), max_steps=100,
        evaluated=[5.0, 4.0, 1.0, 3.0, 3.5], eval_strategy="steps", eval_steps=20, save_strategy="steps", save_steps=20,
        load_best_model_at_end=True, metric_for_best_model="loss", greater_is_better=False,
    ))  # fmt: skip
    assert verdict(tmp_path / "out" / "checkpoint-60" / "vitals.json") == "suspect"
    assert found[0]["best"] == found[1]["best"] == "checkpoint-80"


@pytest.mark.parametrize("rank", [0, 1])
def test_a_fault_of_the_callback_on_one_rank_of_transformers_switches_it_off_on_both(
    tmp_path: Path, two: Company, rank: int
) -> None:
    outcome = two.play(transformed, folder=str(tmp_path / "run"), text=RED, fails=rank, max_steps=12, logging_steps=6,
                       save_strategy="steps", save_steps=1)  # fmt: skip
    assert both(outcome)[0]["step"] == 12
    assert all(sum("is off" in line for line in lines) >= 1 for lines in outcome.lines)


def test_two_ranks_of_lightning_decide_as_one_process_does(tmp_path: Path, two: Company) -> None:
    play: dict[str, Any] = {"text": RED, "bad": range(90, 100), "max_steps": 70}
    one = fitted(str(tmp_path / "one" / "run"), **play)
    outcome = two.play(fitted, folder=str(tmp_path / "two" / "run"), **play)
    found = both(outcome)
    assert turns(tmp_path / "two" / "run") == turns(tmp_path / "one" / "run")
    (turn,) = turns(tmp_path / "two" / "run")
    assert (turn["trip_step"], turn["step"], turn["position"]) == (48, 20, 68)
    assert dealt(found) == one["order"] == [*range(2 * 48), *range(2 * 68, 2 * (68 + 50))]
    assert torch.allclose(found[0]["weight"], one["weight"], atol=1e-6)
    assert {name: found[0][name] for name in one if name not in ("order", "weight")} == {
        name: one[name] for name in one if name not in ("order", "weight")
    }
    # Steps 30 and 40 are counted twice, and what the first attempt made there was taken back.
    known = {path.name: verdict(path) for path in (tmp_path / "two" / "out").glob("*.vitals.json")}
    assert known == {path.name: verdict(path) for path in (tmp_path / "one" / "out").glob("*.vitals.json")}
    assert "taken back" in known.values() and not any("rule" in line for line in outcome.lines[1])


def test_nan_on_the_second_rank_of_lightning_takes_both_back(tmp_path: Path, two: Company) -> None:
    play = {"text": "when loss is nan -> red", "bad": [91], "loss": math.nan, "max_steps": 60}
    found = both(two.play(fitted, folder=str(tmp_path / "run"), **play))
    (turn,) = turns(tmp_path / "run")
    assert (turn["trip_step"], turn["step"]) == (46, 20)
    assert found[0]["done"] == 60 and found[0]["weight"].isfinite().all()


def test_two_ranks_of_lightning_are_paused_and_go_on_in_the_same_order(tmp_path: Path, two: Company) -> None:
    play: dict[str, Any] = {"max_steps": 60, "samples": 50, "shuffled": True}
    whole = both(two.play(fitted, folder=str(tmp_path / "whole" / "run"), text=RED, **play))
    folder, text = str(tmp_path / "part" / "run"), "when step == 37 -> orange"
    assert two.play(fitted, folder=folder, text=text, **play).codes == [75, 75]
    rest = both(two.play(fitted, folder=folder, text=text, **play))
    for all_of_it, what_was_left in zip(whole, rest):
        assert what_was_left["order"] == all_of_it["order"][37:]
        assert torch.equal(all_of_it["weight"], what_was_left["weight"])
        assert all_of_it["epoch"] == what_was_left["epoch"]


def test_the_best_of_lightning_is_none_that_is_suspect_on_any_rank(tmp_path: Path, two: Company) -> None:
    found = both(two.play(fitted, folder=str(tmp_path / "run"), text="when loss > 5 -> yellow", bad=range(116, 128),
                          max_steps=100, scores=[5.0, 4.0, 1.0, 3.0, 3.5]))  # fmt: skip
    assert verdict(tmp_path / "out" / "step=60.ckpt.vitals.json") == "suspect"
    assert found[0]["best"] == found[1]["best"] == "step=80.ckpt"


@pytest.mark.parametrize("rank", [0, 1])
def test_a_fault_of_the_callback_on_one_rank_of_lightning_switches_it_off_on_both(
    tmp_path: Path, two: Company, rank: int
) -> None:
    outcome = two.play(fitted, folder=str(tmp_path / "run"), text=RED, fails=rank, max_steps=12)
    assert both(outcome)[0]["step"] == 12
    assert all(sum("is off" in line for line in lines) >= 1 for lines in outcome.lines)
