"""How each statement of a policy is written, line by line; what stands round the lines is layout's business."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from vitalsdsl.ground.quoting import quoted
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import Wording, name_text
from vitalsdsl.language.rules import Level


def sentence(wording: Wording, statement: rules.Statement) -> str:
    """A statement that has no braces and no ladder, on one line."""
    return _SENTENCES[type(statement)](wording, statement)


def is_block(statement: rules.Statement) -> bool:
    """Whether a statement is written with braces, over several lines."""
    return isinstance(statement, (rules.Override, rules.Profile)) or (
        isinstance(statement, rules.Rule) and not is_oneliner(statement)
    )


def is_oneliner(rule: rules.Rule) -> bool:
    """Whether a rule is a bare `when` that needs no name: not one out of a pack, nor one that has been added to."""
    body = rule.body
    more = (body.clear, body.cooldown, body.inhibits, body.unknown, body.because, body.try_, body.owner, body.runbook)
    plain = all(value is None for value in more) and not (body.shadow or body.disabled or rule.phases)
    alone = len(body.clauses) == 1 and rule.each is None and rule.title is None and rule.origin is None
    return not rule.written and plain and alone


def opening(wording: Wording, statement: rules.Statement) -> str:
    """The first line of a block, brace and all."""
    if isinstance(statement, rules.Profile):
        return f"profile {statement.name} {{"
    if isinstance(statement, rules.Override):
        return f"override {wording.text(statement.rule)} {{"
    assert isinstance(statement, rules.Rule)
    words = ["rule", statement.name]
    if statement.title is not None:
        words.append(quoted(statement.title))
    if statement.phases:
        words.append("in phase " + ", ".join(map(wording.text, statement.phases)))
    if statement.each is not None:
        words.append(f"each {statement.each.member} in {statement.each.family.path}")
    return " ".join([*words, "{"])


def clause(wording: Wording, node: rules.Clause) -> tuple[str, list[str]]:
    """`when COND for SPAN on METRIC`, and its rungs."""
    head = "when " + wording.text(node.condition) + _for(wording, node.for_)
    if node.on is not None:
        head += f" on {wording.text(node.on)}"
    return head, [rung(wording, r) for r in node.rungs]


def rung(wording: Wording, node: rules.Rung) -> str:
    """`-> red after 700 steps do rollback`."""
    after = f" after {wording.text(node.after)}" if node.after is not None else ""
    return f"-> {node.level.word}{after}{_do(wording, node.actions)}"


def parts(wording: Wording, body: rules.RuleBody) -> dict[str, str]:
    """What a rule says beside its clauses, by field, in the order that we would choose."""
    found: dict[str, str] = {}
    if body.clear is not None:
        condition = body.clear.condition
        when = f" when {wording.text(condition)}" if condition is not None else ""
        found["clear"] = "clear" + when + _for(wording, body.clear.for_)
    if body.cooldown is not None:
        found["cooldown"] = f"cooldown {wording.text(body.cooldown)}"
    if body.inhibits is not None:
        found["inhibits"] = f"inhibits {', '.join(map(wording.text, body.inhibits))}"
    if body.unknown is not None:
        found["unknown"] = f"unknown {body.unknown}"
    if body.because is not None:
        found["because"] = f"because {quoted(wording.template(body.because))}"
    if body.try_ is not None:
        found["try"] = f"try {_texts(body.try_)}"
    if body.owner is not None:
        found["owner"] = f"owner {quoted(body.owner)}"
    if body.runbook is not None:
        found["runbook"] = f"runbook {quoted(body.runbook)}"
    if body.shadow:
        found["shadow"] = "shadow"
    if body.disabled:
        found["disabled"] = "disabled"
    return found


def setting(wording: Wording, node: rules.Setting) -> str:
    """`k = 2.5`."""
    return f"{node.name} = {wording.text(node.value)}"


def policy_line(policy: rules.Policy) -> str:
    """`policy NAME "title"`."""
    title = f" {quoted(policy.title)}" if policy.title is not None else ""
    return f"policy {policy.name}{title}"


def _for(wording: Wording, span: ex.For | None) -> str:
    return f" for {wording.text(span)}" if span is not None else ""


def _do(wording: Wording, actions: tuple[rules.Action, ...] | None) -> str:
    return f" do {', '.join(map(wording.action, actions))}" if actions else ""


def _texts(texts: Iterable[str]) -> str:
    return ", ".join(map(quoted, texts))


def _use(wording: Wording, node: rules.Use) -> str:
    namespace = f" as {node.namespace}" if node.namespace is not None else ""
    values = f" with {', '.join(setting(wording, v) for v in node.values)}" if node.values else ""
    return f"use {quoted(node.reference)}{namespace}{values}"


def _axis(_: Wording, node: rules.Axis) -> str:
    return f"axis {quoted(node.metric)}"


def _metric(wording: Wording, node: rules.Metric) -> str:
    name = node.name if node.family else name_text(node.name)
    words = [f"metric {name} = {_texts(node.logged)}"]
    if node.every is not None:
        words.append(f"every {wording.text(node.every)}")
    if node.stale_after is not None:
        words.append(f"stale after {wording.text(node.stale_after)}")
    if node.unit is not None:
        words.append(f"unit {quoted(node.unit)}")
    if node.reduce != "last":
        words.append(f"reduce {node.reduce}")
    if node.optional:
        words.append("optional")
    if node.allow_nonfinite:
        words.append("allow nonfinite")
    return " ".join(words)


def _param(wording: Wording, node: rules.Param) -> str:
    text = f"param {node.name} = {wording.text(node.value)}"
    if node.low is not None and node.high is not None:
        text += f" in {wording.text(node.low)} .. {wording.text(node.high)}"
    return text


def _let(wording: Wording, node: rules.Let) -> str:
    on = f" on {wording.text(node.on)}" if node.on is not None else ""
    return f"let {node.name} = {wording.text(node.expression)}{on}"


def _event(wording: Wording, node: rules.Event) -> str:
    apart = f" apart {wording.text(node.apart)}" if node.apart is not None else ""
    return f"event {node.name} = {wording.text(node.condition)}{_for(wording, node.for_)}{apart}"


def _phase(wording: Wording, node: rules.Phase) -> str:
    return f"phase {node.name} = {wording.text(node.condition)}"


def _level(wording: Wording, node: rules.LevelDefault) -> str:
    return f"level {node.level.word}{_do(wording, node.actions)}"


def _limit(wording: Wording, node: rules.Limit) -> str:
    return f"limit {node.action} {node.count} per {wording.text(node.per)}"


def _nonfinite(wording: Wording, node: rules.Nonfinite) -> str:
    if node.level is None:
        return "nonfinite off"
    return f"nonfinite -> {Level(node.level).word}{_do(wording, node.actions)}"


def _disable(wording: Wording, node: rules.Disable) -> str:
    until = f" until {quoted(node.until)}" if node.until is not None else ""
    return f'disable {wording.text(node.rule)} because "{node.because}"{until}'


def _oneliner(wording: Wording, node: rules.Rule) -> str:
    head, rungs = clause(wording, node.body.clauses[0])
    return " ".join([head, *rungs])


_SENTENCES: dict[type[rules.Statement], Callable[[Wording, Any], str]] = {
    rules.Use: _use,
    rules.Axis: _axis,
    rules.Metric: _metric,
    rules.Param: _param,
    rules.Let: _let,
    rules.Event: _event,
    rules.Phase: _phase,
    rules.LevelDefault: _level,
    rules.Limit: _limit,
    rules.Nonfinite: _nonfinite,
    rules.Disable: _disable,
    rules.Rule: _oneliner,
}
