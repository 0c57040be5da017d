"""Which metric a logged name is, and which rules can look at a run that logs certain names."""

from __future__ import annotations

import pytest

from vitalsdsl.ground.points import Row, RunInfo
from vitalsdsl.ground.survey import Survey
from vitalsdsl.language.rules import Rule
from vitalsdsl.planning.naming import Naming, Vocabulary
from vitalsdsl.planning.sight import Sight
from vitalsdsl.policies.policy import load

WORDS = """
metric loss = "train/loss", "loss", "lm loss"
metric val_loss = "eval/loss", "val_loss"
metric grad_norm = "train/grad_norm", "grad_norm"
metric lr = "lr", "learning rate"
metric act/*/absmax = "activations/*/max_abs"
"""


def naming(*runs: list[Row], words: str = WORDS) -> Naming:
    survey = Survey.of((RunInfo(f"run{place}"), rows) for place, rows in enumerate(runs))
    return Vocabulary.of([load("p", text=words).policy]).naming(survey)


def row(step: int, *names: str) -> Row:
    return Row(step, dict.fromkeys(names, 1.0))


def test_a_name_is_the_metric_that_declares_it_and_only_that() -> None:
    found = naming([row(0, "lm loss", "eval/loss", "x")])
    assert [(n.canonical, n.logged) for n in found.named] == [("loss", ("lm loss",)), ("val_loss", ("eval/loss",))]
    assert [u.name for u in found.unnamed] == ["x"]


def test_of_two_names_the_first_to_come_is_taken_as_the_evaluator_takes_it() -> None:
    late = [row(0, "loss"), row(5, "loss", "train/loss")]
    [loss] = naming(late).named
    assert loss.logged == ("loss",)
    assert [(b.name, b.by, b.why) for b in loss.beaten] == [
        ("train/loss", "loss", "it came first, at step 0 against 5")
    ]
    [loss] = naming([row(3, "loss", "train/loss")]).named
    assert (loss.logged, loss.beaten[0].why) == (("train/loss",), "both came at step 3, and it is listed first")


def test_runs_may_name_a_metric_differently() -> None:
    [loss] = naming([row(0, "loss")], [row(0, "lm loss")], [row(0, "lm loss")]).named
    assert (loss.logged, loss.beaten) == (("lm loss", "loss"), ())


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("Train Loss", "loss"), ("LOSS", "loss"), ("train_loss", "loss"), ("train-lm-loss", "loss"), ("grad_nrom", "grad_norm"),
        ("Eval Loss", "val_loss"), ("Learning-Rate", "lr"), ("eval/lossx", "val_loss"),
        # What is evaluated is no training loss; a setting, another phase or a mean over the run is no norm and no loss.
        ("valid/los", "val_loss"), ("max_grad_norm", ""), ("predict_loss", ""), ("weight_norm", ""), ("total_loss", ""),
        ("accuracy", ""), ("", ""), ("🙂", ""), ("/", ""),
    ],
)  # fmt: skip
def test_what_a_name_may_be_is_asked_and_never_taken(name: str, asked: str) -> None:
    found = naming([row(0, name)])
    assert not found.named
    assert [(u.name, u.near) for u in found.unnamed] == [(name, asked)]


def test_families_are_declared_or_alike_but_for_a_number() -> None:
    layers = [f"act/layer_{n}" for n in range(4)]
    found = naming([row(0, "activations/3/max_abs", "activations/x/max_abs", *layers, "gpu/0", "gpu/1")])
    declared, alike = found.families
    assert (declared.path, declared.members) == ("act/*/absmax", ("activations/3/max_abs", "activations/x/max_abs"))
    assert (alike.path, alike.members, alike.metric) == ("act/layer_*", tuple(layers), None)
    assert [u.name for u in found.unnamed] == ["gpu/0", "gpu/1"], "two are no family"


def test_the_run_s_own_counters_are_told_apart_unless_a_policy_takes_them() -> None:
    assert naming([row(0, "epoch", "train/num_input_tokens_seen")]).counters == {
        "epoch": "epoch", "train/num_input_tokens_seen": "tokens"}  # fmt: skip
    assert naming([row(0, "epoch")], words='metric epoch = "epoch"').counters == {}


