"""vitals fmt: one style for all policies."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from vitalsdsl.cli.app import EXIT_FINDINGS, fail
from vitalsdsl.ground.diagnostic import Diagnostic, printable, render
from vitalsdsl.ground.source import Source, is_yaml
from vitalsdsl.language.layout import format_policy
from vitalsdsl.language.yaml.policy import to_yaml
from vitalsdsl.policies import rule_files
from vitalsdsl.policies.policy_files import parse_any, policy_file, standard_input


@click.command("fmt")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit 1 where a file would be changed.")
@click.option("--to", "target", type=click.Choice(["dsl", "yaml"]), help="Write the other form to standard output.")
@click.pass_context
def command(ctx: click.Context, files: tuple[str, ...], only_check: bool, target: str | None) -> None:
    """Format policies in place; comments are kept and the meaning is unchanged.

    What fits into 120 columns stands on one line. What does not keeps the line breaks of its author; a `metric` with many
    names that has none gets some.

    `-` reads standard input and writes standard output; of a folder all policies below it are formatted. With --to the
    result goes to standard output.
    """
    files = tuple(rule_files.named(files, rule_files.policies_in, "policy"))
    if target is not None and len(files) > 1:
        fail("--to converts one file at a time")
    changed = False
    for name in files:
        source = standard_input() if name == "-" else policy_file(name)
        if isinstance(source, Diagnostic):
            fail(f"{source.message}{''.join(f': {text}' for text in source.help)}")
        formatted = _formatted(source, target)
        if target is not None or (name == "-" and not only_check):
            click.echo(formatted, nl=False)
        elif formatted != source.text:
            changed = True
            _change(Path(name), source.text, formatted, only_check)
    if only_check and changed:
        ctx.exit(EXIT_FINDINGS)


def _formatted(source: Source, target: str | None) -> str:
    parsed = parse_any(source)
    if not parsed.ok:
        fail(render([d for d in parsed.diagnostics if d.is_error]))
    as_yaml = target == "yaml" or (target is None and is_yaml(source.name))
    return to_yaml(parsed.policy) if as_yaml else format_policy(parsed)


def _change(path: Path, before: str, after: str, only_check: bool) -> None:
    if only_check:
        lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), str(path), str(path))
        for line in lines:  # line ends of Windows are seen, and no sign of theirs moves the cursor
            click.echo(printable(line.removesuffix("\n")))
        return
    path.write_text(after, "utf-8", newline="")
    click.echo(f"formatted {path}", err=True)
