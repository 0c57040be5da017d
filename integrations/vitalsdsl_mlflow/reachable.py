"""Whether the store that MLflow is set to answers: for `vitals doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from vitalsdsl.ground.errors import TrackerError, UsageError
from vitalsdsl_mlflow.address import VARIABLE, tracking_uri
from vitalsdsl_mlflow.rest import NotThere
from vitalsdsl_mlflow.targets import store_of

_DEFAULT_EXPERIMENT = "0"


def look() -> Iterator[tuple[str, str, str]]:
    """One question to the store, whatever it is: a server, a sqlite file, a folder."""
    is_set = bool(os.environ.get(VARIABLE, "").strip())
    by_itself = "" if is_set else "not set (optional): "
    try:
        store = store_of(tracking_uri())
    except UsageError as error:
        yield VARIABLE, "bad" if is_set else "absent", by_itself + str(error)
        return
    try:
        store.experiment(_DEFAULT_EXPERIMENT)
    except NotThere:
        pass  # that is an answer
    except TrackerError as error:
        yield VARIABLE, "bad", by_itself + str(error)
        return
    finally:
        store.close()
    yield VARIABLE, "ok", f"{by_itself}{store.uri} answers"
