"""How a guard ends a training: the only things that it raises into the loop."""

from __future__ import annotations

PAUSED = 75
"""The exit code of a training that was paused: its state is saved and a person is waited for."""

BROKEN_OFF = 76
"""The exit code of a training whose state in memory was not usable any more: start it again, it resumes from disk."""


class Ended(SystemExit):
    """The base of all of them. Like any SystemExit it ends the process with its code, silently, unless it is caught."""


class Paused(Ended):
    """A pause: the state is saved. Exit code 75."""

    def __init__(self) -> None:
        super().__init__(PAUSED)


class Stopped(Ended):
    """The run was to end: the state is saved. Exit code 0, so that no scheduler starts it again."""

    def __init__(self) -> None:
        super().__init__(0)


class BrokenOff(Ended):
    """The state in memory is of no use any more, since going back failed half-way or a rank is gone. Exit code 76."""

    def __init__(self) -> None:
        super().__init__(BROKEN_OFF)
