"""Rows and columns that become a table at once: the same one that their rows make one by one."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from vitalsdsl.nodes.table import Table
from vitalsdsl.runs.recorded import Logged, events

ODD: list[Any] = [
    None, True, False, "NaN", "inf", " 1e-3 ", "high", "1_000", math.nan, math.inf, 3, 10**400, -(10**400), 0, 1, 1.0,
    np.float64(2), np.float32(1.5), np.int64(4), np.bool_(True), np.array(1.25), np.array([2.0]), np.ma.masked, [1.0],
]  # fmt: skip


def rows_of(chance: random.Random) -> list[dict[str, Any]]:
    step, rows = chance.choice([0, 5, 2**60]), []
    for n in range(chance.randrange(1, 30)):
        row: dict[str, Any] = {"step": step if chance.random() < 0.99 else chance.choice([2.0, "3", True, -1, 1.5])}
        if chance.random() < 0.3:
            row["_time"] = chance.choice([1.0 * n, "5", None, math.nan])
        names = [name for name in "abcd" if chance.random() < 0.8]
        if chance.random() < 0.2:
            chance.shuffle(names)
        oddness = chance.choice([0, 0, 0.02, 0.3])
        row |= {name: chance.choice(ODD) if chance.random() < oddness else chance.gauss(0, 1) for name in names}
        rows.append(row)
        step += chance.choice([0, 1, 1, 1, 2]) if chance.random() < 0.98 else -1
    return rows


def columns_of(rows: list[dict[str, Any]], chance: random.Random) -> dict[str, Any]:
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in ("step", "_time", *"abcd")}
    for name in "abcd":
        plain = np.array([math.nan if type(value) is not float else value for value in columns[name]])
        columns[name] = chance.choice([columns[name], plain, np.ma.masked_invalid(plain), tuple(columns[name])])
    return columns


def told(table: Table | None) -> Any:
    if table is None:
        return None
    points = {name: (one.rows.tolist(), list(map(repr, one.values.tolist()))) for name, one in table.points.items()}
    by_first = sorted(table.points, key=lambda name: int(table.points[name].rows[0]))
    return table.rows.steps.tolist(), list(map(repr, table.rows.times.tolist())), points, by_first


@pytest.mark.parametrize("seed", range(400))
def test_a_table_at_once_is_the_table_of_the_rows(seed: int) -> None:
    chance = random.Random(seed)
    rows: Any = rows_of(chance)
    if seed % 3 == 0:
        rows = columns_of(rows, chance)
    nan_is_missing = seed % 5 == 0
    try:
        wanted: Any = told(Table.of(events(rows, nan_is_missing)))
    except Exception as error:
        wanted = repr(error)
    logged = Logged(rows, nan_is_missing)
    try:
        table = logged.table()
        found: Any = told(Table.of(logged) if table is None else table)
    except Exception as error:
        found = repr(error)
    assert found == wanted


def test_plain_rows_and_columns_are_not_gone_through() -> None:
    rows = [{"step": step, "_time": 10.0 + step, "loss": 2.0 - step, "skipped": 0} for step in range(5)]
    rows[3]["val"] = 1.0
    columns = {"step": [1, 2], "loss": [1.0, math.nan], "lr": np.array([0.1, 0.2])}
    for logged in (Logged(rows, False), Logged(columns, False)):
        assert logged.table() is not None
    assert Logged([*rows, {"rewind": 2}], False).table() is None
