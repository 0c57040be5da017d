"""Windows over metrics with a point at every row: what blocks of columns say is what the stream finds, on hard data too."""

from __future__ import annotations

from collections import Counter

import pytest
from same_verdicts import broken_of
from steady_runs import steady_case

from vitalsdsl.columns import steady
from vitalsdsl.columns.batch import Batch
from vitalsdsl.columns.columnwise import Columnwise
from vitalsdsl.nodes.table import Table

SIZES = [(1 << 16, 1 << 13, 1 << 10, 32), (64, 16, 8, 2), (40, 7, 4, 0)]
"""Rows of a segment, of a block, of the shortest segment, and how many may be open: those that are meant, and so few that
even a short run has many of each."""


@pytest.mark.parametrize("seed", range(24))
def test_the_laws_hold_of_steady_runs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in zip(("SEGMENT", "BLOCK", "SHORTEST", "MOST_OPEN"), SIZES[seed // 8]):
        monkeypatch.setattr(steady, name, size)
    assert broken_of(*steady_case(seed), seed) == []


def test_most_of_their_comparisons_are_had_in_blocks() -> None:
    had: Counter[bool] = Counter()
    for seed in range(36):
        loaded, rows = steady_case(seed)
        table = Table.of(rows)
        assert table is not None
        joined, begins = Batch(loaded.policy).laid_out(table)
        assert joined is not None
        columns = Columnwise(joined, begins, table)
        had.update(steady.Steady(columns).said(node) is not None for node in columns.comparisons())
    assert had[True] > 2 * had[False] > 0  # of infinite points whole columns know more
