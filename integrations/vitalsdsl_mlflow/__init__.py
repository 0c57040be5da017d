"""vitalsdsl for MLflow: a policy over every run that a process logs.

    import vitalsdsl_mlflow
    vitalsdsl_mlflow.attach("llm.vitals")

Or without a line changed in the script: `VITALS_POLICY=llm.vitals python train.py`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vitalsdsl_mlflow.attach import MlflowAttachment, attach

if TYPE_CHECKING:
    from vitalsdsl_mlflow.history import read

__all__ = ["MlflowAttachment", "attach", "read"]


def __getattr__(name: str) -> Any:
    # Loaded only where runs are read: it takes a library for HTTP, which a training that attaches has no use for.
    if name == "read":
        return importlib.import_module("vitalsdsl_mlflow.history").read
    raise AttributeError(f"module 'vitalsdsl_mlflow' has no attribute {name!r}")
