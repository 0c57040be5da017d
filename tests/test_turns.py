"""Whose turn it is: what is due in its order, and of those that catch up a few at a time, each to its end."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vitalsdsl.watching.turns import Turns


@dataclass(eq=False)
class Run:
    name: str
    is_behind: bool = True
    due: float = math.inf


def test_those_that_catch_up_are_few_at_once_and_each_goes_on_before_another_begins() -> None:
    turns: Turns[Run] = Turns(2)
    runs = [Run(name) for name in "abcd"]
    for run in runs:
        turns.schedule(run, 0.0)
    a, b = (run for run, _ in turns.begin())
    assert (a.name, b.name) == ("a", "b") and list(turns.begin()) == [] and turns
    turns.taken(a)
    turns.go_on(a)
    assert [run.name for run, _ in turns.begin()] == ["a"]
    turns.taken(a)
    a.is_behind = False
    turns.schedule(a, 0.0)
    assert [run.name for run, _ in turns.begin()] == ["a", "c"]
    turns.taken(a)
    assert list(turns.begin()) == []  # a took no place of those that catch up
    turns.taken(b)
    assert [run.name for run, _ in turns.begin()] == ["d"] and not turns


def test_a_time_that_is_set_anew_takes_the_place_of_the_one_before() -> None:
    turns: Turns[Run] = Turns(1)
    run = Run("a", is_behind=False)
    turns.schedule(run, 0.0)
    turns.schedule(run, 60.0)
    assert list(turns.begin()) == [] and run.due < math.inf
    turns.schedule(run, 0.0)
    ((begun, due),) = turns.begin()
    assert begun is run and due < math.inf and run.due == math.inf and turns
