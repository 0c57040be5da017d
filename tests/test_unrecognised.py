"""A run whose loss goes by a name that nobody knows is never simply called green."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vitalsdsl import load, watch
from vitalsdsl.attaching.session import EARLY
from vitalsdsl.cli.app import vitals
from vitalsdsl.planning.logged import Reads
from vitalsdsl.planning.unrecognised import otherwise_lacking, unrecognised

BLIND = ", but no rule looked at the loss"


def call(*words: str) -> Result:
    return CliRunner().invoke(vitals, list(words), prog_name="vitals")


def run_of(tmp_path: Path, *names: str) -> str:
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps({"step": s} | dict.fromkeys(names, 2.0 + s % 3)) + "\n" for s in range(60)))
    return str(path)


NAMES = ["my.loss", "lossOfTrain", "model/loss", "nll", "train/nll_loss", "objective/loss", "Loss/train_batch"]


@pytest.mark.parametrize("name", NAMES)
def test_replay_says_first_which_name_is_probably_the_loss(name: str, tmp_path: Path) -> None:
    result = call("replay", "pack:default", run_of(tmp_path, name, "lr"))
    assert f"at the end green{BLIND}\n" in result.stdout
    first = result.stderr.splitlines()[0]
    assert (
        f"probably `{name}`" in first
        and f'write `metric default.loss = "{name}"` beside `use "pack:default" as default`' in first
    )


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("accuracy",), "no loss was recognised among 1 name:"),
        (("accuracy", "eval.loss", "loss_scale"), "no loss was recognised among 3 names:"),
    ],
)
def test_where_nothing_looks_like_a_loss_that_is_said(names: tuple[str, ...], said: str, tmp_path: Path) -> None:
    result = call("replay", "pack:default", run_of(tmp_path, *names))
    assert BLIND in result.stdout and said in result.stderr.splitlines()[0]


@pytest.mark.parametrize("names", [("loss", "other.loss"), ("generator_loss", "discriminator_loss"), ("actor_loss",)])
def test_nothing_is_said_of_a_run_whose_loss_or_parts_of_it_are_known(names: tuple[str, ...], tmp_path: Path) -> None:
    result = call("replay", "pack:default", run_of(tmp_path, *names))
    assert BLIND not in result.stdout and "no rule looks" not in result.stderr


def test_what_is_advised_is_what_helps(tmp_path: Path) -> None:
    run, policy = run_of(tmp_path, "my.loss", "my.grad_norm"), tmp_path / "p.vitals"
    policy.write_text('use "pack:core" as core\nmetric core.loss = "my.loss"\nmetric core.grad_norm = "my.grad_norm"\n')
    assert BLIND in call("replay", "pack:core", run).stdout
    after = call("replay", str(policy), run)
    assert BLIND not in after.stdout and "no rule looks" not in after.stderr
    assert call("check", str(policy), "--against", run).exit_code == 0


def test_a_namespaced_loss_is_given_its_name_there() -> None:
    reads = Reads(load("p", text='use "pack:core" as core').policy)
    told = [one.told for one in unrecognised(reads, ["my.loss"])]
    assert len(told) == 1 and told[0].endswith('write `metric core.loss = "my.loss"`')


def test_the_headline_of_a_report_says_it(tmp_path: Path) -> None:
    run, page = run_of(tmp_path, "my.loss"), tmp_path / "page.html"
    assert "at worst green; no rule looks at the loss" in call("report", run, "-o", str(page)).stderr
    text = call("report", run, "--format", "md").stdout
    assert text.splitlines()[2].startswith("No rule fired. No rule looks at the loss; it is probably")
    assert "no rule looks" not in call("report", run_of(tmp_path, "loss"), "-o", str(page)).stderr


def test_a_training_is_told_early(caplog: pytest.LogCaptureFixture) -> None:
    monitor = watch("pack:core", "r7")
    with caplog.at_level(logging.WARNING, "vitalsdsl"):
        for step in range(EARLY + 2):
            monitor.log({"my.loss": 2.0}, step=step)
    assert [text for text in caplog.messages if "probably `my.loss`" in text] == caplog.messages[:1]
    monitor.finish()


def test_families_of_packs_are_never_told_as_missing_and_what_is_told_is_short() -> None:
    reads = Reads(load("pack:default").policy)
    for logged in (["loss", "grad_norm", "lr"], ["my.loss"]):
        assert otherwise_lacking(reads, logged, unrecognised(reads, logged)) == []
    text = 'use "pack:default" rule own { when los > 3 or max(act/*/absmax) > 3 -> red }'
    own = Reads(load("p", text=text).policy)
    told = own.told(own.never_logged([]), [])
    assert told.startswith("los (read by own), ") and len(told) < 200


@pytest.mark.parametrize(
    "row",
    [
        {"train": {"loss": 2.0, "grad_norm": 1.0}},
        {"training": {"loss": 2.0, "grad_norm": 1.0}},
        {"training/loss": 2.0, "training/grad_norm": 1.0},
    ],
)
def test_a_loss_in_an_object_of_its_own_is_the_loss(row: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps({"iter": s} | row) + "\n" for s in range(60)))
    result = call("replay", "pack:core", str(path))
    assert BLIND not in result.stdout and "no rule looks" not in result.stderr


def test_init_declares_what_is_probably_the_loss_and_says_so(tmp_path: Path) -> None:
    run, policy = run_of(tmp_path, "my.loss", "model.grad_norm", "my.lr"), tmp_path / "first.vitals"
    result = call("init", run, "-o", str(policy))
    assert "no pack knows `my.loss`: it is taken for the loss\n" in result.stderr
    text = policy.read_text()
    assert 'metric loss = "my.loss"' in text and 'metric grad_norm = "model.grad_norm"' in text and "rule loss_" in text
    assert call("check", str(policy), "--against", run).exit_code == 0
    policy.write_text('use "pack:core" as core\nmetric core.loss = "my.loss"\n')
    assert call("check", str(policy)).exit_code == 0 and BLIND not in call("replay", str(policy), run).stdout


def test_init_says_where_there_is_no_loss(tmp_path: Path) -> None:
    text = call("init", run_of(tmp_path, "accuracy", "speed")).stdout
    assert "# No loss was recognised among 2 names, so nothing here looks at it" in text
    assert "No loss was" not in call("init", run_of(tmp_path, "loss")).stdout
