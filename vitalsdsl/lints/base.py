"""What a lint is: a code, a page that explains it, a bad and a good example, and the search itself."""

from __future__ import annotations

import datetime
import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from vitalsdsl.ground.diagnostic import Diagnostic, Fix, Severity, in_order
from vitalsdsl.ground.source import Span
from vitalsdsl.language import rules
from vitalsdsl.language.scope import Scope
from vitalsdsl.lints.looked import KnownChannels, Looked
from vitalsdsl.lints.pages import PAGES
from vitalsdsl.lints.silence import silenced

if TYPE_CHECKING:
    from vitalsdsl.lints.runs import Runs

MOST_SHOWN = 3
"""Of an example's metrics."""

__all__ = ["KnownChannels", "Lint", "Looked", "explain", "lints", "run_lints"]


class Lint:
    """The base of all lints. The docstring is its page: what it finds, and whose lost week it comes from.

    `bad` is a policy in which it finds something, `good` the same policy mended. A new lint is a new file in this folder,
    and nothing else.

    One that is about recorded runs (`at.runs`) finds nothing without them; `logged` are then the runs of its example: of
    each its metrics, with a series as in tests and the steps from one point to the next. `sees_more_in_runs`: it goes by how
    often metrics come, which is known better with runs.
    """

    code: ClassVar[str]
    severity: ClassVar[Severity] = Severity.WARNING
    bad: ClassVar[str]
    good: ClassVar[str]
    logged: ClassVar[tuple[Mapping[str, tuple[str, int]], ...]] = ()
    sees_more_in_runs: ClassVar[bool] = False

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        """What it finds in a policy."""
        raise NotImplementedError

    def found(self, message: str, span: Span, label: str = "", *help_: str, fix: Fix | None = None) -> Diagnostic:
        return Diagnostic(self.code, self.severity, message, span, label, tuple(h for h in help_ if h), fix)


_lints: dict[str, type[Lint]] = {}


def lints() -> dict[str, type[Lint]]:
    """All lints by code, from the files of this package."""
    if not _lints:
        package = importlib.import_module("vitalsdsl.lints")
        for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
            for value in vars(importlib.import_module(f"vitalsdsl.lints.{module.name}")).values():
                if isinstance(value, type) and issubclass(value, Lint) and "code" in value.__dict__:
                    _lints[value.code] = value
    return _lints


def run_lints(
    policy: rules.Policy,
    scope: Scope | None = None,
    tested: Mapping[str, set[str]] | None = None,
    today: datetime.date | None = None,
    channels: KnownChannels | None = None,
    runs: Runs | None = None,
) -> list[Diagnostic]:
    """The advice on a policy without errors, less what its comments silence, and what is wrong with those comments.

    `tested` are the rules that tests cover, where that is known; `channels` gives the names of the channels here, None
    where nothing is said of any, and is called only for a policy that names one; `runs` is what recorded runs say of it. Mere
    advice on a file that the policy uses is left to those who check that file.
    """
    looked = Looked(policy, scope or Scope.of(policy), tested, channels, runs)
    found = [d for lint in lints().values() for d in lint().look(looked)]
    used = found if runs is None else _of_text_alone(policy, looked)
    found = [d for d in found if d.span.source is policy.source]
    found += [d for d in used if d.is_error and d.span.source is not policy.source]
    advice = {code for code, lint in lints().items() if lint.severity is not Severity.ERROR}
    unseen = (
        {code for code, lint in lints().items() if lint.logged or lint.sees_more_in_runs} if runs is None else set()
    )
    return silenced(policy, in_order(found), advice, set(lints()) | set(PAGES), today, unseen)


def _of_text_alone(policy: rules.Policy, looked: Looked) -> list[Diagnostic]:
    """What is wrong with what a policy uses, whatever runs log: a pack need not fit each of them in all its rules."""
    plain = Looked(policy, looked.scope)
    return [d for lint in lints().values() if lint.severity is Severity.ERROR for d in lint().look(plain)]


def explain(code: str) -> str:
    """The page of a code. Raises KeyError where there is none."""
    if code in PAGES:
        return f"{code}\n\n{PAGES[code]}"
    lint = lints()[code]
    page = inspect.getdoc(lint) or ""
    if lint.logged:
        runs = "a run that logs" if len(lint.logged) == 1 else "runs that log"
        page += f"\n\nOn {runs}:\n{_indented(_runs_of(lint))}"
    return f"{code}  ({lint.severity.value})\n\n{page}\n\nNot so:\n{_indented(lint.bad)}\n\nBut so:\n{_indented(lint.good)}"


def _runs_of(lint: type[Lint]) -> str:
    """What the runs of an example log, in the notation of tests."""
    lines = []
    for run in lint.logged:
        for name, (series, every) in list(run.items())[:MOST_SHOWN]:
            lines.append(f"{name}: {series}  ({f'every {every} steps' if every > 1 else 'every step'})")
        if len(run) > MOST_SHOWN:
            lines.append(f"and {len(run) - MOST_SHOWN} more like these")
        lines.append("")
    return "\n".join(lines)


def _indented(text: str) -> str:
    return "\n".join(("    " + line).rstrip() for line in text.strip().splitlines())
