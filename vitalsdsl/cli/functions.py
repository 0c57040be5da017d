"""vitals functions: the reference of the language's functions, from the functions themselves."""

from __future__ import annotations

import difflib
import inspect
import json

import click

from vitalsdsl.cli.app import fail
from vitalsdsl.ops.base import Function, aggregates, registry


@click.command("functions")
@click.argument("name", required=False)
@click.option("--format", "form", type=click.Choice(["text", "jsonl"]), default="text")
def command(name: str | None, form: str) -> None:
    """What each function means; with NAME its whole page."""
    if name is not None:
        pages = [table[name] for table in (registry(), aggregates()) if name in table]
        if not pages:
            near = difflib.get_close_matches(name, [*registry(), *aggregates()], 1)
            fail(f"there is no function `{name}`" + (f": did you mean `{near[0]}`?" if near else ""))
        click.echo("\n\n".join(_page(function) for function in pages) if form == "text" else _lines(pages))
        return
    everything: list[type[Function]] = [*registry().values(), *aggregates().values()]
    if form == "jsonl":
        click.echo(_lines(everything))
        return
    width = max(len(function.signature()) for function in everything)
    for function in sorted(everything, key=lambda f: (f.name, f.signature())):
        click.echo(f"{function.signature():{width}}  {_first_line(function)}")


def _first_line(function: type[Function]) -> str:
    return (inspect.getdoc(function) or "").split("\n", 1)[0]


def _page(function: type[Function]) -> str:
    head = click.style(function.signature(), bold=True)
    return f"{head}\n\n{inspect.getdoc(function)}\n\nIn a rule:\n    {function.example}"


def _lines(functions: list[type[Function]]) -> str:
    return "\n".join(
        json.dumps(
            {
                "type": "function",
                "name": function.name,
                "signature": function.signature(),
                "result": function.result.value,
                "page": inspect.getdoc(function),
                "example": function.example,
            }
        )
        for function in functions
    )
