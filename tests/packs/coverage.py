"""What the packs and the rest serve, as data: `rules/vitalsdsl_rules/coverage.yaml`, and the page made of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import vitalsdsl_torch
from ruamel.yaml import YAML

from tests.packs.catalogue import FOLDER, shipped
from vitalsdsl import generate
from vitalsdsl.actions.base import registry as actions
from vitalsdsl.ops.base import registry as functions

DATA = FOLDER / "coverage.yaml"
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "coverage.md"
KINDS = ("rules", "functions", "collectors", "actions", "curves", "pages")
"""What can serve an item; `curves` only show it."""
GROUPS = {"S": range(1, 160), "I": range(1, 81)}

HEAD = """# What serves what

Two texts stand behind the packs, a monitoring guide ("from loss to gradient norm") and a training handbook (on loss, learning rate and
gradient trouble), and a catalogue of incidents from published logs, papers and issue threads. Each claim of theirs is here in a line, with what
serves it: a rule of a [shipped pack](../rules/vitalsdsl_rules/README.md), a function of the [language](language.md), a
[collector](vitals.md), an action, a page, or a generated curve that shows it.

This page is made of `rules/vitalsdsl_rules/coverage.yaml`; `python -m pytest tests/packs/test_coverage.py --update` makes it anew.
"""
TITLES = {"S": "Claims of the guide and the handbook", "I": "Incidents"}


@dataclass(frozen=True)
class Item:
    """A claim and what serves it; `reason` where nothing can."""

    name: str
    claim: str
    served: dict[str, tuple[str, ...]]
    reason: str = ""

    @property
    def has_place(self) -> bool:
        return bool(self.reason) or any(self.served[kind] for kind in KINDS if kind != "curves")


def items() -> dict[str, Item]:
    """All items by name, as the data say."""
    found = {}
    for name, said in YAML(typ="safe").load(DATA.read_text("utf-8")).items():
        unknown = said.keys() - {"claim", "reason", *KINDS}
        assert not unknown, f"{name}: {', '.join(sorted(unknown))}"
        served = {kind: tuple(said.get(kind, ())) for kind in KINDS}
        found[name] = Item(name, said["claim"], served, said.get("reason", ""))
    return found


def wanted() -> list[str]:
    """The names of all items that there are."""
    return [f"{group}{number}" for group, numbers in GROUPS.items() for number in numbers]


def existing() -> dict[str, set[str]]:
    """What there is of each kind, by the names that the data use."""
    collectors = Path(vitalsdsl_torch.__file__).parent / "collectors"
    pages: set[str] = set()
    for page in (ROOT / "docs").glob("*.md"):
        name = f"docs/{page.name}"
        pages |= {name, *(f"{name}#{_slug(line)}" for line in page.read_text("utf-8").splitlines() if line[:1] == "#")}
    return {
        "rules": {f"{pack.name}.{rule.name}" for pack in shipped() for rule in pack.own},
        "functions": set(functions()),
        "collectors": {file.stem for file in collectors.glob("*.py") if "class " in file.read_text("utf-8")},
        "actions": set(actions()),
        "curves": set(generate.curves()),
        "pages": pages,
    }


def _slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower()).replace(" ", "-")


def page() -> str:
    """The page, as Markdown."""
    found = items()
    lines = [HEAD]
    for group, numbers in GROUPS.items():
        lines += [f"## {TITLES[group]}", "", "| | claim | served by |", "|---|---|---|"]
        lines += [_row(found[f"{group}{number}"]) for number in numbers]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _row(item: Item) -> str:
    words = {
        "rules": "",
        "functions": "function ",
        "collectors": "collector ",
        "actions": "action ",
        "curves": "curve ",
    }
    told = [f"{words[kind]}{', '.join(map(_linked(kind), item.served[kind]))}" for kind in words if item.served[kind]]
    told += [f"[{p.split('#')[-1].removeprefix('docs/')}]({p.removeprefix('docs/')})" for p in item.served["pages"]]
    if item.reason:
        told.append(f"no rule: {item.reason}")
    return f"| {item.name} | {item.claim} | {'; '.join(told)} |"


def _linked(kind: str) -> Callable[[str], str]:
    links: dict[str, Callable[[str], str]] = {
        "rules": lambda name: f"[`{name}`](../rules/vitalsdsl_rules/README.md#{_slug(name)})",
        "collectors": lambda name: f"[`{name}`](vitals.md#{name})",
    }
    return links.get(kind, lambda name: f"`{name}`")
