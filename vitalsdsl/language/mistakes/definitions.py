"""The heads and bodies of statements: what they name, the phases they stand in, and the braces behind them."""

from __future__ import annotations

import re

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.quoting import QUOTED, unquoted
from vitalsdsl.ground.words import RESERVED
from vitalsdsl.language.mistakes.place import FORMS, WORD, Place, keyword, masked

_HEAD = re.compile(
    r"\b(?P<what>policy|let|event|phase|param|profile|metric|rule|override|as)\s+(?P<name>[A-Za-z_]\w*)\s*$"
)


def one_word(p: Place) -> Diagnostic | None:
    """`rule my-rule {`, `policy my policy`: a name of several words."""
    head = _HEAD.search(masked(p.before))
    if head is None:
        return None
    what, begin = head["what"], p.start + head.start("name")
    whole = re.match(r"[-.+&\w \t]*[-\w]", p.text[begin : p.end])
    if whole is None or begin + len(whole[0]) <= p.at or re.search(r"\s(?:in|each|when|with|for)\b", whole[0]):
        return None
    name, behind = re.sub(r"\W+", "_", whole[0]), p.text[begin + len(whole[0]) : p.end].lstrip(" \t")[:1]
    ends: str | None
    if what == "policy":
        ends = "" if behind == '"' else f' "{whole[0]}"'
    elif what in ("rule", "profile", "override"):
        ends = " { … }" if behind == "{" else None
    else:
        ends = "" if what == "as" else " = …" if behind == "=" else None
    if ends is None:
        return None
    return p.error("V028", "a name is one word", "more than that", f"write `{what} {name}{ends}`",
                   at=begin, length=len(whole[0]))  # fmt: skip


def quoted_name(p: Place) -> Diagnostic | None:
    """`rule "my rule" {`: the name of a statement stands without quotes."""
    quoted = re.match(QUOTED, p.rest)
    if not quoted or "NAME" not in p.expected or p.expected & {"STRING", "NUMBER"}:
        return None
    what = p.previous[1]
    name = re.sub(r"\W+", "_", unquoted(quoted[0])).strip("_")
    sure = WORD.fullmatch(name) is not None and name.isascii() and name not in RESERVED
    title = f" {quoted[0]}" if what == "policy" and name != unquoted(quoted[0]) else ""
    name = name.lower() if title else name
    return p.error("V028", f"the name behind `{what}` stands without quotes", "a text",
                   f"write `{what} {name if sure else 'NAME'}{title}`", length=len(quoted[0]))  # fmt: skip


def phases(p: Place) -> Diagnostic | None:
    """`in phase not warmup {`, `in warmup {`: a rule is in phases that have names."""
    within = re.search(r"\bin\s+(?P<word>phase\s+)?(?:[\w./]+\s+)?$", masked(p.before))
    if within is None or keyword(p) not in ("rule", "phase") or not re.search(r"\brule\s", p.before):
        return None
    begin = p.start + within.end("word") if within["word"] else p.start + within.start() + len("in")
    written = re.match(r"\s*(?:phase\s+)?([^{}\n]*?)\s*\{", p.text[begin : p.end])
    if written is None or not written[1]:
        return None
    text, at = written[1], begin + written.start(1)
    if within["word"] and not re.fullmatch(r"[\w./]+(?:\s*,\s*[\w./]+)*", text):
        return p.error("V034", "a rule is in phases that have names", "no name",
                       f"define `phase main = {text}`, then write `in phase main`", at=at, length=len(text))  # fmt: skip
    if not within["word"] and "PHASE" in p.expected:
        return p.error("V034", "`phase` is missing after `in`", "in which phase?", f"write `in phase {text}`", at=at,
                       length=len(text))  # fmt: skip
    return None


