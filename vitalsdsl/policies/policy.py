"""Load: from a rule file to a policy that can be evaluated, or to findings that say what is wrong with it."""

from __future__ import annotations

import datetime
import importlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vitalsdsl.acting.provisions import Provisions
from vitalsdsl.checker import check
from vitalsdsl.ground.diagnostic import Diagnostic, in_order
from vitalsdsl.ground.errors import PolicyError, VitalsError
from vitalsdsl.ground.source import Locator, Source, is_yaml
from vitalsdsl.ground.uncollected import uncollected
from vitalsdsl.language import rules
from vitalsdsl.language.digest import digest
from vitalsdsl.language.parser import parse_expression
from vitalsdsl.language.renaming import replaced
from vitalsdsl.lints.base import KnownChannels, run_lints
from vitalsdsl.policies import lock
from vitalsdsl.policies.bundle import file_name, flattened, with_names_written
from vitalsdsl.policies.merging import Merge
from vitalsdsl.policies.policy_files import parse_any
from vitalsdsl.policies.references import Opened, near, opened
from vitalsdsl.policies.vocabulary import without_unnamed

if TYPE_CHECKING:
    from vitalsdsl.lints.runs import Tries

logger = logging.getLogger("vitalsdsl")

_told: set[tuple[str, ...]] = set()
"""What has been told of policies in this process."""


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy ready for use: everything that it uses brought in, params set, rules named, and free of errors.

    `text` is its own file as it was read. `is_whole`: that text by itself means the same, now and later. `noted_digest`
    is what was written down beside the policy where it is kept, such as on the run that it watched; empty where nothing
    was. `used` are the files and packs that it uses, by the names that a lock has for them.
    """

    policy: rules.Policy
    name: str
    text: str
    reference: str
    sources: tuple[Source, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = field(default=())
    file: str = "policy.vitals"
    is_whole: bool = False
    noted_digest: str = ""
    noted_commit: str = ""
    used: lock.Used = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """The fingerprint of what it means: `sha256:…`."""
        return digest(self.policy)

    @cached_property
    def bundle(self) -> str:
        """The policy as one text of the vitals language that stands alone: its digest, rule names and verdicts are
        those of this policy, without the files, packs, params and profile that it was loaded with. It is the author's
        own text where that stands alone."""
        return self.text if self.is_whole else flattened(self.policy, self.file)

    def copy_for_run(self) -> str:
        """The bundle, for a run that is watched whatever can be kept of its policy: if it cannot be made, which is a
        fault of ours, that is logged, and it is the policy's own file."""
        try:
            return self.bundle
        except VitalsError as error:
            logger.warning("vitals: of the policy only its own file is kept with runs: %s", error)
            return self.text

    @property
    def commit(self) -> str:
        """The git commit that the policy is of, with `-dirty` where one of its files differs from it; empty where it is
        in no repository. It is asked for now."""
        files = [s.name for s in self.sources if not s.name.startswith("pack:")]
        return self.noted_commit or (_commit_of(files) if files and files[0] == self.reference else "")

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
    """A policy from a `.vitals` or YAML file, or whatever else `references.opened` knows: `pack:NAME`, `FILE@REVISION`,
    `git+https://…`, `mlflow:RUN_ID`; or from `text` (then `reference` is its name).

    `settings` set params, over those of `profile`. Raises PolicyError where it means nothing: its text shows all errors,
    its `diagnostics` are data. Errors that lints find, such as a rule that can never fire, are logged once, as a warning of
    the logger `vitalsdsl`; what else they advise is in `diagnostics`, and `vitals check` tells it.

    >>> load("p", text="when loss > 3 -> orange").policy.statements[0].name
    'loss_orange'
    >>> load("p", text="when loss > 3 -> orannge")
    Traceback (most recent call last):
    vitalsdsl.ground.errors.PolicyError: ...
    """
    loaded, diagnostics = read(reference, text=text, settings=settings, profile=profile)
    if loaded is None:
        raise PolicyError(diagnostics)
    _tell_of_errors(loaded)
    return loaded


def _tell_of_errors(loaded: LoadedPolicy) -> None:
    """Say which rules cannot do what they were written for. The policy means something, so it is used: a training that is
    to be watched, or a run that is judged again by its own copy, must not fail for a lint that is newer than its policy."""
    errors = tuple(found.render() for found in loaded.diagnostics if found.is_error)
    if errors and errors not in _told:
        _told.add(errors)
        what = "an error" if len(errors) == 1 else f"{len(errors)} errors"
        logger.warning(
            "vitals: `%s` is used as it is, but `vitals check` finds %s in it:\n%s",
            loaded.name, what, "\n\n".join(errors),
        )  # fmt: skip


def as_policy(
    policy: str | os.PathLike[str] | LoadedPolicy,
    settings: Mapping[str, object] | None = None,
    profile: str | None = None,
) -> LoadedPolicy:
    """A policy that was loaded, or is loaded now. Raises PolicyError."""
    return policy if isinstance(policy, LoadedPolicy) else load(policy, settings=settings, profile=profile)


