"""Where MLflow keeps its runs, and what a page's address, or a thing that is clearly MLflow's, stands for."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from vitalsdsl.ground.claims import is_address, is_there
from vitalsdsl.ground.errors import UsageError
from vitalsdsl_mlflow.rest import without_credentials

VARIABLE = "MLFLOW_TRACKING_URI"
EXPERIMENTS = "experiments/"
META = "meta.yaml"
"""The file that MLflow puts into each folder of a file store."""

_DEFAULT = "mlflow.db"
_FORMS = "write mlflow:RUN_ID or mlflow:experiments/NAME"
_PAGE = re.compile(
    r"(?P<server>https?://[^?#]*)(?:\?[^#]*)?#/experiments/(?P<experiment>[^/?]+)(?:/runs/(?P<run>[^/?]+))?"
)
_RUN_ID = re.compile(r"[0-9a-f]{32}")


def tracking_uri() -> str:
    """Where MLflow keeps its runs, as MLflow decides it: MLFLOW_TRACKING_URI, or the working directory's own store."""
    said = os.environ.get(VARIABLE, "").strip()
    if said:
        return said
    if not Path(_DEFAULT).exists() and any(Path("mlruns").glob("*/meta.yaml")):
        return "mlruns"
    return f"sqlite:///{_DEFAULT}"


def place_of(rest: str) -> tuple[str, str]:
    """The tracking URI of what stands after `mlflow:`, and what is meant there: `RUN_ID` or `experiments/NAME`.

    Where it is the address of a page, the URI is the page's own server. MLFLOW_TRACKING_URI may say how one signs in
    there; where it names another server, a key is not to be sent to the page's: that raises UsageError, and so does a
    page of something else.
    """
    if not is_address(rest):
        return tracking_uri(), rest
    found = _PAGE.match(rest)
    if found is None:
        raise UsageError(f"`{without_credentials(rest)}` is the page of no run and no experiment: {_FORMS}")
    server, said = found["server"].rstrip("/"), os.environ.get(VARIABLE, "").strip()
    if is_address(said) and without_credentials(said) != without_credentials(server):
        shown = without_credentials(server)
        raise UsageError(
            f"this page is on {shown}, but {VARIABLE} is {without_credentials(said)}: set {VARIABLE}={shown}"
        )
    what = found["run"] or EXPERIMENTS + unquote(found["experiment"])
    return said if is_address(said) else server, what


def claims(reference: str) -> str | None:
    """The address of a run's or an experiment's page, without what stands behind it, or a folder of runs, with its scheme.

    Raises UsageError, with what to write instead, for what is MLflow's and names no run by itself: the id of a run
    without `mlflow:`, a database.
    """
    if is_address(reference):
        found = _PAGE.match(reference)
        return f"mlflow:{found[0]}" if found is not None else None
    if _RUN_ID.fullmatch(reference) is not None and not is_there(reference):
        raise UsageError(f"did you mean mlflow:{reference}?")
    if reference.startswith("sqlite:///"):
        raise UsageError(f"`{reference}` is a store of MLflow: set {VARIABLE}={reference}, and {_FORMS}")
    try:
        return f"mlflow:{reference}" if is_folder_of_runs(Path(reference)) else None
    except (OSError, ValueError):  # no path can be written so, or it must not be looked at
        return None


def is_folder_of_runs(place: Path) -> bool:
    """Whether a folder is a file store of MLflow's, an experiment in one, or a run. Raises OSError."""
    return place.is_dir() and any(map(_is_mlflows, (place / META, *place.glob(f"*/{META}"))))


def _is_mlflows(meta: Path) -> bool:
    """Whether it is the file that MLflow puts into each folder: others have files of that name too."""
    if not meta.is_file():
        return False
    with meta.open("rb") as file:
        text = file.read(4096)
    return b"lifecycle_stage:" in text or b"experiment_id:" in text