def bodies(p: Place) -> Diagnostic | None:
    """A `{ … }` that is not there, or has nothing in it."""
    if p.rest.startswith("}") and p.previous[1] == "{":
        return _empty(p)
    if re.match(r"for\s+each\b", p.rest) and "EACH" in p.expected:
        return p.error("V029", "no `for` before `each`", "take it out", "write `rule NAME each m in FAMILY { … }`")
    if "LBRACE" not in p.expected or "EQUAL" in p.expected:
        return None
    what = keyword(p) or "rule"
    form = FORMS[what]
    head = re.search(r"\brule\s+(.*)$", masked(p.before), re.DOTALL)
    if what == "rule" and head is not None:
        clause = re.match(r"[:,=]?\s*(when\b[^\n{}]*[^\s{}])", p.rest)
        written = clause[1] if clause is not None else "when CONDITION -> LEVEL"
        form = f"rule {' '.join(head[1].split())} {{ {written} }}"
    return p.error("V034", f"the body of this {what} is missing", "a `{` should stand here", f"write `{form}`")


def _empty(p: Place) -> Diagnostic:
    at = p.previous[0]
    what = keyword(p) or "rule"
    param = re.search(
        r"\bparam\s+([A-Za-z_]\w*)\s*=\s*(\d[\d.]*%?(?:\s*(?:steps|samples|epochs|tokens|s|min|h|d)\b)?)", p.text
    )
    setting = f"{param[1]} = {param[2]}" if param is not None else "k = 4"
    message, help_ = {
        "profile": ("this profile sets nothing", f"write the params that it sets in it, such as `{setting}`"),
        "override": ("this override changes nothing", "write what it changes in it, such as `cooldown 500 steps`"),
    }.get(what, ("this rule is empty", "write a `when … -> …` in it"))
    return p.error("V034", message, "nothing between the braces", help_, at=at, length=p.at - at + 1)


def equals(p: Place) -> Diagnostic | None:
    """`let gap loss - 2`."""
    if "EQUAL" in p.expected and len(p.expected) <= 2:
        return p.error("V034", "an `=` is missing", "here", f"write `{p.previous[1]} = …`")
    return None


def members(p: Place) -> Diagnostic | None:
    """`each m in act`, `each m act/*`."""
    if p.expected == {"FAMILY"}:
        return p.error(
            "V043", f"`{p.word}` is one metric, not a family", "no `*` in it", f"write `each m in {p.word}/*`"
        )
    if p.expected == {"IN"}:
        return p.error("V034", "`in` is missing", "here", "write `each m in act/layer_*`")
    return None


def texts(p: Place) -> Diagnostic | None:
    """A text that stands without its quotes."""
    if "STRING" not in p.expected or p.expected & {"NAME", "NUMBER"} or p.is_over:
        return None
    previous = p.previous[1]
    found = re.match(r"[^\n{},]*[^\s{},]", p.rest)
    text = found[0] if found else "…"
    asked = f"`{previous}` takes a text" if previous != "=" else "the logged name is a text"
    return p.error("V020", f"{asked} in double quotes", "no quotes", f'write `"{text}"`', length=len(text))


def completed(p: Place) -> str:
    """How a statement goes on that breaks off: what is written, and what lacks; empty where that is not known."""
    written = " ".join(masked(p.before).split())
    for begun, end in (
        (r"disable \S+", ' because "…"'),
        (r"limit [a-z]+ \d\w*", " per 10000 steps"),
        (r"limit [a-z]+", " 3 per 10000 steps"),
        (r"level [a-z]+", " do alert, tag"),
        (r"(?:let|param) \w+", " = 3"),
        (r"(?:event|phase) \w+", " = step > 1000"),
    ):
        if re.fullmatch(begun, written):
            return written + end
    return ""


def reasons(p: Place) -> Diagnostic | None:
    """`disable a "noisy"`: a reason without `because`."""
    reason = re.match(QUOTED, p.rest)
    if p.expected == {"BECAUSE"} and reason is not None:
        written = " ".join(masked(p.before).split())
        return p.error("V034", "`because` is missing before the reason", "here", f"write `{written} because {reason[0]}`",
                       length=len(reason[0]))  # fmt: skip
    return None
