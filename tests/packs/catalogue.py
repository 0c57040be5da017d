"""The catalogue of the shipped packs, made of the packs, their tests and what was measured: `rules/vitalsdsl_rules/README.md`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import vitalsdsl_rules

from tests.packs.wrongs import Reach
from vitalsdsl.language import rules
from vitalsdsl.language.comments import Remarks
from vitalsdsl.language.formatter import Wording
from vitalsdsl.language.parser import parse
from vitalsdsl.language.rules import Level
from vitalsdsl.language.sentences import clause, opening, parts, sentence
from vitalsdsl.policies.packs import pack, packs, tests_of_pack
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.testing import load_tests

FOLDER = Path(vitalsdsl_rules.__file__).parent
PAGE = FOLDER / "README.md"
MEASURED = FOLDER / "measured.json"
NOTE = re.compile(r"#\s*(source|confusers):\s*(\S.*)")
MOST_TESTS = 5
"""Of a rule: more say nothing to a reader."""
LEVELS = (Level.YELLOW, Level.ORANGE, Level.RED)

HEAD = """# The shipped packs

What each rule looks for, where it is from, what can make it cry wolf, and how often it did on generated healthy runs.
This page is made of the packs; `python -m pytest tests/packs/test_catalogue.py --update` makes it anew.

```
use "pack:core" as core
```

brings a pack's rules into a policy as `core.NAME`; `override`, `disable` and `with` change them there. A rule whose metrics
a run does not log stays silent. Out of the box packs notify; what else a level does is said in your own policy.