def test_a_logged_step_is_no_metric_and_questions_have_an_end() -> None:
    found = naming([row(0, "train/global_step", *(f"x{n}y" for n in range(600)), "train-loss")])
    assert found.counters == {"train/global_step": "step"}
    assert len(found.unnamed) == 601
    assert found.unnamed[-1].near == "", "who logs so many names logs no metrics"


def test_names_that_rules_read_bare_are_known_too() -> None:
    found = naming([row(0, "gnorm", "act/l0", "act/l1")], words="when gnorm > 3 and any(act/* > 5) -> red")
    assert [n.canonical for n in found.named] == ["gnorm"]
    assert [(f.path, f.members) for f in found.families] == [("act/*", ("act/l0", "act/l1"))]


# ---------------------------------------------------------------- rules

SEEN = [
    ("when loss > 3 -> red", ""),
    ("when los > 3 -> red", "los"),
    ("when loss > 3 and lr > 1 -> red", "lr"),
    ("when loss > 3 or lr > 1 -> red", ""),
    ("when not (loss > 3 or lr > 1) -> red", "lr"),
    ("when not (loss > 3 and lr > 1) -> red", ""),
    ("when loss > 3 and not surely(lr > 1) -> red", ""),
    ("when loss > 3 and surely(lr > 1) -> red", "lr"),
    ("when 2 of (loss > 3, lr > 1, a > 1) -> red", "a"),
    ("when 1 of (loss > 3, lr > 1, a > 1) -> red", ""),
    ("when mean(lr, 50 steps) > 3 -> red", "lr"),
    ("when loss > 3 * baseline(50 steps) -> red", ""),
    ("when lr > 3 * baseline(50 steps) -> red", "lr"),
    ("when loss > usual(loss, 50 steps, unless: lr > 1) -> red", ""),
    ("when loss is nan or lr is nan -> red", ""),
    ("when missing lr for 50 steps -> red", "lr"),
    ('metric lr = "lr" every 5 steps\nwhen missing lr for 50 steps -> red', ""),
    ("when stalled for 5 min -> red", ""),
    ("event spike = lr > 3\nwhen since(spike) > 5 and loss > 3 -> red", "lr"),
    ("event spike = lr > 3\nwhen onsets(spike, 50 steps) > 3 -> red", "lr"),
    ("event spike = loss > 3\nwhen spike then lr > 3 within 5 steps -> red", "lr"),
    ("event spike = loss > 3\nwhen spike then no lr > 3 within 5 steps -> red", ""),
    ("let gap = loss - lr\nwhen gap > 3 -> red", "lr"),
    ("let gap = loss * 2 on lr\nwhen gap > 3 -> red", "lr"),
    ("phase late = lr > 3\nrule r in phase late { when loss > 3 -> red }", "lr"),
    ("rule r each m in act/* { when m > 3 -> red }", ""),
    ("rule r each m in grad/* { when m > 3 -> red }", "grad/*"),
    ("when any(grad/* > 3) -> red", "grad/*"),
    ("when share(act/*, of: grad/*) > 3 -> red", "grad/*"),
    ("when max(act/{0..3}) > 3 -> red", ""),
    ("when max(act/{7..9}) > 3 -> red", "act/{7..9}"),
    ("when loss > 3 for 2 samples on lr -> red", "lr"),
    ("rule r { when lr > 3 -> yellow when loss > 3 -> red }", ""),
    ("when epoch > 3 -> red", "epoch"),
    ("when progress > 50% and loss > 3 -> red", ""),
    ("when loss before 5 steps > 3 -> red", ""),
    ("event spike = lr > 3\nwhen loss > 2 * (loss at spike) -> red", "lr"),
]


@pytest.mark.parametrize(("text", "lacking"), SEEN, ids=[text for text, _ in SEEN])
def test_a_rule_can_look_where_it_could_ever_be_true(text: str, lacking: str) -> None:
    policy = load("p", text=text).policy
    sight = Sight(policy, ["loss", "act/0", "act/1"])
    assert [sorted(sight.lacking(rule)) for rule in policy.of(Rule)] == [[lacking] if lacking else []]
