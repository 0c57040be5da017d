"""What windows are kept in, against the plain way."""

from __future__ import annotations

import math
import random
from array import array
from collections import deque
from unittest import mock

import pytest

from vitalsdsl.ground.types import STEPS, TIME, Extent
from vitalsdsl.kernels import ranked
from vitalsdsl.kernels.kept_in_order import KeptInOrder
from vitalsdsl.kernels.pairs import Pairs
from vitalsdsl.kernels.ranked import Ranked
from vitalsdsl.kernels.trail import Ring, Trail

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


@pytest.mark.parametrize("seed", range(12))
def test_trails_on_one_ring_are_queues_of_their_own(seed: int) -> None:
    dice = random.Random(seed)
    by_step, most = seed % 2 == 0, (5, 40, 300)[seed % 3]
    ring = Ring(STEPS if by_step else TIME)
    trails = [Trail(ring) for _ in range(4)]
    plain: list[deque[tuple[float, float, int]]] = [deque() for _ in trails]
    late: deque[tuple[float, float, int]] = deque()
    for i in range(1500):
        point = (i if by_step else i / 2, dice.random(), i)
        late.append(point)
        for n, trail in enumerate(trails):
            if n == 3:
                if len(late) > 20 or dice.random() < 0.1:  # one that is told of many at once
                    places, values, steps = zip(*late)
                    kind = "i" if by_step else "d"
                    trail.extend(array(kind, places), array("d", values), array("i", steps))
                    plain[n] += late
                    late.clear()
            elif n != 2 or seed < 6 or dice.random() < 0.999:  # one that now and then leaves a point out
                trail.append(*point)
                plain[n].append(point)
            bound = point[0] - (n + 1) * most / 2
            gone = sum(one[0] <= bound for one in plain[n])
            assert trail.forget(bound) == gone if plain[n] else not gone
            for _ in range(gone):
                plain[n].popleft()
            assert trail.oldest == (plain[n][0][0] if plain[n] else math.inf) and list(trail) == list(plain[n])
        if dice.random() < 0.01:  # one is read from where it was saved
            n = dice.randrange(3)
            trails[n].leave()
            trails[n] = Trail.of(plain[n], ring)
            assert list(trails[n]) == list(plain[n])
    assert len(ring) < 2 * 2 * most + 600


def test_the_points_of_windows_are_there_once_after_they_were_saved_as_well() -> None:
    points = [(step, step / 7, step) for step in range(900)]
    for first, second in ((100, 900), (900, 100)):
        ring = Ring(STEPS)
        trails = [Trail.of(points[-count:], ring) for count in (first, second)]
        assert [list(trail) for trail in trails] == [points[-first:], points[-second:]]
        for trail in trails:
            trail.append(900, 1.0, 900)
        assert {trail.ring for trail in trails} == {ring} and len(ring) == 901


@pytest.mark.parametrize("half", [-60, -31, 0, 40])
def test_points_that_are_put_before_others_can_be_asked_for_in_order(half: int) -> None:
    points = [(step, float(-step * step % 101), step) for step in range(200)]
    ring = Ring(STEPS)
    Trail.of(points[-80:], ring)
    trail = Trail.of(points, ring)  # begins at the number -120
    begin = trail.begin
    assert begin == -120
    wanted = sorted(value for _, value, _ in points[: half - begin])
    assert list(KeptInOrder(trail).between(begin, half)) == wanted


def test_a_trail_that_is_empty_is_saved_as_such_however_far_its_ring_went_on() -> None:
    ring = Ring(STEPS)
    empty, other = Trail(ring), Trail(ring)
    for trail in (empty, other):
        trail.append(1, 0.5, 1)
    empty.forget(1)
    for step in range(2, 3_000):
        other.append(step, 0.5, step)
        other.forget(step - 5)
    again = Trail(ring)
    again.have(*empty.which())
    assert ring.kept > 1 and list(again) == list(empty) == []


@pytest.mark.parametrize("by_step", [True, False])
def test_a_trail_is_a_queue(by_step: bool) -> None:
    dice, trail, plain = random.Random(7), Trail(Ring(STEPS if by_step else TIME)), deque()
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
    assert len(trail.ring) < 2 * len(plain) + 600


@pytest.mark.parametrize("by_step", [True, False])
def test_a_trail_takes_steps_of_any_size(by_step: bool) -> None:
    trail, steps = Trail(Ring(STEPS if by_step else TIME)), [3, 2**31 - 1, 2**31, 10**15]
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
