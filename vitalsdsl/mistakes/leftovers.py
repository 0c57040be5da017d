"""Comments of other languages, stray punctuation, sentences that end too early, and what nothing else explains."""

from __future__ import annotations

import re

from vitalsdsl.builder import RESERVED
from vitalsdsl.mistakes.sentence import RULE_PARTS, STATEMENTS, Edit, Mistake, Recogniser, Sentence

_CONTINUES = {"EQUAL": "=", "LPAR": "(", "RPAR": ")", "COMMA": ",", "ARROW": "->", "LBRACE": "{", "RBRACE": "}",
              "FOR": "for", "IN": "in", "DO": "do", "WITHIN": "within", "WHEN": "when", "OF": "of", "PER": "per",
              "BECAUSE": "because", "PHASE": "phase", "AFTER": "after", "NONFINITE": "nonfinite", "STEP": "step"}  # fmt: skip
_WANTED = (("STRING", 'a text in `"`'), ("LEVEL", "yellow, orange or red"), ("UNIT", "a unit, such as steps"),
           ("LBRACE", "`{`"), ("ARROW", "`->` and a level"), ("EQUAL", "`=`"), ("WITHIN", "`within` and a duration"),
           ("BECAUSE", '`because "…"`'), ("PER", "`per` and a duration"), ("FAMILY", "a family, such as `act/*`"),
           ("UNKNOWN", "hold or reset"), ("STATE", "nan, inf or finite"), ("NUMBER", "a number"), ("NAME", "a name"),
           ("NONFINITE", "`nonfinite`"), ("AFTER", "`after` and a duration"), ("FOR", "`for` and a duration"),
           ("RPAR", "`)`"), ("RBRACE", "`}`"), ("DO", "`do` and an action"))  # fmt: skip


def comment(s: Sentence) -> Mistake | None:
    """`// note`, `-- note`, `/* note */`."""
    word = s[0]
    double = word.text == "-" and s[1].text == "-" and s.touches(word, s[1]) and not s[1].end == s[2].start
    if word.text == "-" and s[-1].text == "-" and s.touches(s[-1], word):
        double, word = True, s[-1]
    star = word.text == "/" and s.text[word.end : word.end + 1] == "*" or word.text == "/*"
    if not (word.text == "//" or double or star) or word.text == "//" and "STAR" in s.expected and s[1].is_number:
        return None
    end = word.start + 2
    wrote = s.text[word.start : end]
    edit: Edit | None = Edit(word.start, end, "#")
    if star:
        closing = s.text.find("*/", end)
        stop = closing + 2 if closing >= 0 else len(s.text)
        inside = s.text[end : closing if closing >= 0 else stop].strip("* \t\n")
        body = "\n".join("# " + line.strip(" *\t") for line in inside.split("\n"))
        rest = s.text[stop:].split("\n", 1)[0].strip()
        edit = Edit(word.start, stop, body + ("\n" if rest else ""))
    elif word.text == "//" and s.operand_wanted() and not s.index == 0:
        edit = Edit(word.start, end, "#")
    first = s.shown(Edit(word.start, word.start, "")) if edit is None else ""
    text = s.text[word.start :].split("\n", 1)[0]
    help_ = (f"write `# {text[2:].removesuffix('*/').strip()}`" if not first else first,)
    return Mistake("V037", f"a comment begins with `#`, not `{wrote}`", word.start, end, "`#` here", help_, edit)


def punctuation(s: Sentence) -> Mistake | None:
    """`-> red;`, `shadow,`, `when: loss > 3`, `cooldown: 500 steps`, `rule a: {`."""
    word = s[0]
    if word.text not in (",", ";", ".", ":", "=", "!", "|", "\\", "`", "{", "]") and word.kind != "other":
        return None
    before = s[-1].text in RULE_PARTS + STATEMENTS or s[-1].text in RESERVED
    if word.text in (":", "=") and not before and s[1].text != "{" or word.text == "{" and not (before or s[-1].text == "{"):
        return None
    if word.text == "." and not s.ends_line(word):
        return None
    edit = Edit(s[-1].end if not s.index == 0 else word.start, word.end, "")
    if not s.improved(edit) and s[-1].end < word.start:
        edit = Edit(word.start, word.end, "")
    if not s.improved(edit):
        return None
    if word.kind == "other":
        named = f"U+{ord(word.text):04X}"
        shown = f"`{word.text}`" if word.text.isprintable() else named
        return Mistake("V036", f"{shown} has no place here", word.start, word.end, "remove it", s.write(edit), edit)
    where = f"after `{s[-1].text}`" if s.index else "here"
    return Mistake("V036", f"no `{word.text}` {where}", word.start, word.end, "leave it out", s.write(edit), edit)


