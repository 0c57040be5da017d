"""A report as a page and as a command: it stands by itself, and nothing that a run logs is markup in it."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vitalsdsl.cli.app import vitals
from vitalsdsl.cli.packs import CHECKUP
from vitalsdsl.ground.points import Row, RunInfo
from vitalsdsl.policies.policy import load
from vitalsdsl.report import page
from vitalsdsl.report.checklist import Mark
from vitalsdsl.report.examine import RunReport, examine
from vitalsdsl.runs.sources import Recording

HOSTILE = '<script>alert(1)</script> $\\frac{a}{b}$ | `x` \x1b[31m &amp; "quoted"'


class Tags(HTMLParser):
    """The elements of a page, with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def report(rows: list[Row], text: str = "when loss > 3 -> orange", info: RunInfo | None = None) -> RunReport:
    return examine(Recording(info or RunInfo("run"), rows), load("policy", text=text))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(vitals, ["report", *arguments])


def log(path: Path, rows: int = 40) -> Path:
    path.write_text("".join(json.dumps({"step": s, "loss": 9.0 if s == 30 else 2.0}) + "\n" for s in range(rows)))
    return path


def policy(path: Path) -> Path:
    path.write_text('rule high "the loss is high" { when loss > 3 -> orange try "look at the batch" }')
    return path


def test_a_page_loads_nothing() -> None:
    rows = [
        Row(s, {"loss": 5.0 if s == 7 else 2.0, **{f"grad_norm/layer/{i}": 1.0 + i for i in range(4)}})
        for s in range(50)
    ]
    tags = Tags(page.html([report(rows)])).found
    assert not {"script", "link", "iframe", "object", "embed"} & {tag for tag, _ in tags}
    for tag, attributes in tags:
        for name in ("src", "href", "xlink:href"):
            # A picture inside an SVG is data; references within the page begin with `#`.
            assert (attributes.get(name) or "#").startswith(("#", "data:")), (tag, attributes)
    assert [tag for tag, _ in tags].count("svg") == 2


def test_what_a_run_logs_is_never_markup() -> None:
    rows = [Row(s, {"loss": 5.0 if s == 7 else 2.0, HOSTILE: 1.0 * s}) for s in range(30)]
    told = report(rows, info=RunInfo(HOSTILE, url="javascript:alert(1)", notes=(HOSTILE,), title=HOSTILE))
    text = page.html([told])
    tags = Tags(text)
    assert "script" not in {tag for tag, _ in tags.found}
    assert "<script>alert(1)" in tags.text
    assert "\x1b" not in text
    assert all(not (a.get("href") or "").startswith("javascript") for _, a in tags.found)
    markdown = page.markdown([told])
    assert "\x1b" not in markdown and "<script>" not in markdown
    for line in markdown.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) in (4, 10, 11), line


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_a_page_of_next_to_nothing(rows: int) -> None:
    told = report([Row(s, {"loss": 2.0}) for s in range(rows)])
    assert "No rule fired" in page.html([told]) or rows == 0
    assert page.markdown([told])


def test_what_the_list_finds_is_said_at_the_head_of_the_page() -> None:
    # The loss is above 3 at step 5, and above 1 to the end; the policy itself has nothing to say.
    rows = [Row(s, {"loss": 4.0 if s == 5 else 2.0}) for s in range(20)]
    listed = load("list", text="rule peak { when loss > 3 -> yellow } rule high { when loss > 1 -> yellow }")
    told = examine(Recording(RunInfo("run"), rows), load("policy", text="when loss > 9 -> red"), listed)
    head = "No rule fired. The check-list has findings: of 2 items 1 not well (✗) and 1 once not well (!)."
    assert head in Tags(page.html([told])).text
    calm = examine(Recording(RunInfo("run"), rows[:5]), load("policy", text="when loss > 9 -> red"), load(
        "list", text="rule peak { when loss > 3 -> yellow }"))  # fmt: skip
    assert "No rule fired." in page.html([calm]) and "has findings" not in page.html([calm])


def test_a_line_about_language_models_is_not_looked_at_where_there_is_none() -> None:
    rows = [Row(s, {"loss": 0.0, "grad_norm": 0.5, "throughput": 100.0}) for s in range(1200)]
    told = examine(Recording(RunInfo("run"), rows), load("policy", text="when loss > 9 -> red"), load(CHECKUP))
    marks = {item.rule: item.mark for item in told.items}
    assert {marks[name] for name in ("daily_loss", "start_loss", "start_speed")} == {Mark.NOT_LOOKED}
    assert marks["daily_grad"] is Mark.WELL


