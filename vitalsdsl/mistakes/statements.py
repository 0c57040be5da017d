"""Words that begin no statement and no part of a rule, and statements that lack a part."""

from __future__ import annotations

import difflib
import re

from vitalsdsl.diagnostic import Diagnostic
from vitalsdsl.mistakes.names import two_names
from vitalsdsl.mistakes.place import FORMS, WORD, Place, is_name, keyword
from vitalsdsl.words import LEVELS, RESERVED, RULE_PARTS, STATEMENTS

_OTHER_STATEMENTS = {"import": "use", "include": "use", "from": "use", "var": "let", "define": "let", "const": "param",
                     "set": "param", "threshold": "param", "alias": "metric", "tag": "level", "silence": "disable"}  # fmt: skip


def keywords(p: Place) -> Diagnostic | None:
    """A word where a statement, or a part of a rule, begins."""
    word = p.word
    if not WORD.match(p.rest):
        return None
    top = "RULE" in p.expected and "METRIC" in p.expected
    part = "COOLDOWN" in p.expected or "CLEAR" in p.expected
    if not (top or part) or "NAME" in p.expected:
        return None
    words = STATEMENTS if top else RULE_PARTS
    if word.lower() in words:
        return p.error("V027", f"`{word}` is written in small letters", f"write `{word.lower()}`")
    if word in ("if", "alert", "alarm", "where", "unless", "rule_when", "on"):
        return p.error("V027", f"a rule begins with `when`, not `{word}`", "write `when CONDITION -> LEVEL`")
    if word in ("for", "after", "do", "each", "within"):
        whole = {"for": "when CONDITION for 20 steps -> LEVEL", "each": "rule NAME each m in FAMILY { … }",
                 "within": "when (A then B within 100 steps) -> LEVEL"}.get(word, f"when CONDITION -> LEVEL {word} …")  # fmt: skip
        return p.error("V027", f"`{word}` begins no {'statement' if top else 'part of a rule'}", "what does it belong to?",
                       f"write `{whole}`")  # fmt: skip
    if word.lower() in ("and", "or", "not", "AND", "OR"):
        return p.error("V027", f"`{word}` has no condition to join", "is a part missing before it?")
    if word == "then":
        return None
    inside = top and word in RULE_PARTS
    if inside:
        return p.error(
            "V027", f"`{word}` belongs inside a rule", "outside of any `{ … }`", "write `rule NAME { when … }`"
        )
    if top and re.match(r"[^\n]*?[^-][<>]=?\s[^\n]*->", p.rest) and not _near(word, words):
        return p.error(
            "V027", f"`{word}` begins no statement", "a condition?", f"a rule begins with `when`: `when {word} …`"
        )
    near = _near(word, words)
    what = "statement" if top else "part of a rule"
    help_ = f"did you mean `{near[0]}`?" if near else f"a {what} begins with one of: {', '.join(words)}"
    at, previous = p.previous
    if not near and is_name(previous) and previous not in LEVELS and "\n" not in p.text[at : p.at]:
        return two_names(p, at, previous)
    return p.error("V027", f"`{word}` begins no {what}", "not known here", help_)


def _near(word: str, words: list[str]) -> list[str]:
    """The statement, or the part of a rule, that a word may stand for."""
    other = _OTHER_STATEMENTS.get(word.lower())
    return [other] if other in words else difflib.get_close_matches(word.lower(), words, 1, 0.6)