def read(
    reference: str | os.PathLike[str],
    *,
    text: str | None = None,
    settings: Mapping[str, object] | None = None,
    profile: str | None = None,
    tested: Mapping[str, set[str]] | None = None,
    today: datetime.date | None = None,
    locked: bool = True,
    channels: KnownChannels | None = None,
    tries: Tries | None = None,
) -> tuple[LoadedPolicy | None, list[Diagnostic]]:
    """A policy if it means something, and all findings, which are told to nobody. What lints find, grave or not, does not
    keep a policy from being used. `tested` are the rules that tests cover, where they are known; `channels` says which channels
    there are, for a policy that names one; `tries` what recorded runs say of it. Unless it is to be `locked`, a lock beside the policy is not looked at."""
    name = os.fspath(reference)
    if text is not None:
        reading = _Reading(name, Opened(Source(name, text), name), locked, channels, tries)
        return reading.run(settings or {}, profile, tested, today)
    with opened(name) as found:
        if isinstance(found, Diagnostic):
            return None, [found]
        return _Reading(name, found, locked, channels, tries).run(settings or {}, profile, tested, today)


class _Reading:
    """One policy on its way from its text."""

    def __init__(
        self, reference: str, found: Opened, locked: bool, channels: KnownChannels | None, tries: Tries | None
    ) -> None:
        self.reference = reference
        self.found = found
        self.locked = locked
        self.channels = channels
        self.tries = tries

    def run(
        self,
        settings: Mapping[str, object],
        profile: str | None,
        tested: Mapping[str, set[str]] | None,
        today: datetime.date | None,
    ) -> tuple[LoadedPolicy | None, list[Diagnostic]]:
        found = self.found
        merge, policy, is_whole, used = self._meant(settings, profile, today or datetime.date.today())
        problems = merge.diagnostics
        if any(d.is_error for d in problems):
            return None, in_order(problems)
        whole = with_names_written(without_unnamed(policy))
        runs = self.tries(whole) if self.tries is not None else None
        with uncollected():
            problems = in_order([*problems, *run_lints(policy, tested=tested, channels=self.channels, runs=runs)])
            title = whole.name or Path(found.file).name.split(".")[0] or "policy"
            loaded = LoadedPolicy(
                whole, title, found.source.text, self.reference, tuple(merge.sources), tuple(problems),
                file_name(found.file), is_whole, found.digest, found.commit, used,
            )  # fmt: skip
        return loaded, problems

    @uncollected()
    def _meant(
        self, settings: Mapping[str, object], profile: str | None, today: datetime.date
    ) -> tuple[Merge, rules.Policy, bool, lock.Used]:
        """The policy with all that it uses, checked; whether its text alone means the same; and what it uses."""
        found, source = self.found, self.found.source
        parsed = parse_any(source)
        merge = Merge(found.folder, list(parsed.diagnostics), known=found.known)
        key = str((found.folder / Path(found.file).name).resolve()) if found.folder is not None else self.reference
        policy = merge.merge(parsed, (key,), found.folder)
        used = lock.by_name(merge.used, found.folder) if found.folder is not None else merge.used
        if self.locked and found.lock is not None:
            merge.diagnostics += lock.check(found.lock, used, self.reference)
        policy = _with_settings(merge, policy, settings, profile)
        is_whole = not (merge.used or settings or profile is not None or _has_dates(policy) or is_yaml(source.name))
        policy = merge.apply_changes(policy, today)
        merge.diagnostics += check(policy, frozenset(merge.broken))
        merge.diagnostics += Provisions(policy).diagnostics
        return merge, policy, is_whole, used


def _commit_of(files: list[str]) -> str:
    """What asks git is loaded once somebody asks."""
    commit: str = importlib.import_module("vitalsdsl.policies.git").commit_of(*files)
    return commit


def _has_dates(policy: rules.Policy) -> bool:
    """Whether the policy will mean something else on another day."""
    return any(disable.until is not None for disable in policy.of(rules.Disable))


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
            hint = near(profile, names) or (f"it has {', '.join(names)}" if names else "")
            lacks = f"has no profile `{profile}`" if names else "defines no profiles"
            asked = Source(f"--profile {profile}", "", is_argument=True).span(0, 0)
            merge.error("V311", f"`{policy.source.name}` {lacks}", asked, "", hint)
        else:
            said = len(merge.diagnostics)
            statements = merge.set_params(statements, found.settings, place)
            del merge.diagnostics[said:]  # the checker says what is wrong with a profile, taken or not
    for name, value in settings.items():
        text = str(value)
        given = Source(f"--set {name}={text}", text, is_argument=True)
        parsed, problems = parse_expression(text, Locator(given), start="value")
        if parsed is None or problems:
            merge.error(
                "V312", f"`{text}` is no value for `{name}`", given.span(0, len(text)), "", "write a number or a length"
            )
        else:
            values.append(rules.Setting.build(given.span(0, len(text)), name=name, value=parsed))
    return replaced(policy, statements=tuple(merge.set_params(statements, values, place)))
