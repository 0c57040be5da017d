"""The one text that is kept with a run: it means what the policy meant with its files, packs, params and profile."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.policies_at_random import policies
from vitalsdsl import LoadedPolicy, PolicyError, VitalsError, load, replay
from vitalsdsl.ground.source import Source
from vitalsdsl.language.digest import digest
from vitalsdsl.language.parser import parse
from vitalsdsl.language.renaming import replaced
from vitalsdsl.language.rules import Disable, Override, Rule, Use
from vitalsdsl.policies.bundle import file_name, flattened
from vitalsdsl.policies.policy import read

OWN = st.sampled_from([
    "when loss > {n} -> orange",
    "when loss > {n} for 2 steps -> yellow -> red after 3 steps",
    "when warm and loss > {n} -> orange",
    "when {p} and grad > 1 -> orange",
    "when hot and val > 1 -> yellow",
    "when val is nan -> red",
    "rule loss_orange {{ when grad > {n} -> orange cooldown 5 steps }}",
    "rule {p}_high \"to {n}\" {{ when val > k for span -> yellow because \"val is {{val:.2f}}\" }}",
    "rule {p}_each each m in act/* {{ when m > {n} -> orange because \"{{member}} is {{m}}\" }}",
    "rule late in phase warm {{ when loss > {n} -> yellow inhibits loss_orange }}",
    "metric val = \"eval/loss\", \"val\" every 2 steps",
    "metric \"my loss\" = \"loss\"",
    "metric act/* = \"a/*/max\"",
    "phase warm = step < {n}",
    "phase {p} = step >= 2",
    "event hot = loss > {n} apart 2 steps",
    "let gap = val - loss on val",
    "let g/* = act/* - 1",
    "when gap > {n} -> yellow",
    "when \"my loss\" > {n} -> red do alert",
    "when any(g/* > {n}) -> orange",
    "when loss > 2 * usual(loss, 6 steps) -> yellow",
    "level orange do alert, pause",
    "limit rollback {n} per 100 steps",
    "nonfinite -> red",
    "nonfinite off",
    "axis \"train/step\"",
])  # fmt: skip
ALWAYS = (
    "param k = 3 in 1 .. 10\nparam span = 2 steps in 1 steps .. 9 steps\nprofile careful {{ k = 2  span = 1 steps }}\n"
)
CHANGES = st.sampled_from([
    'override {q}_high {{ cooldown {n} steps }}', 'override {q}loss_orange {{ when loss > {n} -> red }}',
    'disable {q}loss_yellow because "noise"', 'disable {q}late because "x" until "2027-01-15"',
])  # fmt: skip


@st.composite
def files(draw: st.DrawFn) -> dict[str, str]:
    """A policy `p.vitals` with a file that it uses, which uses a third, in any order among the other statements."""
    texts: dict[str, str] = {}
    for name, used in (("c", ""), ("b", "c"), ("p", "b")):
        lines = draw(st.lists(OWN, min_size=1, max_size=5, unique=True))
        lines = [line.format(p=name, n=draw(st.integers(1, 6))) for line in lines]
        if used:
            space = draw(st.sampled_from(["", f" as {used}", f" as {used}"]))
            given_ = draw(st.sampled_from(["", " with k = 4", " with k = 2.5, span = 3 steps"]))
            lines.insert(draw(st.integers(0, len(lines))), f'use "{used}.vitals"{space}{given_}')
            changes = draw(st.lists(CHANGES, max_size=1))
            prefix = f"{used}." if space else ""
            lines += [c.format(q=prefix, n=draw(st.integers(1, 6))) for c in changes]
            if not space:
                lines = [line for line in lines if not line.startswith(("param", "profile"))]
        texts[f"{name}.vitals"] = "\n".join(lines) + "\n" + (ALWAYS.format() if name == "c" or space else "")
    return texts


ROWS = [
    {"step": s, "loss": x, "grad": x / 2, "eval/loss": 9 - x, "a/1/max": x, "train/step": s, "val": x}
    for s, x in enumerate([1.0, 2.0, 7.0, 8.0, 8.0, 8.0, 1.0, 1.0, float("nan"), 1.0, 9.0, 9.0])
]


def judged(policy: LoadedPolicy) -> list[dict[str, object]]:
    return [t.as_dict() for t in replay(policy, ROWS, run="r")]


@given(files(), st.sampled_from([{}, {"k": 5}, {"k": 2, "span": "4 steps"}]), st.sampled_from([None, "careful"]))
@settings(max_examples=80, deadline=None, derandomize=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much])  # fmt: skip
def test_it_has_the_digest_the_rule_names_and_the_verdicts_of_the_policy(
    tmp_path: Path, texts: dict[str, str], given_: dict[str, object], profile: str | None
) -> None:
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    try:
        whole = load(tmp_path / "p.vitals", settings=given_, profile=profile)
    except PolicyError:
        assume(False)
    again = load(whole.file, text=whole.bundle)
    assert again.digest == whole.digest
    assert [r.name for r in again.policy.of(Rule)] == [r.name for r in whole.policy.of(Rule)]
    assert judged(again) == judged(whole)
    assert again.is_whole and again.bundle == whole.bundle


@given(policies())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_whatever_the_grammar_takes_is_flattened_to_the_same_digest(text: str) -> None:
    policy = parse(Source("p.vitals", text)).policy
    statements = tuple(s for s in policy.statements if not isinstance(s, (Use, Override, Disable)))
    policy = replaced(policy, statements=statements)
    assert digest(parse(Source("q.vitals", flattened(policy, "q.vitals"))).policy) == digest(policy)


def policy_in(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.vitals").write_text(text, "utf-8")
    return folder / "p.vitals"


def test_a_policy_that_stands_alone_is_kept_as_it_is_written(tmp_path: Path) -> None:
    text = "# why\nparam k = 3\nwhen  loss > k -> orange  # since March\n"
    assert load(policy_in(tmp_path, p=text)).bundle == text


@pytest.mark.parametrize(
    ("texts", "options"),
    [
        ({"p": 'use "b.vitals"\n', "b": "when loss > 3 -> orange\n"}, {}),
        ({"p": 'use "pack:core" as core\n'}, {}),
        ({"p": "param k = 3\nwhen loss > k -> orange\n"}, {"settings": {"k": "2.5"}}),
        ({"p": "param k = 3\nprofile low { k = 1 }\nwhen loss > k -> orange\n"}, {"profile": "low"}),
    ],
    ids=["a file", "a pack", "a param", "a profile"],
)
def test_what_a_policy_needs_from_elsewhere_is_written_into_it(
    texts: dict[str, str], options: dict[str, object], tmp_path: Path
) -> None:
    whole = load(policy_in(tmp_path, **texts), **options)  # type: ignore[arg-type]
    assert not whole.is_whole
    for name in texts:
        (tmp_path / f"{name}.vitals").unlink()
    again = load(whole.file, text=whole.bundle)
    assert again.digest == whole.digest and again.is_whole


def test_a_yaml_policy_is_kept_in_the_language_itself(tmp_path: Path) -> None:
    path = tmp_path / "llm.yaml"
    path.write_text('vitals: 1\nrules:\n  high:\n    when: [{if: "loss > 3", level: orange}]\n')
    whole = load(path)
    assert whole.file == "llm.vitals" and whole.bundle.startswith("rule high {")
    assert load(whole.file, text=whole.bundle).digest == whole.digest


def test_what_is_disabled_until_a_day_stays_so_in_the_copy(tmp_path: Path) -> None:
    text = 'when loss > 3 -> orange\ndisable loss_orange because "noise" until "2027-01-15"\n'
    early, _ = read(policy_in(tmp_path, p=text), today=datetime.date(2027, 1, 15))
    assert early is not None
    late, _ = read(early.file, text=early.bundle, today=datetime.date(2027, 1, 16))
    assert late is not None and late.digest == early.digest
    assert late.policy.of(Rule)[0].body.disabled


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("rules/llm.vitals", "llm.vitals"),
        ("llm.v2.yml", "llm.v2.vitals"),
        ("pack:core", "pack_core.vitals"),
        ("größe 1.vitals", "größe_1.vitals"),
        ("..", "policy.vitals"),
        ("", "policy.vitals"),
    ],
)
def test_the_file_of_the_copy_is_called_after_the_policy(reference: str, expected: str) -> None:
    assert file_name(reference) == expected


def test_a_run_is_watched_even_where_no_copy_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> str:
        raise VitalsError("formatting it would change what it means")

    whole = load(policy_in(tmp_path, p='use "b.vitals"\n', b="when loss > 3 -> orange\n"))
    monkeypatch.setattr("vitalsdsl.policies.policy.flattened", fail)
    assert whole.copy_for_run() == 'use "b.vitals"\n'
    assert "only its own file is kept" in caplog.text
    with pytest.raises(VitalsError):
        _ = whole.bundle
