"""Loading: files brought in, params set, rules changed and switched off; and what is refused, with the place."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from vitalsdsl import PolicyError, load, replay, watch
from vitalsdsl.ground.diagnostic import Severity
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.language.rules import Axis, LevelDefault, Limit, Param, Rule
from vitalsdsl.policies.policy import LoadedPolicy, read

A_RULE = "rule hot { when loss > 3 -> orange }\n"


def folder(tmp_path: Path, files: dict[str, str]) -> Path:
    """The files, and the path of the first, which is the policy."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path / next(iter(files))


def errors(path: Path, **options: object) -> list[str]:
    """`CODE file:line:column message` of each error."""
    found = read(path, **options)[1]  # type: ignore[arg-type]
    assert all(d.message and len(d.message) <= 110 for d in found)
    return [
        f"{d.code} {Path(d.span.source.name).name}:{d.span.position[0]}:{d.span.position[1]} {d.message}"
        for d in found
        if d.is_error
    ]


def rule_names(loaded: LoadedPolicy) -> list[str]:
    return [rule.name for rule in loaded.policy.of(Rule)]


def params(loaded: LoadedPolicy) -> dict[str, str]:
    return {param.name: expression_text(param.value) for param in loaded.policy.of(Param)}


# ---------------------------------------------------------------- use


def test_a_used_file_keeps_its_names_without_as(tmp_path: Path) -> None:
    path = folder(tmp_path, {"p.vitals": 'use "a.vitals"', "a.vitals": A_RULE})
    loaded = load(path)
    assert rule_names(loaded) == ["hot"]
    assert [Path(s.name).name for s in loaded.sources] == ["p.vitals", "a.vitals"]


def test_under_a_namespace_names_move_in_expressions_messages_phases_and_inhibits(tmp_path: Path) -> None:
    used = """
        metric m = "train/loss"
        param k = 3
        event spike = m > k
        phase late = step > 10
        rule calm { when m < 0 -> yellow }
        rule hot in phase late { when spike and other > k -> orange inhibits calm because "{m} {other:.1f}" }
    """
    loaded = load(folder(tmp_path, {"p.vitals": 'use "a.vitals" as ns', "a.vitals": used}))
    hot = next(rule for rule in loaded.policy.of(Rule) if rule.name == "ns.hot")
    assert expression_text(hot.body.clauses[0].condition) == "ns.spike and other > ns.k"
    assert [name.path for name in hot.phases] == ["ns.late"]
    assert [name.path for name in hot.body.inhibits or ()] == ["ns.calm"]
    assert hot.body.because is not None
    said = [part if isinstance(part, str) else expression_text(part.expression) for part in hot.body.because.parts]
    assert said == ["ns.m", " ", "other"]
    rows = [{"step": s, "train/loss": 4.0, "other": 5.0} for s in range(9, 13)]
    assert [(t.rule, t.step, t.message) for t in replay(loaded, rows)] == [("ns.hot", 11, "4 5.0")]


def test_the_word_of_an_each_is_no_name_of_the_file(tmp_path: Path) -> None:
    used = "param m = 9\nparam k = 1\nrule r each m in act/* { when m > k -> yellow }"
    loaded = load(folder(tmp_path, {"p.vitals": 'use "a.vitals" as ns', "a.vitals": used}))
    assert expression_text(loaded.policy.of(Rule)[0].body.clauses[0].condition) == "m > ns.k"


def test_a_file_that_two_others_use_comes_once(tmp_path: Path) -> None:
    files = {"p.vitals": 'use "a.vitals"\nuse "b.vitals"', "a.vitals": 'use "c.vitals"', "b.vitals": 'use "c.vitals"'}
    assert rule_names(load(folder(tmp_path, {**files, "c.vitals": A_RULE}))) == ["hot"]


def test_a_yaml_file_is_used_like_any_other(tmp_path: Path) -> None:
    files = {"p.vitals": 'use "a.yaml" as y', "a.yaml": 'rules: {hot: {when: [{if: "loss > 3", level: orange}]}}'}
    assert rule_names(load(folder(tmp_path, files))) == ["y.hot"]


