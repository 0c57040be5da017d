"""The YAML form: it says the same as the language, and its mistakes are found where they are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

import vitalsdsl as vitals
from tests.policies_at_random import policies
from vitalsdsl.ground.diagnostic import Diagnostic, render
from vitalsdsl.ground.errors import PolicyError
from vitalsdsl.ground.source import Source
from vitalsdsl.language.digest import canonical
from vitalsdsl.language.layout import format_policy
from vitalsdsl.language.parser import Parsed, parse
from vitalsdsl.language.rules import Rule
from vitalsdsl.language.yaml import form, tree
from vitalsdsl.language.yaml.policy import parse_yaml, to_yaml
from vitalsdsl.language.yaml.schema import json_schema
from vitalsdsl.language.yaml.text import quoted, word
from vitalsdsl.policies.policy import read as read_policy

HERE = Path(__file__).parent
CASES = sorted((HERE / "conformance" / "cases").glob("*.json"))
GOLDEN = HERE / "golden" / "yaml"
WRITTEN = [
    *sorted(p for p in (HERE / "golden" / "format").glob("*.vitals") if not p.stem.endswith(".formatted")),
    GOLDEN / "interleaved.vitals",
]


def read(text: str, name: str = "p.yaml") -> Parsed:
    return parse_yaml(Source(name, text))


def good(text: str) -> Parsed:
    parsed = read(text)
    assert parsed.ok, render(parsed.diagnostics)
    return parsed


def only(text: str) -> Diagnostic:
    parsed = read(text)
    assert len(parsed.diagnostics) == 1, render(parsed.diagnostics)
    return parsed.diagnostics[0]


def same(one: str, other: str) -> None:
    """A YAML text and a text in the language mean the same."""
    language = parse(Source("p.vitals", other))
    assert language.ok, render(language.diagnostics)
    assert canonical(good(one).policy) == canonical(language.policy)


# -------------------------------------------------------------------- writing


def compare(result: str, twin: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update", default=False):
        twin.write_text(result, "utf-8")
    assert result == twin.read_text("utf-8")


@pytest.mark.parametrize("path", WRITTEN, ids=lambda p: p.stem)
def test_a_file_is_written_as_its_golden_twin(path: Path, request: pytest.FixtureRequest) -> None:
    compare(to_yaml(parse(Source(path.name, path.read_text("utf-8")))), GOLDEN / f"{path.stem}.yaml", request)


def test_a_file_written_by_hand_is_brought_into_the_one_style(request: pytest.FixtureRequest) -> None:
    parsed = good((GOLDEN / "by_hand.yaml").read_text("utf-8"))
    compare(to_yaml(parsed), GOLDEN / "by_hand.formatted.yaml", request)
    compare(format_policy(parsed), GOLDEN / "by_hand.as.vitals", request)


def assert_round_trip(text: str) -> None:
    policy = parse(Source("p.vitals", text)).policy
    written = to_yaml(policy)
    again = good(written)
    assert canonical(again.policy) == canonical(policy)
    assert to_yaml(again) == written
    back = parse(Source("q.vitals", format_policy(again)))
    assert canonical(back.policy) == canonical(policy)


@pytest.mark.parametrize("path", [*CASES, *WRITTEN], ids=lambda p: p.stem)
def test_from_the_language_to_yaml_and_back_is_the_identity(path: Path) -> None:
    text = path.read_text("utf-8")
    assert_round_trip(json.loads(text)["policy"] if path.suffix == ".json" else text)


def transitions(name: str, text: str, rows: list[dict[str, float]]) -> list[tuple[object, ...]]:
    found = vitals.replay(vitals.load(name, text=text), rows)
    return [(t.step, t.rule, t.member, t.to, t.onset, t.reason) for t in found]


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_all_forms_of_a_policy_give_the_same_transitions_in_the_same_order(path: Path) -> None:
    case = json.loads(path.read_text("utf-8"))
    rows = [{key: float(value) for key, value in row.items() if value is not None} for row in case["rows"]]
    rows = [{**row, "step": int(row["step"])} if "step" in row else {"rewind": int(row["rewind"])} for row in rows]
    parsed = parse(Source("p.vitals", case["policy"]))
    expected = transitions("p.vitals", case["policy"], rows)
    assert transitions("p.vitals", format_policy(parsed), rows) == expected
    assert transitions("p.yaml", to_yaml(parsed), rows) == expected


def test_guards_keep_their_order_where_statements_of_several_kinds_take_turns() -> None:
    text = "event e = a > 1 when b > 1 -> red event f = c > 1 when e then f within 5 steps -> red"
    nan = float("nan")
    rows = [{"step": 0, "a": 1.0, "b": 1.0, "c": 1.0}, {"step": 1, "c": nan, "b": nan, "a": nan}]
    written = to_yaml(parse(Source("p.vitals", text)))
    assert "parts:" in written
    rules = [rule for _, rule, *_ in transitions("p.yaml", written, rows)]
    assert rules == ["nonfinite(a)", "nonfinite(b)", "nonfinite(c)"]


@given(policies())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_policy_has_a_yaml_form_of_the_same_meaning(text: str) -> None:
    assert_round_trip(text)


@given(policies())
@settings(max_examples=30, deadline=None, derandomize=True)
def test_no_comment_is_lost_on_the_way_through_yaml(text: str) -> None:
    def words(of: str) -> list[str]:
        lines = (re.sub(r'"[^"]*"', "", line) for line in of.split("\n"))
        return sorted(w for line in lines for w in line.partition("#")[2].split())

    assert words(format_policy(good(to_yaml(parse(Source("p.vitals", text)))))) == words(text)


@given(st.text())
@settings(deadline=None, derandomize=True)
def test_any_text_in_quotes_is_read_as_itself_by_other_readers_too(text: str) -> None:
    text = text.encode("utf-8", "replace").decode("utf-8")
    loaded = YAML(typ="safe", pure=True).load(f"- {quoted(text)}\n- {word(text)}\n")
    assert loaded[0] == text
    assert isinstance(loaded[1], (int, float)) or loaded[1] == text


def test_a_policy_with_errors_is_not_written() -> None:
    with pytest.raises(PolicyError):
        to_yaml(parse(Source("p.vitals", "when loss > -> red")))
    with pytest.raises(PolicyError):
        to_yaml(read("rulez: {}"))


def test_names_that_come_twice_stand_in_a_list() -> None:
    text = "limit pause 1 per 5 steps\nlimit pause 2 per 5 d\nlevel red do tag\nlevel fatal do alert\n"
    assert_round_trip(text + 'nonfinite off\nnonfinite -> red\naxis "a"\naxis "b"')


# -------------------------------------------------------------------- reading


def test_the_example_of_the_language_page() -> None:
    same(
        """
