"""Whether W&B answers and takes the key that is found here: for `vitals doctor`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any

from vitalsdsl.ground.errors import TrackerError
from vitalsdsl_wandb.server import find_key, find_server

_WHO = "query Viewer { viewer { username } }"
_GRAPHQL = "vitalsdsl_wandb.graphql"


def look() -> Iterator[tuple[str, str, str]]:
    """The key, and one question to the server; none where W&B is set to be offline."""
    mode = os.environ.get("WANDB_MODE", "online")
    if mode != "online":
        yield "WANDB_MODE", "ok", f"{mode}: alerts are kept and sent at `wandb sync`"
        return
    try:
        find_key(server := find_server())
    except TrackerError as error:
        yield "W&B", "absent", f"not asked (optional): {error}"
        return
    try:
        client: Any = importlib.import_module(_GRAPHQL).GraphQL()
    except ImportError as error:
        yield "W&B", "absent", f"{error.name} is not installed (optional): pip install 'vitalsdsl[wandb]'"
        return
    try:
        who = client.ask(_WHO, {}).get("viewer")
        if isinstance(who, dict) and who.get("username"):
            yield "W&B", "ok", f"{server.host} answers, to {who['username']}"
        else:
            yield "W&B", "bad", f"{server.host} answers, and does not know the key (WANDB_API_KEY, or the netrc file)"
    except TrackerError as error:
        yield "W&B", "bad", str(error)
    finally:
        client.close()
