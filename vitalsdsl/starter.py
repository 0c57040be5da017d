"""Starter: the text of a policy that fits the runs of a survey, for somebody to go on from.

It declares the metrics that the runs log, under which names and how often; uses the packs whose rules can look at them;
and has a handful of rules of its own whose windows go by the cadence, each below a comment that holds its threshold
against what the runs did. Nothing in it acts on a training: it alerts and tags. A rule that turns orange on these runs is
loosened, left out or switched off, and the text says which and why.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.likely_names import CENTRAL, likely
from vitalsdsl.ground.quoting import quoted
from vitalsdsl.ground.source import Source
from vitalsdsl.ground.survey import MetricSurvey, Survey
from vitalsdsl.ground.words import RESERVED
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import name_text
from vitalsdsl.language.layout import format_policy
from vitalsdsl.language.parser import parse
from vitalsdsl.planning.naming import Named, Naming

LEAST_POINTS = 20
"""With fewer in the run that has fewest, a rule over a window of them would know too late to be of use."""

LEAST_EVALUATIONS = 4
FACTOR, LOOSER = 1.3, 2.0
"""How far above its best the loss must stay, and how far where the runs themselves do stay above the first."""
MOST_LISTED = 30
RATES_APART = 1.5
WIDEST = 116


@dataclass(frozen=True)
class Pack:
    """A pack that a policy may use: how many of its rules can look at the runs."""

    name: str
    able: int
    rules: int


@dataclass
class Tried:
    """What came of the rules on the runs, by rule: in a few words what it `did` there; which are written with a `looser`
    threshold; why one is left `out`, or, of a pack, switched `off`; and how `often` one of a pack turns yellow, where that is often."""

    did: dict[str, str] = field(default_factory=dict)
    looser: set[str] = field(default_factory=set)
    out: dict[str, str] = field(default_factory=dict)
    off: dict[str, str] = field(default_factory=dict)
    often: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Seen:
    """A metric that the policy declares: its name there, all that is known of its values, and its cadence in all runs."""

    name: str
    names: tuple[str, ...]
    unit: str | None
    figures: MetricSurvey
    every: float
    longest: float
    fewest: int
    is_everywhere: bool

    @property
    def text(self) -> str:
        return name_text(self.name)

    @property
    def declares_every(self) -> bool:
        """With `every`, a metric is stale after twice that: so only where no gap was as long."""
        return self.every == self.every and self.longest <= 2 * self.every

    def window(self, points: int) -> str:
        """So many points: in steps where each step has one, else in samples."""
        return f"{points} steps" if self.every == 1 else f"{points} samples"

    def figures_told(self) -> str:
        f = self.figures
        return f"{self.name}, {f.points:,} points {f.cadence}: median {f.median:.4g}"


Draft = Callable[[_Seen], "tuple[str, str] | None"]


class Starter:
    """Writes the policy, as it comes of what the rules did when they were tried on the runs."""

    def __init__(self, name: str, survey: Survey, naming: Naming, packs: Sequence[Pack], told: str) -> None:
        self._taken = taken_for(naming)
        naming = _with_taken(naming, self._taken)
        self._name = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower() or "run"
        if self._name[0].isdigit() or self._name in RESERVED:
            self._name = f"run_{self._name}"
        self._survey = survey
        self._naming = naming
        self._packs = packs
        self._told = told
        self._seen = [seen for named in naming.named if (seen := self._look(named)) is not None]

    def text(self, tried: Tried) -> str:
        """The policy, in the one style."""
        parts = [
            f'vitals 1\npolicy {self._name} "Written by `vitals init`, to go on from"\n',
            "\n".join(_comment(
                f"From {self._told}. Nothing here acts on a training: it alerts and tags. Thresholds are first guesses: hold "
                "each against what its comment says the runs did. Go on with `vitals check FILE --against RUNS`."
            )) + "\n",
            *self._uses(),
            *self._switched_off(tried),
            *self._no_loss(),
            *self._noisy(tried),
            *map(self._declaration, self._seen),
            "\nlevel orange do alert, tag\nlevel red do alert, tag\n",
        ]  # fmt: skip
        for rule, text in self.rules(tried):
            if rule in tried.out:
                parts.append("\n" + "\n".join(_comment(f"No rule `{rule}`: {tried.out[rule]}")) + "\n")
                continue
            said = tried.did.get(rule, "")
            parts.append("\n" + (text.replace("\nrule ", f"\n# {said}\nrule ", 1) if said else text))
        parts += self._left()
        return format_policy(parse(Source("policy.vitals", "\n".join(parts))))

    # ---------------------------------------------------------------- what it declares

    def _look(self, named: Named) -> _Seen | None:
        names = tuple(n for n in named.metric.logged if n in named.logged and _can_be_written(n))
        runs = [run for run in self._survey.runs if run.steps]
        found = [next((run.metrics[n] for n in named.logged if n in run.metrics), None) for run in runs]
        known = [m for m in found if m is not None]
        if not names or not known:
            return None
        figures = max((self._survey.metrics[n] for n in names), key=lambda m: m.points)
        cadences = [m.cadence for m in known if m.cadence.every == m.cadence.every]
        strides = [c.every for c in cadences]
        is_one = bool(strides) and all(c.is_regular for c in cadences) and max(strides) < RATES_APART * min(strides)
        return _Seen(
            named.canonical, names, named.metric.unit, figures, min(strides) if is_one else math.nan,
            max((c.longest for c in cadences), default=math.nan), min(m.finite for m in known), len(known) == len(runs),
        )  # fmt: skip

    def _declaration(self, seen: _Seen) -> str:
        said = f"metric {seen.text} = {', '.join(map(_quoted, seen.names))}"
        if seen.declares_every:
            said += f" every {seen.every:g} steps"
        if seen.unit and _can_be_written(seen.unit):
            said += f" unit {_quoted(seen.unit)}"
        said += "" if seen.is_everywhere else " optional"
        if seen.name not in self._taken:
            return said
        meant = _brief(seen.names[0])
        told = f"No pack knows {meant}: it is taken for the {seen.name}, since it is called so."
        if seen.name == "loss":
            name = seen.names[0]
            told += f' The rules of a pack look at it, too, by `use "pack:core" as core` and `metric core.loss = {_quoted(name)}`.'
        return "\n".join([*_comment(told), said])

    def _no_loss(self) -> Iterator[str]:
        """Where nothing is, or looks like, a loss of training or a part of one."""
        losses = [seen.name for seen in self._seen if seen.name.endswith("loss") and seen.name != "val_loss"]
        if not losses:
            count = len(self._survey.metrics)
            yield from _comment(
                f"No loss was recognised among {count:,} name{'s' * (count != 1)}, so nothing here looks at it: "
                'give its name as `metric loss = "NAME"`.'
            )
            yield ""

    def _uses(self) -> Iterator[str]:
        for pack in self._packs:
            yield f'use "pack:{pack.name}" as {pack.name}  # {pack.able} of its {pack.rules} rules can look at these runs'
        yield ""

    def _switched_off(self, tried: Tried) -> Iterator[str]:
        """The rules of packs that turned orange on these runs. An author takes such a line away to have the rule back."""
        for rule, why in tried.off.items():
            yield "\n".join(_comment(why))
            yield f'disable {name_text(rule)} because "it turns orange on runs that `vitals init` was given"'
        yield ""

    def _noisy(self, tried: Tried) -> Iterator[str]:
        """The rules of packs that fired again and again on these runs, for somebody to decide on."""
        if tried.often:
            yield "\n".join(_comment(
                "These fire often on these runs. Set their params, or write `disable RULE because \"WHY\"`: "
                + ", ".join(f"`{rule}` {times}" for rule, times in tried.often.items()) + "."
            ))  # fmt: skip
            yield ""

    def _left(self) -> Iterator[str]:
        """What is logged and declared nowhere, and what of it may be a metric."""
        asked = [u for u in self._naming.unnamed if u.near and _can_be_written(u.name)]
        for u in asked[:MOST_LISTED]:
            yield f"\n# Is {_brief(u.name)} the {u.near}? Then give it as one more name in `metric {u.near} = …`."
        others = [_brief(u.name) for u in self._naming.unnamed if u not in asked]
        others += [f"{_brief(f.path)} ({len(f.members)} of them)" for f in self._naming.families]
        if others:
            more = f" and {len(others) - MOST_LISTED} more" if len(others) > MOST_LISTED else ""
            listed = f"Logged, and looked at by nothing here: {', '.join(others[:MOST_LISTED])}{more}."
            yield "\n" + "\n".join(_comment(listed))

    # ---------------------------------------------------------------- its rules

    def rules(self, tried: Tried) -> Iterator[tuple[str, str]]:
        """The rules, by name, that the metrics give ground for."""
        diverging = partial(_diverging, factor=LOOSER if "loss_rises" in tried.looser else FACTOR)
        drafts: dict[str, Sequence[Draft]] = {
            "loss": (diverging, _missing), "val_loss": (_overfit,), "grad_norm": (_grad_norm_high,),
            "throughput": (_slower,), "step_time": (_longer,),
        }  # fmt: skip
        for seen in self._seen:
            for draft in drafts.get(seen.name, ()):
                drafted = draft(seen)
                if drafted is not None:
                    yield drafted


def _diverging(m: _Seen, factor: float) -> tuple[str, str] | None:
    if m.fewest < LEAST_POINTS or m.figures.sign <= 0:
        return None
    f, window = m.figures, m.window(max(5, min(50, _round(m.fewest / 8))))
    smooth = f"median({m.text}, {window})"
    facts = (
        f"{m.figures_told()}, lowest {f.low:.4g} at step {f.low_step:,}, highest {f.high:.4g} at step {f.high_step:,}. "
        f"{100 * (factor - 1):.0f} % above its lowest is {factor * f.low:.4g}."
    )
    return "loss_rises", _rule(
        facts, "loss_rises", "the loss, smoothed, stays well above its best",
        f"when {smooth} > {factor:g} * lowest({smooth}) for {window} -> orange",
        f"the loss, smoothed, is {{{smooth}:.4g}}; its best was {{lowest({smooth}):.4g}}",
        "has the data changed?", "compare the learning rate with the schedule that was meant",
    )  # fmt: skip


def _missing(m: _Seen) -> tuple[str, str] | None:
    if not m.declares_every or m.fewest < LEAST_POINTS:
        return None
    limit = 10 * m.every
    facts = f"{m.name} came {m.figures.cadence}; the longest gap was {m.longest:g} steps."
    return "loss_missing", _rule(
        facts, "loss_missing", "the loss is logged no more, while other metrics are",
        f"when missing {m.text} for {limit:g} steps -> yellow",
        "no loss for a while, at step {step:.0f}", "is it logged under another name now?",
    )  # fmt: skip


def _overfit(m: _Seen) -> tuple[str, str] | None:
    if m.fewest < LEAST_EVALUATIONS or m.figures.sign <= 0:
        return None
    f = m.figures
    facts = (
        f"{m.figures_told()}, lowest {f.low:.4g} at step {f.low_step:,}. 5 % above its lowest is {1.05 * f.low:.4g}. "
        "Counted in evaluations: two in turn, not one bad one."
    )
    return "val_loss_rises", _rule(
        facts, "val_loss_rises", "the validation loss has risen above its best",
        f"when {m.text} > 1.05 * lowest({m.text}) for 2 samples -> yellow",
        f"{m.name} is {{{m.text}:.4g}}; its best was {{lowest({m.text}):.4g}}",
        "the best checkpoint is an earlier one", "does the training loss go on falling? then it overfits",
    )  # fmt: skip


def _grad_norm_high(m: _Seen) -> tuple[str, str] | None:
    f = m.figures
    if m.fewest < LEAST_POINTS or not f.median > 0:
        return None
    factor = max(3.0, min(50.0, math.ceil(3 * f.quantile(0.99) / f.median) / 2))
    limit, window = factor * f.median, m.window(max(10, min(100, _round(m.fewest / 4))))
    share = "none" if limit >= f.high else f"{100 * (1 - f.share_below(limit)):.0f} %"
    facts = (
        f"{m.figures_told()}, 99 % below {f.quantile(0.99):.4g}, highest {f.high:.4g} at step {f.high_step:,}. "
        f"{factor:g} times the median is {limit:.4g}: {share} of the points {'is' if share == 'none' else 'are'} above that."
    )
    return "grad_norm_high", _rule(
        facts, "grad_norm_high", "the gradient norm stays far above what it usually is",
        f"when {m.text} > {factor:g} * usual({m.text}, {window}) for 5 samples -> yellow",
        f"{m.name} is {{{m.text}:.3g}}, usually {{usual({m.text}, {window}):.3g}}",
        "look at the batches of these steps", "compare the learning rate with the schedule that was meant",
    )  # fmt: skip


def _slower(m: _Seen) -> tuple[str, str] | None:
    return _pace(m, "throughput_low", "the training has become slower", "<", 0.6, f"lowest {m.figures.low:.4g}")


def _longer(m: _Seen) -> tuple[str, str] | None:
    return _pace(m, "step_time_high", "steps take longer than they did", ">", 1.7, f"highest {m.figures.high:.4g}")


def _pace(m: _Seen, name: str, title: str, sign: str, factor: float, extreme: str) -> tuple[str, str] | None:
    if m.fewest < LEAST_POINTS or m.figures.sign <= 0:
        return None
    window = m.window(max(10, min(50, _round(m.fewest / 4))))
    facts = f"{m.figures_told()}, {extreme}. {factor:g} times the median is {factor * m.figures.median:.4g}."
    return name, _rule(
        facts, name, title, f"when {m.text} {sign} {factor:g} * usual({m.text}, {window}) for 5 samples -> yellow",
        f"{m.name} is {{{m.text}:.4g}}, usually {{usual({m.text}, {window}):.4g}}",
        "look at the data loader first", "then at the machine: heat, other jobs, the network",
    )  # fmt: skip


def _rule(facts: str, name: str, title: str, when: str, because: str, *tries: str) -> str:
    listed = ", ".join(map(_quoted, tries))
    comment = "\n".join(_comment(facts))
    return f'{comment}\nrule {name} "{title}" {{\n  {when}\n  because "{because}"\n  try {listed}\n}}\n'


# -------------------------------------------------------------------- names that no pack knows


def taken_for(naming: Naming) -> dict[str, str]:
    """The loss and the gradient norm, where no known name of them is logged and one that nobody knows is called so."""
    named = {one.canonical for one in naming.named}
    unknown = [one.name for one in naming.unnamed if _can_be_written(one.name)]
    found = {metric: likely(metric, unknown) for metric in CENTRAL if metric not in named}
    return {metric: near[0] for metric, near in found.items() if near}


def _with_taken(naming: Naming, taken: Mapping[str, str]) -> Naming:
    span = Source("names", "").span(0, 0)
    more = [
        Named(rules.Metric.build(span, name=metric, logged=(name,)), metric, (name,)) for metric, name in taken.items()
    ]
    left = tuple(one for one in naming.unnamed if one.name not in taken.values())
    return replace(naming, named=(*more, *naming.named), unnamed=left)


# -------------------------------------------------------------------- words


def _round(number: float) -> int:
    """A number of points as people say it: one figure of it counts, or a half.

    >>> _round(7.9), _round(13), _round(44.2), _round(99), _round(260)
    (7, 10, 40, 90, 250)
    """
    size = 10 ** int(math.log10(max(number, 1)))
    return (
        int(number) if size == 1 else int(number / (size / 2)) * size // 2 if size > 10 else int(number / size) * size
    )


def _can_be_written(name: str) -> bool:
    """Whether a name can stand between double quotes, and is not too long to be read there."""
    return bool(name) and name.isprintable() and len(name) <= 200


def _quoted(name: str) -> str:
    return quoted(name)


def _brief(name: str) -> str:
    """A logged name in a comment, whatever somebody logged."""
    said = printable(name)
    return f"`{said}`" if len(said) <= 60 else f"`{said[:40]}…{said[-15:]}`"


def _comment(text: str) -> Iterator[str]:
    """A comment of as many lines as it takes."""
    line = "#"
    for word in text.split():
        if len(line) + 1 + len(word) > WIDEST and line != "#":
            yield line
            line = "#"
        line += f" {word}"
    yield line
