"""What a function of an event is told of in a recorded run, all at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vitalsdsl.ground.types import SAMPLES, STEPS, Extent
from vitalsdsl.kernels.columns import Array, Column, Rows, dense


@dataclass(frozen=True)
class Told:
    """The rows of an event's edges, and of its known evaluations."""

    edges: Array
    known: Array

    def since(self, rows: Rows) -> Column:
        """As `Edges.since`."""
        steps = rows.steps.astype(float)
        return Column(steps - dense(self.edges, steps[self.edges], len(rows)))

    def interval(self, rows: Rows) -> Column:
        """As `Edges.interval`."""
        return Column(dense(self.edges[1:], np.diff(rows.steps[self.edges]).astype(float), len(rows)))

    def count(self, rows: Rows, extent: Extent) -> Column:
        """As `EdgeCount.read`."""
        if extent.unit == SAMPLES:
            now = np.searchsorted(self.known, np.arange(len(rows)), side="right").astype(float)
        else:
            now = (rows.steps if extent.unit == STEPS else rows.times).astype(float)
        edges = self.edges[~np.isnan(now[self.edges])]
        begun = np.searchsorted(edges, np.arange(len(rows)), side="right")
        left = np.searchsorted(now[edges], now - extent.size, side="right")
        return Column(np.where(np.isnan(now), np.nan, np.maximum(begun - left, 0).astype(float)))
