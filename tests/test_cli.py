"""The commands as a user calls them: exit codes, messages, forms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vitalsdsl.cli.app import vitals
from vitalsdsl.ground.errors import SourceError
from vitalsdsl.ground.points import Row, RunInfo
from vitalsdsl.runs.sources import Recording

ROWS = "".join(json.dumps({"step": s, "grad_norm": 4.0 if 500 <= s < 525 else 1.0}) + "\n" for s in range(625))


def call(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(vitals, list(words), input=stdin, prog_name="vitals")


@pytest.fixture
def headline(tmp_path: Path) -> Path:
    path = tmp_path / "grad.vitals"
    path.write_text("when grad_norm > 3*baseline(500) for 20 steps -> orange\n")
    (tmp_path / "run.jsonl").write_text(ROWS)
    return path


def test_replay_gives_the_transitions_as_json_lines(headline: Path) -> None:
    result = call("replay", str(headline), str(headline.parent / "run.jsonl"), "--format", "jsonl")
    first, second = map(json.loads, result.stdout.splitlines())
    assert result.exit_code == 0
    assert set(first) == {"type", "run", "attempt", "rule", "member", "step", "onset", "from", "to", "reason", "message",
                          "values", "margin", "policy", "digest", "id"}  # fmt: skip
    assert (first["step"], first["rule"], first["to"], first["onset"]) == (519, "grad_norm_orange", "orange", 500)
    assert first["values"] == {"grad_norm": 4.0, "baseline(grad_norm, 500 steps)": 1.0}
    assert first["margin"] == pytest.approx(1 / 3)
    assert (second["step"], second["to"]) == (544, "green")


def test_replay_reads_standard_input_and_fails_on_a_level(headline: Path) -> None:
    assert call("replay", str(headline), "-", "--fail-on", "orange", stdin=ROWS).exit_code == 3
    assert call("replay", str(headline), "-", "--fail-on", "red", stdin=ROWS).exit_code == 0


def test_replay_names_what_was_never_logged_and_never_known(tmp_path: Path) -> None:
    path = tmp_path / "p.vitals"
    path.write_text("phase late = progress > 50% rule r in phase late { when los > 3 or loss > 9 -> red }")
    rows = "".join(json.dumps({"step": s, "loss": 1.0}) + "\n" for s in range(5))
    told = call("replay", str(path), "-", stdin=rows).stderr
    assert "  never logged: los (read by r); did you mean `loss`?\n" in told
    assert "  never known: progress (this run does not say how long it is)\n" in told
    known = call("replay", str(path), "-", stdin='{"step": 0, "loss": 1, "los": 1, "max_steps": 9}\n').stderr
    assert "never" not in known


def test_a_run_that_breaks_off_is_replayed_as_far_as_it_can_be_read(
    headline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def events() -> Iterator[Row]:
        yield from (Row(s, {"grad_norm": 4.0 if s >= 500 else 1.0}) for s in range(530))
        raise SourceError("run.log: line 531 is damaged")

    monkeypatch.setattr("vitalsdsl.cli.recorded.read", lambda *_, **__: [Recording(RunInfo("run"), events())])
    result = call("replay", str(headline), "run.log")
    assert "step     519  green -> orange" in result.stdout
    assert "line 531 is damaged" in result.stderr and result.exit_code == 2


def test_explain_says_which_rules_recorded_runs_are_gone_through_for(tmp_path: Path) -> None:
    path = tmp_path / "p.vitals"
    path.write_text(
        "rule slow { when (loss > 3 for 2 epochs) for 5 samples -> red }  rule quick { when loss > 9 -> red }"
    )
    said = call("explain", str(path)).stdout
    assert said.count("step by step") == 1
    assert "A recorded run is gone through step by step for it: a span by the run's counters." in said


def test_replay_says_where_a_metric_of_each_step_stops(tmp_path: Path) -> None:
    rows = [{"step": s, "lr": 1, "loss": 2 if s < 600 else None} for s in range(1000)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "p.vitals").write_text("when loss > 3 -> red")
    said = call("replay", str(tmp_path / "p.vitals"), str(tmp_path / "a.jsonl"))
    assert said.exit_code == 0 and said.stderr == "  logged no more: `loss` was last logged at step 599 of 999\n"


def test_replay_counts_late_points(headline: Path) -> None:
    late = '{"step": 9, "grad_norm": 1}\n'
    for times, told in ((1, "1 late point was read by no rule"), (2, "2 late points were read by no rule")):
        rows = '{"step": 20, "grad_norm": 1}\n' + late * times
        assert told in call("replay", str(headline), "-", stdin=rows).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("replay", "nix.vitals", "-"), "nix.vitals cannot be read"),
        (("replay", "{policy}", "nix.jsonl"), "nix.jsonl"),
        (("replay", "{policy}", "nix:run"), "nothing here reads `nix:`"),
        (("replay", "{policy}", "-", "--set", "k"), "name=value"),
        (("replay", "{policy}", "-", "--set", "k=3"), "there is no param `k`"),
        (("check", "nix.vitals"), "there is no file nix.vitals"),
        (("check", "--explain", "V999"), "there is no code V999"),
        (("functions", "maen"), "did you mean `mean`?"),
        (("explain", "{policy}", "--rule", "nix"), "there is no rule `nix`"),
        (("explain", "{policy}", "--rule", "grad_norm_ornge"), "did you mean `grad_norm_orange`?"),
        (("explain", "{policy}", "--step", "3"), "--step needs a run"),
        (("test", "{policy}"), "has no tests"),
        (("packs", "nix"), "no pack called `nix`"),
    ],
)
def test_wrong_usage_is_one_message_and_exit_2(words: tuple[str, ...], said: str, headline: Path) -> None:
    result = call(*[word.format(policy=headline) for word in words], stdin="")
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output


GIVEN = {
    "a param out of range": (("--set", "k=50"), "V504 --set k=50  param `k` = 50 is outside 1.5 .. 10\n"),
    "no value at all": (
        ("--set", "k=high"),
        "V312 --set k=high  `high` is no value for `k`\n  help: write a number or a length\n",
    ),
    "an unknown param": (("--set", "kk=5"), "V311 --set kk=5  there is no param `kk`\n  help: did you mean `k`?\n"),
    "an unknown profile": (
        ("--profile", "x"),
        "V311 --profile x  `{policy}` has no profile `x`\n  help: it has night\n",
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_what_is_given_on_the_command_line_has_no_line_and_column(name: str, tmp_path: Path) -> None:
    policy = tmp_path / "base.vitals"
    policy.write_text("param k = 3 in 1.5 .. 10 profile night { k = 2 } when loss > k -> yellow")
    words, said = GIVEN[name]
    result = call("replay", str(policy), "-", *words, stdin="")
    assert (result.exit_code, result.output) == (2, said.format(policy=policy))


def test_a_policy_without_profiles_says_so(headline: Path) -> None:
    output = call("replay", str(headline), "-", "--profile", "x", stdin="").output
    assert output == f"V311 --profile x  `{headline}` defines no profiles\n"


def test_a_file_that_cannot_be_read_is_named_once_and_has_no_line(tmp_path: Path) -> None:
    missing = tmp_path / "nix.vitals"
    output = call("replay", str(missing), "-", stdin="").output
    assert output == f"V071 {missing} cannot be read: no such file or directory\n"
    assert call("replay", "nix:llm", "-", stdin="").output.count("nix:llm cannot be had") == 1
    assert ":1:1" not in call("replay", "nix:llm", "-", stdin="").output


def test_check_shows_each_finding_with_its_place_and_exits_1(tmp_path: Path) -> None:
    path = tmp_path / "bad.vitals"
    path.write_text("when loss > 3 for 20 -> red\nwhen lss => 2 -> yellow\n")
    result = call("check", str(path))
    assert result.exit_code == 1
    assert f"V001 {path}:1:19  a duration needs a unit\n  1 | when loss > 3 for 20 -> red\n" in result.output
    assert "V005" in result.output
    found = json.loads(call("check", str(path), "--format", "json").stdout)
    assert [(d["code"], d["line"]) for d in found] == [("V001", 1), ("V005", 2)]
    assert call("check", str(path), "--format", "github").stdout.startswith("::error file=")
    assert json.loads(call("check", str(path), "--format", "sarif").stdout)["version"] == "2.1.0"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two policies and a suite in folders, and what is to be passed over."""
    good, bad = "when loss > 3 -> orange\n", "when   loss >> 3 -> red\n"
    files = {
        "a.vitals": good, "deep/b.vitals": good.replace("3", "4"),
        "deep/c.yaml": 'vitals: 1\nrules:\n  c:\n    when:\n    - {if: "loss > 5", level: yellow}\n',
        "deep/a.vtest.yaml": 'policy: ../a.vitals\ntests:\n- {name: t, series: {loss: "1 x9"}, expect: []}\n',
        "compose.yaml": "services: {}\n", ".hidden/x.vitals": bad, "env/pyvenv.cfg": "", "env/lib/x.vitals": bad,
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_a_folder_stands_for_the_rule_files_below_it(project: Path) -> None:
    assert call("check", str(project)).output == "3 files: no findings\n"
    assert call("check", str(project / "a.vitals"), str(project)).output == "3 files: no findings\n"
    assert call("test", str(project)).output == "1 passed, 0 failed\n"
    (project / "deep" / "b.vitals").write_text("when   loss>4 -> orange\n")
    changed = call("fmt", "--check", str(project))
    assert changed.exit_code == 1 and "deep/b.vitals" in changed.output and "hidden" not in changed.output
    assert call("fmt", str(project)).exit_code == 0
    assert (project / "deep" / "b.vitals").read_text() == "when loss > 4 -> orange\n"


@pytest.mark.parametrize("command", ["check", "fmt", "test"])
def test_a_folder_without_rule_files_is_one_message(project: Path, command: str) -> None:
    result = call(command, str(project / "empty"))
    assert result.exit_code == 2 and re.fullmatch(r"error: \S+/empty is a folder without any \S+\n", result.output)


def test_a_pack_s_own_tests_are_run_by_its_name() -> None:
    result = call("test", "pack:dpo")
    assert result.exit_code == 0 and re.fullmatch(r"[1-9]\d* passed, 0 failed\n", result.output)


@pytest.mark.parametrize("words", [("replay", "{log}", "{policy}"), ("explain", "{log}", "{policy}"), ("check", "{log}"),
                                   ("fmt", "{log}")], ids=lambda w: w[0])  # fmt: skip
@pytest.mark.parametrize("name", ["run.jsonl", "metrics.csv", "log"])
def test_a_log_in_the_place_of_a_policy_is_named_as_that(headline: Path, words: tuple[str, ...], name: str) -> None:
    log = headline.parent / name
    log.write_text("step,loss\n1,2\n" if name.endswith("csv") else ROWS)
    result = call(*[word.format(log=log, policy=headline) for word in words])
    assert result.exit_code in (1, 2)
    assert f"{name} looks like a log, and not like a policy" in result.output
    assert "the policy comes first: vitals replay POLICY SOURCE" in result.output


def test_check_of_a_good_policy_is_quiet(headline: Path) -> None:
    result = call("check", str(headline))
    assert (result.exit_code, result.output) == (0, "1 file: no findings\n")


def test_fmt_writes_one_style_and_converts_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "a.vitals"
    path.write_text("when   grad_norm>3*baseline(500)for 20 steps->orange # why\n")
    assert call("fmt", "--check", str(path)).exit_code == 1
    assert call("fmt", str(path)).exit_code == 0
    assert "when grad_norm > 3 * baseline(500 steps) for 20 steps -> orange" in path.read_text()
    assert "# why" in path.read_text()
    assert call("fmt", "--check", str(path)).exit_code == 0
    twin = tmp_path / "a.yaml"
    twin.write_text(call("fmt", "--to", "yaml", str(path)).stdout)
    assert call("check", str(twin)).exit_code == 0
    assert "-> orange" in call("fmt", "--to", "dsl", str(twin)).stdout


def test_explain_reads_a_rule_out_and_shows_its_values_at_a_step(headline: Path) -> None:
    said = call("explain", str(headline)).output
    assert "Fires orange when grad_norm is above 3 times the baseline of grad_norm" in said
    assert "Needs 500 steps" in said
    assert "not before step 518" in said
    run = str(headline.parent / "run.jsonl")
    pending = call("explain", str(headline), run, "--step", "513").output
    assert "pending 14 of 20 steps, margin +0.333" in pending
    early = call("explain", str(headline), run, "--step", "100").output
    assert "baseline(grad_norm, 500 steps) = unknown  (warming)" in early


def test_explain_says_where_the_run_ends_and_which_step_was_not_logged(tmp_path: Path) -> None:
    policy = tmp_path / "p.vitals"
    policy.write_text("when loss > 3 -> red\n")
    rows = "".join(json.dumps({"step": s, "loss": 1.0}) + "\n" for s in range(0, 400, 10))
    told = [
        call("explain", str(policy), "-", "--step", step, stdin=rows).stderr for step in ("5000", "395", "15", "20")
    ]
    assert told == ["the run ends at step 390\n"] * 2 + ["step 15 was not logged: this is the one before\n", ""]


def test_explain_says_why_a_rule_in_a_phase_is_not_looked_at(tmp_path: Path) -> None:
    policy = tmp_path / "p.vitals"
    policy.write_text("phase late = progress > 50% rule r in phase late { when loss > 1 -> red }\n")
    log = '{"step": 1, "loss": 5.0}\n'
    why = "r: not looked at: phase late is unknown (progress: this run does not say how long it is)"
    assert why in call("explain", str(policy), "-", stdin=log).stdout
    log = '{"step": 1, "loss": 5.0, "max_steps": 10}\n'
    assert "r: not looked at: phase late is off\n" in call("explain", str(policy), "-", stdin=log).stdout
    policy.write_text("phase late = val > 2 rule r in phase late { when loss > 1 -> red }\n")
    assert "not looked at: phase late is unknown (absent)" in call("explain", str(policy), "-", stdin=log).stdout
    log = '{"step": 1, "loss": 5.0, "val": 3}\n'
    assert "r: firing red since its onset at step 1" in call("explain", str(policy), "-", stdin=log).stdout


TREES = {
    "a metric with `every`": ('metric loss = "loss" every 1 steps when loss > 3 -> red', ["loss > 3 = false", "loss = 1"]),
    "a window": (
        "when mean(loss, 2 steps) > 3 -> red", ["mean(loss, 2 steps) > 3 = false", "mean(loss, 2 steps) = 1", "loss = 1"]),
    "a let, with what it is": (
        "let twice = loss * 2 when twice > 3 -> red", ["twice > 3 = false", "twice = 2", "loss * 2 = 2", "loss = 1"]),
    "an event, with what it is": ("event e = loss > 3 when e -> red", ["e = false", "loss > 3 = false", "loss = 1"]),
    "one metric twice": ("when loss > 2 * loss -> red", ["loss > 2 * loss = false", "loss = 1", "2 * loss = 2", "loss = 1"]),
}  # fmt: skip


@pytest.mark.parametrize("name", TREES)
def test_explain_shows_each_part_once(name: str, tmp_path: Path) -> None:
    policy = tmp_path / "p.vitals"
    text, lines = TREES[name]
    policy.write_text(text)
    rows = "".join(json.dumps({"step": s, "loss": 1.0}) + "\n" for s in range(9))
    assert [x.strip() for x in call("explain", str(policy), "-", stdin=rows).stdout.splitlines()[2:]] == lines


def test_a_margin_has_three_digits_and_help_says_what_it_is(tmp_path: Path) -> None:
    policy = tmp_path / "p.vitals"
    policy.write_text("when loss > 3 -> red\n")
    told = call("explain", str(policy), "-", stdin='{"step": 1, "loss": 1.2e20}\n').stdout
    assert "margin +4e+19" in told
    assert "beyond its threshold, relative to it" in " ".join(call("explain", "--help").stdout.split())


def test_functions_and_packs_answer_from_the_registry() -> None:
    everything = call("functions").output
    assert "quantile(x, q, W)" in everything
    assert "The arithmetic mean" in call("functions", "mean").output
    assert "core" in call("packs").output
    core = call("packs", "core").output
    assert '  reads loss from "train/loss", "loss", ' in core and '  reads grad_norm from "train/grad_norm", ' in core


def test_doctor_looks_at_what_is_installed() -> None:
    lines = [json.loads(line) for line in call("doctor", "--format", "jsonl").stdout.splitlines()]
    assert all("(optional)" in line["said"] for line in lines if line["state"] == "absent" and line["what"] != "packs")
    assert "\n-    VITALS_POLICY" in call("doctor").stdout
    assert {line["what"] for line in lines} >= {"vitalsdsl", "python", "wandb", "mlflow", "torch", "readers", "packs"}


def test_rules_are_tested_in_a_closed_world(headline: Path) -> None:
    suite = headline.parent / "grad.vtest.yaml"
    suite.write_text(
        "policy: grad.vitals\ntests:\n"
        '  - {name: fires, series: {grad_norm: "1.0 x500, 4.0 x25, 1.0 x100"}, expect: [\n'
        "      {step: 519, rule: grad_norm_orange, to: orange, onset: 500}, {step: 544, rule: grad_norm_orange, to: green}]}\n"
        '  - {name: silent, series: {grad_norm: "1.0 x600"}, expect: []}\n'
    )
    assert call("test", str(headline)).output == "2 passed, 0 failed\n"
    assert call("check", str(headline)).exit_code == 0
    suite.write_text(suite.read_text().replace("step: 544", "step: 545"))
    failed = call("test", str(headline))
    assert failed.exit_code == 1
    assert "came, and is not listed:     step 544: grad_norm_orange to green" in failed.output


def test_check_reads_standard_input() -> None:
    assert call("check", "-", stdin="when loss > 3 for 5 steps -> yellow\n").exit_code == 0
    result = call("check", "-", stdin="when loss >> 3 -> yellow\n")
    assert result.exit_code == 1
    assert result.stdout.startswith("V005 stdin:1:11 ")
    assert "not UTF-8" in CliRunner().invoke(vitals, ["check", "-"], input=b"\xff\xfe").stdout


def test_a_folder_is_no_policy(tmp_path: Path) -> None:
    (tmp_path / "sub.vitals").mkdir()
    result = call("check", str(tmp_path / "sub.vitals"))
    assert result.exit_code == 2
    assert "sub.vitals is a folder" in result.stderr
    (tmp_path / "p.vitals").write_text('use "sub.vitals"\n')
    assert "`sub.vitals` is a folder" in call("check", str(tmp_path / "p.vitals")).stdout


def test_a_difference_shows_line_ends_and_no_sign_of_it_reaches_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "p.vitals"
    path.write_bytes(b'when "\x1b[31m" > 3  -> yellow\r\n')
    result = call("fmt", "--check", str(path))
    assert result.exit_code == 1
    assert "-> yellow\\r\n+" in result.stdout and "\x1b" not in result.stdout


def test_no_color_is_respected(headline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["replay", str(headline), str(headline.parent / "run.jsonl")]
    assert "\x1b[" in CliRunner().invoke(vitals, words, color=True).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in CliRunner().invoke(vitals, words, color=True).stdout
