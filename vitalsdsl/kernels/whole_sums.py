"""The exact sums of many numbers at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

_SPREAD = 9
"""Binary places by which numbers may differ in size so that in units of the last digit of the smallest all fit 62 bits."""

_LIMB = 21

_MOST = 1 << 20
"""Of so many products of two limbs the sum still fits 63 bits."""

Array = Any


def whole_sums(values: Array) -> tuple[int, int, int]:
    """The sums of finite numbers, one at least, and of their squares, exactly: in units of 2^-bits and of their square, and the bits.

    >>> import numpy as np
    >>> total, squares, bits = whole_sums(np.array([0.5, -3.0]))
    >>> total / 2**bits, squares / 4**bits
    (-2.5, 9.25)
    """
    values = np.asarray(values)
    parts = [part for at in range(0, len(values), _MOST) for part in _parts(values[at : at + _MOST])]
    finest = max(0, max(bits for _, _, bits in parts))
    total = sum(part << (finest - bits) for part, _, bits in parts)
    squares = sum(part << (2 * (finest - bits)) for _, part, bits in parts)
    return total, squares, finest


def _parts(values: Array) -> Iterator[tuple[int, int, int]]:
    """The same of numbers that are about as large as each other, so that they fit whole numbers of 62 bits."""
    _, exponents = np.frexp(values)
    least, greatest = int(exponents.min()), int(exponents.max())
    for low in range(least, greatest + 1, _SPREAD + 1):
        own = values if greatest - least <= _SPREAD else values[(exponents >= low) & (exponents <= low + _SPREAD)]
        if len(own):
            yield (*_summed(np.ldexp(own, 53 - low).astype(np.int64)), 53 - low)


def _summed(whole: Array) -> tuple[int, int]:
    """The sums of whole numbers of 62 bits and of their squares."""
    total = (int((whole >> 31).sum()) << 31) + int((whole & ((1 << 31) - 1)).sum())
    size, mask = np.abs(whole), (1 << _LIMB) - 1
    low, middle, high = size & mask, (size >> _LIMB) & mask, size >> (2 * _LIMB)
    squares = (
        (int(high @ high) << (4 * _LIMB))
        + (int(high @ middle) << (3 * _LIMB + 1))
        + ((2 * int(high @ low) + int(middle @ middle)) << (2 * _LIMB))
        + (int(middle @ low) << (_LIMB + 1))
        + int(low @ low)
    )
    return total, squares
