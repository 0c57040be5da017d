"""Options and skips for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vitalsdsl.streaming.stream import Stream


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the golden files; read the changes in review")


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are rewritten."""
    return bool(request.config.getoption("--update"))


@pytest.fixture(autouse=True)
def generated_code_never_fails(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it does the graph goes on without it, and no verdict would be wrong: a test must not pass for that."""

    def fail(self: Stream, error: Exception, *_: object) -> None:
        raise error

    if request.node.get_closest_marker("code_fails") is None:
        monkeypatch.setattr(Stream, "_go_on_without", fail)


@pytest.fixture
def corpus() -> Path:
    """The folder of real training logs; without it the test is skipped."""
    folder = os.environ.get("VITALS_CORPUS")
    if not folder:
        pytest.skip("VITALS_CORPUS is not set")
    return Path(folder)
