"""The rates of false alarms that the catalogue of the packs shows, as data beside the packs."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.detecting.judging import Outcome
from tests.detecting.tables import LEVELS, rate
from vitalsdsl.language.rules import Rule
from vitalsdsl.policies.policy import LoadedPolicy


def noted(file: Path, policy: LoadedPolicy, outcomes: Sequence[Outcome]) -> None:
    """Write what was measured of a pack into the file, in the place of what it said of this pack before."""
    whole = json.loads(file.read_text()) if file.exists() else {}
    whole[policy.name] = measured(policy, outcomes)
    file.write_text(json.dumps(dict(sorted(whole.items())), indent=1) + "\n")


def measured(policy: LoadedPolicy, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Alarms per 100,000 healthy steps of each rule by level and stride.

    A rule's steps are those of the runs in which one of its conditions was ever known: silence on a run that logs none of
    its metrics says nothing. A rule without any such run is left out.
    """
    steps: Counter[tuple[str, int]] = Counter()
    alarms: Counter[tuple[str, int, str]] = Counter()
    curves: dict[str, int] = defaultdict(int)
    for outcome in outcomes:
        stride = outcome.case.stride
        if stride == outcomes[0].case.stride and outcome.known:
            curves[outcome.case.curve] += 1
        for rule in outcome.known:
            steps[rule, stride] += outcome.steps
        for alarm in outcome.alarms:
            alarms[alarm.rule, stride, alarm.level.word] += 1
    strides = sorted({o.case.stride for o in outcomes})
    rules: dict[str, Any] = {}
    for rule in (r.name for r in policy.policy.of(Rule)):
        here = [s for s in strides if steps[rule, s]]
        rules[rule] = {
            str(stride): {
                "steps": steps[rule, stride],
                **{level.word: rate(alarms[rule, stride, level.word], steps[rule, stride]) for level in LEVELS},
            }
            for stride in here
        }
    return {
        "digest": policy.digest,
        "runs": dict(curves),
        "seeds": "0 and on",
        "rules": {n: r for n, r in rules.items() if r},
    }
