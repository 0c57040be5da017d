"""Policies that W&B keeps as artifacts: those that runs were watched by, and a team's own under a name and alias."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from vitalsdsl.ground.claims import is_address
from vitalsdsl.ground.errors import SourceError, TrackerError, UsageError, VitalsError
from vitalsdsl.language.parser import MAX_CHARACTERS
from vitalsdsl.policies.policy_files import SUFFIXES
from vitalsdsl.policies.references import Kept, kept_in
from vitalsdsl_wandb.address import parse
from vitalsdsl_wandb.references import is_path
from vitalsdsl_wandb.server import find_server
from vitalsdsl_wandb.tap import wandb_module

TYPE = "vitals-policy"
"""The type of artifacts that are policies."""

PATIENCE = 30
"""Seconds for one request."""

_SECRET = re.compile(r"\b[0-9A-Za-z_-]{40,}\b")


class PolicyLibrary:
    """`wandb:ENTITY/PROJECT/NAME:ALIAS` is an artifact, by alias or version (`:v3`). `wandb:ENTITY/PROJECT/RUN` is the
    policy that watched a run, out of the artifacts that the run logged; the address of the run's page, or a path to the
    run on this disk, is as good.

    Reading goes through W&B's own client, so that its keys and hosts are found as always.
    """

    def get(self, reference: str) -> Kept:
        if is_path(reference):
            return kept_in(Path(reference).expanduser())
        if is_address(reference):
            page = parse(reference)
            page.check(find_server())
            reference = page.uri.removeprefix("wandb:")
        parts, alias = _parts(reference)
        api = _api()
        try:
            if alias:
                return _of_artifact(api.artifact(f"{'/'.join(parts)}:{alias}", type=TYPE))
            return _of_run(api.run("/".join(parts)), reference)
        except VitalsError:
            raise
        except Exception as error:  # W&B's client raises errors of many kinds
            raise _said(reference, error) from error

    def put(self, reference: str, kept: Kept) -> str:
        (entity, project, name), alias = _parts(reference)
        if not alias:
            raise UsageError("a policy is pushed to a name and alias, as in wandb:team/policies/llm:prod")
        if re.fullmatch(r"v[0-9]+|latest", alias):
            raise UsageError(
                f"W&B numbers versions itself: push to an alias such as wandb:{entity}/{project}/{name}:prod"
            )
        wandb = wandb_module()
        try:
            is_offline = wandb.setup().settings.mode in ("offline", "dryrun")
            if not is_offline:
                same = _same(_api(), f"{entity}/{project}/{name}", kept.digest)
                if same is not None:
                    if alias not in same.aliases:
                        same.aliases.append(alias)
                        same.save()
                    return f"version {same.version} of {name} has this meaning already; {alias} is {same.version}"
            return _log(wandb, (entity, project, name), alias, kept)
        except VitalsError:
            raise
        except Exception as error:  # W&B's client raises errors of many kinds
            raise _said(reference, error) from error


def _parts(reference: str) -> tuple[list[str], str]:
    path, _, alias = reference.partition(":")
    parts = path.split("/")
    if len(parts) != 3 or not all(re.fullmatch(r"[^\s/:]+", part) for part in parts) or re.search(r"[\s/:]", alias):
        raise UsageError("it is written wandb:ENTITY/PROJECT/NAME:ALIAS, or wandb:ENTITY/PROJECT/RUN for that of a run")
    return parts, alias


def _api() -> Any:
    try:
        return wandb_module().Api(timeout=PATIENCE)
    except VitalsError:
        raise
    except Exception as error:  # W&B's client raises errors of many kinds
        raise _said("", error) from error


def _said(reference: str, error: Exception) -> VitalsError:
    line = _SECRET.sub("…", " ".join(str(error).split()))[:300] or type(error).__name__
    kind = SourceError if isinstance(error, ValueError) else TrackerError
    return kind(f"W&B has no answer{' for ' if reference else ''}{reference}: {line}")


def _of_run(run: Any, reference: str) -> Kept:
    found = [artifact for artifact in run.logged_artifacts() if artifact.type == TYPE]
    if not found:
        raise SourceError(f"no policy is kept with run {reference}: it was not watched, or not from inside")
    if len(found) > 1:
        project = reference.rsplit("/", 1)[0]
        names = ", ".join(f"wandb:{project}/{artifact.name}" for artifact in found)
        raise SourceError(f"run {reference} was watched by several policies: {names}")
    return _of_artifact(found[0])


def _of_artifact(artifact: Any) -> Kept:
    if artifact.type != TYPE:
        raise SourceError(f"{artifact.name} is of type {artifact.type}, not {TYPE}: it is no policy")
    names = [name for name in artifact.manifest.entries if name.endswith(SUFFIXES)]
    if len(names) != 1:
        held = f"{len(names)} rule files" if names else "no rule file"
        raise SourceError(f"{artifact.name} holds {held}: a policy is one text that stands alone")
    path = PurePosixPath(names[0])
    if path.is_absolute() or ".." in path.parts:
        raise SourceError(f"{artifact.name} holds a file that leads out of it: {path}")
    if (artifact.manifest.entries[names[0]].size or 0) > 4 * MAX_CHARACTERS:
        raise SourceError(f"{path} of {artifact.name} is too large: it is no policy")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(artifact.get_entry(names[0]).download(root=folder)).read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise SourceError(f"{names[0]} of {artifact.name} is not UTF-8 text") from None
    facts = {key: value for key, value in (artifact.metadata or {}).items() if isinstance(value, str)}
    return Kept(text, names[0], facts.get("digest", ""), facts.get("git", ""))


def _same(api: Any, path: str, digest: str) -> Any:
    """The version that has this meaning already; None where there is none, or nothing of that name."""
    if not api.artifact_collection_exists(path, TYPE):
        return None
    versions = api.artifacts(TYPE, path)
    return next((a for a in versions if (a.metadata or {}).get("digest") == digest), None)


def _log(wandb: Any, place: tuple[str, str, str], alias: str, kept: Kept) -> str:
    """An artifact is made by a run: a short one of its own."""
    entity, project, name = place
    facts = {"digest": kept.digest, "policy": name, "git": kept.commit}
    with wandb.init(entity=entity, project=project, job_type=TYPE, name=f"policy {name}") as run:
        artifact = wandb.Artifact(name, type=TYPE, metadata=facts)
        with artifact.new_file(kept.file, encoding="utf-8") as file:
            file.write(kept.text)
        logged = run.log_artifact(artifact, aliases=["latest", alias])
        if run.offline:
            return f"{name}:{alias} is kept in the offline run {run.id}, for `wandb sync`"
        logged.wait(timeout=PATIENCE)
        return f"version {logged.version} of {name}; {alias} is {logged.version}"