def test_the_using_files_level_limit_nonfinite_and_axis_replace_those_of_the_used(tmp_path: Path) -> None:
    used = 'level orange do pause level red do stop limit rollback 9 per 10 steps axis "theirs" nonfinite -> red\n'
    own = 'use "a.vitals" level orange do alert limit rollback 1 per 10 steps axis "mine"\n'
    loaded = load(folder(tmp_path, {"p.vitals": own + A_RULE, "a.vitals": used}))
    levels = {s.level.word: [a.name for a in s.actions] for s in loaded.policy.of(LevelDefault)}
    assert levels == {"orange": ["alert"], "red": ["stop"]}
    assert [s.count for s in loaded.policy.of(Limit)] == [1]
    assert [s.metric for s in loaded.policy.of(Axis)] == ["mine"] and loaded.axis == "mine"


REFUSED = {
    "a folder above": ('use "../a.vitals"', "V072"),
    "a way out and in again": ('use "x/../../a.vitals"', "V072"),
    "an absolute path": ('use "/etc/passwd"', "V072"),
    "the web": ('use "http://example.org/a.vitals"', "V072"),
    "a tracker": ('use "wandb:team/project/policy"', "V072"),
    "another tracker": ('use "mlflow:abc"', "V072"),
    "a file that is not there": ('use "b.vitals"', "V071"),
    "a folder": ('use "sub"', None),
    "nothing": ('use ""', None),
    "a pack that is not there": ('use "pack:coer"', "V070"),
    "a pack by a path": ('use "pack:../core"', "V070"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_a_finding_at_its_use(name: str, tmp_path: Path) -> None:
    use, code = REFUSED[name]
    (tmp_path / "a.vitals").write_text(A_RULE)
    found = errors(folder(tmp_path / "in", {"p.vitals": f"{A_RULE}{use}", "sub/x.vitals": ""}))
    assert len(found) == 1 and " p.vitals:2:1 " in found[0]
    assert code is None or found[0].startswith(code)


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    path = folder(tmp_path, {"in/p.vitals": 'use "a.vitals"', "secret.vitals": A_RULE})
    (tmp_path / "in" / "a.vitals").symlink_to(tmp_path / "secret.vitals")
    assert [e.split()[0] for e in errors(path)] == ["V072"]


def test_a_link_to_itself_is_a_finding(tmp_path: Path) -> None:
    path = folder(tmp_path, {"p.vitals": 'use "a.vitals"'})
    (tmp_path / "a.vitals").symlink_to(tmp_path / "a.vitals")
    assert [e.split()[0] for e in errors(path)] == ["V071"]


def test_a_link_inside_the_folder_is_fine(tmp_path: Path) -> None:
    path = folder(tmp_path, {"p.vitals": 'use "b.vitals"', "a.vitals": A_RULE})
    (tmp_path / "b.vitals").symlink_to(tmp_path / "a.vitals")
    assert rule_names(load(path)) == ["hot"]


def test_a_circle_of_files_is_shown_as_a_chain(tmp_path: Path) -> None:
    files = {"p.vitals": 'use "a.vitals"', "a.vitals": 'use "b.vitals"', "b.vitals": 'use "a.vitals"'}
    found = [d for d in read(folder(tmp_path, files))[1] if d.is_error]
    assert [(d.code, d.label) for d in found] == [("V507", "a.vitals -> b.vitals -> a.vitals")]
    assert errors(folder(tmp_path, {"self.vitals": 'use "self.vitals"'}))[0].startswith("V507")


def test_a_policy_has_at_most_a_hundred_files(tmp_path: Path) -> None:
    rules = {f"f{i}.vitals": f"rule r{i} {{ when loss > {i} -> yellow }}" for i in range(200)}
    few = "\n".join(f'use "f{i}.vitals"' for i in range(99))
    assert len(rule_names(load(folder(tmp_path, {"few.vitals": few, **rules})))) == 99
    many = "\n".join(f'use "f{i}.vitals"' for i in range(200))
    assert "V030" in {e.split()[0] for e in errors(folder(tmp_path, {"many.vitals": many}))}


def test_all_statements_together_are_limited(tmp_path: Path) -> None:
    files = {
        f"f{i}.vitals": "\n".join(f"rule r{i}_{n} {{ when loss > {n} -> yellow }}" for n in range(3_400))
        for i in range(3)
    }
    path = folder(tmp_path, {"p.vitals": 'use "f0.vitals" use "f1.vitals" use "f2.vitals"', **files})
    assert [e.split()[0] for e in errors(path)] == ["V030"]


@pytest.mark.parametrize("text", ["a\0b", 'use "a\0.vitals"'])
def test_a_nul_character_is_a_finding(text: str, tmp_path: Path) -> None:
    assert [e.split()[0] for e in errors(folder(tmp_path, {"p.vitals": text}))] == ["V031"]


def test_a_used_file_that_is_no_text_is_a_finding_at_its_use(tmp_path: Path) -> None:
    path = folder(tmp_path, {"p.vitals": 'use "a.vitals"'})
    (tmp_path / "a.vitals").write_bytes(b"when loss > 3 -> red # \xff")
    assert errors(path)[0].startswith("V031 p.vitals:1:1")


def test_a_clash_of_two_files_names_both_places(tmp_path: Path) -> None:
    files = {
        "p.vitals": 'use "a.vitals"\nuse "b.vitals"',
        "a.vitals": "event e = loss > 3",
        "b.vitals": "event e = x > 3",
    }
    found = [d for d in read(folder(tmp_path, files))[1] if d.is_error]
    assert [d.code for d in found] == ["V310"]
    assert found[0].span.source.name.endswith("b.vitals") and "a.vitals:1:1" in found[0].help[0]


def test_one_line_rules_of_two_files_get_numbers(tmp_path: Path) -> None:
    files = {"p.vitals": 'use "a.vitals"\nwhen loss > 3 -> orange', "a.vitals": "when loss > 4 -> orange"}
    assert rule_names(load(folder(tmp_path, files))) == ["loss_orange", "loss_orange_2"]


# ---------------------------------------------------------------- params

PARAMS = "param k = 3 in 1.5 .. 10\nparam wait = 20 steps in 5 steps .. 200 steps\nprofile careful { k = 2 }\n"
A_PARAM_RULE = "rule hot { when loss > k for wait -> orange }\n"


def test_set_wins_over_profile_over_with_over_the_default(tmp_path: Path) -> None:
    used = {"a.vitals": PARAMS + A_PARAM_RULE}
    plain = folder(tmp_path, {"plain.vitals": 'use "a.vitals"', **used})
    path = folder(tmp_path, {"p.vitals": 'use "a.vitals" with k = 4', **used})
    assert params(load(plain))["k"] == "3"
    assert params(load(path))["k"] == "4"
    assert params(load(path, profile="careful"))["k"] == "2"
    assert params(load(path, profile="careful", settings={"k": "7"}))["k"] == "7"


@pytest.mark.parametrize(("given", "expected"), [(2.5, "2.5"), ("2.5", "2.5"), (2, "2"), ("1.5", "1.5"), ("10", "10")])
def test_a_setting_is_a_number_or_its_text(given: object, expected: str) -> None:
    assert params(load("p", text=PARAMS + A_PARAM_RULE, settings={"k": given}))["k"] == expected


BAD_SETTINGS = {
    "beyond the range": ({"k": "10.1"}, "V504", ""),
    "below the range": ({"wait": "4 steps"}, "V504", ""),
    "unknown": ({"wiat": "30 steps"}, "V311", "did you mean `wait`?"),
    "a number for a length": ({"wait": "30"}, "V312", ""),
    "a length for a number": ({"k": "3 steps"}, "V312", ""),
    "another unit": ({"wait": "30 min"}, "V312", ""),
    "an expression": ({"k": "1 + 2"}, "V312", ""),
    "a word": ({"k": "high"}, "V312", ""),
    "not a number": ({"k": float("nan")}, "V312", ""),
    "nothing": ({"k": ""}, "V312", ""),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_a_bad_setting_is_a_finding(name: str) -> None:
    settings, code, help_ = BAD_SETTINGS[name]
    loaded, found = read("p", text=PARAMS + A_PARAM_RULE, settings=settings)
    assert loaded is None
    assert [d.code for d in found if d.is_error] == [code]
    assert help_ in " ".join(found[0].help)


@pytest.mark.parametrize(
    ("use", "code"), [("k = 11", "V504"), ("kk = 3", "V311"), ("wait = 3", "V312"), ("k = 3 min", "V312")]
)
def test_a_bad_with_is_a_finding_at_its_place(use: str, code: str, tmp_path: Path) -> None:
    path = folder(tmp_path, {"p.vitals": f'use "a.vitals" with {use}', "a.vitals": PARAMS + A_PARAM_RULE})
    assert [e.split()[:2] for e in errors(path)] == [[code, "p.vitals:1:21"]]


BAD_PROFILES = {
    "an unknown param": ("kk = 2", "V311"),
    "a value beyond the range": ("k = 20", "V504"),
    "a value of another kind": ("k = 20 steps", "V312"),
    "a param twice": ("k = 2 k = 4", "V014"),
}


@pytest.mark.parametrize("taken", [None, "night"], ids=["not taken", "taken"])
@pytest.mark.parametrize("name", BAD_PROFILES)
def test_a_bad_profile_is_one_finding_whether_it_is_taken_or_not(name: str, taken: str | None) -> None:
    settings, code = BAD_PROFILES[name]
    found = read("p", text=f"{PARAMS}{A_PARAM_RULE}profile night {{ {settings} }}", profile=taken)[1]
    assert [d.code for d in found if d.is_error] == [code]


def test_an_unknown_profile_names_the_nearest() -> None:
    loaded, found = read("p", text=PARAMS + A_PARAM_RULE, profile="carefull")
    assert loaded is None
    assert (found[0].code, found[0].help) == ("V311", ("did you mean `careful`?",))


def test_settings_change_the_digest_and_looks_do_not() -> None:
    plain = load("p", text=PARAMS + A_PARAM_RULE)
    assert load("p", text="# a comment\n" + PARAMS + A_PARAM_RULE).digest == plain.digest
    assert load("p", text=PARAMS + A_PARAM_RULE, settings={"k": 4}).digest != plain.digest


# ---------------------------------------------------------------- override, disable


@pytest.mark.parametrize("first", [True, False], ids=["override first", "use first"])
def test_an_override_replaces_the_fields_it_names_in_any_order(first: bool, tmp_path: Path) -> None:
    used = 'rule hot { when loss > 3 -> orange cooldown 5 steps owner "them" }'
    parts = ["override a.hot { cooldown 9 steps when loss > 7 -> red }", 'use "a.vitals" as a']
    text = "\n".join(parts if first else parts[::-1]) + "\nlimit rollback 1 per 100 steps"
    body = load(folder(tmp_path, {"p.vitals": text, "a.vitals": used})).policy.of(Rule)[0].body
    assert body.cooldown is not None and expression_text(body.cooldown) == "9 steps"
    assert [expression_text(c.condition) for c in body.clauses] == ["loss > 7"]
    assert body.owner == "them"


def test_two_overrides_of_one_field_are_an_error_and_of_two_fields_are_not() -> None:
    text = A_RULE + 'override hot { cooldown 5 steps }\noverride hot { owner "me" }\n'
    assert load("p", text=text)
    found = read("p", text=text + 'override hot { owner "you" }')[1]
    assert [d.code for d in found if d.is_error] == ["V503"] and "owner" in found[0].message


@pytest.mark.parametrize("change", ["override hto { cooldown 5 steps }", 'disable hto because "noise"'])
def test_changing_a_rule_that_is_not_there_names_the_nearest(change: str) -> None:
    found = [d for d in read("p", text=A_RULE + change)[1] if d.is_error]
    assert [(d.code, d.help) for d in found] == [("V503", ("did you mean `hot`?",))]


DATES = {
    "before": (datetime.date(2026, 12, 31), True),
    "on": (datetime.date(2027, 1, 15), True),
    "after": (datetime.date(2027, 1, 16), False),
}


@pytest.mark.parametrize("when", DATES)
def test_a_disable_ends_after_its_date_and_says_so(when: str) -> None:
    today, off = DATES[when]
    loaded, found = read("p", text=A_RULE + 'disable hot because "x" until "2027-01-15"', today=today)
    assert loaded is not None and loaded.policy.of(Rule)[0].body.disabled is off
    expired = [d for d in found if d.code == "V603"]
    assert [d.severity for d in expired] == ([] if off else [Severity.WARNING])
    assert off or "on again" in expired[0].message


@pytest.mark.parametrize("date", ["2027-13-01", "tomorrow", "15.1.2027", ""])
def test_a_disable_with_no_date_is_an_error(date: str) -> None:
    found = read("p", text=A_RULE + f'disable hot because "x" until "{date}"')[1]
    assert [d.code for d in found if d.is_error] == ["V073"]


# ---------------------------------------------------------------- load


def test_load_raises_with_all_findings_as_text_and_as_data() -> None:
    with pytest.raises(PolicyError) as caught:
        load("p", text="when loss > 3 -> orannge\nwhen x -> red")
    assert [d.code for d in caught.value.diagnostics if d.is_error] == ["V023", "V002"]
    assert "orannge" in str(caught.value) and "^" in str(caught.value)


def test_a_policy_keeps_its_text_and_is_called_by_its_name_or_its_file(tmp_path: Path) -> None:
    path = folder(tmp_path, {"mine.vitals": A_RULE, "named.vitals": "policy given\n" + A_RULE})
    assert (load(path).name, load(path).text) == ("mine", A_RULE)
    assert load(tmp_path / "named.vitals").name == "given"


def test_a_policy_from_text_uses_packs_but_no_files() -> None:
    assert "c.loss_spike" in rule_names(load("p", text='use "pack:core" as c'))
    found = read("p", text='use "a.vitals"')[1]
    assert [d.code for d in found] == ["V072"]


def test_a_second_rule_of_one_name_is_a_finding() -> None:
    text = "rule a { when loss > 3 -> yellow }\nrule a { when loss > 5 -> red }\noverride a { cooldown 9 steps }"
    assert [(d.code, d.span.position[0]) for d in read("p", text=text)[1]] == [("V313", 2)]


@pytest.mark.parametrize(
    ("one", "other", "own", "codes"),
    [
        ("level orange do pause", "level orange do alert", "", ["V310"]),
        ("level orange do pause", "level orange  do pause", "", []),
        ("level orange do pause", "level orange do alert", "level orange do tag", []),
        ("nonfinite off", "nonfinite -> red", "", ["V310"]),
        ("limit rollback 1 per 9 steps", "limit rollback 2 per 9 steps", "", ["V310"]),
        ("limit rollback 1 per 9 steps", "limit stop 2 per 9 steps", "", []),
        ('axis "a"', 'axis "b"', "", ["V310"]),
    ],
)
def test_two_used_files_that_disagree_about_a_default_are_told_of(
    tmp_path: Path, one: str, other: str, own: str, codes: list[str]
) -> None:
    (tmp_path / "one.vitals").write_text(one)
    (tmp_path / "other.vitals").write_text(other)
    top = tmp_path / "top.vitals"
    top.write_text(f'use "one.vitals" as one use "other.vitals" as two {own} when loss > 3 for 9 steps -> yellow')
    loaded, found = read(top)
    assert loaded is not None
    assert [d.code for d in found] == codes
    assert all(Path(d.span.source.name).name == "other.vitals" for d in found)


def test_a_rule_that_can_never_fire_is_told_of_once_wherever_its_policy_is_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder(tmp_path, {"p.vitals": "rule spiky { when zscore(loss, 4 samples) > 3 -> yellow }"})
    assert len(rule_names(load(path))) == 1
    replay(path, {"step": [1], "loss": [1.0]})
    watch(path).log({"loss": 1.0}, step=1)
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith("vitals: `p` is used as it is, but `vitals check` finds an error in it:\nV212 ")
    assert "zscore(loss, 4 samples)` is never known" in told
    assert "^" in told


def test_what_lints_only_advise_is_left_to_the_check(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loaded = load(folder(tmp_path, {"p.vitals": "when loss == 3 -> red"}))
    assert Severity.WARNING in {d.severity for d in loaded.diagnostics}
    assert not caplog.records


def test_the_example_of_the_language_reference_is_a_policy() -> None:
    page = Path(__file__).parent.parent.joinpath("docs", "language.md").read_text("utf-8")
    example = next(block for block in page.split("```") if block.lstrip().startswith("vitals 1"))
    assert [d.render() for d in read("p", text=example)[1] if d.is_error] == []
