"""Quotes of other kinds, forgotten quotes, and names that the language cannot read without them."""

from __future__ import annotations

import re

from vitalsdsl.builder import RESERVED
from vitalsdsl.mistakes.sentence import COMPARES, RULE_PARTS, STATEMENTS, Edit, Mistake, Recogniser, Sentence, Word

_CURLY = {"“": "”", "„": "“”", "”": "”“", "«": "»", "‘": "’", "’": "’", "'": "'", "`": "`", "‚": "‘’"}
_ANY_CLOSING = "”“»’‘'`\"″"
_AFTER_TEXT = re.compile(r"\s+(?:every|stale|unit|reduce|optional|allow|as|with|because|until|in|each|\{|,)(?=\s|$)|\s*[,{})]")
_TEXT_WORDS = ("because", "try", "owner", "runbook", "unit", "until", "use", "axis")
_NAME = re.compile(r"[A-Za-z_]\w*(?:[./][A-Za-z0-9_]+)*", re.ASCII)
_DEFINERS = ("let", "event", "phase", "param", "rule", "policy", "profile")


def other_quotes(s: Sentence) -> Mistake | None:
    """`'train/loss'`, `“train/loss”`."""
    word = s[0]
    if word.text not in _CURLY:
        return None
    line = s.text[word.end :].split("\n", 1)[0]
    closing = re.search(f"[{re.escape(_CURLY[word.text])}]", line) or re.search(f"[{_ANY_CLOSING}]", line)
    if closing is None:
        return Mistake("V020", f"the quote {word.text} is not closed, and text stands in double quotes", word.start,
                       word.end, 'use `"`')  # fmt: skip
    end = word.end + closing.end()
    inside = s.text[word.end : word.end + closing.start()].replace('"', "")
    edit = Edit(word.start, end, f'"{inside}"')
    return Mistake("V020", "text stands in straight double quotes", word.start, end, f'`"{inside}"`', s.write(edit), edit)


def unclosed(s: Sentence) -> Mistake | None:
    """`metric loss = "train/loss`."""
    word = s[0] if s[0].kind == "open" else s[-1] if s[-1].kind == "open" else None
    if word is None:
        return None
    if s[0].is_name is False and s[-1].kind == "string" and s[-1].end == word.start and s[-1].text == '""':
        return _triple(s, word)
    line = word.text[1:]
    curly = re.search("[”“″’']+\\s*(?=$|[,{}])", line)
    stop = _AFTER_TEXT.search(line)
    tries = [len(re.match(r"\S*", line)[0]), stop.start() if stop else len(line), len(line.rstrip())]  # type: ignore[index]
    if s[-1].text in _TEXT_WORDS or line.find(" {") > 0:
        tries = tries[1:] + tries[:1]
    edits = [Edit(word.start + 1 + n, word.start + 1 + n, '"') for n in tries if n > 0]
    if curly is not None:
        edits = [Edit(word.start + 1 + curly.start(), word.start + 1 + len(curly[0].rstrip()) + curly.start(), '"')]
    edit = next((e for e in edits if s.improved(e)), edits[0] if edits else None)
    help_ = s.write(edit) if edit is not None else ('put a `"` at its end, or remove it',)
    return Mistake("V020", "this quote is not closed on its line", word.start, word.start + 1, "opened here", help_, edit)


def _triple(s: Sentence, word: Word) -> Mistake:
    return Mistake("V020", "text stands in single pairs of double quotes, on one line", s[-1].start, word.start + 1,
                   'one `"` is enough', ('write it as `"…"`; `try` takes several, with commas between',))  # fmt: skip


def unopened(s: Sentence) -> Mistake | None:
    """`metric loss = train/loss", "loss"`: every quote on the line is off by one."""
    if "STRING" not in s.expected or not s[0].is_name or s[1].kind not in ("string", "open"):
        return None
    if not s.touches(s[0], s[1]):
        return None
    edit = Edit(s[0].start, s[0].start, '"')
    return Mistake("V020", f'a quote is missing before `{s[0].text}`', s[0].start, s[0].end, 'no `"` before it',
                   s.write(edit), edit)  # fmt: skip


def unquoted(s: Sentence) -> Mistake | None:
    """`metric loss = train/loss`, `because loss too high`."""
    if "STRING" not in s.expected or s[0].kind not in ("name", "family", "number") or s.at_end:
        return None
    if len(s.expected) > 4 and s[-1].text not in _TEXT_WORDS:
        return None
    if s[-1].text in ("because", "try"):
        line = s.text[s[0].start :].split("\n", 1)[0].split("#")[0]
        line = line[: line.rfind("}")] if "}" in line and "{" not in line else line
        end = s[0].start + len(line.rstrip())
    else:
        end = s[0].end
        while s.text[end : end + 1] in tuple("-:.@%/") or s.text[end : end + 1].isalnum():
            end += 1
    inside = s.said(s[0].start, end).replace('"', "")
    edit = Edit(s[0].start, end, f'"{inside}"')
    what = "a logged name" if s.keyword == "metric" else "the text after `because`" if s[-1].text == "because" else "this text"
    return Mistake("V020", f"{what} stands in double quotes", s[0].start, end, 'no `"`', s.write(edit), edit)


