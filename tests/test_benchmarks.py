"""The command that compares, and the page that shows its figures."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import kinds, medians, page, peers, real_calls, runs, starts, steps, taps, whole_way
from tests.benchmarks.__main__ import RACES
from tests.benchmarks.contest import Contender, Contest, Outcome, outcomes, race_runs, race_steps
from tests.benchmarks.growth import Curve
from tests.benchmarks.work import Change, Work, changes_of

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
HERE = {"vitalsdsl, a step at a time", "deques with running sums, written by hand", "lists gone through anew"}


def test_whoever_sees_a_step_at_a_time_finds_the_same():
    work = Work.made(900, 3, 20, 100, spike=104)
    contenders = [one for one in steps.STEPS if one.name in HERE or one.finds == "nothing"]
    found = race_steps("small", contenders, work, 100, 80, 9)
    assert [one.name for one in found.outcomes] == [one.name for one in contenders]
    assert all(one.each is not None for one in found.outcomes)


def test_ours_finds_the_same_at_once_as_step_by_step():
    work = Work.made(2_000, 3, 50, 400)
    walked = steps.Ours(work).walk(0, work.steps)
    assert sorted(walked) == runs.ours(work)()
    assert {rule % 5 for rule, _, begins in walked if begins} == {0, 1, 2, 3, 4}


def test_a_contender_that_finds_something_else_is_not_measured():
    def blind(work: Work) -> object:
        return lambda: [(0, 3, True)]

    work = Work.made(500, 1, 20, 100)
    with pytest.raises(SystemExit, match="blind finds 1 changes"):
        race_runs("small", [Contender("ours", runs.ours), Contender("blind", blind)], work, 1)


def test_one_that_is_not_installed_is_said_to_be_so():
    gone = Contender("gone", runs.ours, "no_such_library_here")
    found = race_runs("small", [Contender("ours", runs.ours), gone], Work.made(300, 1, 20, 100), 1)
    assert found.outcomes[1] == Outcome("gone", None)
    assert "gone                                           is not installed" in page.told(found)
    assert "| gone | not installed | |" in page.block(page.Results("here", [found], [], {"median": 1.0, "p99": 2.0}))


def test_commands_and_taps_are_measured_beside_their_limits():
    started = starts.race_starts(1)
    assert [one.name for one in started.outcomes] == list(starts.COMMANDS)
    by_name = {one.name: one.ratio for one in started.outcomes}
    assert by_name["limit: Python alone"] < by_name["vitals --help"] < 1  # the first does ours, and more than help does
    told = taps.race_taps(1, 50)
    assert [one.name for one in told.outcomes] == [one.name for one in taps.TAPS]
    assert told.outcomes[-1].ratio < 1
    assert " us a call " in page.told(told) and " ms a start " in page.told(started)


def test_other_data_and_other_rules_are_measured_beside_the_first():
    found = kinds.race_kinds(200, 100, 1)
    assert [one.name for one in found.outcomes] == list(kinds.KINDS)
    assert found.outcomes[0].ratio == 1.0 and all(one.ratio > 0 for one in found.outcomes)


def test_the_whole_way_is_measured_beside_its_limits():
    replayed = whole_way.race_replays(12_000, 1)
    assert [one.name for one in replayed.outcomes] == [one.name for one in whole_way.REPLAYS]
    assert 0 < replayed.outcomes[-1].ratio < replayed.outcomes[-2].ratio < 1
    done = whole_way.race_dispatches(1, 50)
    assert [one.name for one in done.outcomes] == [one.name for one in whole_way.DISPATCHES]
    assert done.outcomes[1].ratio < 1  # with nothing to do it does less
    assert " ms a MB " in page.told(replayed)


def test_ratios_are_taken_round_by_round():
    pair = (Contender("ours", runs.ours), Contender("theirs", runs.ours))
    ours, theirs = outcomes(pair, {"ours": [1.0, 2.0, 4.0], "theirs": [3.0, 4.0, 20.0]})
    assert (ours.each, ours.ratio) == (2.0, 1.0)
    assert (theirs.each, theirs.ratio, theirs.low, theirs.high) == (4.0, 3.0, 2.0, 5.0)


def test_changes_come_where_a_condition_has_been_so_for_its_span():
    true = [False, True, True, False, True, True, True, False, False, False]
    wanted: list[Change] = [(7, 6, True), (7, 9, False)]
    assert changes_of(7, np.array(true), 3) == wanted


def test_the_page_has_what_the_command_writes():
    """All but the figures: whoever adds a contender measures anew."""
    text = PAGE.read_text(encoding="utf-8")
    shown = text[text.index(page.BEGIN) : text.index(page.END) + len(page.END)]
    lists = {
        "steps": steps.STEPS, "kinds": kinds.CONTENDERS, "runs": runs.RUNS, "incidents": runs.RUNS, "medians": medians.STEPS,
        "medians-at-once": medians.RUNS, "rtamt": peers.RTAMT, "expr-tracker": peers.EXPR_TRACKER, "taps": taps.TAPS,
        "real-calls": real_calls.REAL, "replays": whole_way.REPLAYS, "dispatches": whole_way.DISPATCHES,
        "starts": starts.STARTS,
    }  # fmt: skip
    assert lists.keys() == RACES.keys()
    lines = iter(shown.splitlines())
    for contenders in lists.values():
        assert any(line.endswith("| times ours | from round to round |") for line in lines)
        next(lines)
        for one in contenders:
            assert re.fullmatch(rf"\| {re.escape(one.name)} \| (\S+ \| \S+ to \S+|not installed \|) \|", next(lines))
    grown = [line for line in shown.splitlines() if re.fullmatch(r"\| [^|]+ \| [\d,]+ \| [\d, ]+ \| [\d., ]+ \|", line)]
    assert len(grown) == 10
    assert re.search(r"^Measured \d{4}-\d\d-\d\d, \S+ \S+, Python 3\.\S+, NumPy \S+\.$", shown, re.MULTILINE)


def test_the_block_is_put_in_place_and_nothing_else(tmp_path):
    file = tmp_path / "page.md"
    file.write_text(f"above\n{page.BEGIN}\nold\n{page.END}\nbelow\n", encoding="utf-8")
    found = Contest("work", (Outcome("ours", 2.0, 1.0, 1.0, 1.0), Outcome("theirs", 300.0, 152.0, 14.2, 0.123)))
    results = page.Results(
        "here", [found], [Curve("length", "us", ((50, 2.0), (5_000, 3.0)))], {"median": 2.0, "p99": 9.0}
    )
    page.rewrite(file, results)
    written = file.read_text(encoding="utf-8")
    assert written.startswith(f"above\n{page.BEGIN}\n\nMeasured here.\n") and written.endswith(f"{page.END}\nbelow\n")
    assert "| theirs | 150 | 14 to 0.12 |" in written
    assert "| length | 50 | 100 | 1.5 |" in written
    assert "p99 is 4.5 times the median" in written
    file.write_text("no block", encoding="utf-8")
    with pytest.raises(ValueError, match="has no block"):
        page.rewrite(file, results)
