"""Load: from a rule file to a policy that can be evaluated, or to findings that say what is wrong with it."""

from __future__ import annotations

import datetime
import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vitalsdsl import rules
from vitalsdsl.builder import Locator
from vitalsdsl.checker import check
from vitalsdsl.diagnostic import Diagnostic, in_order
from vitalsdsl.digest import digest
from vitalsdsl.errors import PolicyError
from vitalsdsl.lints.base import run_lints
from vitalsdsl.merging import Merge
from vitalsdsl.packs import pack, packs
from vitalsdsl.parser import parse_expression
from vitalsdsl.provisions import Provisions
from vitalsdsl.reading import parse_any, read_file, refused
from vitalsdsl.renaming import replaced
from vitalsdsl.source import Source


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy ready for use: everything that it uses brought in, params set, rules named, and free of errors."""

    policy: rules.Policy
    digest: str
    name: str
    text: str
    reference: str
    sources: tuple[Source, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = field(default=())

    @property
    def axis(self) -> str | None:
        """The logged metric that is the step axis, where the policy names one."""
        return next((s.metric for s in self.policy.of(rules.Axis)), None)


def load(
    reference: str | os.PathLike[str],
    *,
    text: str | None = None,
    settings: Mapping[str, object] | None = None,
    profile: str | None = None,
) -> LoadedPolicy:
    """A policy from a `.vitals` or YAML file, from `pack:NAME`, or from `text` (then `reference` is its name).

    `settings` set params, over those of `profile`. Raises PolicyError where it has errors: its text shows them all, its
    `diagnostics` are data.

    >>> load("p", text="when loss > 3 -> orange").policy.statements[0].name
    'loss_orange'
    >>> load("p", text="when loss > 3 -> orannge")
    Traceback (most recent call last):
    vitalsdsl.errors.PolicyError: ...
    """
    loaded, diagnostics = read(reference, text=text, settings=settings, profile=profile)
    if loaded is None:
        raise PolicyError(diagnostics)
    return loaded


def read(
    reference: str | os.PathLike[str],
    *,
    text: str | None = None,
    settings: Mapping[str, object] | None = None,
    profile: str | None = None,
    tested: Mapping[str, set[str]] | None = None,
    today: datetime.date | None = None,
) -> tuple[LoadedPolicy | None, list[Diagnostic]]:
    """A policy if it means something, and all findings. What lints find, grave or not, is advice: it does not keep a
    policy from being used. `tested` are the rules that tests cover, where they are known."""
    name = os.fspath(reference)
    source = Source(name, text) if text is not None else _source(name)
    if isinstance(source, Diagnostic):
        return None, [source]
    parsed = parse_any(source)
    folder = None if text is not None or name.startswith("pack:") else Path(name).parent
    merge = Merge(folder, list(parsed.diagnostics))
    policy = merge.merge(parsed, (str(Path(name).resolve()),) if folder is not None else (name,), folder)
    policy = _with_settings(merge, policy, settings or {}, profile)
    policy = merge.apply_changes(policy, today or datetime.date.today())
    found = merge.diagnostics
    found += check(policy, frozenset(merge.broken))
    found += Provisions(policy).diagnostics
    if any(d.is_error for d in found):
        return None, in_order(found)
    found = in_order([*found, *run_lints(policy, tested=tested)])
    title = policy.name or Path(name).name.split(".")[0] or "policy"
    loaded = LoadedPolicy(policy, digest(policy), title, source.text, name, tuple(merge.sources), tuple(found))
    return loaded, found


def _source(name: str) -> Source | Diagnostic:
    if name.startswith("pack:"):
        known = packs()
        listed = ", ".join(f"`{n}`" for n in known) or "none"
        hint = _near(name.removeprefix("pack:"), known) or f"installed packs: {listed}"
        return pack(name.removeprefix("pack:")) or refused(
            name, "V070", f"no pack called `{name[5:]}` is installed", hint
        )
    return read_file(name)


def _with_settings(
    merge: Merge, policy: rules.Policy, settings: Mapping[str, object], profile: str | None
) -> rules.Policy:
    statements = list(policy.statements)
    values: list[rules.Setting] = []
    place = policy.source.span(0, 0)
    if profile is not None:
        found = next((p for p in policy.of(rules.Profile) if p.name == profile), None)
        if found is None:
            names = [p.name for p in policy.of(rules.Profile)]
            hint = _near(profile, names) or f"profiles: {', '.join(names) or 'none'}"
            merge.error("V311", f"there is no profile `{profile}`", place, "", hint)
        else:
            said = len(merge.diagnostics)
            statements = merge.set_params(statements, found.settings, place)
            del merge.diagnostics[said:]  # the checker says what is wrong with a profile, taken or not
    for name, value in settings.items():
        text = str(value)
        given = Source(f"--set {name}", text)
        parsed, problems = parse_expression(text, Locator(given), start="value")
        if parsed is None or problems:
            merge.error("V312", f"`{text}` is no value for `{name}`", given.span(0, len(text)), "a number or a length")
        else:
            values.append(rules.Setting.build(given.span(0, len(text)), name=name, value=parsed))
    return replaced(policy, statements=tuple(merge.set_params(statements, values, place)))


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean `{near[0]}`?" if near else ""
