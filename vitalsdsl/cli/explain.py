"""vitals explain: a policy in plain English, or what it saw at a step of a run."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from vitalsdsl import consequences
from vitalsdsl.acting.provisions import Provisions
from vitalsdsl.cli.app import fail
from vitalsdsl.cli.options import form_option
from vitalsdsl.cli.output import coloured, progress
from vitalsdsl.columns.batch import Batch
from vitalsdsl.explain import at_step, in_english
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.json_line import json_line
from vitalsdsl.ground.points import Rewind
from vitalsdsl.language.rules import Rule
from vitalsdsl.language.scope import Scope
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.streaming.quick import AFTER
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import RuleState

if TYPE_CHECKING:
    from vitalsdsl.runs.sources import Recording


@click.command("explain")
@click.argument("policy")
@click.argument("source", required=False)
@click.option("--rule", "rule", metavar="R", help="Only this rule.")
@click.option("--step", "step", type=int, metavar="N", help="At this step; without it at the end of the run.")
@click.option("--code", is_flag=True, help="The Python that steps of the run went through, instead.")
@form_option
def command(policy: str, source: str | None, rule: str | None, step: int | None, code: bool, form: str) -> None:
    """Read a policy out in plain English: when each rule fires, what is done then, and who is told.

    With a SOURCE: the value of every sub-expression at a step of that run, the reason of each unknown, and the margin:
    how far the condition is beyond its threshold, relative to it. +0.5 is half as much again, -0.1 a tenth short of it.

    With --code and a SOURCE: what was written to tell quickly that a rule surely stays green, for each set of names that
    the run logs together. Whatever it leaves open is evaluated in full.
    """
    loaded = load(policy)
    known = [r.name for r in loaded.policy.of(Rule)]
    if rule is not None and rule not in known and not rule.startswith("nonfinite("):
        near = difflib.get_close_matches(rule, known, 1, 0.5)
        hint = f"did you mean `{near[0]}`?" if near else f"rules: {', '.join(known)}"
        fail(f"there is no rule `{rule}`; {hint}")
    if source is None:
        if step is not None:
            fail("--step needs a run to look at: vitals explain POLICY SOURCE --step N")
        if code:
            fail("--code needs a run to be written for: vitals explain POLICY SOURCE --code")
        _english(loaded, rule, form)
        return
    for recording in _recordings(source, loaded):
        if code:
            _code(loaded, recording, form)
        else:
            _run(loaded, recording, rule, step, form)


def _recordings(source: str, loaded: LoadedPolicy) -> Iterator[Recording]:
    """The runs of a source. What reads runs is loaded only for those who give one."""
    found: Iterator[Recording] = importlib.import_module("vitalsdsl.cli.recorded").recordings([source], loaded.axis)
    return found


def _code(loaded: LoadedPolicy, recording: Recording, form: str) -> None:
    stream = Stream(loaded.policy, recording.info.name, loaded.digest, True, recording.info.total_steps)
    for event in progress(recording.events, recording.info.name):
        if isinstance(event, Rewind):
            stream.rewind(event.step)
        else:
            stream.push_row(event)
    if not stream.code:
        fail(f"no {AFTER} steps of {recording.info.name} one after another log the same names: no code was written")
    for names, source in stream.code.items():
        if form == "jsonl":
            told = {"type": "code", "run": recording.info.name, "names": list(names), "source": source}
            click.echo(json_line(told))
            continue
        click.echo(click.style(f"# steps with {printable(', '.join(names))}", bold=True))
        click.echo(source)


def _english(loaded: LoadedPolicy, only: str | None, form: str) -> None:
    scope, provisions = Scope.of(loaded.policy), Provisions(loaded.policy)
    slow = Batch(loaded.policy, loaded.digest).left_to_the_stream()
    for rule in loaded.policy.of(Rule):
        if only is not None and rule.name != only:
            continue
        says = in_english(rule, scope) + consequences.of_rule(rule, provisions)
        if rule.name in slow:
            says.append(f"A recorded run is gone through step by step for it: {slow[rule.name]}.")
        lines = ["Disabled."] if rule.body.disabled else says
        if form == "jsonl":
            does = consequences.as_data(rule, provisions)
            told = {"type": "rule", "rule": rule.name, "title": rule.title, "says": lines, "does": does}
            click.echo(json_line(told))
            continue
        title = f"  {printable(rule.title)}" if rule.title else ""
        click.echo(click.style(printable(rule.name), bold=True) + title)
        for line in lines:
            click.echo(f"  {printable(line)}")
        click.echo()
    if only is None:
        _of_all(loaded, consequences.of_policy(loaded.policy, provisions), form)


def _of_all(loaded: LoadedPolicy, lines: list[str], form: str) -> None:
    if form == "jsonl":
        click.echo(json_line({"type": "policy", "policy": loaded.name, "says": lines}))
        return
    click.echo(click.style("All rules", bold=True))
    for line in lines:
        click.echo(f"  {printable(line)}")


def _run(loaded: LoadedPolicy, recording: Recording, only: str | None, step: int | None, form: str) -> None:
    ended = False
    stream = Stream(  # every value is wanted, whether something happens or not
        loaded.policy, recording.info.name, loaded.digest, True, recording.info.total_steps, quick=False
    )
    for event in progress(recording.events, recording.info.name):
        if isinstance(event, Rewind):
            stream.rewind(event.step)
        elif step is not None and event.step > step:
            break
        else:
            stream.push_row(event)
    else:
        ended = True
    stream.finish()
    if stream.closed is None:
        fail(f"{recording.info.name} has no step at or before {step}")
    if form == "text":
        click.echo(click.style(f"{printable(recording.info.name)}, step {stream.closed}", bold=True))
    if step is not None and step != stream.closed:
        why = (
            f"the run ends at step {stream.closed}" if ended else f"step {step} was not logged: this is the one before"
        )
        click.echo(why, err=True)
    for state in sorted(stream.plan.rules, key=lambda r: r.index):
        if only is None and state.guard is not None and not state.level:
            continue
        if only is not None and state.name != only:
            continue
        _rule(stream, state, form)


def _rule(stream: Stream, state: RuleState, form: str) -> None:
    name = state.name if state.member is None else f"{state.name}[{state.member}]"
    for said, seen in at_step(stream, state):
        if form == "jsonl":
            values = [{"depth": s.depth, "text": s.text, "value": s.value, "reason": s.reason or None} for s in seen]
            line = {"type": "explanation", "rule": name, "step": stream.closed, "state": said, "values": values}
            click.echo(json_line(line))
            continue
        click.echo(f"{coloured(state.level.word)}  {click.style(printable(name), bold=True)}: {printable(said)}")
        for each in seen:
            why = f"  ({each.reason})" if each.reason else ""
            click.echo(f"  {'  ' * each.depth}{printable(each.text)} = {each.value}{why}")
