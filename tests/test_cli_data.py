"""Where the output is data, it is data and nothing else: each line of stdout strict JSON, all words to people on stderr."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from vitalsdsl.cli.app import vitals

POLICY = """policy p
metric lr = "lr" optional
rule loss_high "the loss is high" { when loss > 4 for 5 steps -> orange because "loss {loss}" }
when lr > 1 -> yellow
"""
TESTS = """policy: p.vitals
tests:
  - {name: fires, series: {loss: "1 x5, nan, 9 x9"}, expect: [{step: 10, rule: loss_high, to: orange}]}
"""


def no_constant(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


@pytest.mark.parametrize(
    "words",
    [
        "replay p.vitals a.jsonl b.csv",
        "replay p.vitals -",
        "names a.jsonl b.csv",
        "names a.jsonl --policy p.vitals",
        "explain p.vitals",
        "explain p.vitals a.jsonl --step 350",
        "explain p.vitals a.jsonl --code",
        "backtest p.vitals a.jsonl b.csv --no-cache --jobs 1",
        "functions",
        "functions mean",
        "packs core",
        "requests x --control c",
        "doctor",
        "test p.vitals",
        "policy show p.vitals",
        "policy diff p.vitals p.vitals",
    ],
)
def test_each_line_of_data_is_strict_json(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"step": s, "loss": float("nan") if s == 40 else 9.0 if s > 300 else 2.0} for s in range(400)]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("b.csv").write_text("iteration,loss\n1,inf\n2,3\n1,2\n2,3")
    Path("p.vitals").write_text(POLICY)
    Path("p.vtest.yaml").write_text(TESTS)
    done = CliRunner().invoke(
        vitals, [*words.split(), "--format", "jsonl"], input=Path("a.jsonl").read_text(), prog_name="vitals"
    )
    assert done.exit_code in (0, 1), done.output
    told = [json.loads(line, parse_constant=no_constant) for line in done.stdout.splitlines()]
    assert all(isinstance(one, dict) and "type" in one for one in told)
    assert told or words.startswith(("requests", "policy diff"))