def test_metrics_that_never_change_are_said_to_be_so() -> None:
    text = page.markdown(
        [report([Row(s, {"loss": 0.0, "grad_norm": 0.5}) for s in range(40)], "when loss > grad_norm -> red")]
    )
    assert "of loss and grad\\_norm nothing can be said" in text and "logged together often enough" not in text
    text = page.markdown([report([Row(s, {"loss": 0.0}) for s in range(40)])])
    assert "logged together often enough" in text


def test_a_metric_that_stops_long_before_its_run_is_told_of() -> None:
    # `loss` comes at each step up to 599, `lr` to the end, `val_loss` at every 50th up to 500; no rule reads `other`.
    rows = [
        Row(s, {
            "lr": 1.0, **({"loss": 2.0, "other": 1.0} if s < 600 else {}),
            **({"val_loss": 2.0} if s % 50 == 0 and s <= 500 else {}),
        }) for s in range(1000)
    ]  # fmt: skip
    text = "when loss > 3 or lr > 3 or val_loss > 3 -> red"
    assert report(rows, text).notes == ("`loss` was last logged at step 599 of 999",)
    assert "`loss` was last logged at step 599 of 999" in Tags(page.html([report(rows, text)])).text
    assert report(rows[:660], text).notes == ()  # 60 of 660 steps are less than a tenth
    assert report(rows[:670], text).notes == ("`loss` was last logged at step 599 of 669",)


def test_a_run_of_nothing_but_nan_has_a_page() -> None:
    told = report([Row(s, {"loss": math.nan, "grad_norm": math.inf}) for s in range(20)])
    text = page.html([told])
    assert "Nothing in this run can be drawn" in text and "nonfinite(loss)" in text


def test_the_command_writes_one_file(tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    done = run(str(log(tmp_path / "log.jsonl")), "--policy", str(policy(tmp_path / "p.vitals")), "-o", str(out))
    assert done.exit_code == 0, done.output
    text = Tags(out.read_text("utf-8")).text
    assert "The worst was orange at step 30: high" in text and "look at the batch" in text
    assert "It ended green" in text


def test_the_head_of_a_page_says_how_the_run_ended_and_when_a_level_was_reached() -> None:
    rows = [Row(s, {"loss": math.nan if s == 59 else 9.0 if s > 40 else 2.0}) for s in range(60)]
    text = Tags(
        page.html([report(rows, "nonfinite off  when loss > 3 for 5 steps -> yellow -> red after 10 steps")])
    ).text
    assert "The worst was red at step 55" in text  # true from 41 on: yellow at 45, red ten steps later
    assert "last loss NaN" in text


def test_several_runs_are_one_page(tmp_path: Path) -> None:
    rules, out = str(policy(tmp_path / "p.vitals")), tmp_path / "r.html"
    first, second = log(tmp_path / "a.jsonl"), log(tmp_path / "b.jsonl", rows=20)
    assert run(str(first), str(second), "--policy", rules, "-o", str(out)).exit_code == 0
    found = Tags(out.read_text("utf-8"))
    assert {"run1", "run2"} <= {a.get("id") for _, a in found.found}
    assert "2 runs" in found.text


def test_markdown_goes_to_standard_output(tmp_path: Path) -> None:
    done = run(str(log(tmp_path / "a.jsonl")), "--policy", str(policy(tmp_path / "p.vitals")), "--format", "md")
    assert done.exit_code == 0 and done.stdout.startswith("# a.jsonl\n")
    assert "| high | orange | 1 | 30 | 30 | 1 | 9 | 4.5x | 1 |" in done.stdout


def test_only_a_report_is_written_over(tmp_path: Path) -> None:
    out, source, rules = tmp_path / "r.html", str(log(tmp_path / "a.jsonl")), str(policy(tmp_path / "p.vitals"))
    out.write_text("my notes")
    done = run(source, "--policy", rules, "-o", str(out))
    assert done.exit_code == 2 and "no report of ours" in done.stderr and out.read_text() == "my notes"
    out.unlink()
    assert [run(source, "--policy", rules, "-o", str(out)).exit_code for _ in range(2)] == [0, 0]


def test_a_log_without_rows_and_a_folder_that_is_not_there(tmp_path: Path) -> None:
    rules, source = str(policy(tmp_path / "p.vitals")), str(log(tmp_path / "a.jsonl"))
    (tmp_path / "empty.jsonl").write_text("")
    assert run(str(tmp_path / "empty.jsonl"), "--policy", rules).exit_code == 2
    done = run(source, "--policy", rules, "-o", str(tmp_path / "no" / "r.html"))
    assert done.exit_code == 2 and "cannot be written" in done.stderr and "Traceback" not in done.stderr
