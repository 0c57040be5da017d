"""Where MLflow keeps its runs, and what a page's address, or a thing that is clearly MLflow's, stands for."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from vitalsdsl.claims import is_address, is_there
from vitalsdsl.errors import UsageError
from vitalsdsl_mlflow.rest import without_credentials

VARIABLE = "MLFLOW_TRACKING_URI"
EXPERIMENTS = "experiments/"

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
    """The address of a run's or an experiment's page, without what stands behind it, with its scheme.

    Raises UsageError, with what to write instead, for what is MLflow's and names no run by itself: the id of a run
    without `mlflow:`, a store.
    """
    if is_address(reference):
        found = _PAGE.match(reference)
        return f"mlflow:{found[0]}" if found is not None else None
    if _RUN_ID.fullmatch(reference) is not None and not is_there(reference):
        raise UsageError(f"did you mean mlflow:{reference}?")
    if reference.startswith("sqlite:///") or _is_store(Path(reference)):
        raise UsageError(f"`{reference}` is a store of MLflow: set {VARIABLE}={reference}, and {_FORMS}")
    return None


def _is_store(place: Path) -> bool:
    try:
        return place.is_dir() and any((child / "meta.yaml").is_file() for child in place.iterdir())
    except (OSError, ValueError):  # no path can be written so, or it must not be looked at
        return False