def missing_words(p: Place) -> Diagnostic | None:
    at, previous = p.previous
    here = p.error
    if p.expected == {"WITHIN"} or ("WITHIN" in p.expected and "then" in p.before):
        if p.is_over or p.rest.startswith("->") or p.word in ("for", *STATEMENTS):
            return here(
                "V501",
                "`then` needs a bound",
                "within how long?",
                "write `A then B within 100 steps`",
                at=at,
                length=len(previous),
            )
    if p.expected == {"FOR"} and re.search(r"\bmissing\s+\S+\s*$|\bstalled\s*$", p.before):
        return here(
            "V034",
            "for how long?",
            "`for` is missing",
            "write `stalled for 10 min`" if previous == "stalled" else f"write `missing {previous} for 100 steps`",
            at=at,
            length=len(previous),
        )
    if "EQUAL" in p.expected and len(p.expected) <= 2:
        return here("V034", "an `=` is missing", "here", f"write `{previous} = …`")
    if re.match(r"for\s+each\b", p.rest) and "EACH" in p.expected:
        return here("V029", "no `for` before `each`", "take it out", "write `rule NAME each m in FAMILY { … }`")
    if "LBRACE" in p.expected and "EQUAL" not in p.expected:
        named = re.match(r"[-\w ]*[-\w](?=\s*\{)", p.rest)
        if named and keyword(p) in ("rule", "profile", "override") and not re.match(r"(?:in|each)\b", p.rest):
            name = re.sub(r"\W+", "_", previous + (" " if p.at > at + len(previous) else "") + named[0])
            return here("V028", "a name is one word", "more than that", f"write `{keyword(p)} {name} {{ … }}`",
                        at=at, length=p.at + len(named[0]) - at)  # fmt: skip
        statement = keyword(p) or "rule"
        form = FORMS[statement]
        return here("V034", f"the body of this {statement} is missing", "a `{` should stand here", f"write `{form}`")
    quoted = re.match(r'"([^"\n]*)"', p.rest)
    if quoted and "NAME" in p.expected and "STRING" not in p.expected and "NUMBER" not in p.expected:
        name = re.sub(r"\W+", "_", quoted[1]).strip("_")
        sure = WORD.fullmatch(name) is not None and name.isascii() and name not in RESERVED
        return here("V028", f"the name behind `{previous}` stands without quotes", "a text",
                    f"write `{previous} {name if sure else 'NAME'}`", length=len(quoted[0]))  # fmt: skip
    if previous == "at" and re.match(r"\d", p.rest):
        number = re.match(r"\d+", p.rest)
        return here("V034", "`at` what?", "a bare number", f"write `at step {number[0] if number else 1000}`",
                    length=len(number[0]) if number else 1)  # fmt: skip
    if (
        p.word in ("and", "or")
        and "ARROW" in p.expected
        and re.search(r"\bthen\b.*\bwithin\b[^()]*$", p.before, re.DOTALL)
    ):
        return here("V046", "a sequence inside a condition needs parentheses", "after the sequence",
                    f"write `(A then B within 100 steps) {p.word} …`")  # fmt: skip
    if p.rest.startswith("}") and previous == "{":
        return here(
            "V034",
            "this rule is empty",
            "nothing between the braces",
            "write a `when … -> …` in it",
            at=at,
            length=p.at - at + 1,
        )
    if p.expected == {"FAMILY"}:
        return here("V043", f"`{p.word}` is one metric, not a family", "no `*` in it", f"write `each m in {p.word}/*`")
    if p.rest.startswith("->") and "WHEN" in p.expected and "LEVEL" not in p.expected:
        return here("V018", "nothing leads to this `->`", "no `when` before it", "write `when CONDITION -> LEVEL`",
                    length=2)  # fmt: skip
    if "STRING" in p.expected and not p.expected & {"NAME", "NUMBER"} and not p.is_over:
        found = re.match(r"[^\n{},]*[^\s{},]", p.rest)
        text = found[0] if found else "…"
        asked = f"`{previous}` takes a text" if previous != "=" else "the logged name is a text"
        return here("V020", f"{asked} in double quotes", "no quotes", f'write `"{text}"`', length=len(text))
    if p.expected == {"IN"}:
        return here("V034", "`in` is missing", "here", "write `each m in act/layer_*`")
    if "NUMBER" in p.expected and "NAME" in p.expected and "STRING" in p.expected:
        if p.is_over or p.rest.startswith(("->", "}")) or p.word in ("for", *STATEMENTS):
            what = "condition" if previous in ("when", "not", "and", "or", "=") else "value"
            if not previous:
                return here("V035", "a value is missing", "nothing here")
            return here("V035", f"a {what} is missing after `{previous}`", "after this", at=at, length=len(previous))
        if re.match(r"[<>=!]=?|[*/+,)]", p.rest):
            sign = re.match(r"[<>=!]=?|[*/+,)]", p.rest)
            return here(
                "V035",
                f"`{sign[0] if sign else ''}` has nothing on its left",
                f"after `{previous}`",
                length=len(sign[0]) if sign else 1,
            )
    return None