def trailing_comma(s: Sentence) -> Mistake | None:
    """`mean(loss, 50 steps,)`, `"loss",` and nothing."""
    if s[-1].text != ",":
        return None
    if not (s.at_end or s[0].text in (")", "}", "->", "{", ",") or s[0].is_name and s.opens_line(s[0])):
        return None
    edit = Edit(s[-1].start, s[-1].end, "")
    return Mistake("V036", "nothing comes after this comma", s[-1].start, s[-1].end, "one too many", s.write(edit), edit)


def joined(s: Sentence) -> Mistake | None:
    """Something else in a list that lacks its commas, such as `"loss" "train/loss"`."""
    if "COMMA" not in s.expected or s[0].kind not in ("string", "name", "number", "percent"):
        return None
    if s[0].is_name and (s.opens_line(s[0]) or s[0].text in RESERVED) or not s[0].kind == "string" and "RPAR" not in s.expected:
        return None
    edit = Edit(s[-1].end, s[-1].end, ",")
    if not s.improved(edit):
        return None
    return Mistake("V036", f"no comma between `{s[-1].text}` and `{s[0].text}`", s[0].start, s[0].end, "`,` before it",
                   s.write(edit), edit)  # fmt: skip


def reserved(s: Sentence) -> Mistake | None:
    """`when missing > 3`, `loss > for`: a word of the language as a name."""
    for k in (-1, 0):
        word = s[k]
        if word.text not in RESERVED or word.text in ("when", "and", "or", "->", "not", "is") or not word.is_name:
            continue
        if word.text in STATEMENTS and s.opens_line(word):
            continue
        edit = Edit(word.start, word.end, f'"{word.text}"')
        if s.improved(edit):
            return Mistake("V006", f"`{word.text}` is a word of the language", word.start, word.end, "reserved",
                           (f'as a metric name write `"{word.text}"`: `{s.shown(edit)}`',), edit)  # fmt: skip
    return None


def unfinished(s: Sentence) -> Mistake | None:
    """The sentence ends, or the next one begins, where something must follow."""
    if not s.index or not (s.at_end or s[0].text == "}" or s[0].is_name and s.opens_line(s[0]) and s[0].text in
                           STATEMENTS + RULE_PARTS):  # fmt: skip
        return None
    wanted = next((said for token, said in _WANTED if token in s.expected), "")
    start = s.words[s.opening].start if s.words else 0
    said = s.said(start, s[-1].end)
    said = said if len(said) <= 60 else "… " + said[-58:]
    help_ = (f"after `{s[-1].text}` comes {wanted}",) if wanted else ("finish it, or remove it",)
    return Mistake("V049", f"`{said}` ends too early", s[-1].start, s[-1].end, "and then?", help_)


def guessed(s: Sentence) -> Mistake | None:
    """Whatever small change lets reading go on: a word more, a word less."""
    if s.at_end or len(s.text) > 4000:
        return None
    tokens = sorted(s.expected & _CONTINUES.keys())
    edits = [(Edit(s[0].start, s[0].start, _CONTINUES[t] + " "), t) for t in tokens if t not in ("COMMA",)]
    for edit, token in edits:
        if s.improved(edit):
            return Mistake("V049", f"no `{_CONTINUES[token]}` before `{_cut(s[0].text)}`", s[0].start, s[0].end,
                           f"`{_CONTINUES[token]}` before it", s.write(edit), edit)  # fmt: skip
    edit = Edit(s[0].start, s[0].end, "")
    if s.improved(edit) and edit.apply(s.text).strip():
        return Mistake("V049", f"`{_cut(s[0].text)}` does not fit here", s[0].start, s[0].end, "leave it out?", s.write(edit),
                       edit, True)  # fmt: skip
    return None


def _cut(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def last_resort(s: Sentence) -> Mistake:
    """What is said where nothing else is known: never more than where, and what could stand there."""
    if not s.text.strip():
        return Mistake("V034", "nothing stands here", 0, len(s.text), "empty", ("write a name or a condition",))
    word = s[0] if not s.at_end else s[-1]
    wanted = next((said for token, said in _WANTED if token in s.expected), "")
    help_ = (f"here comes {wanted}",) if wanted else ("see the language page on what may follow",)
    return Mistake("V000", f"`{_cut(re.sub(chr(92) + 's+', ' ', word.text))}` does not fit here", word.start, word.end, "here", help_)


RECOGNISERS: tuple[Recogniser, ...] = (trailing_comma, punctuation)
LATE_RECOGNISERS: tuple[Recogniser, ...] = (reserved, joined, unfinished, guessed)
