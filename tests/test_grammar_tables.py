"""Our reader of the grammar beside Lark's own: the same trees, and the same place and expectations where it goes wrong."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import lark
import pytest
from lark.exceptions import UnexpectedInput, UnexpectedToken

from tests.test_syntax import MISTAKES
from vitalsdsl.ground.source import Source
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules, tables
from vitalsdsl.language.parser import parse
from vitalsdsl.language.reading import Reader
from vitalsdsl.language.tokens import Token, Unexpected

PACKS = sorted((Path(__file__).parents[1] / "rules" / "vitalsdsl_rules").glob("*.vitals"))
GRAMMAR = tables.GRAMMAR.read_text("utf-8")
WORD = re.compile(r'"[^"\n]*"|[A-Za-z_][\w./*]*|[\d.]+\w*%?|\S')


class Trees:
    """Makes of everything its name and its parts."""

    def __getattr__(self, name: str) -> Any:
        return lambda parts: (name, *parts)


@cache
def lark_reader() -> lark.Lark:
    return lark.Lark(GRAMMAR, parser="lalr", start=list(tables.STARTS), keep_all_tokens=True, maybe_placeholders=False)


@cache
def reader() -> Reader:
    return Reader(tables.tables())


def plain(node: Any) -> Any:
    if isinstance(node, lark.Tree):
        return (str(node.data), *map(plain, node.children))
    if isinstance(node, tuple):
        return (node[0], *map(plain, node[1:]))
    if isinstance(node, lark.Token):
        return [str(node.type), str(node), node.start_pos, node.end_pos]
    assert isinstance(node, Token)
    return [node.type, node.value, node.start_pos, node.end_pos]


def by_lark(text: str, start: str) -> Any:
    try:
        return plain(lark_reader().parse(text, start=start))
    except UnexpectedInput as error:
        if isinstance(error, UnexpectedToken):
            is_over = error.token.type == "$END"
            return len(text) if is_over else error.pos_in_stream, sorted(error.accepts), is_over
        return error.pos_in_stream, sorted(error.allowed), False


def by_us(text: str, start: str) -> Any:
    try:
        return plain(reader().read(text, start, Trees()))
    except Unexpected as error:
        return error.at, sorted(error.expected), error.is_over


def statements() -> list[str]:
    """The statements of the packs, one by one."""
    return [s.span.text for path in PACKS for s in parse(Source(path.name, path.read_text("utf-8"))).policy.statements]


def spoilt(text: str, rng: random.Random) -> str:
    """A statement with a word left out, doubled, or in the place of another, or without its end."""
    words = [m.span() for m in WORD.finditer(text)]
    (a, b), (c, d) = rng.choice(words), rng.choice(words)
    return rng.choice(
        (text[:a] + text[b:], text[:b] + " " + text[a:], text[:a] + text[c:d] + text[b:], text[:b], text[:a])
    )


@pytest.mark.parametrize("path", PACKS, ids=lambda path: path.stem)
def test_a_pack_is_read_as_lark_reads_it(path: Path) -> None:
    text = path.read_text("utf-8")
    assert by_us(text, "start") == by_lark(text, "start")


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_found_where_lark_finds_it(text: str) -> None:
    assert by_us(text, "start") == by_lark(text, "start")


def test_spoilt_statements_fail_where_they_fail_for_lark() -> None:
    rng = random.Random(5)
    all_of_them = statements()
    texts = [spoilt(rng.choice(all_of_them), rng) for _ in range(500)]
    outcomes = [by_us(text, "start") for text in texts]
    assert [(text, by_lark(text, "start")) for text in texts] == list(zip(texts, outcomes))
    wrong = sum(isinstance(outcome[0], int) for outcome in outcomes)
    assert 250 < wrong < 490  # some make sense all the same


@pytest.mark.parametrize("start", tables.STARTS)
def test_what_can_be_read_by_itself_is_read_as_by_lark(start: str) -> None:
    texts = ["loss", "3", "-3", "20 steps", "-> red after 5 steps do pause", "pause(lr: 3)", "k = 3", "x > 3 and not y < 2",
             "2 of 3 samples", "", "5 steps and 3 samples", "(x > 3 for 2 steps)", "mean(x, 3 steps) > 2"]  # fmt: skip
    assert [by_us(text, start) for text in texts] == [by_lark(text, start) for text in texts]


def test_the_kept_tables_are_those_of_the_grammar(update: bool) -> None:
    made = tables.as_kept(tables.worked_out(GRAMMAR))
    if update:
        tables.KEPT.write_text(made, "utf-8")
    assert tables.KEPT.read_text("utf-8") == made


def test_another_grammar_s_tables_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tables.tables()
    for kept in ('{"of": "another"}', "no tables", None):
        monkeypatch.setattr(tables, "KEPT", tmp_path / "grammar.json")
        if kept is not None:
            tables.KEPT.write_text(kept, "utf-8")
        assert tables.tables() == whole


def test_a_way_to_write_something_that_stands_for_several_parts_needs_a_name() -> None:
    with pytest.raises(ValueError, match=r"`sum` stands for a single part, and one of its ways has 3"):
        tables.worked_out('start: sum\n?sum: NAME | NAME "+" NAME\nNAME: /[a-z]+/\n' + starts_of_the_grammar())


def starts_of_the_grammar() -> str:
    return "".join(f"{start}: NAME\n" for start in tables.STARTS if start != "start")


def test_the_nodes_inside_a_node_are_all_that_it_holds() -> None:
    """Which fields can hold nodes is known from their types."""
    seen: set[type[ex.Node]] = set()
    named = 'use "pack:core" with k = 3\nwhen loss > 3 -> red do rollback(lr: 90%), notify("team")'
    for text in (*(path.read_text("utf-8") for path in PACKS), named):
        for node in parse(Source("p.vitals", text)).policy.walk():
            held = [v for value in node.__dict__.values() for v in (value if isinstance(value, tuple) else (value,))]
            assert node.children() == [v for v in held if isinstance(v, ex.Node)], node
            seen.add(type(node))
    assert {rules.Use, rules.Setting, rules.Action, rules.ActionText, ex.Call, ex.Comparison} <= seen
