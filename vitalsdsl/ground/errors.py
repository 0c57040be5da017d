"""Everything that this package raises on purpose."""

from __future__ import annotations

from collections.abc import Sequence

from vitalsdsl.ground.diagnostic import Diagnostic, in_order, render


class VitalsError(Exception):
    """The base of all of them; its text is one message for people."""


class PolicyError(VitalsError):
    """A policy cannot be used. Raised when one is loaded; carries every finding, rendered as its text."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = in_order(diagnostics)
        super().__init__(render([d for d in self.diagnostics if d.is_error] or self.diagnostics))


class SourceError(VitalsError):
    """A file, run or stream cannot be read as training metrics. Raised by readers, with the place."""


class TrackerError(VitalsError):
    """A tracker does not answer as it should: it is down, slow, or refuses. Raised by what reads and acts from outside.

    Trying again later is right unless it `is_final` (a key that is refused, a project that is not there). `retry_after`
    is how many seconds the tracker itself asks to be left alone, where it says so.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, is_final: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.is_final = is_final


class NotLetIn(TrackerError):
    """The tracker refuses the key, or something else answers at its address. Where we have been let in before, that may
    pass (the key had expired, a gateway was set up wrongly) and is tried again. `is_unknown`: it does not know the key at
    all, unlike one that only may not do this."""

    def __init__(self, message: str, *, is_unknown: bool = False) -> None:
        super().__init__(message, is_final=True)
        self.is_unknown = is_unknown


class NotYet(TrackerError):
    """What is to be watched is not there, and may come: an experiment that a training is about to make."""

    def __init__(self, message: str) -> None:
        super().__init__(message, is_final=True)


class RunGone(TrackerError):
    """A run that was watched is there no longer. Raised by feeds; what was read of it still counts."""

    def __init__(self, message: str) -> None:
        super().__init__(message, is_final=True)


class StateError(VitalsError):
    """Saved rule state does not belong to this policy, or is damaged. Raised when state is restored."""


class UsageError(VitalsError):
    """A call or a command asks for something that does not exist. Raised at once, before any work."""


class MissingExtraError(VitalsError):
    """An optional package is not installed; the text is the command that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'vitalsdsl[{extra}]'")
