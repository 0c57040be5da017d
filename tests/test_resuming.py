"""What rules know outlasts the process, and a state that is damaged is refused in one sentence, whatever the damage."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vitalsdsl as vitals
from vitalsdsl.attaching.session import Monitor
from vitalsdsl.ground.errors import StateError

PAGE = (Path(__file__).parent.parent / "docs" / "resuming.md").read_text("utf-8")
POLICY = vitals.load(
    "p",
    text="""
    metric val_loss = "eval/loss" every 5 steps
    event spike = loss > 1.5 * usual(loss, 10 steps) apart 5 steps
    when loss > 2 * baseline(loss, 10 steps) for 2 steps -> orange
    rule layers each m in act/* { when m > 3 for 2 samples -> yellow clear when m < 2 }
    rule worse { when val_loss > 1.05 * lowest(val_loss) for 2 samples -> yellow }
    rule spikes { when onsets(spike, 20 steps) >= 2 -> yellow }
    """,
)


def begun(steps: int = 30) -> Monitor:
    monitor = vitals.watch(POLICY)
    for step in range(steps):
        row = {"loss": 1.0 + 2.0 * (step % 7 == 0), "act/0": 1.0, "act/1": 4.0 if step > 20 else 1.0}
        monitor.log({**row, **({"eval/loss": 2.0} if step % 5 == 0 else {})}, step=step)
    return monitor


def went_on(monitor: Monitor, first: int = 30) -> list[tuple[int, str, str]]:
    told = [t for step in range(first, first + 20) for t in monitor.log({"loss": 9.0, "act/1": 1.0}, step=step)]
    return [(t.step, t.rule, t.to.word) for t in told]


def test_the_page_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(first, names)
    assert capsys.readouterr().out == re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)[0]
    names["state"] = {"version": 1}
    exec(second, names)
    assert capsys.readouterr().out == "saved rule state is damaged\n"


def test_a_state_goes_through_json_and_the_rules_go_on() -> None:
    whole = begun()
    resumed = vitals.watch(POLICY)
    resumed.load(json.loads(json.dumps(whole.save())))
    assert went_on(resumed) == went_on(whole) != []


def test_a_state_of_another_policy_says_so() -> None:
    other = vitals.watch(vitals.load("p", text="when loss > 3 -> red"))
    other.log({"loss": 1.0}, step=1)
    with pytest.raises(StateError, match="belongs to another policy: its digest differs"):
        vitals.watch(POLICY).load(other.save())


STATE = json.loads(json.dumps(begun().save()))


def places(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield from places(one, (*path, key))


PLACES = sorted(places(STATE), key=str)
WRONG = st.sampled_from([None, "x", -1, 1e999, [], {}, [None], {"x": None}, True, "1", 2**70])


def damaged(path: tuple[Any, ...], wrong: object, drop: bool) -> dict[str, Any]:
    state: dict[str, Any] = copy.deepcopy(STATE)
    at: Any = state
    for key in path[:-1]:
        at = at[key]
    if drop:
        del at[path[-1]]
    else:
        at[path[-1]] = wrong
    return state


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(PLACES), WRONG, st.booleans())
def test_whatever_is_damaged_it_is_refused_in_one_sentence_and_the_monitor_is_as_it_was(
    path: tuple[Any, ...], wrong: object, drop: bool
) -> None:
    state = damaged(path, wrong, drop)
    if path == ("checksum",) and drop or state == STATE and json.dumps(state) == json.dumps(STATE):
        return
    monitor = begun(5)
    with pytest.raises(StateError) as refused:
        monitor.load(state)
    assert re.fullmatch(
        r"saved rule state (is damaged.*|belongs to another policy.*|of version .*)", str(refused.value)
    )
    assert "\n" not in str(refused.value)
    assert monitor.level is begun(5).level
    assert went_on(monitor, 5) == went_on(begun(5), 5)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([path for path in PLACES if path != ("checksum",)]), WRONG, st.booleans())
def test_a_state_without_a_checksum_that_is_damaged_raises_nothing_else(
    path: tuple[Any, ...], wrong: object, drop: bool
) -> None:
    """As an earlier version saved it: what passes for a state may be taken up, and then nothing raises either."""
    state = damaged(path, wrong, drop)
    state.pop("checksum", None)
    monitor = begun(5)
    with contextlib.suppress(StateError):
        monitor.load(state)
    went_on(monitor)


@pytest.mark.parametrize("state", [None, [], "x", 3, {}, {"checksum": 0}])
def test_what_is_no_state_at_all_is_refused(state: Any) -> None:
    with pytest.raises(StateError, match="saved rule state is damaged"):
        vitals.watch(POLICY).load(state)
