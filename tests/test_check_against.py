"""`vitals check --against`: a policy held against recorded runs, over the command line and as a library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tried import tried_on

from vitalsdsl.cli.app import vitals
from vitalsdsl.policies.policy import read

GOLDEN = Path(__file__).parent / "golden" / "against.txt"

Run = Mapping[str, tuple[str, int]]

# A run that logs its loss every 10 steps, up to step 1990, and validates every 250.
USUAL: Run = {"train/loss": ("3->2 x200", 10), "eval/loss": ("3->2 x8", 250), "act/layer_0": ("1 x200", 10)}

POLICY = """\
metric val_loss = "eval/loss" every 1000 steps
rule misspelt "t" { when train/lss > 9 -> yellow }
rule mixed "t" { when val_loss > 1.05 * lowest(val_loss) and train/loss < 9 for 2 samples -> yellow }
rule sparse "t" { when mean(train/loss, 40 steps) > 5 -> yellow }
rule empty "t" { when slope(eval/acc, 200 steps) > 9 -> yellow }
rule dead "t" { when train/loss > 3 * baseline(train/loss, 20k steps) for 30 samples -> yellow }
rule nowhere "t" { when max(grad/*) > 3 -> yellow }
rule hasty "t" { when train/loss > 2.5 -> yellow }
"""


def found(text: str, *runs: Run, healthy: bool = False) -> list[str]:
    return [d.code for d in read("p.vitals", text=text, tries=tried_on(runs, healthy) if runs else None)[1]]


def call(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(vitals, ["check", *words], input=stdin, prog_name="vitals")


def lines(steps: int = 100, every: int = 10, **values: float) -> str:
    return "".join(json.dumps({"step": s, **values}) + "\n" for s in range(0, steps * every, every))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.vitals").write_text(POLICY)
    (tmp_path / "good.vitals").write_text('rule r "t" { when train/loss > 9 for 5 samples -> yellow }\n')
    for name in ("a", "b"):
        rows = []
        for step in range(0, 2_000, 10):
            rows.append({"step": step, "train/loss": 3 - step / 2_000} | ({"eval/loss": 3} if step % 250 == 0 else {}))
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_what_is_found_looks_as_it_did(project: Path, update: bool) -> None:
    result = call("p.vitals", "--against", "a.jsonl", "--healthy", "b.jsonl")
    assert result.exit_code == 1
    if update:
        GOLDEN.write_text(result.stdout, "utf-8")
    assert result.stdout == GOLDEN.read_text("utf-8")


@pytest.mark.parametrize("form", ["json", "github", "sarif"])
def test_each_format_tells_the_same_findings(project: Path, form: str) -> None:
    codes = {"V304", "V301", "V102", "V110", "V605", "V316", "V604"}
    output = call("p.vitals", "--healthy", "a.jsonl", "b.jsonl", "--format", form).stdout
    if form == "json":
        said = {d["code"] for d in json.loads(output)}
    elif form == "sarif":
        said = {r["ruleId"] for r in json.loads(output)["runs"][0]["results"]}
    else:
        said = {line.split("title=")[1].split("::")[0] for line in output.splitlines()}
    assert said == codes


def test_a_policy_that_fits_its_runs_has_no_findings(project: Path) -> None:
    result = call("good.vitals", "--against", "a.jsonl", "b.jsonl", "--healthy", "a.jsonl")
    assert (result.exit_code, result.stdout) == (0, "1 file: no findings\n")


def test_several_policies_are_each_held_against_all_runs(project: Path) -> None:
    found = json.loads(call("p.vitals", "good.vitals", "--against", "a.jsonl", "b.jsonl", "--format", "json").stdout)
    assert {d["file"] for d in found} == {"p.vitals"}
    assert any("(2 runs checked)" in d["message"] for d in found)


def test_runs_may_come_on_standard_input(project: Path) -> None:
    assert call("good.vitals", "--against", "-", stdin=lines(**{"train/loss": 2.0})).exit_code == 0
    assert "V301" in call("good.vitals", "--against", "-", stdin=lines(loss=2.0)).stdout


def test_the_training_step_may_be_a_logged_name(project: Path) -> None:
    rows = "".join(json.dumps({"step": s, "iter": 500 * s, "loss": 2.0}) + "\n" for s in range(9))
    (project / "axis.vitals").write_text('metric loss = "loss" every 1 steps\nrule r "t" { when loss > 9 -> yellow }\n')
    assert "V304" not in call("axis.vitals", "--against", "-", stdin=rows).stdout
    assert "logged every 500" in call("axis.vitals", "--against", "-", "--step", "iter", stdin=rows).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("p.vitals", "--against"), "requires an argument"),
        (("p.vitals", "--against", "--format", "json"), "requires an argument"),
        (("--against", "a.jsonl"), "no file given"),
        (("p.vitals", "--against", "nix.jsonl"), "nix.jsonl"),
        (("p.vitals", "--against", "-", "-"), "standard input can be read once"),
        (("p.vitals", "good.vitals", "--against", "-"), "standard input can be read once"),
        (("-", "--against", "-"), "standard input can be read once"),
        (("p.vitals", "--against", "nix:run"), "nothing here reads `nix:`"),
        (("p.vitals", "--against", "empty"), "no run there logs anything"),
    ],
)
def test_wrong_usage_of_runs_is_one_message_and_exit_2(project: Path, words: tuple[str, ...], said: str) -> None:
    (project / "empty").write_text('{"step": 1, "note": "x"}\n')
    result = call(*words, stdin="")
    assert result.exit_code == 2
    assert said in result.output and "Traceback" not in result.output


def test_a_policy_with_errors_is_told_of_them_and_held_against_nothing(project: Path) -> None:
    (project / "bad.vitals").write_text("when lss > 3 for 20 -> red\n")
    output = call("bad.vitals", "--against", "a.jsonl").stdout
    assert "V001" in output and "V301" not in output


def test_a_silence_of_what_only_runs_tell_is_idle_neither_with_them_nor_without(project: Path) -> None:
    text = (
        "# vitals: off V110 because four will do\n" + 'rule r "t" { when mean(train/loss, 40 steps) > 9 -> yellow }\n'
    )
    assert found(text) == found(text, USUAL) == []
    assert found(text.replace("40", "400"), USUAL) == ["V603"]


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("when grad_nrom > 3 -> yellow", "did you mean `train/grad_norm` (1 of 1 runs, every step)?"),
        ("when loss > 3 -> yellow", "did you mean `train/loss`"),
        ('metric loss = "lm loss" when loss > 3 -> yellow', 'write `metric loss = "lm loss", "train/loss"`'),
        ('metric gn = "train/grad_norm" when gm > 3 -> yellow', "declare it"),
        (
            'metric grad_norm = "train/grad_norm"\nwhen grad_nrm > 3 -> yellow',
            "did you mean `grad_norm`, which `metric grad_norm` declares?",
        ),
        ("when trian/loss > 3 -> yellow", "did you mean `train/loss`"),
        ("when val/loss > 3 -> yellow", "did you mean `eval/loss`"),
        ("when entropy > 3 -> yellow", 'declare it: `metric entropy = "entropy" optional`'),
    ],
)
def test_a_name_that_no_run_logs_is_told_with_the_nearest_one(text: str, told: str) -> None:
    run = {"eval/loss": ("2 x9", 1), "train/loss": ("2 x9", 1), "train/grad_norm": ("2 x9", 1)}
    [finding] = [d for d in read("p.vitals", text=text, tries=tried_on([run]))[1] if d.code == "V301"]
    assert told in finding.help[0]


@pytest.mark.parametrize(
    "text",
    [
        'metric lr = "lr" optional\nwhen lr > 3 -> yellow',
        "when train/loss > 9 and not surely(lr > 1) -> yellow",
        'rule r "t" disabled { when lr > 3 -> yellow }'.replace(" disabled {", " {").replace(
            "-> yellow", "-> yellow disabled"
        ),
        'metric lr = "lr"\nwhen train/loss > 9 -> yellow',
        'rule r "t" each m in act/* { when m > 9 -> yellow because "{m} of {member}" }',
        "let gap = train/loss - eval/loss\nwhen gap > 9 -> yellow",
        'phase late = progress > 50%\nrule r "t" { when late and train/loss > 9 -> yellow }',
        'metric a/* = "act/*"\nwhen max(a/*) > 9 -> yellow',
        "when train/loss > 3 * baseline(train/loss, 20 samples, by: median) -> yellow",
    ],
)
def test_nothing_is_said_of_names_that_are_there_or_need_not_be(text: str) -> None:
    assert {"V301", "V316", "V302"}.isdisjoint(found(text, USUAL))


def test_a_run_that_ended_before_a_metric_was_due_does_not_lack_it() -> None:
    text = "when eval/loss > 9 -> yellow"
    late: Run = {"train/loss": ("2 x200", 10), "eval/loss": ("gap x2, 2 x6", 250)}
    short: Run = {"train/loss": ("2 x20", 10)}
    long: Run = {"train/loss": ("2 x200", 10)}
    assert found(text, late, short) == []
    assert found(text, late, long) == ["V302"]


@pytest.mark.parametrize(
    ("text", "code", "help_"),
    [
        (
            "when val_loss > 9 -> yellow",
            "V301",
            'called `eval/loss` (2 of 3 runs): write `metric val_loss = "val_loss", "eval/loss", "eval_loss"`, or `use',
        ),
        (
            'metric v = "val/loss"\nwhen v > 9 -> yellow',
            "V301",
            'is it `eval/loss` (2 of 3 runs, every step)? then write `metric v = "val/loss", "eval/loss"`',
        ),
        (
            'when "val loss" > 9 -> yellow',
            "V301",
            'called `eval/loss` (2 of 3 runs): write `use "pack:names"` and `val_loss`, which is both',
        ),
        (
            "when loss > 9 -> yellow",
            "V302",
            'called `train/loss` there: write `metric loss = "loss", "train/loss"`, or `use "pack:names"`',
        ),
    ],
)
def test_a_name_that_the_packs_know_is_told_what_the_runs_call_it(
    text: str, code: str, help_: str, project: Path
) -> None:
    for name, losses in {
        "a": ("train/loss", "eval/loss"),
        "b": ("train/loss", "eval/loss"),
        "c": ("loss", "eval_loss"),
    }.items():
        (project / f"{name}.jsonl").write_text(lines(every=1, **dict.fromkeys(losses, 2.0)))
    (project / "q.vitals").write_text(text + "\n")
    said = call("q.vitals", "--against", "a.jsonl", "b.jsonl", "c.jsonl", "--format", "json").stdout
    [finding] = [d for d in json.loads(said) if d["code"] in ("V301", "V302")]
    assert (finding["code"], any(help_ in h for h in finding["help"])) == (code, True), finding


# ---------------------------------------------------------------- cadences

CADENCES = [
    # val_loss comes every 250 steps, train/loss every 10.
    ("when eval/loss > 9 for 20 steps -> yellow", "V101"),
    ("when eval/loss > 9 for 2 samples -> yellow", None),
    ("when eval/loss > 9 and train/loss > 9 for 2 samples -> yellow", "V102"),
    ("when eval/loss > 9 and train/loss > 9 for 2 samples on eval/loss -> yellow", None),
    ("when mean(eval/loss, 200 steps) > 9 -> yellow", "V104"),
    ("when mean(eval/loss, 1000 steps) > 9 -> yellow", "V110"),
    ("when mean(eval/loss, 1250 steps) > 9 -> yellow", None),
    ("when mean(eval/loss, 3 samples) > 9 -> yellow", None),
    ("when max(eval/loss, 500 steps) > 9 -> yellow", None),
    ("when mean(train/loss, 50 steps) > 9 -> yellow", None),
    ("when train/loss > 9 * baseline(50) -> yellow", "V202"),
    ("when eval/loss > 9 * usual(eval/loss, 750 steps) -> yellow", "V212"),
]


@pytest.mark.parametrize(("text", "code"), CADENCES, ids=[text for text, _ in CADENCES])
def test_windows_and_spans_are_held_against_how_often_runs_log(text: str, code: str | None) -> None:
    assert [c for c in found(text, USUAL) if c != "V605"] == ([code] if code else [])
    assert found(text) == (["V102"] if code == "V102" else [])


def test_a_metric_that_comes_irregularly_has_no_cadence_to_hold_a_policy_to() -> None:
    text = "when mean(eval/loss, 200 steps) > 9 -> yellow"
    irregular: Run = {"eval/loss": ("1, gap x6, 1, gap x2, 1, gap x9, 1, 1, gap x12, 1", 10)}
    assert found(text, irregular) == []


def test_of_several_runs_the_one_that_logs_most_often_counts() -> None:
    text = "when mean(loss, 200 steps) > 9 -> yellow"
    assert found(text, {"loss": ("2 x20", 100)}, {"loss": ("2 x200", 10)}) == []
    assert found(text, {"loss": ("2 x20", 100)}, {"loss": ("2 x20", 100)}) == ["V110"]


# ---------------------------------------------------------------- what rules do


def test_a_rule_that_merely_never_fires_is_not_dead() -> None:
    assert found("when train/loss > 9 for 20 samples -> yellow", USUAL, healthy=True) == []


def test_a_rule_whose_phase_never_comes_is_dead() -> None:
    text = 'phase late = step > 5000\nrule r "t" in phase late { when train/loss > 9 -> yellow }'
    [finding] = read("p.vitals", text=text, tries=tried_on([USUAL]))[1]
    assert (finding.code, finding.label) == ("V605", "`phase late` is never on")


def test_one_run_that_knows_a_rule_is_enough() -> None:
    text = "when train/loss > 9 * baseline(train/loss, 1500 steps) -> yellow"
    short: Run = {"train/loss": ("2 x20", 10)}
    assert found(text, short) == ["V605"]
    assert found(text, short, USUAL) == []


def test_alarms_are_counted_by_run_with_the_first_of_each() -> None:
    spiky: Run = {"loss": ("2 x50, 9 x2, 2 x50, 9 x2, 2 x9", 1)}
    text = "when loss > 3 -> orange"
    [finding] = read("p.vitals", text=text, tries=tried_on([spiky, {"loss": ("2 x50", 1)}, spiky]))[1]
    assert finding.message == "`loss_orange` would have fired 4 times in 2 of 3 healthy runs"
    assert finding.label == "orange at step 50 of run0"
    assert finding.help[0] == "also run2 (orange at step 50)"
    assert found(text, spiky) == [], "nothing is said of runs that nobody calls healthy"


def test_alarms_of_what_is_used_are_told_at_its_use(tmp_path: Path) -> None:
    (tmp_path / "team.vitals").write_text(
        'metric x = "x"\nrule high "t" { when loss > 3 -> orange }\nwhen x > 9 -> red\n'
    )
    own = tmp_path / "own.vitals"
    own.write_text('# ours\nuse "team.vitals" as team\n')
    found = read(own, tries=tried_on([{"loss": ("2, 9", 1), "x": ("1, nan", 1)}]))[1]
    assert [(d.code, d.span.text, d.message.split(" would")[0]) for d in found] == [
        ("V604", "team.vitals", "`team.high`"), ("V604", "as team", "`nonfinite(team.x)`")]  # fmt: skip


def test_names_that_try_to_write_to_the_terminal_do_not(project: Path) -> None:
    (project / "odd.vitals").write_text('rule r "t" { when "\x1b[31mlos" > 3 -> yellow }\n')
    output = call("odd.vitals", "--against", "-", stdin=lines(**{"\x1b[31mloss": 2.0, "損失" * 200: 1.0})).stdout
    assert "V301" in output and "\x1b" not in output
