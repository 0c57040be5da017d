"""What a lint is: a code, a page that explains it, a bad and a good example, and the search itself."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from vitalsdsl import expressions as ex
from vitalsdsl import rules
from vitalsdsl.diagnostic import Diagnostic, Fix, Severity, in_order
from vitalsdsl.lints.pages import PAGES
from vitalsdsl.lints.silence import silenced
from vitalsdsl.scope import Scope
from vitalsdsl.source import Span


@dataclass(frozen=True)
class Looked:
    """What a lint looks at: a policy without errors, its names, and the rules that tests cover, where that is known."""

    policy: rules.Policy
    scope: Scope
    tested: Mapping[str, set[str]] | None = None

    def enabled(self) -> Iterator[rules.Rule]:
        """The rules that are not disabled."""
        return (r for r in self.policy.of(rules.Rule) if not r.body.disabled)

    @property
    def clauses(self) -> Iterator[tuple[rules.Rule, rules.Clause]]:
        for rule in self.enabled():
            for clause in rule.body.clauses:
                yield rule, clause

    @property
    def expressions(self) -> Iterator[ex.Expression]:
        """Every condition and let, outermost."""
        for statement in self.policy.statements:
            if isinstance(statement, rules.Let):
                yield statement.expression
            elif isinstance(statement, (rules.Event, rules.Phase)):
                yield statement.condition
        for rule, clause in self.clauses:
            yield clause.condition
            clear = rule.body.clear
            if clear is not None and clear.condition is not None and clause is rule.body.clauses[0]:
                yield clear.condition

    def extent(self, node: ex.Expression | None) -> tuple[float, str] | None:
        """A length as size and unit (times in seconds, as `time`), params looked up; None where it is none."""
        if isinstance(node, ex.Name) and node.path in self.scope.params:
            return self.extent(self.scope.params[node.path].value)
        if isinstance(node, ex.Length):
            return node.size, "time" if node.is_time else node.unit
        if isinstance(node, ex.Number) and not node.ratio:
            return node.value, "steps"
        return None

    def value(self, node: ex.Expression) -> float | None:
        """The number that a constant is."""
        if isinstance(node, ex.Number):
            return node.value
        if isinstance(node, ex.Name) and node.path in self.scope.params:
            found = self.scope.params[node.path].value
            return found.value if isinstance(found, ex.Number) else None
        return None

    def every(self, name: str) -> float | None:
        """The declared cadence of a metric, in steps."""
        metric = self.scope.metrics.get(name)
        extent = self.extent(metric.every) if metric is not None else None
        return extent[0] if extent is not None and extent[1] == "steps" else None


class Lint:
    """The base of all lints. The docstring is its page: what it finds, and whose lost week it comes from."""

    code: ClassVar[str]
    severity: ClassVar[Severity] = Severity.WARNING
    bad: ClassVar[str]
    good: ClassVar[str]

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        """What it finds in a policy."""
        raise NotImplementedError

    def found(self, message: str, span: Span, label: str = "", *help_: str, fix: Fix | None = None) -> Diagnostic:
        return Diagnostic(self.code, self.severity, message, span, label, tuple(h for h in help_ if h), fix)


_lints: dict[str, type[Lint]] = {}
_ABSENT = ("base", "pages", "silence")


def lints() -> dict[str, type[Lint]]:
    """All lints by code, from the files of this package."""
    if not _lints:
        package = importlib.import_module("vitalsdsl.lints")
        for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
            if module.name in _ABSENT:
                continue
            for value in vars(importlib.import_module(f"vitalsdsl.lints.{module.name}")).values():
                if isinstance(value, type) and issubclass(value, Lint) and "code" in value.__dict__:
                    _lints[value.code] = value
    return _lints


def run_lints(
    policy: rules.Policy, scope: Scope | None = None, tested: Mapping[str, set[str]] | None = None
) -> list[Diagnostic]:
    """The advice on a policy without errors, less what its comments silence, and what is wrong with those comments."""
    looked = Looked(policy, scope or Scope.of(policy), tested)
    found = [diagnostic for lint in lints().values() for diagnostic in lint().look(looked)]
    return silenced(policy, in_order(found), set(lints()) | set(PAGES))


def explain(code: str) -> str:
    """The page of a code. Raises KeyError where there is none."""
    if code in PAGES:
        return f"{code}\n\n{PAGES[code]}"
    lint = lints()[code]
    page = inspect.getdoc(lint) or ""
    return f"{code}  ({lint.severity.value})\n\n{page}\n\nNot so:\n{_indented(lint.bad)}\n\nBut so:\n{_indented(lint.good)}"


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.strip().splitlines())