def quoted(s: Sentence) -> Mistake | None:
    """`let "gap" = …`, `"3"`: quotes where a bare word is wanted."""
    if s[0].kind != "string":
        return None
    inside = s[0].text[1:-1]
    if "STRING" in s.expected or not ({"NAME", "LEVEL", "UNIT", "UNKNOWN", "STATE", "NUMBER"} & s.expected):
        return None
    if s[-1].is_number and "UNIT" in s.expected or s[-1].text in ("->", "level", "unknown", "is"):
        edit = Edit(s[0].start, s[0].end, inside)
        return Mistake("V020", f"`{inside}` is written without quotes", s[0].start, s[0].end, "no quotes here",
                       s.write(edit), edit)  # fmt: skip
    if s[-1].text in _DEFINERS + ("each", "as", "phase", "with", ",", "limit"):
        name = _joined(inside)
        edit = Edit(s[0].start, s[0].end, name)
        return Mistake("V020", f"the name after `{s[-1].text}` has no quotes", s[0].start, s[0].end, f"`{name}`",
                       s.write(edit), edit)  # fmt: skip
    return None


def _joined(text: str) -> str:
    """A name made of whatever somebody would like to call it."""
    name = re.sub(r"[^A-Za-z0-9_./]+", "_", text).strip("_./")
    name = name if _NAME.fullmatch(name) else re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return f"_{name}" if name[:1].isdigit() or not name or name in RESERVED else name


_STOPS = frozenset((*COMPARES, "(", ")", "{", "}", ",", "=", "->", "+", "*", "=>", "-->", "&&", "||", ";", "/"))


def _run(s: Sentence) -> tuple[int, int]:
    """The characters that were meant as one name: as far as no operator or word of the language stands between."""
    first = s.index
    start_words = set(STATEMENTS) | set(RULE_PARTS) | RESERVED
    while first > 0:
        word, touching = s.words[first - 1], s.words[first - 1].end == s[first - s.index].start
        if word.text in _STOPS or word.kind in ("string", "open") or word.text in start_words and not touching:
            break
        if word.text == "-" and not touching or word.is_number and not touching or s.opens_line(s.words[first]):
            break
        first -= 1
    last = s.index
    while last + 1 < len(s.words):
        word, touching = s.words[last + 1], s.words[last].end == s.words[last + 1].start
        if word.text in _STOPS or word.kind in ("string", "open") or word.text in start_words and not touching:
            break
        if not touching and (not word.is_name or s.opens_line(word)):
            break
        last += 1
    return s.words[first].start, s.words[min(last, len(s.words) - 1)].end


def strange_name(s: Sentence) -> Mistake | None:
    """`grad norm`, `loss@rank0`, `train-loss`, `größe`, `train:loss`, `5loss`."""
    if s.at_end or s.index == 0:
        return None
    strange = s[0].kind == "other" or s[0].text in ("@", "%", "$", ":", "~", "?", ".", "-", "&", "`", "/")
    two = s[0].is_name and s[-1].is_name and s[-1].text not in RESERVED - {"step"}
    begins = s[-1].text in _DEFINERS + ("metric", "override", "disable") and s[0].kind in ("number", "other", "mark")
    if not (strange and (s.touches(s[-1], s[0]) or s[0].kind == "other") or two or begins):
        return None
    if strange and s[0].text in (":", ".") and s.ends_line(s[0]):
        return None
    start, end = _run(s)
    wrote = s.said(start, end)
    if not re.search(r"\w", wrote) or start >= end or "\n" in s.text[start:end]:
        return None
    defined = s.words[0].text in _DEFINERS and start == s.words[1].start if len(s.words) > 1 else False
    defined = defined or _defines_in_rule(s, start)
    by = _joined(wrote) if defined else f'"{wrote}"'
    edit = Edit(start, end, by)
    if two:
        others = f"write `{wrote.replace(' ', '_')}`, or `{by}` if it is logged with a space" if not defined else f"write `{by}`"
        call = f"; `{s[-1].text}({s[0].text})` if that is a function" if s.operand_wanted() or "COMPARE" in s.expected else ""
        return Mistake("V025", f"two names in a row: `{wrote}`", start, end, "one name? no operator?", (others + call,), edit)
    label = f"`{s[0].text}` cannot stand in a bare name"
    how = f"write `{by}`" + ("" if defined else ", in quotes")
    return Mistake("V025", f"`{wrote}` cannot be read as a name", start, end, label, (how,), edit)


def _defines_in_rule(s: Sentence, start: int) -> bool:
    before = [w for w in s.words if w.end <= start]
    return bool(before) and before[-1].text in ("each", "phase", "as", "with", "limit", "rule", *_DEFINERS)


RECOGNISERS: tuple[Recogniser, ...] = (other_quotes, unclosed, unopened, unquoted, quoted)
LATE_RECOGNISERS: tuple[Recogniser, ...] = (strange_name,)
