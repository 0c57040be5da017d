"""Parentheses and braces: unclosed, closed too often, forgotten, empty."""

from __future__ import annotations

from vitalsdsl.mistakes.sentence import COMPARES, RULE_PARTS, Edit, Mistake, Recogniser, Sentence, Word

_BLOCKS = ("rule", "override", "profile")


def _open(s: Sentence, opening: str, closing: str) -> list[int]:
    """The indices of brackets that are open where reading stopped, outermost first."""
    stack: list[int] = []
    for at, word in enumerate(s.before):
        if word.text == opening:
            stack.append(at)
        elif word.text == closing and stack:
            stack.pop()
    return stack


def empty_rule(s: Sentence) -> Mistake | None:
    """`rule spike { }`."""
    if s[0].text != "}" or s[-1].text != "{":
        return None
    what = s.said(s.words[0].start, s[-1].start)
    if s.keyword == "profile":
        return Mistake("V035", f"`{what}` sets nothing", s[-1].start, s[0].end, "nothing between the braces",
                       (f"write `{what} {{ NAME = VALUE }}`, with the name of a param",))  # fmt: skip
    part = "when loss > 3 -> red" if s.keyword == "rule" else "cooldown 500 steps"
    return Mistake("V035", f"`{what}` says nothing", s[-1].start, s[0].end, "nothing between the braces",
                   (f"write what it does, such as `{part}`, or remove it",))  # fmt: skip


def parenthesis_unclosed(s: Sentence) -> Mistake | None:
    """`when (loss > 3 -> red`, `mean(loss, 50 steps > 3`."""
    stack = _open(s, "(", ")")
    if not stack or s[0].text in (")", ",") or not (s.at_end or s[0].text in ("->", "}", "{", "for", "]", "on", "do", "=>",
            "every") or s[0].text in RULE_PARTS and s.opens_line(s[0])):  # fmt: skip
        return None
    at = stack[-1]
    word = s.words[at]
    edit = _closing(s, at)
    return Mistake("V021", "this `(` is not closed", word.start, word.end, "no `)` for it",
                   s.write(edit) if edit else ("close it with `)`",), edit)  # fmt: skip


def _closing(s: Sentence, at: int) -> Edit | None:
    """Where the `)` was forgotten: before the first comparison after a function's arguments, else where reading stopped."""
    call = at > 0 and s.words[at - 1].is_name and s.touches(s.words[at - 1], s.words[at])
    ends = [s[-1].end]
    if call:
        depth = 0
        for k in range(at + 1, s.index):
            word = s.words[k]
            depth += (word.text == "(") - (word.text == ")")
            if depth == 0 and word.text in (*COMPARES, "and", "or"):
                ends.insert(0, s.words[k - 1].end)
                break
    edits = [Edit(end, end, ")") for end in ends if end > s.words[at].end]
    return next((edit for edit in edits if s.improved(edit)), edits[-1] if edits else None)


def parenthesis_extra(s: Sentence) -> Mistake | None:
    """`when loss > 3) -> red`."""
    if s[0].text not in (")", "]") or _open(s, "(", ")"):
        return None
    edit = Edit(s[-1].end, s[0].end, "")
    return Mistake("V021", f"this `{s[0].text}` closes nothing", s[0].start, s[0].end, "no `(` for it", s.write(edit), edit)


def other_bracket(s: Sentence) -> Mistake | None:
    """`mean(loss, 50 steps]`, `mean{loss}`, `2 of [a, b]`."""
    if s[0].text in ("]", "}") and _open(s, "(", ")") and s[0].text == "]":
        edit = Edit(s[0].start, s[0].end, ")")
        return Mistake("V021", "a `(` is closed with `)`", s[0].start, s[0].end, "`)` here", s.write(edit), edit)
    if s[0].text == "[" and "LPAR" in s.expected:
        closing = next((w for w in s.words[s.index :] if w.text == "]"), None)
        end = closing.end if closing else s[0].end
        inner = s.text[s[0].end : closing.start] + ")" if closing else ""
        edit = Edit(s[0].start, end, "(" + inner)
        return Mistake("V021", "conditions are grouped with `( )`", s[0].start, end, "`(` and `)` here", s.write(edit), edit)
    return None


def brace_unclosed(s: Sentence) -> Mistake | None:
    """A rule that goes on to the end of the file."""
    stack = _open(s, "{", "}")
    if not s.at_end or not stack:
        return None
    word = s.words[stack[-1]]
    what = s.said(s.words[0].start, word.start) if stack[-1] < 12 else s.keyword
    end = s[-1].end
    edit = Edit(end, end, " }" if "\n" not in s.text[word.start : end] else "\n}")
    if not s.improved(edit):
        return None
    return Mistake("V022", f"`{what}` is not closed", word.start, word.end, "no `}` for it",
                   (f"put `}}` after `{_last_line(s)}`",), edit)  # fmt: skip


def _last_line(s: Sentence) -> str:
    first = s.text.rfind("\n", 0, s[-1].start) + 1
    return s.said(first, s[-1].end)[-60:]


def brace_extra(s: Sentence) -> Mistake | None:
    if s[0].text != "}" or _open(s, "{", "}"):
        return None
    edit = Edit(s[-1].end if s.index else s[0].start, s[0].end, "")
    if s.opens_line(s[0]):
        help_: tuple[str, ...] = ("remove it, or put the `{` that it should close after the name of the rule",)
    else:
        help_ = s.write(edit) if edit.apply(s.text).strip() else ("remove it",)
    return Mistake("V022", "this `}` closes nothing", s[0].start, s[0].end, "no `{` for it", help_, edit)


def brace_missing(s: Sentence) -> Mistake | None:
    """`rule spike when …`, `rule spike: …`, `rule spike = …`."""
    if "LBRACE" not in s.expected or s.keyword not in _BLOCKS:
        return None
    what = s.said(s.words[0].start, s[-1].end)
    closed = any(word.text == "}" for word in s.words[s.index :])
    start, end = s[0].start, s[0].start
    if s[0].text in (":", "=", "->", "=>", "(", "[", "do", "then", "is"):
        start, end = s[-1].end, s[0].end
    elif not (s[0].text in RULE_PARTS or s.at_end or s.keyword == "profile"):
        return None
    last = s.words[-1].end
    inside = s.text[end:last].strip()
    opened = " {" if start and not s.text[start - 1].isspace() else "{"
    gap = "" if s.text[end : end + 1].isspace() else " "
    if closed:
        edit = Edit(start, end, opened + gap)
    elif inside:
        edit = Edit(start, last, f"{opened}{s.text[end:last] if not gap else gap + s.text[end:last]} }}")
    else:
        return Mistake("V022", f"`{what}` says nothing", s.words[0].start, s[-1].end, "and then?",
                       (f"write `{what} {{ when loss > 3 -> red }}`" if s.keyword == "rule" else f"write `{what} {{ … }}`",))  # fmt: skip
    wrote = s.text[start:end].strip()
    message = f"what `{what}` does stands in braces" + (f", not after `{wrote}`" if wrote else "")
    place: Word = s[0]
    help_ = s.write(edit) if "\n" not in s.text[start:last].strip() else (f"write `{what} {{`, the parts, and `}}`",)
    return Mistake("V022", message, place.start, place.end, "`{` before it" if not wrote else "`{` here", help_, edit)


RECOGNISERS: tuple[Recogniser, ...] = (
    empty_rule, parenthesis_unclosed, parenthesis_extra, other_bracket, brace_extra, brace_missing, brace_unclosed,
)  # fmt: skip
