"""What a form of the language is: one text in one file, found by its file. Adding one needs no edit anywhere else."""

from __future__ import annotations

import functools
import importlib
import re
from dataclasses import dataclass

EXAMPLE = "In a rule:"


@dataclass(frozen=True)
class Form:
    """A piece of a rule that is no function: `missing x for D`. `signature` is how it is written, several ways with a
    comma between them; `page` what it means; `example` a whole rule that uses it."""

    name: str
    signature: str
    page: str
    example: str

    def has_words(self, words: list[str]) -> bool:
        """Whether all of these are words of how it is written: `is nan`, `within`."""
        return set(words) <= set(re.findall(r"[a-z]+", self.signature))


@functools.cache
def forms() -> dict[str, Form]:
    """All forms by name, from the files of this package.

    >>> forms()["missing"].signature
    'missing x for D'
    """
    resources = importlib.import_module("importlib.resources")
    files = resources.files(__name__.rpartition(".")[0]).iterdir()
    texts = {file.name.removesuffix(".txt"): file.read_text("utf-8") for file in files if file.name.endswith(".txt")}
    return {name: _read(name, texts[name]) for name in sorted(texts)}


def _read(name: str, text: str) -> Form:
    signature, _, rest = text.partition("\n")
    page, _, example = rest.partition(EXAMPLE)
    return Form(name, signature.strip(), page.strip(), example.strip())


def find(asked: str) -> list[Form]:
    """The form of that name, or those that are written with these words.

    >>> [form.name for form in find("is nan")], [form.name for form in find("within")], find("maen")
    (['is'], ['then'], [])
    """
    known = forms()
    if asked in known:
        return [known[asked]]
    words = re.findall(r"[a-z]+", asked.lower())
    return [form for form in known.values() if form.has_words(words)] if words else []
