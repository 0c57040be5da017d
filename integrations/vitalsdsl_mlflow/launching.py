"""What `vitals run` sets in the environment of a training that logs to MLflow: nothing more than the policy's name.

MLflow loads our entry point by itself, in every process that imports it.
"""

from __future__ import annotations

from collections.abc import Mapping


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The variables to be set, beside those given."""
    return {}


def folder(given: Mapping[str, str]) -> str:
    """MLflow's runs are always met from inside."""
    return ""
