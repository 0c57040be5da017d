"""Names and texts in quotes hold any character that can be printed, double quotes and backslashes too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import vitalsdsl as vitals
from vitalsdsl.cli.app import vitals as program
from vitalsdsl.ground.quoting import quoted, unquoted
from vitalsdsl.ground.source import Source
from vitalsdsl.language.digest import digest
from vitalsdsl.language.layout import format_policy
from vitalsdsl.language.parser import parse
from vitalsdsl.language.rules import Metric
from vitalsdsl.language.yaml.policy import parse_yaml, to_yaml
from vitalsdsl.policies.policy import read

NAMES = st.text(
    st.sampled_from("\"\\ab {}*#/:é'.") | st.characters(blacklist_categories=("C", "Z")), min_size=1, max_size=12
).filter(lambda name: name.strip() == name != "")


@given(st.text(st.sampled_from("\"\\a '{}#") | st.characters(blacklist_characters="\n"), max_size=20))
def test_a_text_comes_out_of_its_quotes_as_it_went_in(text: str) -> None:
    assert unquoted(quoted(text)) == text


@settings(max_examples=60, deadline=None)
@given(NAMES, NAMES, NAMES)
def test_a_hostile_name_is_the_same_through_parser_formatter_yaml_and_digest(name: str, title: str, own: str) -> None:
    own = own.replace("*", "x").replace("{", "y")
    text = (
        f"vitals 1\npolicy p {quoted(title)}\nmetric {quoted(own)} = {quoted(name)} unit {quoted(title)}\n"
        f"rule r {quoted(title)} {{\n  when {quoted(own)} > 3 -> orange\n  try {quoted(title)}\n}}\n"
    )
    parsed = parse(Source("p.vitals", text))
    assert not parsed.diagnostics, [d.render() for d in parsed.diagnostics]
    [metric] = parsed.policy.of(Metric)
    assert (metric.name, metric.logged, metric.unit, parsed.policy.title) == (own, (name,), title, title)
    loaded, found = read("p", text=text)
    assert loaded is not None, [d.render() for d in found]
    formatted = format_policy(parsed)
    again = parse(Source("p.vitals", formatted))
    assert format_policy(again) == formatted
    assert digest(again.policy) == digest(parsed.policy)
    as_yaml = to_yaml(parsed)
    from_yaml = parse_yaml(Source("p.yaml", as_yaml))
    assert not from_yaml.diagnostics, as_yaml + "\n".join(d.render() for d in from_yaml.diagnostics)
    assert digest(from_yaml.policy) == digest(parsed.policy)
    [transition] = vitals.replay(loaded, [{"step": 1, name: 5.0}] if name not in ("step", "_time", "rewind") else [])[
        :1
    ]
    assert transition.rule == "r"


def test_a_name_with_quotes_may_stand_in_a_message() -> None:
    text = r'rule r { when "say \"x\"" > 3 -> red because "is {\"say \\\"x\\\"\":.1f}, {\"a}b\":.0f} and \"more\"" }'
    policy = vitals.load("p", text=text)
    [transition] = vitals.replay(policy, [{"step": 1, 'say "x"': 5.0, "a}b": 2.0}])
    assert transition.message == 'is 5.0, 2 and "more"'
    found = read("p", text=r'rule r { when loss > 3 -> red because "\"{los(1)}" }')[1]
    [error] = [d for d in found if d.is_error]
    assert error.span.text.startswith("los")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (r'metric a = "C:\logs\loss"', r"C:\logs\loss"),
        (r'metric a = "x\\"', "x\\"),
        (r'metric a = "\""', '"'),
        (r'metric a = "a\\\"b"', 'a\\"b'),
    ],
)
def test_a_backslash_escapes_only_a_quote_and_itself(text: str, name: str) -> None:
    [metric] = parse(Source("p", text)).policy.of(Metric)
    assert metric.logged == (name,)


def test_a_text_that_a_backslash_keeps_open_is_told_of() -> None:
    [found] = parse(Source("p", r'metric a = "x\" every 3 steps')).diagnostics
    assert (found.code, found.message) == ("V020", "this text is not closed")
    assert "a backslash itself is `\\\\`" in found.help[0]


def test_names_and_init_write_such_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"step": s, 'Loss "raw"': 2.0} for s in range(60)]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("p.vitals").write_text('rule r { when "Loss \\"raw\\"" > 1 -> orange }\n')
    done = CliRunner().invoke(program, ["check", "p.vitals", "--against", "a.jsonl", "--format", "json"])
    assert "V602" in done.stdout and "V301" not in done.stdout
    named = CliRunner().invoke(program, ["names", "a.jsonl"])
    assert 'Loss "raw"' in named.stdout and "cannot stand" not in named.stdout
    started = CliRunner().invoke(program, ["init", "a.jsonl"])
    assert r'`Loss "raw"`' in started.stdout
    replayed = CliRunner().invoke(program, ["replay", "p.vitals", "a.jsonl", "--format", "jsonl"])
    assert json.loads(replayed.stdout.splitlines()[0])["values"] == {'Loss "raw"': 2.0}
