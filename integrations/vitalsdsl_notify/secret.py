"""Where addresses and secrets are kept: in the environment or in the keyring, and nowhere else."""

from __future__ import annotations

import importlib
import os

from vitalsdsl.ground.errors import UsageError


def secret(reference: str, channel: str) -> str:
    """What is kept under `env:NAME` or `keyring:SERVICE/USER`, for a channel.

    Raises UsageError, without a word of what is kept, where there is nothing; ImportError where keyring is needed and
    not installed.
    """
    kind, _, place = reference.partition(":")
    found = (os.environ.get(place, "") if kind == "env" else _of_keyring(place, channel)).strip()
    if found:
        return found
    where = f"the environment variable {place} is not set" if kind == "env" else f"the keyring holds nothing of {place}"
    raise UsageError(f"channel `{channel}`: {where}")


def _of_keyring(place: str, channel: str) -> str:
    keyring = importlib.import_module("keyring")
    service, _, user = place.partition("/")
    try:
        return keyring.get_password(service, user) or ""
    except Exception as error:  # each of the many keyrings has errors of its own
        kind = type(error).__name__
    raise UsageError(f"channel `{channel}`: the keyring cannot be read here ({kind}): env:NAME is the other way")
