"""What is wrong with a sentence that the grammar does not accept, in a reader's words.

Each mistake that people make has one function here; the first that knows the place speaks. They look at the text, not at
the parser's own words.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from lark.exceptions import UnexpectedInput, UnexpectedToken

from vitalsdsl.builder import RESERVED, Locator
from vitalsdsl.diagnostic import Diagnostic, Severity
from vitalsdsl.ops.base import aggregates, registry
from vitalsdsl.source import Span

_FORMS = {
    "policy": 'policy NAME "title"', "use": 'use "REFERENCE" as NAME', "axis": 'axis "logged name"',
    "metric": 'metric NAME = "logged", "or this" every 10 steps', "every": "every 10 steps", "reduce": "reduce mean",
    "stale": "stale after 100 steps", "allow": "allow nonfinite", "unit": 'unit "tok/s"',
    "param": "param NAME = 3 in 1 .. 10", "let": "let NAME = EXPRESSION", "event": "event NAME = CONDITION",
    "phase": "phase NAME = CONDITION", "level": "level orange do alert, tag", "limit": "limit rollback 3 per 10000 steps",
    "nonfinite": "nonfinite -> orange`, or `nonfinite off", "rule": 'rule NAME "title" { when CONDITION -> LEVEL }',
    "override": "override RULE { cooldown 500 steps }", "disable": 'disable RULE because "…"',
    "profile": "profile NAME { p = 3 }", "when": "when CONDITION for 20 steps -> LEVEL",
    "clear": "clear when CONDITION`, or `clear for 20 steps", "cooldown": "cooldown 500 steps", "inhibits": "inhibits RULE",
    "unknown": "unknown hold`, or `unknown reset", "because": 'because "…"', "try": 'try "…", "…"', "owner": 'owner "…"',
    "runbook": 'runbook "…"',
}  # fmt: skip
"""How each statement and each part of one is written."""
_OTHER_STATEMENTS = {"import": "use", "include": "use", "from": "use", "var": "let", "define": "let", "const": "param",
                     "set": "param", "threshold": "param", "alias": "metric", "tag": "level", "silence": "disable"}  # fmt: skip
_JOINED_BY = {"if": "and", "where": "and", "while": "and", "unless": "and not", "but": "and", "except": "and not"}
_ACTIONS = "alert tag pause stop rollback notify checkpoint lr request".split()
STATEMENT_WORDS = (
    "policy use axis metric param let event phase level limit nonfinite rule when override disable profile".split()
)
PART_WORDS = "when clear cooldown inhibits unknown because try owner runbook shadow disabled".split()
LEVELS = "green yellow orange red ok warning critical fatal".split()
_OTHER_LEVELS = {"amber": "yellow", "warn": "yellow", "info": "yellow", "error": "orange", "high": "orange",
                 "alarm": "orange", "panic": "red", "severe": "red", "crit": "orange"}  # fmt: skip
_UNITS = {
    "seconds": "s", "second": "s", "sec": "s", "secs": "s", "minutes": "min", "minute": "min", "mins": "min", "m": "min",
    "hours": "h", "hour": "h", "hrs": "h", "hr": "h", "days": "d", "day": "d", "iters": "steps", "iter": "steps",
    "iterations": "steps", "iteration": "steps", "points": "samples", "point": "samples", "times": "samples",
    "batches": "steps", "updates": "steps", "epoch": "epochs", "token": "tokens", "step": "steps", "rows": "samples",
    "ms": "s", "evaluations": "samples", "evals": "samples", "weeks": "d",
}  # fmt: skip
_KNOWN_UNITS = "steps samples epochs tokens min".split()
_BEFORE_LENGTHS = "for after within before every cooldown apart per stalled".split()
_SPELLINGS = [
    ("==>", "->"), ("=>", ">="), ("=<", "<="), ("<>", "!="), ("&&", "and"), ("||", "or"), ("≥", ">="), ("≤", "<="),
    ("===", "=="), ("!==", "!="), (">>", ">"), ("<<", "<"), ("- >", "->"), ("–>", "->"), ("—>", "->"), ("⇒", "->"),
    ("≠", "!="), ("→", "->"), ("-->", "->"), ("**", "*"), ("&", "and"), ("|", "or"), ("!", "not"), ("×", "*"), ("−", "-"),
]  # fmt: skip
_AFTER_CONDITION = {"for": "for 20 steps", "on": "on METRIC", "within": "within 100 steps"}
"""What people write behind the level, and what it looks like where it belongs."""
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_./]*")
_QUOTES = "'‘’“”„«»`"
_SPELT_OUT = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ø": "o",
                            "æ": "ae", "ł": "l", "µ": "u", "μ": "u", "σ": "sigma", "λ": "lambda", "α": "alpha",
                            "β": "beta", "ε": "epsilon", "θ": "theta", "Δ": "delta"})  # fmt: skip


@dataclass(frozen=True)
class _Place:
    """Where the parser stopped: offsets into the text, what stands there, and what could have stood there."""

    text: str
    start: int
    at: int
    end: int
    expected: frozenset[str]
    locator: Locator

    @property
    def before(self) -> str:
        return self.text[self.start : self.at]

    @property
    def rest(self) -> str:
        return self.text[self.at : self.end]

    @property
    def word(self) -> str:
        found = _WORD.match(self.rest)
        return found[0] if found else self.rest[:1]

    @property
    def is_over(self) -> bool:
        return not self.rest.strip()

    def span(self, at: int, length: int) -> Span:
        last = max(self.start, min(at, self.end - 1))
        return self.locator.span(last, min(self.end, last + max(1, length)))

    def error(
        self, code: str, message: str, label: str, *help_: str, at: int | None = None, length: int = 0
    ) -> Diagnostic:
        place = self.span(self.at if at is None else at, length or len(self.word))
        return Diagnostic(code, Severity.ERROR, message, place, label, tuple(h for h in help_ if h))

    def previous(self) -> tuple[int, str]:
        """The last word before the place, and where it stands."""
        clean = _masked(self.before)
        found = list(re.finditer(r'"[^"\n]*"|[A-Za-z_][\w./]*|\d[\d.]*\w*%?|[^\s\w]+', clean))
        return (self.start + found[-1].start(), found[-1][0]) if found else (self.start, "")


def explain(error: UnexpectedInput, text: str, locator: Locator, start: int = 0, end: int = -1) -> Diagnostic:
    """One finding for one error of the parser over text[start:end]."""
    end = len(text) if end < 0 else end
    at = error.pos_in_stream or start
    expected = frozenset(
        getattr(error, "accepts", None) or getattr(error, "expected", None) or getattr(error, "allowed", ()) or ()
    )
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        at = end
    place = _Place(text, start, at, end, expected, locator)
    for mistake in _MISTAKES:
        found = mistake(place)
        if found is not None:
            return found
    return _fallback(place)


def _masked(text: str) -> str:
    """The text with comments blanked, so that nothing in them is taken for a word."""
    return re.sub(r'("[^"\n]*")|#[^\n]*', lambda m: m[1] or " " * len(m[0]), text)


# -------------------------------------------------------------------- quotes and brackets


def _quotes(p: _Place) -> Diagnostic | None:
    char = p.rest[:1]
    if char == '"':
        line = p.rest.split("\n", 1)[0]
        if '"' not in line[1:]:
            return p.error("V020", "this text is not closed", "no closing quote on this line", 'end it with `"`',
                           length=len(line.rstrip()))  # fmt: skip
    if char and char in _QUOTES:
        inside = re.match(rf"[{_QUOTES}]([^{_QUOTES}\n]*)[{_QUOTES}]?", p.rest)
        text = inside[1] if inside else ""
        return p.error("V021", f"`{char}` is no quote here", "plain double quotes only", f'write `"{text}"`',
                       length=len(inside[0]) if inside else 1)  # fmt: skip
    return None


def _brackets(p: _Place) -> Diagnostic | None:
    opened: list[tuple[str, int]] = []
    for found in re.finditer(r'"[^"\n]*"?|#[^\n]*|[(){}]', p.before):
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


# -------------------------------------------------------------------- letters


def _letters(p: _Place) -> Diagnostic | None:
    """`größe`, `٣`: names and numbers are written in ASCII."""
    at, end = p.at, p.at
    while end < p.end and _is_letter(p.text[end]):
        end += 1
    while at > p.start and _is_letter(p.text[at - 1]):
        at -= 1
    word = p.text[at:end].strip("./")
    if end == p.at or word.isascii():
        return None
    plain = unicodedata.normalize("NFKD", word.translate(_SPELT_OUT)).encode("ascii", "ignore").decode()
    digits = "".join(str(unicodedata.decimal(c, c)) for c in word)
    if re.fullmatch(r"[0-9.]+", digits):
        return p.error("V026", f"`{word}` is not written in the digits 0 to 9", "other digits", f"write `{digits}`",
                       at=at, length=end - at)  # fmt: skip
    name = plain if _WORD.fullmatch(plain) and plain not in RESERVED else ""
    such = f", such as `{name}`" if name else ""
    help_ = f'as a metric name write `"{word}"`'
    if p.text[end : end + 1] in ("*", "{") and name:
        help_ = f'give the family another name: `metric {name}* = "{word}*"`'
    elif re.search(r"(?:->|\d)\s*$", p.text[p.start : at]) or (p.at == at and "RULE" in p.expected):
        help_ = "the words of the language have none"
    elif re.search(r"\b(?:let|event|phase|param|rule|policy|profile|as|each|in phase)\s+$", p.text[p.start : at]):
        help_ = f"choose another name{such}; any text in double quotes can name a metric"
    return p.error("V029", f"`{word}` has letters other than a to z", "only in quotes", help_, at=at, length=end - at)


def _is_letter(char: str) -> bool:
    return char in "._/" or unicodedata.category(char)[0] in "LNM"


# -------------------------------------------------------------------- operators


def _operators(p: _Place) -> Diagnostic | None:
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


def _then_number(p: _Place, at: int) -> bool:
    return re.match(r"\s*(?:-?\s*[\d(]|[A-Za-z_])", p.text[at : p.end]) is not None and not re.match(
        r"\s*(?:{})\b".format("|".join(LEVELS)), p.text[at : p.end]
    )


def _division(p: _Place) -> Diagnostic | None:
    if p.rest.startswith("//"):
        return p.error("V024", "a comment begins with `#`", "write `#`", length=2)
    if p.rest.startswith("/*") and re.search(r"\beach\s+[\w./]*$", p.before):
        return p.error("V034", "`each` gives the member a name", "in which family?",
                       f"write `each m in {p.previous()[1]}/*`", length=1)  # fmt: skip
    if p.rest.startswith("/*"):
        return p.error("V024", "a comment begins with `#`", "write `#` on each line", length=2)
    if p.rest.startswith("/") and "SLASH" in p.expected:
        return p.error("V025", "division needs white space after the `/`", "write ` / `",
                       "without it `a/b` is the name of a metric", length=1)  # fmt: skip
    if p.rest.startswith("^"):
        return p.error("V025", "there is no `^`", "multiply instead", length=1)
    return None


# -------------------------------------------------------------------- numbers and units


def _durations(p: _Place) -> Diagnostic | None:
    at, previous = p.previous()
    if (
        p.rest.startswith("-")
        and "UNIT" not in p.expected
        and re.match(r"-\s*\d", p.rest)
        and previous in _BEFORE_LENGTHS
    ):
        written = re.match(r"-\s*(\d[\d.]*\s*[a-z]*)", p.rest)
        text = written[1].strip() if written else "20 steps"
        return p.error("V048", "a length is never negative", "below nothing", f"write `{text}`", length=1)
    if (
        "UNIT" not in p.expected
        and p.word in (*_UNITS, *_KNOWN_UNITS)
        and _is_name(previous)
        and "NUMBER" not in p.expected
    ):
        before = re.search(r"([a-z]+)\s+\S+\s*$", p.before)
        if before and before[1] in _BEFORE_LENGTHS:
            return p.error("V001", f"`{previous} {p.word}` has no number", "how many?",
                           f"write it in digits, such as `20 {p.word}`; a param that is a length has its unit already",
                           at=at, length=p.at + len(p.word) - at)  # fmt: skip
    number = re.fullmatch(r"\d[\d.]*(?:[eE]\d+)?[kMBT]?", previous)
    if number is None or "UNIT" not in p.expected:
        joined = re.match(r"(\d[\d.]*)([A-Za-z]+)", previous)
        if joined and joined[2] in _UNITS and "UNIT" in p.expected:
            return _unit(p, at, joined[1], joined[2], len(previous))
        return None
    if p.word.lower() in _UNITS:
        return _unit(p, p.at, previous, p.word, len(p.word))
    near = difflib.get_close_matches(p.word.lower(), [*_KNOWN_UNITS, *_UNITS], 1, 0.7) if _is_name(p.word) else []
    if near and len(p.word) > 2:
        unit = _UNITS.get(near[0], near[0])
        return p.error("V001", f"`{p.word}` is no unit", "unknown unit", f"did you mean `{previous} {unit}`?")
    if "COMPARE" in p.expected and "FOR" in p.expected:
        return None
    return Diagnostic(
        "V001", Severity.ERROR, "a duration needs a unit", p.span(at, len(previous)), f"{previous} what?",
        (f"write `{previous} steps`; also possible: `{previous} samples` (logged points), `{previous} min`",),
    )  # fmt: skip


def _unit(p: _Place, at: int, number: str, word: str, length: int) -> Diagnostic:
    unit = _UNITS[word.lower()]
    text = f"write `{number} {unit}`"
    if word == "ms":
        text = "times are in `s`, `min`, `h` or `d`"
    if word == "weeks":
        text = f"write `{float(number) * 7:g} d`"
    return p.error("V001", f"`{word}` is no unit here", "unknown unit", text, at=at, length=length)


def _numbers(p: _Place) -> Diagnostic | None:
    fraction = re.match(r"\.\d+", p.rest)
    if fraction:
        return p.error("V026", "a number begins with a digit", f"write `0{fraction[0]}`", length=len(fraction[0]))
    at, previous = p.previous()
    if re.fullmatch(r"\d+", previous) and re.match(r",\d{3}\b", p.rest):
        digits = previous + p.rest[1:4]
        return p.error(
            "V026", "a number has no thousands separator", f"write `{digits}`", at=at, length=len(previous) + 4
        )
    if re.fullmatch(r"\d[\d.]*", previous):
        follows = p.at == at + len(previous)
        if follows and re.match(r"_\d", p.rest):
            return p.error(
                "V026", "a number has no thousands separator", "leave out the `_`", at=at, length=len(previous) + 2
            )
        if p.rest.startswith("%"):
            return p.error(
                "V026", "the percent sign stands at its number", f"write `{previous}%`", at=at, length=p.at - at + 1
            )
        if follows and _WORD.match(p.rest):
            return p.error("V026", f"`{previous}{p.word}` is no number", f"write `{previous} * {p.word}`", at=at,
                           length=len(previous) + len(p.word))  # fmt: skip
    return None


# -------------------------------------------------------------------- words


def _levels(p: _Place) -> Diagnostic | None:
    if "LEVEL" not in p.expected or "NAME" in p.expected:
        return None
    word = p.word.lower()
    if p.is_over or not _WORD.match(p.rest):
        return p.error("V023", "a level is missing after `->`", "yellow, orange or red")
    if word in _ACTIONS:
        return p.error("V023", f"`{p.word}` is an action, not a level", "a level first", f"write `-> yellow do {word}`")
    if word == "off" and re.search(r"\bnonfinite\s*->\s*$", p.before):
        return p.error("V023", "`off` is no level", "without the arrow", "write `nonfinite off`")
    near = [_OTHER_LEVELS[word]] if word in _OTHER_LEVELS else difflib.get_close_matches(word, LEVELS, 1)
    help_ = f"did you mean `{near[0]}`?" if near else ""
    return p.error("V023", f"there is no level `{p.word}`", "yellow, orange or red", help_)


def _keywords(p: _Place) -> Diagnostic | None:
    """A word where a statement, or a part of a rule, begins."""
    word = p.word
    if not _WORD.match(p.rest):
        return None
    top = "RULE" in p.expected and "METRIC" in p.expected
    part = "COOLDOWN" in p.expected or "CLEAR" in p.expected
    if not (top or part) or "NAME" in p.expected:
        return None
    words = STATEMENT_WORDS if top else PART_WORDS
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
    inside = top and word in PART_WORDS
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
    at, previous = p.previous()
    if not near and _is_name(previous) and previous not in LEVELS and "\n" not in p.text[at : p.at]:
        return _two_names(p, at, previous)
    return p.error("V027", f"`{word}` begins no {what}", "not known here", help_)


def _near(word: str, words: list[str]) -> list[str]:
    """The statement, or the part of a rule, that a word may stand for."""
    other = _OTHER_STATEMENTS.get(word.lower())
    return [other] if other in words else difflib.get_close_matches(word.lower(), words, 1, 0.6)


def _keyword(p: _Place) -> str:
    """The statement, or the part of one, in which the place stands."""
    found = [w for w in re.findall(r'"[^"\n]*"|[a-z_]+', _masked(p.before)) if w in _FORMS]
    return found[-1] if found else ""


def _is_name(text: str) -> bool:
    return _WORD.fullmatch(text) is not None and text not in RESERVED


def _two_names(p: _Place, at: int, previous: str) -> Diagnostic:
    pair = f"{previous} {p.word}"
    return p.error("V028", f"`{pair}` reads as two names", "which one?", f'if it is one metric, write `"{pair}"`',
                   at=at, length=p.at + len(p.word) - at)  # fmt: skip


def _names(p: _Place) -> Diagnostic | None:
    at, previous = p.previous()
    char = p.rest[:1]
    if p.word in _JOINED_BY and "COMPARE" in p.expected and "ARROW" in p.expected:
        return p.error("V027", f"`{p.word}` joins no conditions", "not known here", f"write `{_JOINED_BY[p.word]}`")
    between = re.match(r"(?:between|in)\s+(\S+?)\s*(?:and|\.\.|,)\s*(\S+)", p.rest)
    if between and "COMPARE" in p.expected and _is_name(previous):
        return p.error("V005", f"`{p.word}` is not spelt so here", "a range",
                       f"write `{between[1]} < {previous} < {between[2]}`")  # fmt: skip
    if previous in ("and", "or") and _WORD.match(p.rest) and "COMPARE" in p.expected and p.word not in RESERVED:
        return p.error("V035", f"a condition is missing before `{previous}`", "nothing before this",
                       "take it out, or write the condition", at=at, length=len(previous))  # fmt: skip
    if p.word in _AFTER_CONDITION and previous in LEVELS:
        return p.error("V027", f"`{p.word}` comes before the `->`", "too late here",
                       f"write `when CONDITION {_AFTER_CONDITION[p.word]} -> {previous}`")  # fmt: skip
    if previous in _ACTIONS and p.word in _ACTIONS:
        return p.error("V034", f"no comma between `{previous}` and `{p.word}`", "a second action",
                       f"write `{previous}, {p.word}`")  # fmt: skip
    if "COMPARE" in p.expected and _is_name(previous) and (previous in registry() or previous in aggregates()):
        if re.match(r"[\w\"]", p.rest) and p.word not in RESERVED:
            return p.error("V033", f"what `{previous}` is about stands in parentheses", "no `(` before this",
                           f"write `{previous}({p.rest.split()[0]} …)`")  # fmt: skip
    if char in ("@", "$", "?", "\\", "~", ";", "["):
        if char == ";":
            return p.error("V029", "statements are not ended by `;`", "take it out", length=1)
        if char == "[" and "NUMBER" in p.expected and "STRING" not in p.expected:
            return None
        if char == "[":
            return p.error(
                "V029",
                "there is no `[…]` here",
                "name a window in a function",
                "such as `mean(loss, 10 samples)`",
                length=1,
            )
        return p.error(
            "V029", f"`{char}` stands in no name", "not known here", 'write such a metric in quotes: `"…"`', length=1
        )
    if _WORD.match(p.rest) and _WORD.fullmatch(previous) and previous.lower() not in RESERVED | set(LEVELS):
        capital = p.word.lower() in ("and", "or", "not", "for", "then", "is", "on", "before", "within", "at")
        if capital and p.word != p.word.lower():
            return p.error("V027", f"`{p.word}` is written in small letters", f"write `{p.word.lower()}`")
        if "COMPARE" in p.expected and p.word not in RESERVED:
            return _two_names(p, at, previous)
    if re.match(r"[A-Z]\w*\(", p.rest):
        name = p.word
        return p.error("V033", "functions are written in small letters", f"write `{name.lower()}(`")
    if p.rest.startswith("(") and _WORD.fullmatch(previous):
        if previous[0].isupper():
            return p.error(
                "V033",
                "functions are written in small letters",
                f"write `{previous.lower()}(`",
                at=at,
                length=len(previous),
            )
        if p.at > at + len(previous):
            return p.error(
                "V033",
                "`(` stands right behind the function's name",
                f"write `{previous}(`",
                at=at,
                length=p.at - at + 1,
            )
    if (
        re.match(r"\d", p.rest)
        and _WORD.fullmatch(previous)
        and previous.lower() not in RESERVED
        and "COMPARE" in p.expected
    ):
        return p.error("V028", f"`{previous} {p.word}` needs something between", "an operator, or parentheses",
                       f"such as `{previous} > {p.rest.split()[0]}`", at=at, length=p.at + 1 - at)  # fmt: skip
    return None


def _reserved(p: _Place) -> Diagnostic | None:
    word = p.word
    if word in RESERVED and ("NAME" in p.expected or "STRING" in p.expected) and "NUMBER" in p.expected:
        at, previous = p.previous()
        if previous in ("when", "and", "or", "not", "(", "=", "<", ">", ">=", "<=", "+", "-", "*", "/", ","):
            after = p.rest[len(word) :].lstrip()
            if re.match(r"[<>=!+*/-]|is\b", after):
                return p.error(
                    "V006", f"`{word}` is a word of the language", "reserved", f'as a metric name write `"{word}"`'
                )
    return None


# -------------------------------------------------------------------- what is missing


def _arrow(p: _Place) -> Diagnostic | None:
    if "ARROW" not in p.expected:
        return None
    at, previous = p.previous()
    begins = p.word in STATEMENT_WORDS + PART_WORDS or p.rest.startswith("}") or p.is_over
    if begins:
        return p.error("V018", "this `when` leads to no level", "ends here", "add `-> yellow`, `-> orange` or `-> red`",
                       at=at, length=len(previous))  # fmt: skip
    if p.word.lower() in LEVELS:
        return p.error("V018", "an arrow leads to a level", f"write `-> {p.word.lower()}`")
    if p.rest.startswith(">") or p.rest.startswith(":"):
        return p.error("V018", f"`{p.rest[:1]}` is no arrow", "write `->`", length=1)
    return None


def _small_letters(p: _Place) -> Diagnostic | None:
    """`AND`, `is NaN`: words of the language are written small."""
    word = p.word.lower()
    small = word in RESERVED or word in ("nan", "inf", "finite", *LEVELS)
    if p.word != word and small and word.upper() in p.expected and "NUMBER" not in p.expected:
        return p.error("V027", f"`{p.word}` is written in small letters", f"write `{word}`")
    if p.word != word and word in ("nan", "inf", "finite") and "STATE" in p.expected:
        return p.error("V027", f"`{p.word}` is written in small letters", f"write `{word}`")
    if "STATE" in p.expected and re.search(r"\bis(\s+not)?\s*$", p.before):
        return p.error("V034", f"`{p.word}` is nothing that a metric can be", "`nan`, `inf` or `finite`",
                       "other comparisons are written `>`, `<`, `==`")  # fmt: skip
    return None


def _broken_arrow(p: _Place) -> Diagnostic | None:
    """`loss > -> red`: what the minus of an arrow was taken for."""
    if p.rest.startswith(">") and p.text[p.at - 1 : p.at] == "-" and p.at > p.start:
        at, previous = _Place(p.text, p.start, p.at - 1, p.end, p.expected, p.locator).previous()
        return p.error("V035", f"a value is missing after `{previous}`", "after this", at=at, length=len(previous))
    of = re.search(r"(\d+)\s+of\s+(\d+)\s*$", p.before)
    if of and "SAMPLES" in p.expected:
        return p.error("V001", f"`{of[0].strip()}` of what?", f"{of[2]} what?", f"write `{of[0].strip()} samples`",
                       at=p.start + of.start(), length=len(of[0].rstrip()))  # fmt: skip
    return None


def _missing_words(p: _Place) -> Diagnostic | None:
    at, previous = p.previous()
    here = p.error
    if p.expected == {"WITHIN"} or ("WITHIN" in p.expected and "then" in p.before):
        if p.is_over or p.rest.startswith("->") or p.word in ("for", *STATEMENT_WORDS):
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
        if named and _keyword(p) in ("rule", "profile", "override") and not re.match(r"(?:in|each)\b", p.rest):
            name = re.sub(r"\W+", "_", previous + (" " if p.at > at + len(previous) else "") + named[0])
            return here("V028", "a name is one word", "more than that", f"write `{_keyword(p)} {name} {{ … }}`",
                        at=at, length=p.at + len(named[0]) - at)  # fmt: skip
        keyword = _keyword(p) or "rule"
        form = _FORMS[keyword]
        return here("V034", f"the body of this {keyword} is missing", "a `{` should stand here", f"write `{form}`")
    quoted = re.match(r'"([^"\n]*)"', p.rest)
    if quoted and "NAME" in p.expected and "STRING" not in p.expected and "NUMBER" not in p.expected:
        name = re.sub(r"\W+", "_", quoted[1]).strip("_")
        sure = _WORD.fullmatch(name) is not None and name.isascii() and name not in RESERVED
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
        if p.is_over or p.rest.startswith(("->", "}")) or p.word in ("for", *STATEMENT_WORDS):
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


def _commas(p: _Place) -> Diagnostic | None:
    if p.rest.startswith(","):
        return p.error("V029", "a comma does not belong here", "take it out", length=1)
    if p.rest.startswith(":"):
        at, previous = p.previous()
        return p.error("V029", f"a `:` does not belong after `{previous}`", "take it out", length=1)
    return None


def _fallback(p: _Place) -> Diagnostic:
    at, previous = p.previous()
    form = _FORMS.get(_keyword(p))
    form = f"it is written `{form}`" if form else ""
    if p.is_over:
        return p.error("V036", "the sentence is not complete", "ends here", form, at=at, length=len(previous))
    shown = p.word if _WORD.match(p.rest) else p.rest[:1]
    after = f" after `{previous}`" if previous else ""
    return p.error("V000", f"`{shown}` does not fit here{after}", "not expected", _could(p) or form)


def _could(p: _Place) -> str:
    kinds = [
        ({"NUMBER", "NAME", "STRING"}, "a metric, a number or a function"),
        ({"COMPARE"}, "a comparison such as `> 3`"),
        ({"ARROW"}, "`-> LEVEL`"),
        ({"RPAR"}, "`)`"),
        ({"NUMBER", "PERCENT", "MINUS"}, "a number such as `3` or `30%`, or a length such as `20 steps`"),
        ({"STRING"}, 'a text in `"…"`'),
        ({"NAME"}, "a name"),
    ]
    said = [text for needs, text in kinds if needs <= p.expected]
    return f"what could stand here: {', '.join(said[:3])}" if said else ""


_MISTAKES: tuple[Callable[[_Place], Diagnostic | None], ...] = (
    _quotes,
    _letters,
    _broken_arrow,
    _small_letters,
    _levels,
    _durations,
    _numbers,
    _operators,
    _reserved,
    _brackets,
    _arrow,
    _division,
    _missing_words,
    _names,
    _keywords,
    _commas,
)
"""In this order: what is surest first."""
