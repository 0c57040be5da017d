"""The least-squares lines through stacks of windows of one length (windows x points), and by how much they may be off."""

from __future__ import annotations

import numpy as np

from vitalsdsl.kernels.columns import Array

_EPS = float(np.finfo(float).eps)


def slopes(stack: Array, steps: Array) -> tuple[Array, Array]:
    """Change a step; NaN where all points are at one step."""
    _, together, spread, off = _about_the_means(stack, steps)
    values = together / spread
    return values, off / np.sqrt(spread) + 4 * _EPS * np.abs(values)


def scatters(stack: Array, steps: Array) -> tuple[Array, Array]:
    """Standard deviation about the line, with n - 2."""
    squares, together, spread, off = _about_the_means(stack, steps)
    rest = np.maximum(squares - together * together / spread, 0.0) / (stack.shape[1] - 2)
    values = np.sqrt(rest)
    off = (4 * np.sqrt(squares) * off + 2 * off * off) / (stack.shape[1] - 2)
    return values, np.where(off > 0, np.minimum(np.sqrt(off), off / values) + 4 * _EPS * values, 0.0)


def _about_the_means(stack: Array, steps: Array) -> tuple[Array, Array, Array, Array]:
    """Of each row the sums about the means of x squared, of s times x, of s squared; and by how much the root of the
    first may be off, which is nothing where all points are equal."""
    n = stack.shape[1]
    values = stack - stack[:, :1]
    middle = values.mean(axis=1)
    values -= middle[:, None]
    first = (steps - steps[:, :1]).astype(float)
    places = first - first.mean(axis=1, keepdims=True)
    squares = np.einsum("ij,ij->i", values, values)
    together = np.einsum("ij,ij->i", values, places)
    off = 4 * (n + 4) * _EPS * np.sqrt(n) * (np.abs(middle) + np.sqrt(squares))
    return squares, together, np.einsum("ij,ij->i", places, places), off
