"""Policies that MLflow keeps: with the runs that they watched, and in the prompt registry under a name and alias."""

from __future__ import annotations

import importlib
import re
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from vitalsdsl.ground.claims import is_address
from vitalsdsl.ground.errors import MissingExtraError, SourceError, TrackerError, UsageError, VitalsError
from vitalsdsl.language.parser import MAX_CHARACTERS
from vitalsdsl.policies.policy_files import SUFFIXES
from vitalsdsl.policies.references import ON_THE_RUN, Kept
from vitalsdsl_mlflow.address import place_of
from vitalsdsl_mlflow.quiet import quiet

MAX_PROMPT = 100_000
"""Characters of a prompt that MLflow takes."""

REGISTRY = "policies/"
"""What a reference to the prompt registry begins with; anything else is a run."""

_DIGEST, _COMMIT, _FILE = "vitals.digest", "vitals.git", "vitals.file"
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_ABSENT = frozenset({"RESOURCE_DOES_NOT_EXIST", "NOT_FOUND", "INVALID_PARAMETER_VALUE"})


class PolicyLibrary:
    """`mlflow:RUN_ID[/FILE]` is the policy that watched a run; the address of its page is as good. `mlflow:policies/NAME[@ALIAS or @VERSION]` is a prompt of
    that name (the newest version by default), whose text is the policy.

    MLflow keeps each version for good and moves aliases, which is what a team's rules want; that it calls them prompts
    cannot be helped.
    """

    def get(self, reference: str) -> Kept:
        uri = None
        if is_address(reference):
            uri, reference = place_of(reference)
        client = _client(uri)
        try:
            with quiet():
                if reference.startswith(REGISTRY):
                    return _prompt(client, *_parts(reference))
                run, _, file = reference.partition("/")
                return _of_run(client, run, file)
        except VitalsError:
            raise
        except Exception as error:  # MLflow's stores raise errors of many kinds
            raise _said(reference, error) from error

    def put(self, reference: str, kept: Kept) -> str:
        if not reference.startswith(REGISTRY):
            raise UsageError(
                "a policy is pushed to a name, as in mlflow:policies/llm@prod; runs keep theirs by themselves"
            )
        name, alias = _parts(reference)
        if re.fullmatch(r"[0-9]+|latest", alias):
            raise UsageError(
                f"MLflow numbers versions itself: push to mlflow:policies/{name} or to an alias such as @prod"
            )
        if len(kept.text) > MAX_PROMPT:
            size = f"{len(kept.text):,} characters"
            raise UsageError(
                f"this policy has {size} with all that it uses, and MLflow's registry takes {MAX_PROMPT:,}"
            )
        client = _client()
        try:
            with quiet():
                return _put(client, name, alias, kept)
        except VitalsError:
            raise
        except Exception as error:  # MLflow's stores raise errors of many kinds
            raise _said(reference, error) from error


def _client(uri: str | None = None) -> Any:
    try:
        return importlib.import_module("mlflow").MlflowClient(tracking_uri=uri)
    except ImportError as error:
        raise MissingExtraError("mlflow", "mlflow") from error
    except AttributeError as error:  # VITALS_POLICY is looked at inside MLflow's own import
        said = "MLflow cannot be asked while it is being imported: attach this policy in the script, or pull it into a file"
        raise UsageError(said) from error
    except Exception as error:  # a store that it refuses, such as a folder of an older release
        line = " ".join(str(error).split())[:300] or type(error).__name__
        raise TrackerError(f"MLflow does not open its store: {line}") from error


def _parts(reference: str) -> tuple[str, str]:
    name, at, alias = reference.removeprefix(REGISTRY).partition("@")
    if _NAME.fullmatch(name) is None or (at and _NAME.fullmatch(alias) is None):
        raise UsageError("it is written mlflow:policies/NAME@ALIAS, of letters, digits, `_`, `-` and `.`")
    return name, alias


def _said(reference: str, error: Exception) -> VitalsError:
    """What MLflow said, in one line: missing and refused are for good, all else may be better later."""
    line = " ".join(str(error).split())[:300] or type(error).__name__
    kind = SourceError if getattr(error, "error_code", "") in _ABSENT else TrackerError
    return kind(f"MLflow has no answer for {reference}: {line}")


