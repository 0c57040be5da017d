"""Actions in a policy: what is right, what is wrong and how it is said, and what each asks the training side for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from vitalsdsl.acting.provisions import Provisions
from vitalsdsl.actions.base import Effect, registry
from vitalsdsl.actions.reading import default_actions, read_actions
from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.source import Source
from vitalsdsl.language import rules
from vitalsdsl.language.parser import parse
from vitalsdsl.language.rules import Level


def policy(text: str) -> rules.Policy:
    parsed = parse(Source("a.vitals", text))
    assert parsed.ok, parsed.diagnostics
    return parsed.policy


def actions(text: str) -> tuple[rules.Action, ...]:
    written = policy(f"rule r {{ when loss > 3 -> red do {text} }}").of(rules.Rule)[0].body.clauses[0].rungs[0].actions
    assert written is not None
    return written


def wrong_in(written: Iterable[rules.Action], params: Mapping[str, rules.Param] | None = None) -> list[Diagnostic]:
    return read_actions(written, params)[1]


def names(found: tuple[object, ...]) -> list[str]:
    return [getattr(a, "text") for a in found]  # noqa: B009


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("rollback", {"target": "last_healthy", "lr_factor": 0.9}),
        ("rollback(lr: 80%, skip: 500 steps)", {"target": "last_healthy", "lr_factor": 0.8, "skip_batches": 500}),
        ("rollback(lr: 0.5)", {"target": "last_healthy", "lr_factor": 0.5}),
        ("lr(factor: 50%)", {"lr_factor": 0.5}),
        ("lr(factor: 200%)", {"lr_factor": 2.0}),
        ("pause", {}),
        ("stop", {}),
        ("checkpoint", {}),
        (
            'request("capture", layers: first, every: 5 steps, share: 20%, shift: -3, note: "why")',
            {"name": "capture", "layers": "first", "every": "5 steps", "share": 0.2, "shift": -3.0, "note": "why"},
        ),
    ],
)
def test_a_request_carries_what_the_action_says(text: str, params: dict[str, object]) -> None:
    found, diagnostics = read_actions(actions(text))
    assert not diagnostics
    assert found[0].action.effect is Effect.REQUEST
    assert found[0].action.requested(found[0].arguments) == params


@pytest.mark.parametrize(
    ("text", "code", "message", "help_"),
    [
        ("alret", "V080", "there is no action `alret`", "did you mean `alert`?"),
        ("rolback", "V080", "there is no action `rolback`",  # what changes a run is never guessed
         "there are `alert`, `checkpoint`, `lr`, `notify`, `pause`, `request`, `rollback`, `stop`, `tag`"),
        ("rollback(lr: 90)", "V082", "`lr` of `rollback` is a ratio above 0 of at most 100%, not `90`", "write `90%`"),
        ("rollback(lr: 2)", "V082", "`lr` of `rollback` is a ratio above 0 of at most 100%, not `2`",  # not 2%
         "say what part of it, above 0% and at most 100%: such as `90%`"),
        ("rollback(lr: 110%)", "V082", "`lr` of `rollback` is a ratio above 0 of at most 100%, not `110%`",
         "write `lr: 90%`"),
        ("rollback(lr: -90%)", "V082", "`lr` of `rollback` is a ratio above 0 of at most 100%, not `-90%`",
         "write `lr: 90%`"),
        ("rollback(skip: 500)", "V082", "`skip` of `rollback` is a number of steps, not `500`", "write `500 steps`"),
        ("rollback(skip: 5 min)", "V082", "`skip` of `rollback` is a number of steps, not `5 min`",
         "write `skip: 500 steps`"),
        ("rollback(lrr: 90%)", "V081", "`rollback` takes no `lrr`", "did you mean `lr`?"),
        ("rollback(90%)", "V081", "`rollback` does not take a bare `90%`",
         "it is written `rollback([lr: 90%], [skip: 500 steps])`"),
        ("rollback(lr: 90%, lr: 80%)", "V081", "`lr` is said twice", "keep one of them"),
        ("lr", "V081", "`lr` needs its factor", "write `lr(factor: 50%)`"),
        ("pause(5 min)", "V081", "`pause` takes nothing", "write `pause`"),
        ("notify", "V081", "`notify` needs its channel", 'write `notify("channel")`'),
        ("notify(oncall)", "V082", "`channel` of `notify` is a text in quotes, not `oncall`", 'write `"oncall"`'),
        ('notify("https://hooks.example/T0")', "V082",
         "a channel is a short name from your own configuration, never an address or a command", None),
        ('request("rm -rf x")', "V082", "the name of a request is one word, such as `capture_activations`", None),
    ],
)  # fmt: skip
def test_a_wrong_action_is_named_with_its_remedy(text: str, code: str, message: str, help_: str | None) -> None:
    (found,) = wrong_in(actions(text))
    assert (found.code, found.message, found.is_error) == (code, message, True)
    assert (found.help[0] if found.help else None) == help_


def test_a_param_stands_for_an_argument_of_its_kind() -> None:
    written = policy("param cut = 70%\nparam far = 300 steps\nlevel red do rollback(lr: cut, skip: far)")
    params = {p.name: p for p in written.of(rules.Param)}
    (found,), diagnostics = read_actions(written.of(rules.LevelDefault)[0].actions, params)
    assert not diagnostics and found.arguments == {"lr": 0.7, "skip": 300.0}
    (wrong,) = wrong_in(actions("rollback(lr: far)"), params)
    assert wrong.message == "`lr` of `rollback` is a ratio above 0 of at most 100%, not `far`"


def test_two_interventions_in_one_do_are_a_warning() -> None:
    (found,) = wrong_in(actions("pause, stop"))
    assert (found.code, found.is_error) == ("V083", False)


def test_levels_do_what_the_language_says_by_default() -> None:
    assert names(default_actions(Level.YELLOW)) == ["alert", "tag"]
    assert names(default_actions(Level.ORANGE)) == ["alert", "tag", "pause"]
    assert names(default_actions(Level.RED)) == ["alert", "tag", "rollback(lr: 90%)"]


def test_a_level_statement_replaces_the_default_and_a_rung_replaces_both() -> None:
    provisions = Provisions(
        policy("""
        level orange do notify("team")
        rule r { when loss > 3 -> yellow -> orange after 5 steps do tag -> red after 9 steps }
        rule s { when loss > 3 -> orange }
    """)
    )
    assert names(provisions.actions("r", Level.YELLOW, 0, 0)) == ["alert", "tag"]
    assert names(provisions.actions("r", Level.ORANGE, 0, 1)) == ["tag"]
    assert names(provisions.actions("r", Level.RED, 0, 2)) == ["alert", "tag", "rollback(lr: 90%)"]
    assert names(provisions.actions("s", Level.ORANGE, 0, 0)) == ['notify("team")']
    assert provisions.actions("s", Level.GREEN, 0, 0) == ()


def test_what_changes_the_run_is_never_silent() -> None:
    provisions = Provisions(
        policy("""
        level orange do pause
        rule r { when loss > 3 -> red do rollback(lr: 90%), notify("oncall") }
        rule s { when loss > 3 -> yellow do checkpoint }
    """)
    )
    assert names(provisions.levels[Level.ORANGE]) == ["alert", "tag", "pause"]
    assert names(provisions.actions("r", Level.RED, 0, 0)) == ["alert", "tag", "rollback(lr: 90%)", 'notify("oncall")']
    assert names(provisions.actions("s", Level.YELLOW, 0, 0)) == ["checkpoint"]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("", ["alert", "tag"]),
        ("nonfinite -> red", ["alert", "tag"]),
        ("nonfinite -> orange do pause", ["alert", "tag", "pause"]),
        ('nonfinite -> orange do notify("team")', ['notify("team")', "alert", "tag"]),
        ("level orange do alert, tag, stop", ["alert", "tag"]),
    ],
)
def test_the_guard_alerts_and_tags_and_does_more_only_where_told(statement: str, expected: list[str]) -> None:
    provisions = Provisions(policy(statement + "\nrule r { when loss > 3 -> red }"))
    assert names(provisions.actions("nonfinite(loss)", Level.ORANGE, -1, -1)) == expected


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("limit rolback 3 per 10 steps", "V080", "there is no action `rolback`"),
        ("limit rollback 3 per 10 samples", "V084",
         "a limit is a number of steps, epochs or tokens, or a time, not `10 samples`"),
        ("rule r { when loss > 3 -> red cooldown 5 samples }", "V084",
         "a cooldown is a number of steps, epochs or tokens, or a time, not `5 samples`"),
        ("rule r { when loss > 3 -> red cooldown later }", "V084",
         "a cooldown is a number of steps, epochs or tokens, or a time, not `later`"),
        ("nonfinite -> red do poke", "V080", "there is no action `poke`"),
        ("level red do poke", "V080", "there is no action `poke`"),
    ],
)  # fmt: skip
def test_every_place_that_is_about_acting_is_checked(text: str, code: str, message: str) -> None:
    assert [(d.code, d.message) for d in Provisions(policy(text)).diagnostics] == [(code, message)]


@pytest.mark.parametrize("name", sorted(registry()))
def test_every_action_explains_itself_and_its_signature_is_right(name: str) -> None:
    action = registry()[name]
    assert action.__doc__ and action.name == name
    written = action.signature().replace("[", "").replace("]", "").replace("key: value, …", "key: 3")
    assert wrong_in(actions(written)) == []
    if action.effect is Effect.REQUEST:
        assert action.asks
