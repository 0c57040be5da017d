"""Operators as other languages spell them."""

from __future__ import annotations

import re

from vitalsdsl.mistakes.sentence import COMPARES, LEVELS, Edit, Mistake, Recogniser, Sentence, Word, swap

_SPELLED = {
    "=>": ">=", "=<": "<=", "<>": "!=", "===": "==", "!==": "!=", "≥": ">=", "≤": "<=", "≠": "!=", "&&": "and",
    "&": "and", "||": "or", "|": "or", "!": "not", "×": "*", "·": "*", "−": "-", "–": "-", "÷": "/ ", "¬": "not",
    "∧": "and", "∨": "or", "~": "not",
}  # fmt: skip
_WORDS = {
    "above": ">", "over": ">", "exceeds": ">", "exceed": ">", "gt": ">", "greater": ">", "more": ">", "higher": ">",
    "below": "<", "under": "<", "lt": "<", "less": "<", "lower": "<", "smaller": "<", "equals": "==", "equal": "==",
    "eq": "==", "ge": ">=", "gte": ">=", "le": "<=", "lte": "<=", "ne": "!=", "neq": "!=", "plus": "+", "minus": "-",
    "times": "*", "xor": "!=", "isnt": "!=",
}  # fmt: skip
_ARROWS = ("=>", "-->", "==>", "→", "⇒", "⟶", ">", ":", "=", "~", "then", "raise", "alert", "set")


def _level(word: Word) -> bool:
    return word.text.lower() in LEVELS


def doubled_equals(s: Sentence) -> Mistake | None:
    """`let x == 3`."""
    if s[0].text not in ("==", ":=", "===") or not s.expected & {"EQUAL"}:
        return None
    edit = swap(s, s[0], "=")
    return Mistake("V005", f"`{s[0].text}` compares; a definition has one `=`", s[0].start, s[0].end, "one `=` here",
                   s.write(edit), edit)  # fmt: skip


def arrow(s: Sentence) -> Mistake | None:
    """`=> red`, `--> red`, `then red`, or a level with nothing before it."""
    for k in (0, -1):
        first, level = s[k], s[k + 1]
        if k and s[0].text == "->":
            continue
        if not (_level(level) or level.text in ("", "}") and first.text in ("=>", "-->", "==>", "→", "⇒")):
            continue
        start = s[k - 1] if s[k - 1].text in ("-", "=", ">") and s.touches(s[k - 1], first) else first
        if first.text == ">" and s[k - 1].text == "-" and start is first:
            start = s[k - 1]
        if first.text in _ARROWS and not (k and first.text == "=" and "EQUAL" in s.expected):
            edit = Edit(start.start, first.end, _spaced(s, start.start, first.end, "->"))
            wrote = s.said(start.start, first.end)
            return Mistake("V023", f"a level comes after `->`, not `{wrote}`", start.start, first.end,
                           "write `->`", s.write(edit), edit)  # fmt: skip
    if s.at_end and (found := _level_as_operand(s)) is not None:
        return found
    if _level(s[0]) and "ARROW" in s.expected and s[0].is_name:
        edit = Edit(s[0].start, s[0].start, "-> ")
        return Mistake("V023", f"no `->` before the level `{s[0].text}`", s[0].start, s[0].end, "`->` goes before it",
                       s.write(edit), edit)  # fmt: skip
    return None


def _spaced(s: Sentence, start: int, end: int, text: str) -> str:
    before = "" if s.text[start - 1 : start].isspace() or not start else " "
    after = "" if s.text[end : end + 1].isspace() or end >= len(s.text) else " "
    return before + text + after


def _level_as_operand(s: Sentence) -> Mistake | None:
    """`when loss > 3 then red`: read as a condition that ends too early."""
    opening = s.words[s.opening] if s.words else None
    if opening is None or opening.text != "when":
        return None
    for at in range(s.opening + 2, s.index):
        word, level = s.words[at - 1], s.words[at]
        if _level(level) and word.text in _ARROWS:
            edit = Edit(word.start, word.end, _spaced(s, word.start, word.end, "->"))
            return Mistake("V023", f"a level comes after `->`, not `{word.text}`", word.start, word.end, "write `->`",
                           s.write(edit), edit)  # fmt: skip
    return None


