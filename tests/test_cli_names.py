"""`vitals names` as a user calls it. What it prints stands in tests/golden/names."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vitalsdsl.cli import packs
from vitalsdsl.cli.app import vitals
from vitalsdsl.ground.points import number

GOLDEN = Path(__file__).parent / "golden" / "names"

POLICY = """
metric loss = "train/loss", "loss" unit "nats"
metric grad_norm = "train/grad_norm"
metric val_loss = "eval/loss"
metric act/*/absmax = "activations/*/max_abs"
rule climbs { when loss > 3 * baseline(loss, 50 steps) for 20 steps -> orange }
rule slow { when throughput < 0.5 * usual(throughput, 10 samples) for 2 samples -> yellow }
"""


def call(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(vitals, ["names", *words], input=stdin, prog_name="vitals")


def log(path: Path, rows: Iterable[Mapping[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


def training(steps: int = 1_000, every: int = 10) -> list[dict[str, object]]:
    rows = []
    for step in range(0, steps, every):
        row = {
            "step": step,
            "_time": 1e9 + 0.5 * step,
            "train/loss": 3 - step / 1_000,
            "Grad Norm": 0.5 + step % 70 / 100,
        }
        row |= {f"activations/{layer}/max_abs": 2.0 + layer for layer in range(3)}
        row |= {f"mem/gpu{gpu}": 40 for gpu in range(8)} | {"train/epoch": step / 500, "Train Loss": 2.5}
        if step >= 100:
            row["loss"] = row["train/loss"]
        if step % 250 == 0:
            row["eval/loss"] = math.nan if step == 500 else 3.1
        rows.append(row)
    return rows


@pytest.fixture(autouse=True)
def no_packs(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Golden files hold whatever packs are installed here."""
    if "pack" not in request.node.name:
        monkeypatch.setattr(packs, "packs", dict)


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "own.vitals"
    path.write_text(POLICY)
    return str(path)


HOSTILE = {
    "\x1b[31mred\x1b[0m": 1.0, "a\nb": 2.0, 'say "loss"': 3.0, "损失/训练": 4.0, "x" * 300: 5.0, "": 6.0, "a*b": 7.0,
    "nan only": math.nan, "inf only": math.inf, "huge": 1e300, "tiny": -1e-300, "loss\u202egnirts": 1.0,
}  # fmt: skip


@pytest.mark.parametrize("case", ["one_run", "two_runs", "hostile"])
def test_what_it_prints_is_what_it_printed(case: str, policy: str, tmp_path: Path, update: bool) -> None:
    sources = {
        "one_run": [training()],
        "two_runs": [training(), [{"step": 2 * n, "loss": 2.0 + n % 3, "lr": 1e-4} for n in range(50)]],
        "hostile": [[{"step": 7, **HOSTILE}, {"step": 9, "loss": 1}]],
    }[case]
    files = [log(tmp_path / f"{place}.jsonl", rows) for place, rows in enumerate(sources)]
    result = call(*files, "--policy", policy)
    assert result.exit_code == 0, result.output
    path = GOLDEN / f"{case}.txt"
    said = result.stdout.replace(policy, "own.vitals")
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(said, "utf-8")
    assert said == path.read_text("utf-8")
    assert "\x1b" not in said and "\u202e" not in said


def test_json_lines_hold_the_same_for_programs(policy: str, tmp_path: Path) -> None:
    result = call(log(tmp_path / "a.jsonl", training()), "--policy", policy, "--format", "jsonl")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    by_name = {line["logged"]: line for line in lines if "logged" in line}
    assert {line["type"] for line in lines} == {"run", "metric", "family", "counter", "unmapped", "rules"}
    loss = by_name["train/loss"]
    assert (loss["type"], loss["metric"], loss["unit"], loss["points"], loss["every"]) == (
        "metric",
        "loss",
        "nats",
        100,
        10,
    )
    assert (loss["low"], loss["low_step"], loss["high"]) == (pytest.approx(2.01), 990, 3.0)
    assert loss["beaten"] == [{"name": "loss", "why": "it came first, at step 0 against 100"}]
    assert (by_name["eval/loss"]["nan"], by_name["eval/loss"]["points"]) == (1, 4)
    assert (by_name["Grad Norm"]["type"], by_name["Grad Norm"]["maybe"]) == ("unmapped", "grad_norm")
    [rules] = [line for line in lines if line["type"] == "rules"]
    assert rules["can"] == ["climbs"]
    assert rules["cannot"] == [{"rules": ["slow"], "want": ["throughput"]}]


def test_a_run_of_thousands_of_names_is_cut_short_for_people(tmp_path: Path) -> None:
    source = log(
        tmp_path / "a.jsonl", [{"step": n, f"key{n}x": 1.0, "train/global_step": 10 * n} for n in range(1_000)]
    )
    said = call(source).stdout.splitlines()
    assert "  and 800 more: --format jsonl lists all" in said and len(said) < 250
    assert '  train/global_step  step  if rules shall count by it: axis "train/global_step"' in said
    assert len(call(source, "--format", "jsonl").stdout.splitlines()) > 1_000


def test_every_line_for_programs_is_json_whatever_was_logged(tmp_path: Path) -> None:
    source = log(tmp_path / "a.jsonl", [{"step": 1, **HOSTILE}])
    lines = [json.loads(line) for line in call(source, "--format", "jsonl").stdout.splitlines()]
    assert {line["logged"] for line in lines if line["type"] == "unmapped"} == {
        n for n, v in HOSTILE.items() if number(v) is not None
    }


def test_the_shipped_packs_name_the_metrics_and_say_what_they_want() -> None:
    rows = "".join(json.dumps({"step": n, "train/loss": 2.0}) + "\n" for n in range(50))
    lines = [json.loads(line) for line in call("-", "--format", "jsonl", stdin=rows).stdout.splitlines()]
    assert [line["metric"] for line in lines if line["type"] == "metric"] == ["loss"]
    core = next(line for line in lines if line.get("policy") == "pack:core")
    assert "loss_spike" in core["can"]
    assert any("grad_norm" in blind["want"] for blind in core["cannot"])


def test_a_pack_that_hardly_applies_is_told_of_in_one_line() -> None:
    said = call("-", stdin='{"step": 1, "foo": 2}\n').stdout.splitlines()
    [core] = [line for line in said if line.startswith("  pack:core: ")]
    assert core.startswith("  pack:core: 0 of ") and ", for want of loss" in core
    assert not any(line.startswith("    for want of") for line in said)


def test_a_broken_pack_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "packs", lambda: {"nix": "x", "core": "vitalsdsl_rules"})
    result = call("-", stdin='{"step": 1, "loss": 2}\n')
    assert result.exit_code == 0
    assert "pack nix has errors and is left out" in result.stderr
    assert "pack:core: " in result.stdout


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (("nix.jsonl",), "", "nix.jsonl"),
        (("-", "-"), '{"step": 1, "loss": 2}\n', "`-` can be given once"),
        (("-", "--policy", "nix.vitals"), '{"step": 1, "loss": 2}\n', "nix.vitals cannot be read"),
        ((), "", "Missing argument"),
    ],
)
def test_wrong_usage_of_names_is_one_message_and_exit_2(words: tuple[str, ...], stdin: str, said: str) -> None:
    result = call(*words, stdin=stdin)
    assert result.exit_code == 2
    assert said in result.output and "Traceback" not in result.output
