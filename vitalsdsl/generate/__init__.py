"""Runs that never were: seeded curves of healthy training and of each known incident, with the truth about each.

For choosing thresholds, for tests of rules, and for knowing what a policy would have said and when.

>>> import vitalsdsl as vitals
>>> from vitalsdsl import generate
>>> run = generate.make("grad_surge", seed=1, length=3000, stride=10)
>>> run.truth.kind, run.truth.onset, run.truth.level.word
('the gradient norm is suddenly a multiple of what it was', 1500, 'orange')
>>> policy = vitals.load("p", text="when grad_norm > 3*usual(grad_norm, 500 steps) for 20 steps -> orange")
>>> [(t.step, t.to.word) for t in run.replay(policy)]
[(1520, 'orange')]
>>> len(generate.curves()) >= 50
True
"""

from __future__ import annotations

from vitalsdsl.generate.registry import Curve, curves, make
from vitalsdsl.generate.run import Run, Truth

__all__ = ["Curve", "Run", "Truth", "curves", "make"]
