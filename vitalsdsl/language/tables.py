"""The tables of the grammar: what may follow what, worked out from grammar.lark by Lark and kept beside it.

To work them out takes Lark a sixth of a second, to read them a thousandth. Where the grammar is not the one that they were
worked out from, they are worked out anew.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vitalsdsl.language.tokens import Terminal

GRAMMAR = Path(__file__).parent / "grammar.lark"
KEPT = Path(__file__).parent / "grammar.json"
STARTS = ("start", "condition", "span", "duration", "value", "rung", "action", "setting")
"""What can be read by itself."""


class Production(NamedTuple):
    """One way to write something: what it makes, of how many parts, and the builder's method that makes it.

    Where it has no method, the parts themselves are what it makes, for the production that they are `spread` into, by the places
    where they stand there. `passes_on`: its single part
    stands for the whole.
    """

    makes: str
    size: int
    method: str
    passes_on: bool
    spread: tuple[int, ...]


class Tables(NamedTuple):
    """A grammar as its reader goes by it.

    `states` says for each state what a terminal, or something made, leads to: a state from 0 on, or a production as its
    number's complement. `starts` are the first and the last state for what can be read by itself. `terminals` are in the
    order in which they are tried; `ignored` is what stands between words.
    """

    terminals: tuple[Terminal, ...]
    ignored: tuple[str, ...]
    productions: tuple[Production, ...]
    states: Sequence[Mapping[str, int]]
    starts: Mapping[str, tuple[int, int]]


def tables() -> Tables:
    """The tables of grammar.lark: as kept, if they are of it, line for line."""
    grammar = GRAMMAR.read_text("utf-8")
    try:
        kept = json.loads(KEPT.read_bytes())
        if kept["of"] != grammar.splitlines():
            raise ValueError("of another grammar")
    except (OSError, ValueError, KeyError):
        kept = json.loads(as_kept(worked_out(grammar)))
    same = sys.intern
    expected = [list(map(same, names)) for names in kept["expected"]]
    return Tables(
        tuple(Terminal(same(name), *of) for name, *of in kept["terminals"]),
        tuple(kept["ignored"]),
        tuple(
            Production(same(makes), size, method, one, tuple(spread))
            for makes, size, method, one, spread in kept["productions"]
        ),
        [dict(zip(expected[which], leads)) for which, leads in kept["states"]],
        kept["starts"],
    )


def as_kept(found: Mapping[str, Any]) -> str:
    """The tables as the text of the file in which they are kept, with a line for each entry.

    >>> print(as_kept({"of": "3f", "states": [[0, [1]], [1, [2]]]}), end="")
    {"of":"3f",
    "states":[[0,[1]],
     [1,[2]]]}
    """
    parts = []
    for name, value in found.items():
        rows = [json.dumps(row, separators=(",", ":")) for row in value] if isinstance(value, list) else []
        text = f"[{f',{chr(10)} '.join(rows)}]" if rows else json.dumps(value, separators=(",", ":"))
        parts.append(f'"{name}":{text}')
    return "{" + ",\n".join(parts) + "}\n"


def worked_out(grammar: str) -> dict[str, Any]:
    """The tables of a grammar, as they are kept: Lark's own, with its states and productions numbered in one order."""
    lark = importlib.import_module("lark")
    made = lark.Lark(grammar, parser="lalr", start=list(STARTS), keep_all_tokens=True, maybe_placeholders=False)
    table = made.parser.parser._parse_table
    shift = importlib.import_module("lark.parsers.lalr_analysis").Shift
    order = _in_order(table, shift)
    number = {state: i for i, state in enumerate(order)}
    rules = sorted(made.rules, key=lambda rule: (rule.origin.name, rule.order, str(rule)))
    production = {rule: i for i, rule in enumerate(rules)}
    states, expected = [], []
    for state in order:
        leads = sorted(table.states[state].items())
        names = [name for name, _ in leads]
        if names not in expected:
            expected.append(names)
        to = [number[arg] if action is shift else ~production[arg] for _, (action, arg) in leads]
        states.append([expected.index(names), to])
    ignored = set(made.ignore_tokens)
    return {
        "of": grammar.splitlines(),
        "terminals": _terminals(made.terminals, ignored),
        "ignored": sorted(t.pattern.to_regexp() for t in made.terminals if t.name in ignored),
        "productions": [_production(rule) for rule in rules],
        "expected": expected,
        "states": states,
        "starts": {s: [number[table.start_states[s]], number[table.end_states[s]]] for s in STARTS},
    }


def _in_order(table: Any, shift: object) -> list[int]:
    """The states as one comes to them from the first ones, so that they have the same numbers each time."""
    order = [table.start_states[start] for start in STARTS]
    seen = set(order)
    for state in order:
        for _, (action, arg) in sorted(table.states[state].items()):
            if action is shift and arg not in seen:
                seen.add(arg)
                order.append(arg)
    return order


def _terminals(terminals: Sequence[Any], ignored: set[str]) -> list[list[Any]]:
    """In the order in which Lark tries them: by priority, then what can be longest. A word that a shape has, too, is not
    tried: what has the shape is looked up among the words."""
    ordered = sorted(terminals, key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name))
    literals = [t for t in ordered if t.pattern.type == "str"]
    found = []
    for terminal in ordered:
        if terminal.name in ignored:
            continue
        is_shape = terminal.pattern.type == "re"
        words = {}
        if is_shape:
            shape = re.compile(terminal.pattern.to_regexp())
            same = [t for t in literals if t.priority == terminal.priority]
            words = {t.pattern.value: t.name for t in same if shape.fullmatch(t.pattern.value)}
        text = terminal.pattern.to_regexp() if is_shape else terminal.pattern.value
        found.append([terminal.name, text, is_shape, words])
    return found


def _production(rule: Any) -> list[Any]:
    """A production that Lark made for a repetition has a name that begins with `_`, and no method."""
    name, size = rule.origin.name, len(rule.expansion)
    spread = [i for i, part in enumerate(rule.expansion) if not part.is_term and part.name.startswith("_")]
    passes_on = bool(rule.options.expand1 and not rule.alias)
    if passes_on and (size != 1 or spread):
        raise ValueError(f"`{name}` stands for a single part, and one of its ways has {size}: give that an alias")
    return [name, size, "" if passes_on or name.startswith("_") else str(rule.alias or name), passes_on, spread]