def spelling(s: Sentence) -> Mistake | None:
    """`=`, `=>`, `&&`, `≥` in a condition."""
    word = s[0]
    if word.text == "=" and s[-1].text in ("<", ">", "!", "="):
        right = s[-1].text + "="
        edit = Edit(s[-1].start, word.end, right)
        wrote = s.text[s[-1].start : word.end]
        return Mistake("V005", f"`{wrote}` is written without white space", s[-1].start, word.end, f"`{right}`",
                       s.write(edit), edit)  # fmt: skip
    if word.text == "=" and "COMPARE" in s.expected:
        return _equals(s)
    right = _SPELLED.get(word.text, "")
    if not right or word.text in ("=>", "=<", "<>", "===", "!==") and "COMPARE" not in s.expected | _compare_before(s):
        return None
    edit = swap(s, word, right)
    right = right.strip()
    return Mistake("V005", f"`{word.text}` is written `{right}` here", word.start, word.end, f"`{right}`",
                   s.write(edit), edit)  # fmt: skip


def _compare_before(s: Sentence) -> set[str]:
    """`<>` and `===` are read as far as their first character."""
    return {"COMPARE"} if s[0].start < s.at < s[0].end else set()


def _equals(s: Sentence) -> Mistake:
    word = s[0]
    if s[-1].is_name and s[-2].text in ("(", ",") and _in_call(s):
        edit = Edit(s[-1].end, s[1].start, ": ")
        message = f"the argument `{s[-1].text}` is named with `:`"
        return Mistake("V005", message, word.start, word.end, "`:` here", s.write(edit), edit)
    edit = swap(s, word, "==")
    return Mistake("V005", "`=` defines; a condition compares with `==`", word.start, word.end, "`==` here",
                   s.write(edit), edit)  # fmt: skip


def _in_call(s: Sentence) -> bool:
    depth = 0
    for at in range(s.index - 1, 0, -1):
        word = s.words[at]
        depth += (word.text == ")") - (word.text == "(")
        if depth < 0:
            return s.words[at - 1].is_name and s.touches(s.words[at - 1], word)
    return False


def in_words(s: Sentence) -> Mistake | None:
    """`loss above 3`, `loss is greater than 3`, `loss at least 3`."""
    first = s[-1] if s[-1].text in ("is", "at", "not") and s[-1].start > 0 else s[0]
    k = -1 if first is s[-1] else 0
    word = s[k + 1] if k else s[0]
    if first.text == "at" and word.text in ("least", "most", "end") and word.text != "end":
        right, last = (">=" if word.text == "least" else "<="), word
    elif s[0].text == "at" and s[1].text in ("least", "most"):
        first, last, right = s[0], s[1], ">=" if s[1].text == "least" else "<="
    elif word.text.lower() in _WORDS and (k or "COMPARE" in s.expected):
        right, last = _WORDS[word.text.lower()], word
        following = s[k + 2] if k else s[1]
        if following.text in ("than", "to"):
            last = following
    elif first.text in ("is", "not") and word.text in COMPARES:
        right, last = word.text, word
    else:
        return None
    edit = Edit(first.start, last.end, _spaced(s, first.start, last.end, right))
    wrote = s.said(first.start, last.end)
    return Mistake("V005", f"`{wrote}` is written `{right}`", first.start, last.end, f"`{right}`", s.write(edit), edit)


def division(s: Sentence) -> Mistake | None:
    """`(a + b)/2`: between names a `/` without white space belongs to the name."""
    if s[0].text != "/" or s.text[s[0].end : s[0].end + 1].isspace() or s.at_end or s[1].kind == "end":
        return None
    before = "" if s.text[s[0].start - 1 : s[0].start].isspace() else " "
    edit = Edit(s[0].start, s[0].end, before + "/ ")
    return Mistake("V026", "division needs white space after `/`", s[0].start, s[0].end, "a space after it", s.write(edit),
                   edit)  # fmt: skip


