"""Operators, brackets, commas and comments that are spelt as elsewhere."""

from __future__ import annotations

import re

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.quoting import STARTED
from vitalsdsl.ground.words import LEVELS
from vitalsdsl.language.mistakes.place import Place

_SPELLINGS = [
    ("==>", "->"), ("=>", ">="), ("=<", "<="), ("<>", "!="), ("&&", "and"), ("||", "or"), ("≥", ">="), ("≤", "<="),
    ("===", "=="), ("!==", "!="), (">>", ">"), ("<<", "<"), ("- >", "->"), ("–>", "->"), ("—>", "->"), ("⇒", "->"),
    ("≠", "!="), ("→", "->"), ("-->", "->"), ("**", "*"), ("&", "and"), ("|", "or"), ("!", "not"), ("×", "*"), ("−", "-"),
]  # fmt: skip


def operators(p: Place) -> Diagnostic | None:
    near = p.text[max(p.start, p.at - 2) : p.end]
    offset = max(p.start, p.at - 2)
    for wrong, right in _SPELLINGS:
        for shift in range(3):
            if near.startswith(wrong, shift) and shift + len(wrong) > p.at - offset and p.expected:
                if wrong == "=>" and ("ARROW" in p.expected) and not _then_number(p, offset + shift + 2):
                    right = "->"
                return p.error("V005", f"`{wrong}` is not spelt so here", f"write `{right}`",
                               at=offset + shift, length=len(wrong))  # fmt: skip
    if p.rest.startswith("==") and "EQUAL" in p.expected:
        return p.error("V005", "a definition has a single `=`", "write `=`", length=2)
    if p.rest.startswith("=") and "COMPARE" in p.expected:
        return p.error("V005", "`=` defines; a comparison is written `==`", "write `==`",
                       "of numbers that were computed, `>=` or `<=` is safer", length=1)  # fmt: skip
    return None


def _then_number(p: Place, at: int) -> bool:
    return re.match(r"\s*(?:-?\s*[\d(]|[A-Za-z_])", p.text[at : p.end]) is not None and not re.match(
        r"\s*(?:{})\b".format("|".join(LEVELS)), p.text[at : p.end]
    )


def division(p: Place) -> Diagnostic | None:
    if p.rest.startswith("//"):
        return p.error("V024", "a comment begins with `#`", "write `#`", length=2)
    if p.rest.startswith("/*") and re.search(r"\beach\s+[\w./]*$", p.before):
        return p.error("V034", "`each` gives the member a name", "in which family?",
                       f"write `each m in {p.previous[1]}/*`", length=1)  # fmt: skip
    if p.rest.startswith("/*"):
        return p.error("V024", "a comment begins with `#`", "write `#` on each line", length=2)
    if p.rest.startswith("/") and "SLASH" in p.expected:
        return p.error("V025", "division needs white space after the `/`", "write ` / `",
                       "without it `a/b` is the name of a metric", length=1)  # fmt: skip
    if p.rest.startswith("^"):
        return p.error("V025", "there is no `^`", "multiply instead", length=1)
    return None


def brackets(p: Place) -> Diagnostic | None:
    opened: list[tuple[str, int]] = []
    for found in re.finditer(rf"{STARTED}|#[^\n]*|[(){{}}]", p.before):
        if found[0] in ("(", "{"):
            opened.append((found[0], p.start + found.start()))
        elif found[0] in (")", "}") and opened:
            opened.pop()
    char = p.rest[:1]
    if char in (")", "}") and not any(o == {")": "(", "}": "{"}[char] for o, _ in opened):
        return p.error("V022", f"this `{char}` closes nothing", "take it out", length=1)
    if (
        opened
        and opened[-1][0] == "("
        and (p.is_over or char == "}" or p.rest.startswith("->") or p.word in ("for", "when"))
    ):
        if "RPAR" in p.expected:
            return p.error(
                "V022", "a `(` is not closed", "opened here", "close it with `)`", at=opened[-1][1], length=1
            )
    if opened and opened[-1][0] == "{" and p.is_over:
        return p.error("V022", "a `{` is not closed", "opened here", "close it with `}`", at=opened[-1][1], length=1)
    return None


def commas(p: Place) -> Diagnostic | None:
    if p.rest.startswith(","):
        return p.error("V029", "a comma does not belong here", "take it out", length=1)
    if p.rest.startswith(":"):
        at, previous = p.previous
        return p.error("V029", f"a `:` does not belong after `{previous}`", "take it out", length=1)
    return None
