"""What is put on a run once, whichever process comes to do it: jobs that are done are noted, and not done again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Protocol

from vitalsdsl.acting.delivery import Job


class Landed(Protocol):
    """What has been done that is to be done once, in words: any set of texts will do. Asked and told from several threads;
    must not raise where it is told."""

    def __contains__(self, what: str, /) -> bool: ...

    def add(self, what: str, /) -> None: ...


def landing(jobs: Iterable[Job], landed: Landed) -> list[Job]:
    """Of these jobs those that have not landed; each says so once it has."""
    return [replace(job, act=partial(_land, job, landed)) for job in jobs if _words(job) not in landed]


def _words(job: Job) -> str:
    return f"{job.port.name}: {job.what}"


def _land(job: Job, landed: Landed) -> object:
    said = job.act()
    landed.add(_words(job))
    return said