def unknown_operator(s: Sentence) -> Mistake | None:
    """`**`, `^`, `%`, `//`, `? :`."""
    word = s[0]
    if word.text not in ("**", "^", "%", "//", "?", "@", "++", "<<", ">>") and not (
        word.text == "*" and s[-1].text == "*" and s.touches(s[-1], word)
    ):
        return None
    if word.text in ("@", "%") and s.touches(s[-1], word) and s[-1].is_name:
        return None
    start = s[-1].start if word.text == "*" else word.start
    wrote = s.text[start : word.end]
    edit, help_ = None, ("define it under another name in the training code, or write it with `+ - * /`",)
    if wrote in ("**", "^"):
        base, power = s[-1 if wrote != "**" or word.text == "**" else -2], s[1]
        help_ = ("write a square as `x * x` and a root as `sqrt(x)`",)
        if base.is_name and power.text in ("2", "3"):
            edit = Edit(base.start, power.end, " * ".join([base.text] * int(power.text)))
        elif base.is_name and power.text == "0.5":
            edit = Edit(base.start, power.end, f"sqrt({base.text})")
    elif wrote == "//" and (s[1].is_number or s[1].is_name):
        edit = Edit(word.start, word.end, "/ " if not s.text[word.end : word.end + 1].isspace() else "/")
    if edit is not None:
        help_ = s.write(edit)
    return Mistake("V028", f"there is no operator `{wrote}`", start, word.end, "unknown operator", help_, edit)


def index(s: Sentence) -> Mistake | None:
    """`loss[10]`, `loss[-1]`."""
    if s[0].text != "[":
        return None
    closing = next((k for k in range(1, 12) if s[k].text == "]"), 0)
    end = s[closing].end if closing else s[0].end
    inside = s.said(s[0].end, s[closing].start) if closing else ""
    number = re.fullmatch(r"-?(\d+)(?:\.0)?", inside)
    window = re.fullmatch(r"(\d+) ?([a-z]+)", inside)
    help_: tuple[str, ...] = ("write `loss before 10 steps` for an earlier value, `mean(loss, 10 steps)` for a window",)
    edit = None
    if s[-1].is_name and number is not None:
        count = int(number[1])
        text = s[-1].text if count <= (1 if inside.startswith("-") else 0) else f"{s[-1].text} before {count} samples"
        edit = Edit(s[-1].start, end, text)
        help_ = s.write(edit)
    elif s[-1].is_name and window is not None:
        help_ = (f"write `mean({s[-1].text}, {window[1]} {window[2]})`, or another function of a window",)
    return Mistake("V028", "a value is not picked with `[ ]`", s[0].start, end, "an earlier value is `before`", help_, edit)


def unary_plus(s: Sentence) -> Mistake | None:
    """`> +3`."""
    if s[0].text != "+" or not s.operand_wanted() or not (s[1].is_number or s[1].is_name):
        return None
    edit = Edit(s[0].start, s[1].start, "")
    return Mistake("V028", "a number has no `+` before it", s[0].start, s[0].end, "leave it out", s.write(edit), edit)


def twice(s: Sentence) -> Mistake | None:
    """`> > 3`, `and and`."""
    same = s[0].text == s[-1].text or s[0].text in COMPARES and s[-1].text in COMPARES
    if not same or s[0].text not in (*COMPARES, "*", "/", "and", "or", "->", ",", "=", "for", "on", "when", "within"):
        return None
    edit = Edit(s[-1].start, s[0].start, "")
    wrote = s.said(s[-1].start, s[0].end)
    return Mistake("V005", f"`{wrote}`: one of them is enough", s[-1].start, s[0].end, "keep one", s.write(edit), edit)


RECOGNISERS: tuple[Recogniser, ...] = (
    doubled_equals, arrow, spelling, in_words, division, unknown_operator, index, unary_plus, twice,
)  # fmt: skip