# -------------------------------------------------------------------- runs


def _of_run(client: Any, run: str, file: str) -> Kept:
    tags = client.get_run(run).data.tags
    files = [f for f in client.list_artifacts(run, ON_THE_RUN) if not f.is_dir and f.path.endswith(SUFFIXES)]
    names = [f.path.rsplit("/", 1)[-1] for f in files]
    if not files:
        raise SourceError(f"no policy is kept with run {run}: it was not watched")
    if not file and len(files) > 1:
        raise SourceError(f"run {run} was watched by several policies: {', '.join(f'mlflow:{run}/{n}' for n in names)}")
    if file and file not in names:
        raise SourceError(f"run {run} keeps no {file}, but {', '.join(names)}")
    found = files[names.index(file) if file else 0]
    if (found.file_size or 0) > 4 * MAX_CHARACTERS:
        raise SourceError(f"{found.path} has {found.file_size / 1e6:.1f} million bytes: it is no policy")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(client.download_artifacts(run, found.path, folder)).read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise SourceError(f"{found.path} of run {run} is not UTF-8 text") from None
    # The tags are those of the policy that was attached last.
    noted = tags if len(files) == 1 else {}
    return Kept(text, found.path.rsplit("/", 1)[-1], noted.get(_DIGEST, ""), noted.get(_COMMIT, ""))


# -------------------------------------------------------------------- the prompt registry


def _prompt(client: Any, name: str, alias: str) -> Kept:
    found = _version(client, name, alias)
    if found is None:
        at = f" with {'version' if alias.isdigit() else 'alias'} {alias}" if alias else ""
        raise SourceError(f"MLflow's registry has no policy {name}{at}")
    if not isinstance(found.template, str):
        raise SourceError(f"{name} is a chat prompt, not a policy")
    tags = found.tags or {}
    return Kept(found.template, tags.get(_FILE, f"{name}.vitals"), tags.get(_DIGEST, ""), tags.get(_COMMIT, ""))


def _version(client: Any, name: str, alias: str) -> Any:
    if not hasattr(client, "get_prompt_version"):
        raise UsageError("this MLflow has no prompt registry: pip install 'mlflow>=3'")
    if alias and not alias.isdigit():
        return _or_none(client.get_prompt_version_by_alias, name, alias)
    if alias:
        return _or_none(client.get_prompt_version, name, alias)
    return next(_versions(client, name), None)


def _or_none(ask: Callable[[str, Any], Any], name: str, which: object) -> Any:
    """An answer; None where there is no such thing, which MLflow says in both ways."""
    try:
        return ask(name, which)
    except Exception as error:  # MLflow need not be there, so its own error cannot be named here
        if getattr(error, "error_code", "") in _ABSENT:
            return None
        raise


def _versions(client: Any, name: str) -> Iterator[Any]:
    """The versions of a prompt, newest first; those that were deleted leave gaps."""
    newest = _or_none(lambda name, _: client.load_prompt(name, allow_missing=True, cache_ttl_seconds=0),
                      f"prompts:/{name}@latest", None)  # fmt: skip
    for number in range(int(newest.version) if newest is not None else 0, 0, -1):
        found = _or_none(client.get_prompt_version, name, number)
        if found is not None:
            yield found


def _put(client: Any, name: str, alias: str, kept: Kept) -> str:
    _version(client, name, "1")  # says so where there is no registry
    # An alias may go back to an older version; without one, what counts is the newest.
    known = islice(_versions(client, name), None if alias else 1)
    same = next((version for version in known if (version.tags or {}).get(_DIGEST) == kept.digest), None)
    if same is None:
        tags = {_DIGEST: kept.digest, _COMMIT: kept.commit, _FILE: kept.file}
        tags = {key: value for key, value in tags.items() if value}
        version = client.register_prompt(name, kept.text, commit_message=f"vitals policy {kept.digest[:19]}", tags=tags)
        said = f"version {version.version} of policy {name}"
    else:
        version = same
        said = f"version {version.version} of policy {name} has this meaning already"
    if alias:
        client.set_prompt_alias(name, alias, int(version.version))
        said += f"; {alias} is version {version.version}"
    return said
