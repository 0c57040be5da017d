"""vitals functions: what each function and form of the language means."""

from __future__ import annotations

import difflib
import inspect

import click

from vitalsdsl.cli.app import fail
from vitalsdsl.cli.options import form_option
from vitalsdsl.ground.json_line import json_line
from vitalsdsl.language.forms.base import Form, find, forms
from vitalsdsl.ops.base import Function, aggregates, registry

Entry = type[Function] | Form


@click.command("functions")
@click.argument("words", nargs=-1, metavar="[NAME]")
@form_option
def command(words: tuple[str, ...], form: str) -> None:
    """What each function and form means; with NAME its whole page.

    Forms are what is no function: `missing`, `before`, `then`, `is nan`, `for`, `step`.
    """
    if words:
        name = " ".join(words)
        pages: list[Entry] = [table[name] for table in (registry(), aggregates()) if name in table]
        pages += find(name) if not pages else []
        if not pages:
            near = difflib.get_close_matches(name, [*registry(), *aggregates(), *forms()], 1)
            fail(f"there is no function `{name}`" + (f": did you mean `{near[0]}`?" if near else ""))
        click.echo("\n\n".join(map(_page, pages)) if form == "text" else _lines(pages))
        return
    everything: list[Entry] = [*registry().values(), *aggregates().values(), *forms().values()]
    if form == "jsonl":
        click.echo(_lines(everything))
        return
    everything.sort(key=lambda entry: (entry.name, _signature(entry)))
    width = max(len(_signature(entry)) for entry in everything)
    for entry in everything:
        click.echo(f"{_signature(entry):{width}}  {_first_line(entry)}")


def _signature(entry: Entry) -> str:
    return entry.signature if isinstance(entry, Form) else entry.signature()


def _text(entry: Entry) -> str:
    """What people read: the page without the examples that call into our own modules, which nobody else can."""
    if isinstance(entry, Form):
        return entry.page
    paragraphs = (inspect.getdoc(entry) or "").split("\n\n")
    if any("from vitalsdsl." in p or "import vitalsdsl." in p for p in paragraphs if p.startswith(">>>")):
        paragraphs = [p for p in paragraphs if not p.startswith(">>>")]
    return "\n\n".join(paragraphs).strip()


def _first_line(entry: Entry) -> str:
    return _text(entry).split("\n", 1)[0]


def _page(entry: Entry) -> str:
    return f"{click.style(_signature(entry), bold=True)}\n\n{_text(entry)}\n\nIn a rule:\n    {entry.example}"


def _lines(entries: list[Entry]) -> str:
    return "\n".join(
        json_line(
            {
                "type": "form" if isinstance(entry, Form) else "function",
                "name": entry.name,
                "signature": _signature(entry),
                "result": None if isinstance(entry, Form) else entry.result.value,
                "page": _text(entry),
                "example": entry.example,
            }
        )
        for entry in entries
    )
