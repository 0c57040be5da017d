"""Logs that are odd, as a newcomer has them: each is read as far as it means something, and told of in one plain line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vitalsdsl.cli import packs
from vitalsdsl.cli.app import vitals

STEPS = range(60)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(packs, "packs", lambda: {"names": "vitalsdsl_rules"})
    Path("p.vitals").write_text("when loss > 100 -> red")
    return tmp_path


def call(*words: str) -> Result:
    done = CliRunner().invoke(vitals, list(words), prog_name="vitals")
    assert "Traceback" not in done.output and (done.exception is None or isinstance(done.exception, SystemExit))
    return done


@pytest.mark.parametrize(
    ("name", "text", "code", "said"),
    [
        ("a.csv", "step,loss,loss\n" + "".join(f"{s},2,9\n" for s in STEPS), 0,
         "2 columns are called `loss`: the last one that is not empty counts"),
        ("a.jsonl", "".join(f'{{"step": "step-{s}", "loss": 2}}\n' for s in STEPS), 2,
         "has `step-0` under `step`: a step is a whole number; if another key is it, say so with --step"),
        ("a.jsonl", "".join(f'{{"step": {2**60 + s}, "loss": 2}}\n' for s in STEPS), 2,
         "has `1152921504606846976` under `step`, which is beyond 9,007,199,254,740,992"),
        ("a.csv", "step,loss\n" + "5,2.0\n" * 60, 0, "all 60 rows are at step 5, and count as one"),
        ("a.csv", "step;loss\n" + "".join(f"{s};2,5\n" for s in STEPS), 0,
         "`2,5` under `loss` is no number here, nor are others like it: write 2.5"),
        ("a.jsonl", '{"step": 1, "loss": 2}\n', 0, "0 transitions in 1 row; at the end green"),
        ("a.jsonl", "".join(f'{{"step": {s}.0, "loss": "2.0"}}\n' for s in STEPS), 0, "in 60 rows; at the end green"),
        ("a.jsonl", "", 2, "a.jsonl: is empty"),
        ("a.csv", "step,loss\n", 2, "a.csv: has no rows"),
    ],
)  # fmt: skip
def test_what_is_odd_about_a_log_is_said(here: Path, name: str, text: str, code: int, said: str) -> None:
    Path(name).write_text(text)
    done = call("replay", "p.vitals", name)
    assert (done.exit_code, said in done.output) == (code, True), done.output


def test_plain_tables_are_told_nothing_of(here: Path) -> None:
    Path("a.csv").write_text("step,loss,note\n" + "".join(f"{s},2.5,\n" for s in STEPS))
    assert call("replay", "p.vitals", "a.csv").stderr == ""


@pytest.mark.parametrize("name", ["nan", "when", "rule", "3b", "größe"])
def test_a_policy_that_is_written_has_a_name_that_it_may_have(here: Path, name: str) -> None:
    Path(f"{name}.jsonl").write_text("".join(f'{{"step": {s}, "loss": 2}}\n' for s in STEPS))
    Path("w.vitals").write_text(call("init", f"{name}.jsonl", "-o", "-").stdout)
    assert call("check", "w.vitals").exit_code == 0


@pytest.mark.parametrize("loss", ["1e308", "-1e308", "5e-324", "NaN", "Infinity", "0"])
def test_a_report_can_be_drawn_of_any_numbers(here: Path, loss: str) -> None:
    pytest.importorskip("matplotlib")
    rows = [f'{{"step": {s}, "loss": {loss}, "grad_norm": {"-" if s % 2 else ""}1e308}}\n' for s in STEPS]
    Path("a.jsonl").write_text("".join(rows))
    done = call("report", "a.jsonl", "--policy", "p.vitals", "-o", "-")
    assert done.exit_code == 0
    assert done.stdout.startswith("<!doctype html>") or done.stdout.lower().startswith("<!doctype")
    assert not Path("-").exists()
