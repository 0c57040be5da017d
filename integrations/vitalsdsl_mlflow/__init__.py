"""vitalsdsl for MLflow: a policy over every run that a process logs.

    import vitalsdsl_mlflow
    vitalsdsl_mlflow.attach("llm.vitals")

Or without a line changed in the script: `VITALS_POLICY=llm.vitals python train.py`.
"""

from vitalsdsl_mlflow.attach import MlflowAttachment, attach
from vitalsdsl_mlflow.history import read

__all__ = ["MlflowAttachment", "attach", "read"]
