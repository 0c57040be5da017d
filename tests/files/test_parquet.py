"""Parquet tables are read with pyarrow, and refused with the command that installs it."""

from __future__ import annotations

import io
import math
import os
import sys
from pathlib import Path

import pytest
from test_json_lines import rows, runs

from vitalsdsl.ground.errors import MissingExtraError, SourceError

if "CI" not in os.environ:
    pytest.importorskip("pyarrow")
import pyarrow
import pyarrow.parquet


def table() -> bytes:
    written = io.BytesIO()
    columns = {
        "_step": [0, 10, 20],
        "loss": [2.5, math.nan, None],
        "name": ["a", "b", "c"],
        "opt": [{"lr": 0.5}, {"lr": 0.25}, None],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), written)
    return written.getvalue()


def test_a_null_is_no_point_and_nan_is_one(tmp_path: Path) -> None:
    [run] = runs(tmp_path, table(), name="history.bin")
    first, second, third = rows(run)
    assert first == (0, {"loss": 2.5, "opt.lr": 0.5})
    assert isinstance(second[1], dict)
    assert math.isnan(second[1]["loss"])
    assert third == (20, {})
    assert run.info.notes == ("the step is read from `_step`",)


def test_a_table_that_breaks_off_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="`log` is cut off or damaged: it is no whole Parquet file"):
        runs(tmp_path, table()[:-20])


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match="pyarrow is not installed: pip install 'vitalsdsl\\[files\\]'"):
        runs(tmp_path, table())