*False alarms* are times that a rule went up to a level in 100,000 steps of healthy generated runs, logged at every 1st / 10th /
50th / 500th step: `python -m tests.trials.detection --policy pack:NAME --suite healthy --measured
rules/vitalsdsl_rules/measured.json`. Generated runs are kinder than real ones; compare them with each other.
"""


@dataclass(frozen=True)
class Pack:
    """One shipped pack as the catalogue shows it."""

    name: str

    @cached_property
    def loaded(self) -> LoadedPolicy:
        return load(f"pack:{self.name}")

    @cached_property
    def own(self) -> list[rules.Rule]:
        """The rules of its own text, in order."""
        names = {r.name for r in self._parsed.of(rules.Rule)}
        return [r for r in self.loaded.policy.of(rules.Rule) if r.name in names]

    @cached_property
    def _parsed(self) -> rules.Policy:
        source = pack(self.name)
        assert source is not None
        return parse(source).policy

    @property
    def used(self) -> list[str]:
        """The packs that it uses."""
        return [use.reference.removeprefix("pack:") for use in self._parsed.of(rules.Use)]

    @property
    def plainly_used(self) -> list[str]:
        """Those whose rules keep their names and their params in it."""
        plain = [use for use in self._parsed.of(rules.Use) if use.namespace is None and not use.values]
        return [use.reference.removeprefix("pack:") for use in plain]

    @cached_property
    def notes(self) -> dict[str, dict[str, str]]:
        """Of each rule, what the comment lines before it say: `source` and `confusers`."""
        remarks = Remarks.of(self._parsed)
        found: dict[str, dict[str, str]] = {rule.name: {} for rule in self.own}
        for statement, lines in remarks.about.items():
            if isinstance(statement, rules.Rule):
                found[statement.name] = {m[1]: m[2] for line in lines if (m := NOTE.fullmatch(line.strip()))}
        return found

    @cached_property
    def fired_in(self) -> dict[str, list[str]]:
        """Of each rule, the names of the tests that expect it to fire."""
        file = tests_of_pack(self.name)
        found: dict[str, list[str]] = {}
        for test in load_tests(file).tests if file is not None else ():
            for rule in dict.fromkeys(e.rule for e in test.expected if e.to):
                found.setdefault(rule, []).append(test.name)
        return found


@cache
def shipped() -> tuple[Pack, ...]:
    """Our own packs, by name."""
    return tuple(Pack(name) for name, package in packs().items() if package == "vitalsdsl_rules")


def measured() -> dict[str, Any]:
    """What the trial of detection has written down, by pack."""
    found: dict[str, Any] = json.loads(MEASURED.read_text("utf-8")) if MEASURED.exists() else {}
    return found


def page() -> str:
    """The catalogue, as Markdown."""
    found = shipped()
    rates = measured()
    lines = [HEAD, "| pack | about | rules |", "|---|---|---|"]
    lines += [f"| [`{p.name}`](#{p.name}) | {p.loaded.policy.title or ''} | {len(p.own)} |" for p in found]
    for one in found:
        lines += ["", *_pack(one, *measured_of(one, found, rates))]
    return "\n".join(lines) + "\n"


def measured_of(pack: Pack, all_: Sequence[Pack], rates: Mapping[str, Any]) -> tuple[Pack, Mapping[str, Any]]:
    """What was measured of a pack: by itself, or as a part of another that brings its rules in as they are."""
    users = [other for other in all_ if pack.name in other.plainly_used and other.name in rates]
    measured_as = pack if pack.name in rates or not users else users[0]
    return measured_as, rates.get(measured_as.name, {})


def _pack(pack: Pack, measured_as: Pack, rates: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {pack.name}"
    yield f"\n{pack.loaded.policy.title or ''}."
    if pack.used:
        yield "\nUses " + ", ".join(f"[`{name}`](#{name})" for name in pack.used) + "."
    if rates:
        runs = ", ".join(f"{count} {curve}" for curve, count in rates["runs"].items())
        is_old = "" if rates["digest"] == measured_as.loaded.digest else " (an earlier version of it)"
        part = "" if measured_as is pack else f" as a part of [`{measured_as.name}`](#{measured_as.name})"
        digest = rates["digest"].removeprefix("sha256:")[:12]
        yield f"\nMeasured{part} at digest `{digest}…`{is_old}, at each stride: {runs}; seeds {rates['seeds']}."
    reach = Reach(pack.loaded.policy)
    for rule in pack.own:
        yield ""
        yield from _rule(pack, rule, reach, rates.get("rules", {}).get(rule.name))


def _rule(pack: Pack, rule: rules.Rule, reach: Reach, rates: Mapping[str, Any] | None) -> Iterator[str]:
    wording = Wording()
    notes = pack.notes[rule.name]
    yield f"### {pack.name}.{rule.name}"
    yield f"\n{_capital(rule.title or rule.name)}.\n"
    yield "```"
    for statement in reach.only(pack.loaded.policy, frozenset({rule.name})).statements:
        if isinstance(statement, (rules.Param, rules.Let, rules.Event, rules.Phase)):
            yield sentence(wording, statement)
    yield opening(wording, rule)
    for one in rule.body.clauses:
        head, rungs = clause(wording, one)
        yield f"  {head}\n    " + "\n    ".join(rungs)
    said = parts(wording, rule.body)
    if "clear" in said:
        yield f"  {said['clear']}"
    yield "}\n```\n"
    yield "- try: " + "; ".join(rule.body.try_ or ())
    yield f"- source: {notes.get('source', '')}"
    yield f"- confusers: {notes.get('confusers', '')}"
    yield f"- false alarms: {_rates(rates)}"
    fired = pack.fired_in.get(rule.name, [])
    more = f"; and {len(fired) - MOST_TESTS} more" if len(fired) > MOST_TESTS else ""
    yield "- tests that it fires in: " + ("; ".join(fired[:MOST_TESTS]) or "none") + more


def _rates(rates: Mapping[str, Any] | None) -> str:
    if rates is None:
        return "not measured: no generated healthy run logs what it reads, or the pack has not been tried yet"
    told = []
    for level in LEVELS:
        values = [of_stride[level.word] for of_stride in rates.values()]
        told += [f"{level.word} {' / '.join(f'{v:g}' for v in values)}"] if any(values) else []
    strides = "/".join(rates)
    steps = min(of_stride["steps"] for of_stride in rates.values())
    return f"{', '.join(told) or 'none'} (strides {strides}, {steps:,} steps each)"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
