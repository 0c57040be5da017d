"""Whether a pack's tests notice a mutant."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path

from tests.packs.wrongs import Mutant, Reach, mutants
from vitalsdsl.planning.logged import Reads
from vitalsdsl.policies.packs import tests_of_pack
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.runs.sources import events_of
from vitalsdsl.testing import Suite, Test, load_tests, run_test

HOME_OF_SHARED = "core"
"""The pack whose tests hold what all packs share and has no rules of its own."""


class Killer:
    """A pack with its tests: which mutants there are, and which of them some test notices."""

    def __init__(self, pack: str, suite: Suite) -> None:
        self.pack = pack
        self.suite = suite
        self._loaded: dict[tuple[tuple[str, str], ...], LoadedPolicy] = {}
        self._plain = self._policy(None)
        self._reach = Reach(self._plain.policy)
        self.mutants = mutants(self._plain.policy, foreign=pack == HOME_OF_SHARED)

    @classmethod
    def of(cls, pack: str) -> Killer | None:
        """The killer of a pack; None for one without tests."""
        file = tests_of_pack(pack)
        return cls(pack, load_tests(Path(file))) if file is not None else None

    @property
    def state(self) -> str:
        """What the pack and its tests say, in short: another one after each change of either."""
        tests = hashlib.sha256(self.suite.path.read_bytes()).hexdigest()
        return f"{self._plain.digest} {tests}"

    def _policy(self, test: Test | None) -> LoadedPolicy:
        settings = {**self.suite.settings, **(test.settings if test is not None else {})}
        key = tuple(sorted(settings.items()))
        if key not in self._loaded:
            reference = self.suite.beside(self.suite.policy)
            self._loaded[key] = load(reference, settings=settings, profile=self.suite.profile)
        return self._loaded[key]

    def noticed_by(self, mutant: Mutant) -> str | None:
        """The first test that fails with a mutant; None where all pass, so that it survives."""
        tests = [t for t, policy in self._about(mutant) if not self._passes(t, policy, mutant, mutate=True)]
        return tests[0].name if tests else None

    def survives(self, mutant: Mutant) -> bool:
        return all(self._passes(test, policy, mutant, mutate=True) for test, policy in self._about(mutant))

    def passes_unharmed(self, mutant: Mutant) -> bool:
        """Whether the tests pass on what is left of the policy for this mutant, without the wrong: the control."""
        return all(self._passes(test, policy, mutant, mutate=False) for test, policy in self._about(mutant))

    def _about(self, mutant: Mutant) -> Iterator[tuple[Test, LoadedPolicy]]:
        """The tests that feed the rules which a mutant reaches, those that expect one of them first."""
        tests = sorted(self.suite.tests, key=lambda t: not any(e.rule in mutant.rules for e in t.expected))
        for test in tests:
            policy = self._policy(test)
            reads = Reads(self._reach.only(policy.policy, mutant.rules))
            if test.replay is not None or any(reads.takes(name) for name in test.series):
                yield test, policy

    def _passes(self, test: Test, policy: LoadedPolicy, mutant: Mutant, mutate: bool) -> bool:
        whole = mutant.of(policy.policy) if mutate else policy.policy
        left = self._reach.only(whole, mutant.rules)
        own = dataclasses.replace(test, expected=tuple(e for e in test.expected if e.rule in mutant.rules))
        result = run_test(self.suite, own, dataclasses.replace(policy, policy=left), events_of)
        return result.passed
