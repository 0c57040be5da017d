"""What windows are kept in, against the plain way."""

from __future__ import annotations

import math
import random
from array import array
from collections import deque
from unittest import mock

import pytest

from vitalsdsl.ground.types import TIME, Extent
from vitalsdsl.kernels import ranked
from vitalsdsl.kernels.pairs import Pairs
from vitalsdsl.kernels.ranked import Ranked
from vitalsdsl.kernels.trail import Trail

SHAPES = {
    "at random": lambda dice, i: dice.gauss(0, 1),
    "rising": lambda dice, i: float(i),
    "falling": lambda dice, i: float(-i),
    "few values": lambda dice, i: float(dice.randint(0, 3)),
    "with infinities": lambda dice, i: dice.choice([float("inf"), float("-inf"), 0.0, -0.0, dice.random()]),
    "saw": lambda dice, i: float(i % 97),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("most", [4, 2048])
def test_ranked_numbers_are_those_of_a_sorted_list(shape: str, most: int) -> None:
    dice, plain, queue = random.Random(shape), [], deque()
    with mock.patch.object(ranked, "MOST", most):
        kept = Ranked()
        for i in range(600):
            number = SHAPES[shape](dice, i)
            queue.append(number)
            kept.add(number)
            if len(queue) > 60 or (i % 150 == 149):
                for _ in range(1 if len(queue) > 60 and i % 150 != 149 else len(queue)):
                    kept.remove(queue.popleft())
            plain = sorted(queue)
            assert list(kept) == plain and len(kept) == len(plain)
            if plain:
                at = dice.randrange(len(plain))
                assert (kept[at], kept[at - len(plain)]) == (plain[at], plain[at])
        assert list(Ranked(plain)) == plain


def test_a_rank_or_a_number_that_is_not_there_is_an_error() -> None:
    for numbers in ([], [1.0, 2.0]):
        with pytest.raises(IndexError):
            Ranked(numbers)[len(numbers)]
        with pytest.raises(IndexError):
            Ranked(numbers)[-len(numbers) - 1]
        with pytest.raises(ValueError, match="not among them"):
            Ranked(numbers).remove(1.5)


@pytest.mark.parametrize("by_step", [True, False])
def test_a_trail_is_a_queue(by_step: bool) -> None:
    dice, trail, plain = random.Random(7), Trail(by_step), deque()
    for i in range(6000):
        point = (i, dice.random(), i) if by_step else (i / 3, dice.random(), i - 5)
        trail.append(*point)
        plain.append(point)
        while plain and dice.random() < (0.4 if len(plain) < 900 else 0.6):
            gone = plain.popleft()
            assert trail.popleft() == (gone[1], gone[2])
        assert trail.oldest == (plain[0][0] if plain else float("inf")) and len(trail) == len(plain)
        if plain:
            at = dice.randrange(-len(plain), len(plain))
            assert (trail.place(at), trail.value(at)) == plain[at][:2]
    assert list(trail) == list(plain)
    assert isinstance(trail._values, array) and len(trail._values) < 2 * len(plain) + 600


@pytest.mark.parametrize("by_step", [True, False])
def test_a_trail_takes_steps_of_any_size(by_step: bool) -> None:
    trail, steps = Trail(by_step), [3, 2**31 - 1, 2**31, 10**15]
    for step in steps:
        trail.append(step, 0.5, step)
    assert trail.popleft() == (0.5, 3) and trail.oldest == 2**31 - 1
    trail.append(10**15 + 1, 0.5, 10**15 + 1)
    assert list(trail) == [(step, 0.5, step) for step in (*steps[1:], 10**15 + 1)]


def test_pairs_from_before_the_clock_was_known_are_in_no_window_of_time() -> None:
    pairs = Pairs(Extent(60.0, TIME))
    for step, time in enumerate([math.nan, math.nan, 0.0, 20.0, 40.0, 60.0, 80.0, 100.0]):
        pairs.push(step, time, float(step * step))
        pairs.push_second(step, time, -float(step * step))
        pairs.advance(step, time)
    assert len(pairs.seconds) == pairs.usable == 3
    assert pairs.correlation() == -1.0
