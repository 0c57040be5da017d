"""Loaded by MLflow inside its own import. Does nothing unless VITALS_POLICY names a policy.

Nothing may be raised from here, or `import mlflow` would fail.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

_SERVER = "_MLFLOW_SERVER_FILE_STORE"
"""MLflow sets this in the workers of `mlflow server`: points are seen in the training process, not there."""


def _attach() -> None:
    name = os.environ.get("VITALS_POLICY")
    if not name or _SERVER in os.environ:
        return
    try:
        importlib.import_module("vitalsdsl_mlflow.attach").arm(name)
    except Exception as error:  # the script must run whatever happens to us
        print(f"vitals: no policy is attached: {_in_one_line(error)}", file=sys.stderr)


def _in_one_line(error: Exception) -> str:
    """The first finding of a policy with errors, with its place, or the error's own words."""
    found = getattr(error, "diagnostics", ())
    if not found:
        return " ".join(str(error).split()) or type(error).__name__
    more = sum(finding.is_error for finding in found) - 1
    first = next((finding for finding in found if finding.is_error), found[0])
    rest = f" (and {more} more; see `vitals check`)" if more > 0 else ""
    place = first.as_dict()
    return " ".join(f"{place['file']}:{place['line']}:{place['column']}: {first.message}{rest}".split())


_attach()


def no_store(store_uri: Any = None, artifact_uri: Any = None) -> Any:
    """MLflow asks an entry point for a store; `vitals` is no scheme of its own."""
    raise ValueError("`vitals` is no tracking URI: set MLFLOW_TRACKING_URI as usual, and VITALS_POLICY to the policy")
