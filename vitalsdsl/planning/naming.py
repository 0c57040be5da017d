"""Naming: which canonical metric each logged name is, by the shipped vocabulary or by a policy's own declarations.

A name that nothing declares is never guessed: what it may be is put as a question.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from vitalsdsl.ground.survey import RunSurvey, Survey
from vitalsdsl.language import rules
from vitalsdsl.language.scope import LOGGED_COUNTERS, Scope, match_family
from vitalsdsl.planning.intake import Metrics
from vitalsdsl.planning.logged import NEAR, Reads

LEAST_MEMBERS = 3
"""How many names that differ in a number alone are shown as a family."""

MOST_QUESTIONS = 500
"""About how many names it is asked what they may be: who logs more than these logs something else than metrics."""

STEP_NAMES = (
    "train/global_step", "trainer/global_step", "training/global_step", "global_step", "iteration", "iter", "num_updates",
    "_step", "train/iteration",
)  # fmt: skip
"""Under which names loggers write the training step, as a metric among others."""

_EVALUATED = re.compile(r"(?:^|_)(?:val|valid|validation|eval|evaluation|test|dev)(?:_|$)")
_NOT_TRAINING = re.compile(r"(?:^|_)(?:predict|max|min|weight|total|num|target)(?:_|$)")
_NUMBERED = re.compile(r"\d+(?=/|$)")


@dataclass(frozen=True)
class Beaten:
    """A logged name that would feed a metric, had another not come before it; and why that one is taken."""

    name: str
    by: str
    why: str


@dataclass(frozen=True)
class Named:
    """A canonical metric, under which name each run logs it, most frequent first, and which names lose to those."""

    metric: rules.Metric
    canonical: str
    logged: tuple[str, ...]
    beaten: tuple[Beaten, ...] = ()


@dataclass(frozen=True)
class Unnamed:
    """A logged name that maps to nothing; with the canonical metric that it may be, by the alias that it resembles."""

    name: str
    near: str = ""
    alias: str = ""


@dataclass(frozen=True)
class FamilyFound:
    """Metrics that are members of one family: declared (`metric`), or alike but for a number."""

    path: str
    members: tuple[str, ...]
    metric: rules.Metric | None = None


@dataclass(frozen=True)
class Naming:
    """What a survey's names are. Each name is in one of these; `counters` maps a name to the run's own counter, `step` among
    them where it is logged as a metric."""

    named: tuple[Named, ...]
    unnamed: tuple[Unnamed, ...]
    families: tuple[FamilyFound, ...]
    counters: dict[str, str] = field(default_factory=dict)


class Vocabulary:
    """Declarations of metrics: those of several policies, of which the first that declares a metric counts.

    >>> from vitalsdsl.policies.policy import load
    >>> policy = load("p", text='metric loss = "train/loss", "loss" when loss > 3 -> red').policy
    >>> Vocabulary.of([policy]).question("Train Loss")
    ('loss', 'train/loss')
    """

    def __init__(self, metrics: Iterable[rules.Metric]) -> None:
        self.metrics: dict[str, rules.Metric] = {}
        for metric in metrics:
            self.metrics.setdefault(metric.name, metric)
        self._aliases: dict[str, tuple[str, str]] = {}
        for metric in self.metrics.values():
            for alias in (*metric.logged, metric.name):
                if not metric.family:
                    self._aliases.setdefault(plain(alias), (metric.name, alias))

    @classmethod
    def of(cls, policies: Iterable[rules.Policy]) -> Vocabulary:
        """What policies declare, and what the rules of them read by its bare name."""
        found: list[rules.Metric] = []
        for policy in policies:
            found += policy.of(rules.Metric)
            scope, span = Scope.of(policy), policy.source.span(0, 0)
            for read in Reads(policy).metrics:
                if read.path not in scope.metrics and Metrics(scope).declared(read.path)[0] is None:
                    names, family = tuple(read.names), read.family
                    found.append(rules.Metric.build(span, name=read.path, logged=names, family=family))
        return cls(found)

    def also_called(self, name: str) -> tuple[str, tuple[str, ...]]:
        """The canonical metric that goes by a name, be it its own or one that is logged, and all names that it is logged
        under; empty where there is none.

        >>> from vitalsdsl.policies.policy import load
        >>> policy = load("p", text='metric loss = "train/loss", "lm loss" when loss > 3 -> red').policy
        >>> Vocabulary.of([policy]).also_called("lm loss")
        ('loss', ('train/loss', 'lm loss'))
        """
        found = self.metrics.get(name) or next((m for m in self.metrics.values() if name in m.logged), None)
        return (found.name, found.logged) if found is not None and not found.family else ("", ())

    def question(self, name: str) -> tuple[str, str]:
        """The canonical metric that a name may be, and the alias that it resembles; empty where nothing is near.

        The same letters but for case, spaces, `-`, `_`, `/` and a leading `train/` come first, then near spellings. What
        is evaluated is never taken for what is trained on, nor the other way round.
        """
        said = plain(name)
        if said in self._aliases:
            return self._aliases[said]
        if _NOT_TRAINING.search(said):
            return "", ""
        near = difflib.get_close_matches(said, [a for a in self._aliases if _alike(said, a)], 1, max(NEAR, 0.8))
        return self._aliases[near[0]] if near else ("", "")

    def naming(self, survey: Survey) -> Naming:
        """What each name of a survey is."""
        left = dict.fromkeys(survey.metrics)
        counters = {
            name: counter for counter, names in LOGGED_COUNTERS.items() for name in names
            if name in left and name not in self.metrics
        }  # fmt: skip
        counters |= {name: "step" for name in STEP_NAMES if name in left and name not in self.metrics}
        named = list(self._named(survey))
        for found in named:
            for name in (*found.logged, *(b.name for b in found.beaten)):
                left.pop(name, None)
        for name in counters:
            left.pop(name, None)
        families = list(self._declared_families(left))
        for name in [name for family in families for name in family.members]:
            left.pop(name, None)
        alike = _numbered(left)
        for name in [name for family in alike for name in family.members]:
            left.pop(name)
        unnamed = tuple(
            Unnamed(name, *self.question(name)) if place < MOST_QUESTIONS else Unnamed(name)
            for place, name in enumerate(left)
        )
        return Naming(tuple(named), unnamed, (*families, *alike), counters)

    def _named(self, survey: Survey) -> Iterator[Named]:
        for metric in self.metrics.values():
            if metric.family:
                continue
            taken: Counter[str] = Counter()
            beaten: dict[str, Beaten] = {}
            for run in survey.runs:
                candidates = _in_turn(metric.logged, run)
                if candidates:
                    taken[candidates[0]] += 1
                for loser in candidates[1:]:
                    beaten.setdefault(loser, _beaten(loser, candidates[0], run))
            if taken:
                lost = tuple(b for name, b in beaten.items() if name not in taken or len(taken) > 1)
                yield Named(metric, metric.name, tuple(name for name, _ in taken.most_common()), lost)

    def _declared_families(self, names: Collection[str]) -> Iterator[FamilyFound]:
        for metric in self.metrics.values():
            if metric.family:
                members = [n for n in names if any(match_family(p, n) is not None for p in metric.logged)]
                if members:
                    yield FamilyFound(metric.name, tuple(members), metric)


def plain(name: str) -> str:
    """A name as it is compared: small letters, one underscore for anything between words, without `train`.

    >>> plain("Train Loss"), plain("train/grad-norm"), plain("eval/loss"), plain("train")
    ('loss', 'grad_norm', 'eval_loss', 'train')
    """
    said = re.sub(r"[\s/_-]+", "_", name.strip().lower()).strip("_")
    return re.sub(r"^(?:train|training)_(?=.)", "", said)


def _alike(a: str, b: str) -> bool:
    return bool(_EVALUATED.search(a)) == bool(_EVALUATED.search(b))


def _in_turn(names: Iterable[str], run: RunSurvey) -> list[str]:
    """Those of the names that a run logs, the one that feeds the metric first: the first to come, or first listed."""
    known = [(run.metrics[name].order, place, name) for place, name in enumerate(names) if name in run.metrics]
    return [name for _, _, name in sorted(known)]


def _beaten(loser: str, winner: str, run: RunSurvey) -> Beaten:
    lost, won = run.metrics[loser], run.metrics[winner]
    if lost.order == won.order:
        return Beaten(loser, winner, f"both came at step {won.first}, and it is listed first")
    return Beaten(loser, winner, f"it came first, at step {won.first} against {lost.first}")


def _numbered(names: Collection[str]) -> list[FamilyFound]:
    """Names that are one but for a number at the end of a segment, as families."""
    shapes: dict[str, list[str]] = {}
    for name in names:
        shape, count = _NUMBERED.subn("*", name)
        if count and "*" not in name and '"' not in name and "\\" not in name:
            shapes.setdefault(shape, []).append(name)
    return [FamilyFound(shape, tuple(members)) for shape, members in shapes.items() if len(members) >= LEAST_MEMBERS]
