"""`vitals init`: what it writes fits the runs that it is written from, whatever those log."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vitalsdsl.cli import packs
from vitalsdsl.cli.app import vitals
from vitalsdsl.cli.recorded import surveyed
from vitalsdsl.ground.source import Source
from vitalsdsl.language.parser import parse
from vitalsdsl.language.rules import Metric, Rule, Use
from vitalsdsl.planning.sight import Sight
from vitalsdsl.policies.policy import load

GOLDEN = Path(__file__).parent / "golden" / "init.vitals"

Rows = list[dict[str, object]]


def call(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(vitals, list(words), input=stdin, prog_name="vitals")


def log(path: Path, rows: Iterable[Mapping[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


def training(every: int = 10, rows: int = 200, evaluated: int = 250, prefix: str = "train/", seed: int = 1) -> Rows:
    chance = random.Random(seed)
    out: Rows = []
    for step in range(0, every * rows, every):
        row: dict[str, object] = {
            "step": step, f"{prefix}loss": 2 + 6 * math.exp(-step / 300) + chance.gauss(0, 0.02),
            f"{prefix}grad_norm": 0.8 * math.exp(chance.gauss(0, 0.3)), f"{prefix}learning_rate": 3e-4,
        }  # fmt: skip
        if step % evaluated == 0:
            row["eval/loss"] = 2.2 + 6 * math.exp(-step / 300)
        out.append(row)
    return out


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # Two packs will do: what is written does not depend on how many there are, and each takes its time to load.
    monkeypatch.setattr(packs, "packs", lambda: {"names": "vitalsdsl_rules", "core": "vitalsdsl_rules"})
    return tmp_path


def fits(text: str, project: Path, *sources: str) -> None:
    """It passes `check`, `check --against` and `fmt --check`."""
    (project / "written.vitals").write_text(text)
    for words in (("check", "written.vitals"), ("check", "written.vitals", "--against", *sources)):
        result = call(*words)
        assert (result.exit_code, result.stdout) == (0, "1 file: no findings\n"), result.output + text
    assert call("fmt", "--check", "written.vitals").exit_code == 0, call("fmt", "--check", "written.vitals").output


def test_what_it_writes_looks_as_it_did(project: Path, monkeypatch: pytest.MonkeyPatch, update: bool) -> None:
    # One pack of its own, since the golden file is not about what the shipped ones hold.
    monkeypatch.setattr(packs, "packs", lambda: {"names": "vitalsdsl_rules"})
    rows = training()
    rows[120]["train/grad_norm"] = 4.1
    for row in rows:
        row |= {"tok/s": 900, "Train-Loss": 3, **{f"act/layer_{n}": 1.0 for n in range(4)}}
    log(project / "llm-7b.jsonl", rows)
    result = call("init", "llm-7b.jsonl")
    assert result.exit_code == 0, result.output
    if update:
        GOLDEN.write_text(result.stdout, "utf-8")
    assert result.stdout == GOLDEN.read_text("utf-8")
    fits(result.stdout, project, "llm-7b.jsonl")


def test_the_figures_in_its_comments_are_those_of_the_run(project: Path) -> None:
    rows = training()
    rows[120]["train/grad_norm"] = 4.1
    text = call("init", log(project / "a.jsonl", rows)).stdout
    norms = sorted(float(str(row["train/grad_norm"])) for row in rows)
    median, high = (norms[99] + norms[100]) / 2, norms[-1]
    flat = " ".join(text.replace("#", " ").split())
    assert f"grad_norm, 200 points every 10 steps: median {median:.4g}" in flat
    assert f"highest {high:.4g} at step 1,200" in flat
    lowest = min((float(str(row["train/loss"])), int(str(row["step"]))) for row in rows)
    assert f"lowest {lowest[0]:.4g} at step {lowest[1]:,}" in flat


def test_it_uses_the_packs_that_apply_and_no_part_of_another(project: Path) -> None:
    text = call("init", log(project / "a.jsonl", training())).stdout
    used = [use.reference for use in parse(Source("p.vitals", text)).policy.of(Use)]
    assert used == ["pack:core"]
    blind = call("init", log(project / "b.jsonl", [{"step": s, "foo": 1.0} for s in range(50)])).stdout
    assert not parse(Source("p.vitals", blind)).policy.of(Use)


def test_windows_are_in_steps_where_every_step_is_logged_and_in_samples_elsewhere(project: Path) -> None:
    dense = call("init", log(project / "dense.jsonl", training(every=1, rows=400, evaluated=50))).stdout
    sparse = call("init", log(project / "sparse.jsonl", training(every=10))).stdout
    assert "usual(grad_norm, 100 steps)" in dense and "samples)" not in dense
    assert "usual(grad_norm, 50 samples)" in sparse
    assert 'metric loss = "train/loss" every 1 steps' in dense
    assert 'metric val_loss = "eval/loss" every 250 steps' in sparse


def test_several_sources_of_one_project_give_one_policy(project: Path) -> None:
    a = log(project / "a.jsonl", training())
    b = log(
        project / "b.jsonl", [{k: v for k, v in row.items() if k != "eval/loss"} for row in training(prefix="", seed=2)]
    )
    result = call("init", a, b, "-o", "team.vitals")
    assert result.exit_code == 0, result.output
    metrics = {m.name: m for m in load("team.vitals").policy.of(Metric)}
    assert metrics["loss"].logged == ("train/loss", "loss")
    assert (metrics["val_loss"].optional, metrics["loss"].optional) == (True, False)
    fits((project / "team.vitals").read_text(), project, a, b)


def test_a_rule_that_fires_on_the_runs_says_so_where_it_stands(project: Path) -> None:
    rows = training()
    for row in rows:
        if int(str(row["step"])) >= 1500 and "eval/loss" in row:
            row["eval/loss"] = 9.0
    text = call("init", log(project / "a.jsonl", rows)).stdout
    [first, *_] = [t for t in replayed(project, text, "a.jsonl") if t["rule"] == "val_loss_rises"]
    assert first["to"] == "yellow"
    assert f"# On this run it fires: yellow at step {first['step']:,} of a.jsonl.\nrule val_loss_rises" in text
    fits(text, project, "a.jsonl")


def replayed(project: Path, text: str, *sources: str) -> list[dict[str, object]]:
    """What a policy says on runs."""
    done = call("replay", write(project, text), *sources, "--format", "jsonl")
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def risen(rows: Rows, factor: float) -> Rows:
    """The same training, with its loss that many times as high from half of its way on."""
    half = len(rows) // 2
    return [*rows[:half], *({**row, "train/loss": float(str(row["train/loss"])) * factor} for row in rows[half:])]


def test_a_rule_of_its_own_that_turns_orange_on_one_of_the_runs_is_loosened_or_left_out(project: Path) -> None:
    fine = log(project / "fine.jsonl", training())
    higher = log(project / "higher.jsonl", risen(training(), 1.6))
    text = call("init", fine, higher).stdout
    assert (
        "# Looser than is usual, since at 1.3 times it turned orange. On these runs it never fires.\nrule loss_" in text
    )
    assert "> 2 * lowest(median(loss" in text
    gone = log(project / "gone.jsonl", risen(training(), 5))
    more = call("init", fine, higher, gone).stdout
    assert "rule loss_rises" not in more
    assert "# No rule `loss_rises`: even with a looser threshold it turns orange at step 1," in more
    assert "of gone.jsonl. If that run went wrong, it is right." in " ".join(more.replace("#", "").split())
    for written, sources in ((text, (fine, higher)), (more, (fine, higher, gone))):
        assert not {t["to"] for t in replayed(project, written, *sources)} & {"orange", "red"}
        fits(written, project, *sources)


def test_a_rule_of_a_pack_that_turns_orange_on_one_of_the_runs_is_switched_off_and_the_others_stay(
    project: Path,
) -> None:
    names = ["fine.jsonl", "gone.jsonl"]
    log(project / names[0], training())
    log(project / names[1], risen(training(), 5))
    orange = {
        str(t["rule"]) for t in replayed(project, 'use "pack:core" as core', *names) if t["to"] in ("orange", "red")
    }
    assert orange, "the packs say nothing of a loss that is five times as high"
    text = call("init", *names).stdout
    for rule in orange:
        assert f"# {rule} turns " in text and f"\ndisable {rule} because " in text
    assert text.count("\ndisable ") == len(orange)
    assert not {t["to"] for t in replayed(project, text, *names)} & {"orange", "red"}


def test_a_rule_of_a_pack_that_turns_yellow_again_and_again_is_named_with_how_often(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a_pack").mkdir()
    (project / "a_pack" / "noisy.vitals").write_text(
        'vitals 1\npolicy noisy "Noisy"\nmetric loss = "train/loss"\n'
        "rule loud { when loss > 1000 -> yellow }\n"
        "rule rare { when loss > 2000 -> yellow }\n"
        "rule silent { when loss > 1000 -> yellow shadow }\n"
    )
    monkeypatch.syspath_prepend(str(project))
    for place in ("vitalsdsl.cli.packs.packs", "vitalsdsl.policies.packs.packs", "vitalsdsl.policies.references.packs"):
        monkeypatch.setattr(place, lambda: {"noisy": "a_pack"})
    rows = training()
    for at in (60, 70, 80, 90, 100, 110):
        rows[at]["train/loss"] = 1500.0
    for at in (120, 130, 140, 150):
        rows[at]["train/loss"] = 2500.0
    text = call("init", log(project / "a.jsonl", rows)).stdout
    said = " ".join(text.replace("\n#", " ").split())
    assert "`noisy.loud` 10 times in a.jsonl." in said
    assert said.count(" times in ") == 1, said
    assert " times in " not in call("init", log(project / "b.jsonl", training())).stdout
    fits(text, project, "a.jsonl")


def test_the_check_list_is_no_pack_that_a_policy_alerts_by(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "packs", lambda: {"names": "vitalsdsl_rules", "checkup": "vitalsdsl_rules"})
    rows = training()
    for row in rows:
        row |= {"lr_expected": 3e-4, "throughput": 900.0, "param_norm": 100.0, "val_loss": 2.3, "mem/alloc": 5.0}
        row |= {"progress": int(str(row["step"])) / 2000, "checkpoint": row["step"], "loss_scale": 65536.0}
    log(project / "a.jsonl", rows)
    listed = load(packs.CHECKUP).policy
    able = sum(not Sight(listed, surveyed(["a.jsonl"], None).metrics).lacking(rule) for rule in listed.of(Rule))
    assert 2 * able >= len(listed.of(Rule)), "it would be left out anyhow"
    assert "checkup" not in call("init", "a.jsonl").stdout


def test_a_run_that_has_nan_is_held_against_no_rule(project: Path) -> None:
    rows = risen(training(), 5)
    rows[-1]["train/loss"] = math.nan
    text = call("init", log(project / "a.jsonl", training()), log(project / "nan.jsonl", rows)).stdout
    assert "\ndisable " not in text
    assert "it fires: orange at step" in text
    assert {"orange"} <= {t["to"] for t in replayed(project, text, "nan.jsonl")}


def write(project: Path, text: str) -> str:
    (project / "it.vitals").write_text(text)
    return "it.vitals"


def test_a_file_is_never_replaced_unasked(project: Path) -> None:
    log(project / "a.jsonl", training())
    (project / "mine.vitals").write_text("when loss > 3 -> red\n")
    refused = call("init", "a.jsonl", "-o", "mine.vitals")
    assert refused.exit_code == 2
    assert refused.output == "error: mine.vitals is there already: name another file, or say --force to replace it\n"
    assert (project / "mine.vitals").read_text() == "when loss > 3 -> red\n"
    done = call("init", "a.jsonl", "-o", "mine.vitals", "--force")
    assert (done.exit_code, done.stdout) == (
        0, "mine.vitals is written; go on with: vitals check mine.vitals --against a.jsonl\n")  # fmt: skip
    assert "rule loss_rises" in (project / "mine.vitals").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nix.jsonl",), "nix.jsonl"),
        (("-",), "the runs are read twice: save standard input as a file first"),
        (("a.jsonl", "-o", "no/such/folder/x.vitals"), "cannot be written: no such file or directory"),
        (("a.jsonl", "-o", "x.yaml"), "what is written is the vitals language: call it x.vitals"),
        (("a.jsonl", "-o", "."), "is a directory"),
        (("blank.jsonl",), "no run there logs anything"),
        ((), "Missing argument"),
    ],
)
def test_wrong_usage_of_init_is_one_message_and_exit_2(project: Path, words: tuple[str, ...], said: str) -> None:
    log(project / "a.jsonl", training(rows=30))
    log(project / "blank.jsonl", [{"step": 1, "note": "x"}])
    result = call("init", *words, stdin="")
    assert result.exit_code == 2
    assert said in result.output and "Traceback" not in result.output
    assert not (project / "x.yaml").exists()


HOSTILE: dict[str, object] = {
    "\x1b[31mred": 1.0, "a\nrule evil { when loss > 0 -> red }": 2.0, 'say "loss"': 3.0, "损失/训练": 4.0, "x" * 3_000: 5.0,
    "": 6.0, "Train-Loss\nwhen loss > 0 -> red": 1.0, "#": 1.0, "a*b": 7.0, "{}": 1.0, "LOSS\\": 1.0,
}  # fmt: skip


def strange(case: str) -> Rows:
    """Runs of all kinds that leave little to stand on."""
    chance = random.Random(case)
    steps = range(0, 400, 10)
    match case:
        case "one row":
            return [{"step": 5, "loss": 2.0}]
        case "three rows":
            return [{"step": s, "loss": 2.0, "val_loss": 2.0} for s in range(3)]
        case "nothing known":
            return [{"step": s, "foo": chance.random()} for s in steps]
        case "all NaN":
            return [{"step": s, "loss": math.nan, "grad_norm": math.inf} for s in steps]
        case "mostly NaN":
            return [{"step": s, "loss": math.nan if s % 30 else 2.0, "grad_norm": 1.0} for s in steps]
        case "negative loss":
            return [{"step": s, "loss": -1 - chance.random(), "reward": chance.random()} for s in steps]
        case "zeros":
            return [{"step": s, "loss": 0.0, "grad_norm": 0.0, "throughput": 0.0} for s in steps]
        case "irregular":
            at = sorted(chance.sample(range(5_000), 60))
            return [{"step": s, "loss": 2.0 + chance.random(), "val_loss": 2.0} for s in at]
        case "long gap":
            return [{"step": s, "loss": 2.0, "lr": 1.0} for s in (*range(0, 300, 10), *range(4_000, 4_300, 10))]
        case "huge and tiny":
            return [{"step": s, "loss": 10.0 ** chance.randint(-300, 300), "grad_norm": 1e-300} for s in steps]
        case "hostile names":
            return [{"step": s, "loss": 2.0, **HOSTILE} for s in steps]
        case "rewinds":
            again = [{"step": s, "loss": 2.0 + chance.random()} for s in steps]
            return [*again, {"rewind": 100}, *again[11:]]
        case "everything":
            names = (
                "throughput",
                "step_time",
                "grad_norm",
                "loss",
                "val_loss",
                "lr",
                "loss_scale",
                "mem/alloc",
                "epoch",
                "tokens",
            )
            return [{"step": s, **{n: 1 + chance.random() for n in names}} for s in steps]
        case "a spiky norm":
            return [{"step": s, "loss": 2.0, "grad_norm": 1.0 if s % 50 else 40.0} for s in steps]
    raise AssertionError(case)


CASES = (
    "one row", "three rows", "nothing known", "all NaN", "mostly NaN", "negative loss", "zeros", "irregular", "long gap",
    "huge and tiny", "hostile names", "rewinds", "everything", "a spiky norm",
)  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_whatever_a_run_logs_what_is_written_has_no_finding(case: str, project: Path) -> None:
    source = log(project / "run.jsonl", strange(case))
    result = call("init", source)
    assert result.exit_code == 0, result.output
    assert result.stdout.isascii() or case == "hostile names"
    assert all(line.isprintable() for line in result.stdout.splitlines())
    policy = result.stdout
    if load_rules(policy, project):
        fits(policy, project, source)


def load_rules(text: str, project: Path) -> bool:
    """Whether it has a rule at all: of a run that nothing is known of it can only say what it logs."""
    (project / "r.vitals").write_text(text)
    names = [rule.name for rule in load(project / "r.vitals").policy.of(Rule)]
    assert "evil" not in names and "loss_red" not in names
    return bool(names)


@pytest.mark.parametrize("seed", range(3))
def test_runs_at_random_give_a_policy_without_a_finding(seed: int, project: Path) -> None:
    chance = random.Random(seed)
    files = []
    for place in range(chance.randint(1, 3)):
        every = chance.choice((1, 1, 5, 10, 100))
        rows = training(
            every, chance.randint(4, 300), every * chance.choice((5, 20, 50)), chance.choice(("", "train/")), seed
        )
        files.append(log(project / f"{place}.jsonl", rows))
    fits(call("init", *files).stdout, project, *files)
