"""A guard in several processes: one decides, all do the same at the same step, or they end together."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from guarded_ranks import (
    Company,
    Outcome,
    apart,
    asked,
    deadly,
    die,
    elsewhere,
    failing,
    held,
    otherwise,
    plain,
    run,
    single,
    spoiled,
    stalled,
    stateful,
    unfit,
)
from training_loops import BATCHES, answers, channel, history, request
from vitalsdsl_torch import Batches, Guard

from vitalsdsl.ground.errors import UsageError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by a signal")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    company = Company(tmp_path_factory.mktemp("alone") / "out", 1)
    yield company
    company.dismiss()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    company = Company(tmp_path_factory.mktemp("two") / "out", 2)
    yield company
    company.dismiss()


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    company = Company(tmp_path_factory.mktemp("four") / "out", 4)
    yield company
    company.dismiss()


def same_on_all(outcome: Outcome) -> dict[str, Any]:
    """What every rank came to."""
    assert outcome.codes == [0] * len(outcome.codes), (outcome.errors, outcome.lines)
    first, *others = outcome.results
    for other in others:
        assert_same(first, other)
    return dict(first)


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert {k: v for k, v in one.items() if k != "tensors"} == {k: v for k, v in other.items() if k != "tensors"}
    assert one["tensors"].keys() == other["tensors"].keys()
    for name, tensor in one["tensors"].items():
        assert torch.equal(tensor, other["tensors"][name]), name


def account(found: dict[str, Any]) -> None:
    """Each batch that was drawn is in the model once, or it stands in the list of those that are not."""
    out = {batch for first, end in found["skipped"] for batch in range(first, end)}
    expected = [int(batch < found["position"] and batch not in out) for batch in range(BATCHES)]
    assert found["tensors"]["seen"].tolist() == expected


def turns(folder: Path) -> list[dict[str, Any]]:
    return [{**record, "request": ""} for record in history(folder) if record["type"] == "turn"]


@pytest.mark.parametrize(("kind", "ranks"), [("ddp", "two"), ("fsdp", "two"), ("ddp", "four")])
def test_a_rollback_lands_on_all_ranks_where_one_process_does(
    tmp_path: Path, alone: Company, kind: str, ranks: str, request: pytest.FixtureRequest
) -> None:
    many: Company = request.getfixturevalue(ranks)
    bad = {"total": 130, "bad": range(105, 110)}
    one = same_on_all(alone.play(plain, folder=str(tmp_path / "alone"), kind="", **bad))
    assert one["attempt"] == 1 and one["skipped"] == [(80, 128)] and one["factor"] == 0.9
    assert_same(one, same_on_all(many.play(plain, folder=str(tmp_path / "many"), kind=kind, **bad)))
    assert turns(tmp_path / "alone") == turns(tmp_path / "many")


def test_any_rank_s_nan_counts_and_all_are_paused_at_that_step(tmp_path: Path, two: Company) -> None:
    play = {"folder": str(tmp_path / "run"), "kind": "ddp", "total": 60, "rank": 1, "at": 33,
            "text": "when loss is nan -> orange"}  # fmt: skip
    found = two.play(spoiled, **play)
    assert found.codes == [75, 75]
    (answer,) = [r for r in history(tmp_path / "run") if r["type"] == "answer" and r["state"] == "done"]
    assert answer["at_step"] == 33 and answer["result"]["checkpoint"] == "step-00000033-0"
    again = same_on_all(two.play(plain, folder=str(tmp_path / "run"), kind="ddp", total=60))
    assert (again["done"], again["attempt"]) == (60, 0)
    account(again)


def test_a_person_pauses_and_resumes_all_ranks(tmp_path: Path, two: Company, alone: Company) -> None:
    control = tmp_path / "control"
    play = {"folder": str(tmp_path / "run"), "kind": "fsdp", "total": 60, "control": str(control)}
    assert two.play(asked, at=30, ask=request("pause"), **play).codes == [75, 75]
    assert two.play(plain, **play).codes == [75, 75]  # nobody has said that it may go on
    channel(control).ask(request("resume"))
    found = same_on_all(two.play(plain, **play))
    assert {state for state, _ in answers(control).values()} == {"done"}
    assert_same(same_on_all(alone.play(plain, folder=str(tmp_path / "one"), kind="", total=60)), found)


def test_all_ranks_wait_in_a_pause_that_is_held(tmp_path: Path, two: Company) -> None:
    play = {"folder": str(tmp_path / "run"), "kind": "ddp", "total": 40, "control": str(tmp_path / "control")}
    account(same_on_all(two.play(held, at=30, **play)))
    assert [state for state, _ in answers(tmp_path / "control").values()] == ["done", "done"]


def test_a_stop_and_a_lower_rate_reach_all_ranks(tmp_path: Path, two: Company) -> None:
    play = {
        "folder": str(tmp_path / "run"),
        "kind": "ddp",
        "control": str(tmp_path / "control"),
        "allow": ("stop", "lr"),
    }
    lower = request("lr_scale", params={"lr_factor": 0.8})
    assert same_on_all(two.play(asked, at=10, ask=lower, total=30, **play))["factor"] == 0.8
    found = two.play(asked, at=33, ask=request("stop"), total=60, **play)
    assert found.codes == [0, 0] and found.results == [None, None]  # ended by SystemExit: nothing was given back
    assert (tmp_path / "run" / "checkpoints" / "step-00000033-0" / "COMPLETE").exists()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_guard_that_fails_on_one_rank_is_off_on_all_and_training_goes_on(
    tmp_path: Path, two: Company, rank: int
) -> None:
    found = two.play(failing, folder=str(tmp_path / "run"), kind="ddp", total=50, rank=rank, at=30)
    assert same_on_all(found)["done"] == 50
    assert all(sum("training goes on" in line for line in lines) == 1 for lines in found.lines)
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000020-0"]


def test_ranks_that_are_not_at_the_same_step_end_and_say_which(tmp_path: Path) -> None:
    found = run(tmp_path, 2, apart, folder=str(tmp_path / "run"), kind="ddp")
    assert found.codes == [76, 76]
    assert all("(rank 0 at 5, rank 1 at 6)" in lines[-1] for lines in found.lines)


def test_a_rank_that_does_not_answer_in_time_is_not_waited_for(tmp_path: Path) -> None:
    company = Company(tmp_path / "out", 2)
    found = company.play(
        stalled, folder=str(tmp_path / "run"), kind="ddp", until=str(tmp_path / "out" / "0" / "0.json")
    )
    company.dismiss()
    assert found.codes == [76, 76]
    assert all("a rank does not answer" in lines[-1] for lines in found.lines)


def test_what_cannot_work_is_said_on_all_ranks(tmp_path: Path, two: Company) -> None:
    found = two.play(elsewhere, folder=str(tmp_path), kind="ddp")
    assert found.codes == [1, 1]
    assert all("UsageError" in error and "rank 1 does not see what rank 0 writes" in error for error in found.errors)
    found = two.play(otherwise, folder=str(tmp_path / "run"))
    assert all("UsageError" in error and "rank 1 has other parameters" in error for error in found.errors)
    found = two.play(plain, folder=str(tmp_path / "other"), kind="ddp", total=1, keep=0)
    assert found.errors == ["UsageError: `keep` must be 1 or more, a whole number, not 0"] * 2


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_where_a_rank_is_killed_the_others_end_and_the_restart_loses_nothing(
    tmp_path: Path, alone: Company, rank: int
) -> None:
    count = 2 if rank < 2 else 4
    play = {"folder": str(tmp_path / "run"), "kind": "fsdp" if rank else "ddp", "total": 60}
    found = run(tmp_path, count, die, rank=rank, at=47, **play)
    assert found.codes == [None if at == rank else 76 for at in range(count)]
    assert all("a rank does not answer" in lines[-1] for at, lines in enumerate(found.lines) if at != rank)
    again = same_on_all(run(tmp_path, count, plain, **play))
    one = same_on_all(alone.play(plain, folder=str(tmp_path / "one"), kind="", total=60))
    assert_same(one, {**again, "attempt": 0})
    account(again)


def test_a_checkpoint_is_read_by_any_number_of_ranks(
    tmp_path: Path, alone: Company, two: Company, four: Company
) -> None:
    play = {"folder": str(tmp_path / "run")}
    for total, company, kind in (
        (20, two, "fsdp"),
        (40, four, "fsdp"),
        (60, alone, ""),
        (80, two, "fsdp"),
        (100, four, "ddp"),
    ):
        outcome = company.play(plain, total=total, kind=kind, **play)
        found = same_on_all(outcome)
        assert found["done"] == total
        assert sum("there are" in line for line in outcome.lines[0]) == (total > 20)
    meeting = str(tmp_path / "meeting")
    found = same_on_all(alone.play(single, meeting=meeting, total=120, kind="fsdp", **play))
    assert_same(same_on_all(alone.play(plain, folder=str(tmp_path / "one"), kind="", total=120)), found)


def test_the_place_of_each_rank_s_own_data_is_of_no_use_to_another_number_of_ranks(
    tmp_path: Path, two: Company, four: Company
) -> None:
    play = {"folder": str(tmp_path / "run"), "kind": "ddp"}
    same_on_all(two.play(stateful, total=20, **play))
    account(same_on_all(two.play(stateful, total=40, **play)))
    found = four.play(stateful, total=60, **play)
    assert all("UsageError" in error and "each of 2 ranks" in error for error in found.errors)


def test_batches_of_a_loader_without_a_state_are_drawn_up_to_their_place_by_any_number_of_ranks(
    tmp_path: Path, alone: Company, two: Company
) -> None:
    play = {"folder": str(tmp_path / "run"), "data": Batches(range(BATCHES))}
    same_on_all(two.play(plain, total=20, kind="ddp", **play))
    found = alone.play(plain, total=40, kind="", **play)
    account(same_on_all(found))
    assert any("of 2 ranks, and there are 1: the data of each goes on at batch 20" in line for line in found.lines[0])


def test_the_older_way_to_shard_is_refused(tmp_path: Path) -> None:
    class FullyShardedDataParallel(torch.nn.Linear):
        """Of that name, which is all that a guard knows of it."""

    model = FullyShardedDataParallel(2, 2)
    with pytest.raises(UsageError, match="sharded by `fully_shard`"):
        Guard("pack:core", tmp_path / "run", model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize("name", ["rank-1.pt", "shards/.metadata"])
def test_damage_that_one_rank_finds_is_the_verdict_of_all(tmp_path: Path, two: Company, name: str) -> None:
    play = {"folder": str(tmp_path / "run"), "kind": "fsdp"}
    same_on_all(two.play(plain, total=60, **play))
    damaged = tmp_path / "run" / "checkpoints" / "step-00000060-0" / name
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(bytes(data))
    found = two.play(plain, total=80, **play)
    account(same_on_all(found))
    assert sum("step-00000060-0 cannot be used" in line for line in found.lines[0]) == 1
    assert sum("after step 40" in line for line in found.lines[0]) == 1


def test_killed_at_random_writes_no_batch_is_trained_twice(tmp_path: Path) -> None:
    draw = random.Random(5)
    play = {"folder": str(tmp_path / "run"), "kind": "ddp", "total": 150, "bad": range(65, 70), "every": 5}
    for rank, most, background in ((0, 40, True), (1, 20, False), (0, 150, False), (1, 40, True), (0, 150, True)):
        found = run(tmp_path, 2, deadly, rank=rank, write=draw.randrange(1, most), background=background, **play)
        # Where it waited at the same boundary, it misses the other there. Else a collective of the training itself may
        # do so first: that is its own error.
        assert found.codes[rank] is None and found.codes[1 - rank] in ({76, 1} if background else {76}), found.lines
    found = run(tmp_path, 2, plain, **play)
    account(same_on_all(found))
    assert len([turn for turn in turns(tmp_path / "run") if turn["ladder"]]) == 1
    assert not found.results[0]["tensors"]["seen"][65:70].any()


def test_where_one_rank_cannot_go_back_all_end_and_start_again_behind_the_bad_window(tmp_path: Path) -> None:
    play = {"folder": str(tmp_path / "run"), "kind": "ddp", "total": 130, "bad": range(105, 110)}
    assert run(tmp_path, 2, unfit, **play).codes == [76, 76]
    found = same_on_all(run(tmp_path, 2, plain, **play))
    assert not found["tensors"]["seen"][105:110].any()
    account(found)


def test_checkpoints_of_many_hold_every_file_in_one_manifest(tmp_path: Path, two: Company) -> None:
    same_on_all(two.play(plain, folder=str(tmp_path / "run"), kind="fsdp", total=20))
    folder = tmp_path / "run" / "checkpoints" / "step-00000020-0"
    said = json.loads((folder / "manifest.json").read_text("utf-8"))
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert set(said["files"]) == files - {"manifest.json", "COMPLETE"}
    assert said["ranks"] == 2 and {"rank-0.pt", "rank-1.pt", "rules.pt", "shards/.metadata"} <= files
