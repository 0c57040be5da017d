"""Pictures: all that there is to see is in them, in every form of file, and none is drawn where none can be."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from backtest.logs import POLICY, call, jsonl, losses, policy_file

plots = pytest.importorskip("vitalsdsl.backtesting.plots", exc_type=ImportError)
from vitalsdsl.backtesting.backtest import backtest  # noqa: E402


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for at, high in enumerate(([], [(10, 19)], [(40, 49)], [(70, 75)])):
        jsonl(tmp_path / "runs" / f"run{at}.jsonl", losses(100, high))
    (tmp_path / "labels.csv").write_text("run,label,onset\nrun0,healthy,\nrun1,healthy,\nrun2,bad,40\nrun3,bad,65\n")
    policy_file(tmp_path)
    return tmp_path


def texts(figure: object) -> set[str]:
    found = figure.findobj(lambda one: hasattr(one, "get_text"))  # type: ignore[attr-defined]
    return {one.get_text() for one in found}


def test_each_alarm_is_drawn_in_the_row_of_its_rule_at_its_step() -> None:
    figure = plots.plot(backtest("p.vitals", "runs"))
    [axes] = [axes for part in (figure, *figure.subfigs) for axes in part.axes]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["high"]
    yellow, orange, red = (sorted(x for x, _ in one.get_offsets()) for one in axes.collections)
    assert (yellow, orange, red) == ([10, 40, 70], [13, 43, 73], [])
    low, high = axes.get_xlim()
    assert low <= 0 and high >= 99


def test_delays_and_the_curve_stand_below(runs: Path) -> None:
    found = backtest("p.vitals", "runs", labels="labels.csv", sweep="k=2,4,6")
    figure = plots.plot(found)
    delays, curve, values = figure.subfigs[1].axes
    assert sum(bar.get_height() for bar in delays.patches) == 2
    (line,) = [line for line in curve.lines if line.get_marker() == "o"]
    # From k = 6 on nothing fires; below it run1's one alarm is false, in its 100 steps, run0's 100, 40 and 65.
    assert list(line.get_ydata()) == [100, 100, 0]
    assert list(line.get_xdata()) == pytest.approx([1000 / 305, 1000 / 305, 0])
    assert {"2 … 4", "6"} <= texts(figure)
    assert list(values.lines[0].get_ydata()) == [2.5, 2.5]


def test_two_policies_are_drawn_side_by_side_with_the_same_rows(runs: Path) -> None:
    policy_file(
        runs, POLICY.replace("k = 3", "k = 3.5").replace("rule norm", "when loss > 4 -> red\nrule norm"), "q.vitals"
    )
    found = backtest("p.vitals", "runs", labels="labels.csv", versus="q.vitals")
    figure = plots.plot(found)
    main, other = figure.subfigs[0].axes
    assert [label.get_text() for label in main.get_yticklabels()] == ["high", "loss_red"]
    assert (main.get_title("left"), other.get_title("left")) == ("p.vitals", "q.vitals")
    reds = [sorted(x for x, _ in axes.collections[2].get_offsets()) for axes in (main, other)]
    assert reds == [[], [10, 40, 70]]
    [delays] = figure.subfigs[1].axes
    assert "Found from yellow on: 2 of 2; median delay 2.5 (versus 2, at 2.5)" in texts(figure)
    assert "p versus q over 4 runs, 400 steps" in texts(figure) and "versus" in texts(figure)
    assert sum(patch.get_fill() for patch in delays.patches) > 0 and not all(p.get_fill() for p in delays.patches)


def test_values_with_units_and_runs_without_alarms_can_be_drawn(runs: Path) -> None:
    policy_file(runs, "param w = 3 steps in 1 steps .. 9 steps\nwhen loss > 9 for w -> yellow\n", "w.vitals")
    figure = plots.plot(backtest("w.vitals", "runs", sweep="w=2..5 steps"))
    assert "no rule fires on any of 4 runs" in texts(figure)


@pytest.mark.parametrize("ending", plots.ENDINGS)
def test_every_form_of_file_is_written(runs: Path, ending: str) -> None:
    result = call("p.vitals", "runs", "--jobs", "1", "--plot", f"out{ending}")
    beginning = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}[ending]
    assert result.exit_code == 0 and (runs / f"out{ending}").read_bytes().startswith(beginning)


@pytest.mark.parametrize(
    ("name", "said"), [("out.gif", "ends in .pdf, .png, .svg"), ("nix/out.png", "there is no folder")]
)
def test_a_picture_that_cannot_be_written_is_refused_before_any_work(name: str, said: str) -> None:
    result = call("p.vitals", "runs", "--plot", name)
    assert result.exit_code == 2 and said in result.stderr and not result.stdout


def test_without_matplotlib_the_command_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "vitalsdsl.backtesting.plots")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in [name for name in sys.modules if name.startswith("matplotlib.")]:
        monkeypatch.setitem(sys.modules, name, None)
    result = call("p.vitals", "runs", "--plot", "out.png")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: matplotlib is not installed: pip install 'vitalsdsl[report]'\n",
    )
    assert call("p.vitals", "runs", "--jobs", "1").exit_code == 0


def test_names_are_drawn_as_they_are(runs: Path) -> None:
    policy_file(runs, "policy odd\n" + POLICY.replace("rule high", "rule a_b"), "odd.vitals")
    figure = plots.plot(backtest("odd.vitals", "runs"))
    assert "a_b" in texts(figure)
    assert importlib.import_module("vitalsdsl.backtesting.plots") is plots
