"""Options and skips for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the golden files; read the changes in review")


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are rewritten."""
    return bool(request.config.getoption("--update"))


@pytest.fixture
def corpus() -> Path:
    """The folder of real training logs; without it the test is skipped."""
    folder = os.environ.get("VITALS_CORPUS")
    if not folder:
        pytest.skip("VITALS_CORPUS is not set")
    return Path(folder)