vitals: 1
policy: llm_pretrain
metrics: {loss: {names: [train/loss, loss], every: 1 steps}}
params: {k: 3}
levels: {orange: [alert, tag, pause]}
rules:
  grad_norm_high:
    title: gradient norm far above its start-up baseline
    when:
      - {if: "grad_norm > 2 * baseline(500)", for: 20 steps, level: yellow}
      - {if: "grad_norm > k * baseline(500)", for: 20 steps, level: orange}
    clear: {if: "grad_norm < 1.5 * baseline(500)", for: 50 steps}
    because: "grad_norm is {grad_norm:.2f}"
""",
        """
vitals 1
policy llm_pretrain
metric loss = "train/loss", "loss" every 1 steps
param k = 3
level orange do alert, tag, pause
rule grad_norm_high "gradient norm far above its start-up baseline" {
  when grad_norm > 2 * baseline(500) for 20 steps -> yellow
  when grad_norm > k * baseline(500) for 20 steps -> orange
  clear when grad_norm < 1.5 * baseline(500) for 50 steps
  because "grad_norm is {grad_norm:.2f}"
}
""",
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("", ""),
        ("# nothing\n", ""),
        ("use: pack:core", 'use "pack:core"'),
        ("use: [a.vitals, {from: b.vitals, as: b, with: {k: -3, d: 5 steps}}]",
         'use "a.vitals" use "b.vitals" as b with k = -3, d = 5 steps'),
        ("axis: train/global_step", 'axis "train/global_step"'),
        ("metrics: {loss: train/loss}", 'metric loss = "train/loss"'),
        ("metrics: {loss: [a, b]}", 'metric loss = "a", "b"'),
        ("metrics: {when: {names: w, optional: true, allow_nonfinite: false}}", 'metric "when" = "w" optional'),
        ("metrics: {act/*: acts/*}", 'metric act/* = "acts/*"'),
        ("metrics: {'\"act/*\"': acts}", 'metric "act/*" = "acts"'),
        ("lets: {r/*: act/* / 2, g: {expr: a - b, on: '\"a b\"'}}", 'let r/* = act/* / 2 let g = a - b on "a b"'),
        ("events: {e: a > 1, f: {if: a > 2, for: 3 of 5 samples, apart: lag}}",
         "event e = a > 1 event f = a > 2 for 3 of 5 samples apart lag"),
        ("levels: {fatal: pause}", "level red do pause"),
        ("nonfinite: off", "nonfinite off"),
        ("nonfinite: 'off'", "nonfinite off"),
        ("nonfinite: {level: red, do: [tag, 'notify(\"x\")']}", 'nonfinite -> red do tag, notify("x")'),
        ("rules: [{if: a > 1, for: 5 steps, on: b, level: red, after: 2 steps, do: tag}]",
         "when a > 1 for 5 steps on b -> red after 2 steps do tag"),
        ("rules: [{name: r, when: {if: a > 1, level: red}}, {if: a > 2, level: red}]",
         "rule r { when a > 1 -> red } when a > 2 -> red"),
        ("rules: {r: {when: {if: a > 1, level: yellow, then: [{level: red, after: 5 steps}]}, clear: 3 steps}}",
         "rule r { when a > 1 -> yellow -> red after 5 steps clear for 3 steps }"),
        ("rules: {r: {each: {m: 'g/{0..3}'}, in_phase: p, when: {if: m is nan, level: red}, shadow: True}}",
         "rule r in phase p each m in g/{0..3} { when m is nan -> red shadow }"),
        ("override: {core.r: {cooldown: 5 min, disabled: true}}", "override core.r { cooldown 5 min disabled }"),
        ("disable: {core.r: noisy}", 'disable core.r because "noisy"'),
        ("disable: {core.r: {because: noisy, until: 2027-01-15}}", 'disable core.r because "noisy" until "2027-01-15"'),
        ("profiles: {p: {k: 2, lag: 5 steps}}", "profile p { k = 2 lag = 5 steps }"),
        ("parts: [{events: {e: a > 1}}, {rules: [{if: b > 1, level: red}]}, {events: {f: c > 1}}]",
         "event e = a > 1 when b > 1 -> red event f = c > 1"),
        ("vitals: 1\npolicy: p\ntitle: what for", 'policy p "what for"'),
        ("\ufeffparams: {k: 3}\r\n", "param k = 3"),
        ("%YAML 1.1\n---\nparams: {k: 3}\n...\n", "param k = 3"),
    ],
)  # fmt: skip
def test_each_key_says_what_its_statement_says(one: str, other: str) -> None:
    same(one, other)


def test_line_breaks_in_a_text_are_spaces() -> None:
    body = "r:\n    when: {if: a > 1, level: red}\n    because: |\n      one {a:.1f}\n      two\n"
    same(f"rules:\n  {body}", 'rule r { when a > 1 -> red because "one {a:.1f} two" }')


def test_words_that_older_yaml_reads_as_something_else_stay_words() -> None:
    parsed = good("lets: {on_: {expr: 'a', on: no_loss}}\nmetrics: {n: y, off: 1:30, null: 0o7, 1_000: ~x}\n")
    assert [s.name for s in parsed.policy.statements[1:]] == ["n", "off", "null", "1_000"]  # type: ignore[attr-defined]
    assert [s.logged for s in parsed.policy.statements[1:]] == [("y",), ("1:30",), ("0o7",), ("~x",)]  # type: ignore[attr-defined]


def test_a_file_of_mistakes_gives_all_of_them_at_once(request: pytest.FixtureRequest) -> None:
    found = parse_yaml(Source("mistakes.yaml", (GOLDEN / "mistakes.yaml").read_text("utf-8")))
    ours = [d for d in found.diagnostics if "V050" <= d.code <= "V069"]
    compare(render(ours) + "\n", GOLDEN / "mistakes.txt", request)
    assert {"loss", "gpu", "k", "gap", "spike", "a", "b", "c"} <= found.broken_names
    assert "d" not in found.broken_names


STYLES = {
    "plain": "rules: [{if: loss > @, level: red}]",
    "plain over lines": "rules:\n - if: loss >\n     3 and\n\n     loss > @\n   level: red",
    "single quotes": "rules: [{if: '\"it''s\" > @', level: red}]",
    "single quotes over lines": "rules:\n - if: '\"it''s\"\n     >\n     @'\n   level: red",
    "double quotes": 'rules: [{if: "\\"a\\x20b\\" \\u003e @", level: red}]',
    "double quotes over lines": 'rules:\n - if: "loss \\\n     > 3 and\n     loss\\t> @"\n   level: red',
    "literal block": "rules:\n - if: | # here\n     loss > 3 and\n       loss > @\n   level: red",
    "folded block": "rules:\n - if: >-\n     loss > 3\n\n     and\n     loss > @\n   level: red",
    "after a mark": "\ufeffrules: [{if: 'loss > @', level: red}]",
    "windows line ends": "rules:\r\n - if: loss >\r\n     3 and loss >\r\n     @\r\n   level: red\r\n",
    "in a message": "rules: {r: {when: {if: a > 1, level: red}, because: 'it''s {a > @}'}}",
    "in a message in a block": "rules:\n r:\n  when: {if: a > 1, level: red}\n  because: >\n    one\n    {a > @}\n",
    "in a span": "rules: [{if: a > 1, for: '  @ samples', level: red}]",
    "in a limit": "limits: {rollback: 3 per @ d}",
}


@pytest.mark.parametrize("style", STYLES)
def test_an_error_inside_an_expression_points_at_its_place_in_the_file(style: str) -> None:
    number = "9" * 200 + "e200"
    text = STYLES[style].replace("@", number)
    found = only(text)
    assert found.code == "V009"
    assert found.span.text == number


@pytest.mark.parametrize(
    ("text", "code", "marked"),
    [
        ("a: &x 1\nb: *x", "V054", "&"),
        ("a: [*x]", "V054", "*x"),
        ("a: !!python/object/apply:os.system [x]", "V055", "!"),
        ("a: !x b", "V055", "!"),
        ("a: ! b", "V055", "!"),
        ("[" * 50, "V056", "["),
        ("{a: " * 50, "V056", "{"),
        ("a: 1\n---\nb: 2", "V059", "---"),
        ("a:\n\tb: 1", "V050", "\t"),
        ("a: b: c", "V050", ":"),
        ("a: 'x", "V050", "x"),
        ("a: [1", "V050", "1"),
        ("a: \x07", "V050", "\x07"),
        ("a: \0", "V031", "\0"),
        ("[1]: 2", "V050", "["),
        ("- a", "V053", "- a"),
        ("params", "V053", "params"),
        ("param: {k: 3}", "V051", "param"),
        ("params: {k: 3, k: 4}", "V052", "k"),
        ("params: {}\nparams: {}", "V052", "params"),
        ("params:\n# later\n", "V053", "params"),
        ("params: [3]", "V053", "3"),
        ("metrics: {a: {names: b, optional: on}}", "V058", "on"),
        ("metrics: {a: {names: b, optional: 'true'}}", "V058", "'true'"),
        ("nonfinite: false", "V058", "false"),
        ("nonfinite: ok", "V012", "ok"),
        ("rules: [{if: a > 1, level: ok}]", "V012", "ok"),
        ("rules: {r: {when: {if: a > 1, true: b, level: red}}}", "V051", "true"),
        ("rules: {r: {title: x}}", "V057", "r"),
        ("rules: [{when: {if: a > 1, level: red}}]", "V057", "when"),
        ("rules: {r: {each: act/*, when: {if: a > 1, level: red}}}", "V053", "act/*"),
        ("rules: {r: {each: {m: loss}, when: {if: a > 1, level: red}}}", "V060", "loss"),
        ("rules: {r: {clear: {}, when: {if: a > 1, level: red}}}", "V057", "{}"),
        ("params: {a b: 3}", "V060", "a b"),
        ("params: {for: 3}", "V006", "for"),
        ("events: {e: {if: a > 1, for: ''}}", "V053", "''"),
        ("title: x", "V057", "t"),
        ("vitals: 2", "V015", "2"),
        ("limits: {rollback: 1.5 per 5 steps}", "V011", "1.5"),
        ("limits: {rollback: -1 per 5 steps}", "V011", "-1"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_code_and_its_place(text: str, code: str, marked: str) -> None:
    found = only(text)
    assert (found.code, found.span.text) == (code, marked)
    assert found.label or found.help
    assert not re.search(r"ruamel|lark|mapping|scalar|sequence|token", found.render())


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("titel: x", "did you mean `title`?"),
        ("metrics: {a: {name: b}}", "did you mean `names`?"),
        ("rules: {r: {when: {if: a > 1, True: b, level: red}}}", "did you mean `on`?"),
        ("rules: {r: {when: {if: a > 1, level: rde}}}", "did you mean `red`?"),
        ("metrics: {a: {names: b, optional: yes}}", "write `optional: true`"),
    ],
)
def test_a_mistake_is_answered_with_the_nearest_right_thing(text: str, hint: str) -> None:
    assert any(hint in help_ for found in read(text).diagnostics for help_ in found.help)


def test_a_tree_of_too_many_values_is_refused_before_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MAX_NODES", 1000)
    found = only("a: [" + "1, " * 2000 + "1]")
    assert (found.code, found.message) == ("V056", "this is more than 1,000 values")


@given(st.text(alphabet="ab:{}[]\"'|>-#&*!%@`,? \n\t\\\x85\u2028e1\ufeff.", max_size=40))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_no_text_is_too_strange_to_be_answered(text: str) -> None:
    for found in read(text).diagnostics:
        assert found.render()


@given(st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_damaged_policy_is_too_strange_either(data: st.DataObject) -> None:
    text = (GOLDEN / "by_hand.yaml").read_text("utf-8")
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 8))
    new = data.draw(st.text(alphabet="{}[]\"':,-\n |>#*&!a", max_size=3))
    for found in read(text[:at] + new + text[at + cut :]).diagnostics:
        assert found.render()


def test_a_rule_knows_its_place_in_the_file() -> None:
    text = "# x\nrules:\n  r:\n    when: {if: a > 1, level: red}\n    # y\n\n  s:\n    when: {if: a > 2, level: red}\n"
    first, second = good(text).policy.of(Rule)
    assert first.span.text == "r:\n    when: {if: a > 1, level: red}"
    assert second.span.position == (7, 3)
    assert first.body.clauses[0].condition.span.text == "a > 1"


# -------------------------------------------------------------------- the schema


def allowed(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> bool:
    """Whether a value obeys a schema: as much of JSON Schema as ours uses."""
    if "$ref" in schema:
        return allowed(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root)
    if "anyOf" in schema:
        return any(allowed(value, one, root) for one in schema["anyOf"])
    if "const" in schema:
        return bool(value == schema["const"])
    if "enum" in schema:
        return value in schema["enum"]
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "number": (int, float)}
    wanted = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(isinstance(value, kinds[kind]) and (kind != "number" or value is not bool(value)) for kind in wanted):
        return False
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", False)
        inner = {key: known.get(key, others) for key in value}
        return (
            len(value) >= schema.get("minProperties", 0)
            and len(value) <= schema.get("maxProperties", 99)
            and set(schema.get("required", ())) <= set(value)
            and all(s is not False and allowed(value[key], s, root) for key, s in inner.items())
        )
    if isinstance(value, list):
        long_enough = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 10**6)
        return long_enough and all(allowed(item, schema["items"], root) for item in value)
    return not isinstance(value, str) or (
        re.search(schema.get("pattern", ""), value) is not None and len(value) >= schema.get("minLength", 0)
    )


def plainly(text: str) -> Any:
    """A YAML text as an editor sees it."""
    return json.loads(json.dumps(YAML(typ="safe", pure=True).load(text), default=str))


@pytest.mark.parametrize(
    "path", sorted(p for p in GOLDEN.glob("*.yaml") if p.stem != "mistakes"), ids=lambda p: p.stem
)  # fmt: skip
def test_the_schema_allows_every_golden_file(path: Path) -> None:
    assert allowed(plainly(path.read_text("utf-8")), json_schema(), json_schema())


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_the_schema_allows_every_conformance_policy(path: Path) -> None:
    written = to_yaml(parse(Source("p.vitals", json.loads(path.read_text("utf-8"))["policy"])))
    assert allowed(plainly(written), json_schema(), json_schema())


@pytest.mark.parametrize(
    "text",
    [
        "rulez: {}",
        "vitals: 2",
        "rules: {r: {when: {if: a > 1}}}",
        "rules: {r: {when: {if: a > 1, level: pink}}}",
        "rules: [{when: {if: a > 1, level: red}}]",
        "metrics: {a: {names: b, optional: 'yes'}}",
        "levels: {red: []}",
        "params: {k: [3]}",
        "limits: {rollback: 3}",
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(text: str) -> None:
    assert not read(text).ok
    assert not allowed(plainly(text), json_schema(), json_schema())


def test_the_schema_describes_every_key() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == set(form.TOP)
    assert set(schema["$defs"]["rule"]["properties"]) == set(form.RULE)
    assert all(p["description"].endswith(".") for p in schema["properties"].values())


def test_a_broken_clause_is_said_once_and_not_missed_as_well() -> None:
    text = "rules: {a: {when: [{if: loss >> 3, level: orange}]}, b: {when: [{if: loss > 3, level: amber}]}}"
    assert [d.code for d in read_policy("p.yaml", text=text)[1]] == ["V005", "V053"]


def test_a_name_that_is_not_ascii_is_told_to_go_into_quotes_in_an_expression() -> None:
    assert 'write `"größe"`' in only("rules: [{if: größe > 3, level: red}]").help[0]
