"""What a policy uses, pinned: a change in a used file or pack is refused until somebody has looked at it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.ground.source import Source, Span
from vitalsdsl.language import rules
from vitalsdsl.language.digest import digest
from vitalsdsl.policies.policy_files import refused

CODE = "V077"
VERSION = 1

Used = Mapping[str, tuple[rules.Policy, Span]]
"""What is used, as it is written, with the first `use` that named it."""


def by_name(used: Used, folder: Path) -> dict[str, tuple[rules.Policy, Span]]:
    """What is used by the names that a lock has for it, sorted: `pack:core`, or the path from the policy's folder."""
    top = folder.resolve()
    names = {key if key.startswith("pack:") else Path(key).relative_to(top).as_posix(): key for key in used}
    return {name: used[names[name]] for name in sorted(names)}


def pins(used: Used) -> dict[str, str]:
    """The digest of each used file and pack by itself: looks and comments change none, and what it uses has its own."""
    return {name: digest(policy) for name, (policy, _) in used.items()}


def text(pinned: Mapping[str, str]) -> str:
    """The text of a lock: the same for the same pins, a line for each.

    >>> print(text({"pack:core": "sha256:12"}), end="")
    {
      "lock": 1,
      "uses": {
        "pack:core": "sha256:12"
      }
    }
    """
    return json.dumps({"lock": VERSION, "uses": dict(pinned)}, indent=2, ensure_ascii=False) + "\n"


def check(lock: Source | Diagnostic, used: Used, name: str) -> Iterator[Diagnostic]:
    """What of the pins does not match the lock beside a policy.

    A changed and an unpinned one are errors, at the `use`; a pin of what is no longer used is a warning.
    """
    again = f"look at what changed, then pin it: vitals policy lock {name}"
    if isinstance(lock, Diagnostic):
        yield refused(lock.span.source.name, CODE, f"the lock cannot be used: {lock.message}", again)
        return
    known = _read(lock)
    if isinstance(known, str):
        yield refused(lock.name, CODE, f"{lock.name} {known}", f"write it again: vitals policy lock {name}")
        return
    now = pins(used)
    for pin, (_, place) in used.items():
        if pin not in known:
            yield _finding(Severity.ERROR, f"`{pin}` is used, and the lock does not pin it", place, "not pinned", again)
        elif known[pin] != now[pin]:
            yield _finding(
                Severity.ERROR, f"`{pin}` means something else than when it was locked", place, "changed", again
            )
    for pin in sorted(set(known) - set(now)):
        message = f"the lock pins `{pin}`, which is no longer used"
        yield _finding(Severity.WARNING, message, lock.span(0, 1), "", f"take it out: vitals policy lock {name}")


def _read(lock: Source) -> dict[str, str] | str:
    """The pins of a lock, or what is wrong with it."""
    try:
        data = json.loads(lock.text)
    except (ValueError, RecursionError):
        return "is no lock: it is not JSON"
    uses = data.get("uses") if isinstance(data, dict) else None
    if not isinstance(uses, dict) or not all(isinstance(v, str) for v in uses.values()):
        return "is no lock: it has no `uses`"
    if data.get("lock") != VERSION:
        return f"is of another version ({data.get('lock')!r})"
    return uses


def _finding(severity: Severity, message: str, place: Span, label: str, help_: str) -> Diagnostic:
    return Diagnostic(CODE, severity, message, place, label, (help_,))
