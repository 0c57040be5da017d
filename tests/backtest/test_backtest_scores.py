"""How right a policy is: what counts as found, as false, how late; beside another policy, and as a param varies."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from backtest.logs import POLICY, call, jsonl, losses, parsed, policy_file

from vitalsdsl.backtesting.backtest import Backtest, backtest
from vitalsdsl.backtesting.comparing import Difference
from vitalsdsl.backtesting.labels import read_labels
from vitalsdsl.backtesting.outcome import Steps
from vitalsdsl.backtesting.score import wilson
from vitalsdsl.backtesting.sweep import parse_sweep
from vitalsdsl.ground.errors import UsageError
from vitalsdsl.language.rules import Level

YELLOW, ORANGE, RED = Level.YELLOW, Level.ORANGE, Level.RED

RUNS = {
    "h1": (100, []), "h2": (100, [(10, 10), (50, 55)]), "i1": (100, [(42, 60)]), "i2": (100, [(26, 27), (70, 75)]),
    "i3": (80, [(5, 6)]), "b1": (100, [(20, 29)]), "u1": (100, [(1, 99)]),
}  # fmt: skip
"""Lengths, and where the loss is high: yellow there at once, orange three steps later."""

LABELS = """\
# what we know
run,label,onset,end,level,at_most
h1.jsonl,healthy,,,,
h2.jsonl,healthy,,,,
i1.jsonl,diverged,40,,orange,
i2,spike,30,50,,
i3.jsonl,stuck,?,,,
runs/b1.jsonl,benign spike,20,30,yellow,yellow
"""


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, (count, high) in RUNS.items():
        jsonl(tmp_path / "runs" / f"{name}.jsonl", losses(count, high))
    (tmp_path / "labels.csv").write_text(LABELS)
    policy_file(tmp_path)
    return tmp_path


def scored(tolerance: int = 0) -> Backtest:
    return backtest("p.vitals", "runs", labels="labels.csv", tolerance=tolerance)


def test_recall_precision_and_false_alarms_are_those_counted_by_hand() -> None:
    """Yellow: i1 at 42, i3 at 5 and b1 at 20 are found, i2 is not (26 is before its onset, 70 after its end); false are 10
    and 50 of h2, 26 and 70 of i2. Healthy steps: 100 and 100, 40 before i1, 79 round i2, none of i3, 89 round b1.
    Orange: b1 should not come there: 23 is false, and all its steps are healthy."""
    score = scored().score
    assert score is not None and (score.runs, score.unlabelled) == (6, 1)
    yellow, orange, red = score.levels
    assert (yellow.found, yellow.incidents, yellow.right, yellow.wrong, yellow.healthy_steps) == (3, 4, 3, 4, 408)
    assert (orange.found, orange.incidents, orange.right, orange.wrong, orange.healthy_steps) == (1, 3, 1, 3, 419)
    assert (red.found, red.incidents, red.right, red.wrong, red.healthy_steps) == (0, 3, 0, 0, 419)
    assert (yellow.recall.value, yellow.precision.value, yellow.false_per_1000) == (
        3 / 4,
        3 / 7,
        pytest.approx(4000 / 408),
    )
    assert math.isnan(red.precision.value)
    assert (yellow.disturbed_runs, orange.disturbed_runs, red.disturbed_runs, red.healthy_runs) == (1, 1, 0, 2)
    assert (yellow.delays, yellow.quartiles, orange.delays) == ([0, 2], (0.5, 1, 1.5), [5])
    assert [(one.run, one.reached) for one in score.missed] == [("runs/i2.jsonl", Level.GREEN)]
    assert [(one.run, one.count, one.worst, one.first.step, one.is_healthy) for one in score.disturbances] == [
        ("runs/b1.jsonl", 1, ORANGE, 23, False), ("runs/h2.jsonl", 3, ORANGE, 10, True),
        ("runs/i2.jsonl", 3, ORANGE, 26, False),
    ]  # fmt: skip
    high, norm = score.rules
    assert (high.right, high.wrong, high.found, high.alone) == (3, 4, 3, 3)
    assert (norm.rule, norm.right, norm.wrong, norm.found) == ("norm", 0, 0, 0)


def test_an_alarm_a_little_before_the_onset_is_right_within_the_tolerance() -> None:
    score = scored(tolerance=5).score
    assert score is not None
    yellow = score.at(YELLOW)
    assert (yellow.found, yellow.right, yellow.wrong, yellow.healthy_steps) == (4, 4, 3, 100 + 100 + 35 + 74 + 84)
    assert (yellow.delays, yellow.quartiles) == ([0, 2, -4], (-2, 0, 1))
    assert score.missed == []


def test_the_same_labels_can_be_written_as_a_table_or_a_list(runs: Path) -> None:
    lines = [line.split(",") for line in LABELS.splitlines()[1:]]
    (runs / "labels.tsv").write_text("\ufeff" + "\r\n".join("\t".join(cells) for cells in lines))
    rows = [{name: cell for name, cell in zip(lines[0], cells) if cell} for cells in lines[1:]]
    (runs / "labels.json").write_text(json.dumps(rows))
    (runs / "labels.yaml").write_text("".join(f"- {json.dumps(row)}\n" for row in rows))

    def of(name: str) -> list[tuple[object, ...]]:
        found = read_labels(name).labels
        return [(one.run, one.kind, str(one.onset), one.end, one.level, one.at_most) for one in found]

    assert of("labels.csv") == of("labels.tsv") == of("labels.json") == of("labels.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", ":1: the first line names the columns, as `run,label,onset`"),
        ("", " holds no labels"),
        ("run,label\na,healthy,3\n", ":2: 3 cells under 2 columns"),
        ("run,label,onset\na,bad,soon\n", ":2: `soon` is no step: leave `onset` empty where nobody knows it"),
        ("run,label,onset\na,bad,1.5\n", ":2: `1.5` is no step"),
        ("run,label,level\na,bad,purple\n", ":2: `purple` is no level: write yellow, orange or red"),
        ("run,label,onset\na,healthy,3\n", ":2: a healthy run has no onset, no end and no level"),
        ("run,label,onset,end\na,bad,30,20\n", ":2: it ends at 20, before its onset"),
        ("run,label,level,at_most\na,bad,red,yellow\n", ":2: an incident comes to yellow at least"),
        ("run,label\n,bad\n", ":2: `run` is missing"),
        ("run,label\na,\n", ":2: `label` is missing"),
        ("run,label\nh1.jsonl,healthy\nh1*,bad\n", ":2 and {}:3: `runs/h1.jsonl` is said to be healthy and not to be"),
    ],
)
def test_labels_that_cannot_be_meant_are_named_with_their_line(runs: Path, text: str, said: str) -> None:
    (runs / "bad.csv").write_text(text)
    result = call("p.vitals", "runs", "--labels", "bad.csv", "--jobs", "1")
    assert result.exit_code == 2 and f"error: bad.csv{said.format('bad.csv')}" in result.stderr


def test_names_in_labels_are_taken_as_people_write_them(runs: Path) -> None:
    (runs / "runs" / "two.csv").write_text("step,loss\n" + "".join(f"{s},1\n" for s in [*range(50), *range(50)]))
    for text, labelled, notes in (
        ("run,label,on set\nH1,healthy,\nnix,healthy,\n", {"h1.jsonl"}, 2),
        ("path,label\n*.jsonl,healthy\n", {f"{name}.jsonl" for name in RUNS}, 0),
        ("path,label\n./runs/two.csv,healthy\n", {"two.csv", "two.csv#2"}, 0),
        ("path,label\ntwo.csv#2,bad\n", {"two.csv#2"}, 0),
        ("path,label\ntwo.csv,bad\n", {"two.csv"}, 1),
    ):
        (runs / "l.csv").write_text(text)
        assigned = backtest("p.vitals", "runs", labels="l.csv").assigned
        assert assigned is not None
        assert {run.removeprefix("runs/") for run, own in assigned.labels.items() if own} == labelled, text
        assert len(assigned.notes) == notes, assigned.notes


def test_another_policy_is_compared_run_by_run_and_rule_by_rule(runs: Path) -> None:
    """With `for 2 steps` all comes a step later, and the spike of one step in h2 does not come."""
    policy_file(runs, POLICY.replace("loss > k ", "loss > k for 2 steps ").replace("norm", "gradient"), "q.vitals")
    found = backtest("p.vitals", "runs", labels="labels.csv", versus="q.vitals")
    on_h2 = [one for one in found.differences() if one.run == "runs/h2.jsonl"]
    assert on_h2 == [
        Difference("runs/h2.jsonl", "high", YELLOW, 10, 51, 2, 1),
        Difference("runs/h2.jsonl", "high", ORANGE, 53, 54, 1, 1),
    ]
    shifts = {(one.subject, one.level): (one.added, one.lost, one.earlier, one.later, one.same) for one in found.shifts}
    assert shifts == {("high", YELLOW): (0, 0, 0, 6, 0), ("high", ORANGE): (0, 0, 0, 5, 0)}
    assert found.other_score is not None
    later = found.other_score.at(YELLOW)
    assert (later.found, later.wrong, later.delays) == (3, 3, [1, 3])
    back = backtest("q.vitals", "runs/h2.jsonl", versus="p.vitals").shifts
    assert [(one.earlier, one.later) for one in back] == [(1, 0), (1, 0)]


def test_a_sweep_reads_each_run_once_and_gives_a_point_for_each_value() -> None:
    found = backtest("p.vitals", "runs", labels="labels.csv", sweep="k=2, 4.5, 6")
    first, second, third = found.curve
    assert [point.setting for point in found.curve] == ["2", "4.5", "6"]
    assert first.times == second.times == {YELLOW: 8, ORANGE: 5, RED: 0} and third.times == dict.fromkeys(
        third.times, 0
    )
    assert first.runs == {YELLOW: 6, ORANGE: 5, RED: 0}
    assert first.score == found.score and third.score is not None and third.score.at(YELLOW).found == 0
    points = sum(count for count, _ in RUNS.values())
    assert found.work.points == points


def test_ranges_of_a_sweep_are_spread_evenly() -> None:
    assert parse_sweep("k=1.5..6").values == ("1.5", "2", "2.5", "3", "3.5", "4", "4.5", "5", "5.5", "6")
    assert parse_sweep("r=10%..30%:3").values == ("10%", "20%", "30%")
    assert parse_sweep("w = 1..3 samples").values == ("1 samples", "2 samples", "3 samples")


@pytest.mark.parametrize(
    "text", ["k", "k=", "k=6..1", "k=1..", "k=3", "k=1..6:1", "k=1..6:999", "=1..6", "k=1 steps..6"]
)
def test_a_sweep_that_cannot_be_meant_is_one_message(text: str) -> None:
    with pytest.raises(UsageError):
        parse_sweep(text)
    result = call("p.vitals", "runs", "--sweep", text, "--jobs", "1")
    assert result.exit_code == 2 and result.stderr.startswith("error: ") and result.stderr.count("\n") == 1


def test_a_param_that_is_not_there_is_said_as_everywhere() -> None:
    result = call("p.vitals", "runs", "--sweep", "kk=1..3", "--jobs", "1")
    assert result.exit_code == 2 and "there is no param `kk`" in result.stderr and "did you mean `k`?" in result.stderr


def test_the_interval_of_a_share_is_wilson_s() -> None:
    """Its ends are the shares from which what was seen is just 1.96 deviates away."""
    for count, of in ((1, 3), (7, 9), (50, 80)):
        for end in wilson(count, of):
            assert abs(count / of - end) == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / of))
    assert wilson(0, 5)[0] == 0 and wilson(5, 5)[1] == 1 and wilson(0, 0) == (0, 1)
    assert wilson(0, 5)[1] == pytest.approx(1.959964**2 / (5 + 1.959964**2))


def test_steps_in_a_stretch_are_those_of_a_list() -> None:
    listed = [0, 1, 2, 3, 10, 20, 30, 31, 7, 8, 9, 100]
    steps = Steps()
    for step in listed:
        steps.add(step)
    for low in range(-1, 102, 3):
        for high in (low, low + 1, low + 25, math.inf):
            assert steps.within(low, high) == sum(low <= step <= high for step in listed)
    assert (steps.first, steps.last, len(steps), steps.within(-math.inf, math.inf)) == (0, 100, 12, 12)


def test_all_of_it_is_there_for_people_and_for_programs(runs: Path) -> None:
    policy_file(runs, POLICY.replace("3 in", "4 in"), "q.vitals")
    words = ("p.vitals", "runs", "--labels", "labels.csv", "--versus", "q.vitals", "--sweep", "k=2,6", "--jobs", "1")
    text = call(*words)
    assert text.exit_code == 0, text.output
    said = " ".join(text.stdout.split())
    for part in (
        "6 labelled runs, 1 without labels", "yellow 3 of 4 75 % (30 … 95) 1 (0.5 … 1.5)", "yellow 3 4 43 % (16 … 75) 9.8 (3.8 … 25) 1 of 2",
        "diverged high 1 1 of 1 5", "runs/i2.jsonl spike yellow green 30", "runs/h2.jsonl healthy orange high 3 10",
        "nothing changes on any run", "as k varies, from yellow on", "6 0 0 0 0 % (0 … 49) 0 0 (0 … 9.3)",
    ):  # fmt: skip
        assert part in said, part
    found = parsed(call(*words, "--format", "json", "--no-cache"))
    assert [one["found"] for one in found["scores"]] == [3, 1, 0]
    assert [one["kind"] for one in found["incidents"]] == ["benign spike", "diverged", "spike", "stuck"]
    assert found["incidents"][1]["delay"] == 5 and found["incidents"][2]["is_found"] is False
    assert [one["setting"] for one in found["values"]] == ["2", "6"] and found["values"][1]["scores"][0]["false"] == 0
    assert (found["summary"]["labelled"], found["summary"]["swept"]) == (6, "k")
    assert {"differences", "shifts"} & set(found) == set()


def test_with_labels_fail_on_is_about_false_alarms(runs: Path) -> None:
    words = ("p.vitals", "runs/i1.jsonl", "runs/h1.jsonl", "--jobs", "1", "--fail-on", "yellow")
    assert call(*words).exit_code == 3
    assert call(*words, "--labels", "labels.csv").exit_code == 0
    assert call(*words, "runs/h2.jsonl", "--labels", "labels.csv").exit_code == 3


def test_of_a_policy_of_many_rules_those_that_alarmed_are_listed(runs: Path) -> None:
    quiet = "".join(f"rule quiet{n} {{ when loss > {100 + n} -> red }}\n" for n in range(25))
    policy_file(runs, POLICY + quiet, "many.vitals")
    said = call("many.vitals", "runs", "--labels", "labels.csv", "--jobs", "1").stdout
    listed = said[said.index("rules, from yellow on") :]
    assert "high" in listed and "quiet" not in said and "26 rules never fired" in said
    few = call("p.vitals", "runs", "--labels", "labels.csv", "--jobs", "1").stdout
    assert "norm" in few[few.index("rules, from yellow on") :]
