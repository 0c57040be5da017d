"""vitals policy: versions of a policy, and what differs between two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vitalsdsl.cli.app import EXIT_FINDINGS, fail
from vitalsdsl.cli.options import form_option, loading_options
from vitalsdsl.cli.output import warn_of_other_meaning
from vitalsdsl.difference.policies import differences
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.errors import PolicyError, UsageError
from vitalsdsl.ground.json_line import json_line
from vitalsdsl.policies import lock as locks
from vitalsdsl.policies.policy import LoadedPolicy, load, read
from vitalsdsl.policies.references import LOCK, Kept, library


@click.group("policy")
def command() -> None:
    """Versions of a policy, the policy of a run, the difference between two.

    A REF is a file, `pack:NAME`, a file at a commit (`llm.vitals@v1`, `git+https://host/repo.git//llm.vitals@v1`), a
    run that was watched (`mlflow:RUN_ID`, `wandb:ENTITY/PROJECT/RUN`, the folder of a W&B run), or a place for policies
    (`mlflow:policies/llm@prod`, `wandb:ENTITY/PROJECT/llm:prod`).
    """


@command.command("digest")
@click.argument("references", nargs=-1, required=True, metavar="REF…")
@loading_options
@form_option
def digest(references: tuple[str, ...], settings: dict[str, str], profile: str | None, form: str) -> None:
    """The fingerprint of what policies mean: files that differ in their looks only have the same."""
    for reference in references:
        loaded = load(reference, settings=settings, profile=profile)
        if form == "jsonl":
            click.echo(json_line({"type": "policy", **_facts(loaded)}))
        else:
            click.echo(f"{loaded.digest}  {printable(reference)}")


@command.command("show")
@click.argument("reference", metavar="REF")
@loading_options
@form_option
def show(reference: str, settings: dict[str, str], profile: str | None, form: str) -> None:
    """A policy as one text that stands alone, with all that it uses; of a run, the one that watched it."""
    loaded = load(reference, settings=settings, profile=profile)
    warn_of_other_meaning(loaded)
    if form == "jsonl":
        click.echo(json_line({"type": "policy", **_facts(loaded), "text": loaded.bundle}))
    else:
        click.echo(loaded.bundle, nl=False)


@command.command("diff")
@click.argument("before", metavar="REF")
@click.argument("after", metavar="REF")
@form_option
@click.pass_context
def diff(ctx: click.Context, before: str, after: str, form: str) -> None:
    """What differs between two policies, in words. Exits 1 where something does."""
    old, new = load(before), load(after)
    found = differences(old.policy, new.policy) if old.digest != new.digest else []
    if form == "jsonl":
        same = {"type": "comparison", "before": _facts(old), "after": _facts(new), "same": not found}
        for line in [same, *(change.as_dict() for change in found)]:
            click.echo(json_line(line))
    elif found:
        for change in found:
            click.echo(printable(change.says))
    else:
        looks = "the same meaning, written differently" if old.bundle != new.bundle else "the same meaning"
        click.echo(f"{looks} ({old.digest[:19]}…)")
    if found:
        ctx.exit(EXIT_FINDINGS)


@command.command("lock")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit 1 where the lock would be changed.")
@click.pass_context
def lock(ctx: click.Context, file: Path, only_check: bool) -> None:
    """Pin what a policy uses in FILE.lock beside it.

    From then on a used file or pack that means something else is refused, until this is done again.
    """
    if not file.is_file():
        fail(f"there is no file {file}")
    loaded, found = read(file, locked=False)
    if loaded is None:
        raise PolicyError(found)
    path = file.with_name(file.name + LOCK)
    if not loaded.used and not path.is_file():
        click.echo(f"{printable(str(file))} uses nothing: there is nothing to pin")
        return
    text = locks.text(locks.pins(loaded.used))
    known = path.read_text("utf-8", "replace") if path.is_file() else ""
    if known == text:
        click.echo(f"{printable(str(path))} is up to date")
        return
    if only_check:
        click.echo(f"{printable(str(path))} is out of date: vitals policy lock {printable(str(file))}")
        ctx.exit(EXIT_FINDINGS)
    _write(path, text)
    click.echo(f"{printable(str(path))}: {len(loaded.used)} pinned")


@command.command("push")
@click.argument("file", metavar="FILE")
@click.argument("reference", metavar="REF")
@loading_options
def push(file: str, reference: str, settings: dict[str, str], profile: str | None) -> None:
    """Keep a policy, as one text that stands alone, where others take it from: `mlflow:policies/llm@prod`,
    `wandb:ENTITY/PROJECT/llm:prod`.

    What is there already is not kept twice; the alias is moved.
    """
    loaded = load(file, settings=settings, profile=profile)
    there, rest = library(reference)
    said = there.put(rest, Kept(loaded.bundle, loaded.file, loaded.digest, loaded.commit))
    click.echo(f"{printable(reference)}: {printable(said)} ({loaded.digest[:19]}…)")


@command.command("pull")
@click.argument("reference", metavar="REF")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--force", is_flag=True, help="Replace a FILE that means something else.")
def pull(reference: str, file: Path, force: bool) -> None:
    """Write a policy from elsewhere into FILE, so that it can be read, changed and used by another."""
    loaded = load(reference)
    warn_of_other_meaning(loaded)
    if file.suffix != ".vitals":
        raise UsageError(f"{file}: a policy is pulled into a .vitals file")
    if file.exists():
        if not file.is_file():
            raise UsageError(f"{file} is no file")
        mine, _ = read(file, locked=False)
        if mine is not None and mine.digest == loaded.digest:
            click.echo(f"{printable(str(file))} has this meaning already")
            return
        if not force:
            raise UsageError(f"{file} means something else: see vitals policy diff {file} {reference}, or give --force")
    _write(file, loaded.bundle)
    click.echo(f"{printable(str(file))}: {printable(loaded.name)} ({loaded.digest[:19]}…)")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {(error.strerror or 'no access').lower()}") from error


def _facts(loaded: LoadedPolicy) -> dict[str, Any]:
    return {
        "reference": loaded.reference,
        "name": loaded.name,
        "digest": loaded.digest,
        "commit": loaded.commit or loaded.noted_commit or None,
    }
