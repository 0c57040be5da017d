"""Statements that begin, go on or end in a way that the language does not know."""

from __future__ import annotations

import difflib
import re

from vitalsdsl.builder import RESERVED
from vitalsdsl.mistakes.sentence import RULE_PARTS, STATEMENTS, Edit, Mistake, Recogniser, Sentence, swap

_MEANT = {"if": "when", "whenever": "when", "while": "when", "define": "let", "def": "let", "set": "let", "var": "let",
          "const": "param", "parameter": "param", "parameters": "param", "signal": "let", "series": "metric",
          "metrics": "metric", "rules": "rule", "include": "use", "import": "use", "from": "use", "extends": "use",
          "policies": "policy", "name": "policy", "stage": "phase", "phases": "phase", "levels": "level",
          "severity": "level", "budget": "limit", "condition": "event", "monitor": "rule", "events": "event",
          "check": "rule", "assert": "when", "expect": "when", "def_rule": "rule", "watch": "metric", "mute": "disable",
          "suppress": "disable", "ignore": "disable", "extend": "override", "replace": "override",
          "preset": "profile"}  # fmt: skip
_PARTS_MEANT = {"if": "when", "message": "because", "msg": "because", "description": "because", "reason": "because",
                "hint": "try", "action": "try", "suppress": "inhibits", "inhibit": "inhibits", "reset": "clear",
                "resolve": "clear", "recover": "clear", "link": "runbook", "url": "runbook", "silent": "shadow",
                "off": "disabled", "disable": "disabled", "team": "owner", "debounce": "cooldown", "cool_down": "cooldown",
                "cool-down": "cooldown", "rearm": "cooldown", "whenever": "when", "alert": "when"}  # fmt: skip
_ALARMS = ("alert", "alarm", "warn", "notify", "page", "trigger", "fire", "raise", "stop", "pause", "rollback", "fail")
_WORDS = tuple(sorted(RESERVED | set(STATEMENTS) | set(RULE_PARTS)))
_INSIDE = tuple(word for word in STATEMENTS if word not in RULE_PARTS)


def capitals(s: Sentence) -> Mistake | None:
    """`AND`, `When`, `RULE`, `NOT loss > 3`."""
    for k in (0, -1):
        word = s[k]
        low = word.text.lower()
        if word.is_name and word.text != low and low in _WORDS and not (k and s[0].text in ("(", "=")):
            edit = swap(s, word, low)
            if s.improved(edit):
                return Mistake("V019", f"`{word.text}` is written in small letters", word.start, word.end, f"`{low}`",
                               s.write(edit), edit)  # fmt: skip
    return None


def unknown_statement(s: Sentence) -> Mistake | None:
    """`metirc loss = "x"`, `if loss > 3 -> red`, `alert when loss > 3`."""
    word = s[0]
    if s.index != 0 or s.at_end or s.rule != "start":
        return None
    if word.text in RULE_PARTS and word.text != "when":
        return _outside(s)
    if not word.is_name:
        return _no_word(s)
    if word.text.lower() in _ALARMS and s[1].text in ("when", "if", "on", ":"):
        edit = Edit(word.start, s[1].end, "when")
        wrote = s.said(word.start, s[1].end)
        return Mistake("V029", f"a rule begins with `when`, not `{wrote}`", word.start, s[1].end,
                       "the level comes last, after `->`", s.write(edit), edit)  # fmt: skip
    if word.text.lower() in ("else", "elif", "elsif", "otherwise"):
        help_ = ("write another `when` with its own condition",)
        return Mistake("V029", f"there is no `{word.text}`: each `when` stands for itself", word.start, word.end, "", help_)
    meant = _MEANT.get(word.text.lower()) or _near(word.text, STATEMENTS)
    if meant:
        edit = swap(s, word, meant)
        return Mistake("V029", f"no statement begins with `{word.text}`", word.start, word.end, f"did you mean `{meant}`?",
                       s.write(edit), edit)  # fmt: skip
    return _bare(s)


def _near(word: str, words: tuple[str, ...]) -> str:
    low = word.lower()
    near = difflib.get_close_matches(low, words, 1, 0.7 if len(low) > 3 else 0.66) if len(low) > 2 else []
    return near[0] if near else ""


def _bare(s: Sentence) -> Mistake:
    """A definition or a condition without the word that opens it."""
    word = s[0]
    kinds = "a statement begins with rule, when, metric, let, event, param, phase, use, level or policy"
    for opening, sign in (("let ", "="), ("when ", "")):
        edit = Edit(word.start, word.start, opening)
        if (not sign or s[1].text == sign) and s[1].text not in (":", "") and s.improved(edit) and _whole(s, edit):
            return Mistake("V029", f"no statement begins with `{word.text}`", word.start, word.end, kinds, s.write(edit), edit)
    return Mistake("V029", f"no statement begins with `{word.text}`", word.start, word.end, "unknown word", (kinds,))


def _whole(s: Sentence, edit: Edit) -> bool:
    line = s.text.find("\n", edit.start)
    only = Sentence.__new__(Sentence)
    only.text, only.rule = s.text[: line if line >= 0 else len(s.text)], s.rule
    only.at = edit.start
    from_here = len(only.text) - edit.start
    return from_here > 0 and only.improved(edit)


def _no_word(s: Sentence) -> Mistake | None:
    if s[0].text in ("->", "and", ",", ")", "(") or s[0].kind in ("string", "number", "percent", "family"):
        kinds = "a statement begins with rule, when, metric, let, event, param, phase, use, level or policy"
        return Mistake("V029", f"no statement begins with `{s[0].text}`", s[0].start, s[0].end, "a word is missing before it",
                       (kinds,))  # fmt: skip
    return None


def _outside(s: Sentence) -> Mistake:
    word = s[0]
    return Mistake("V041", f"`{word.text}` is a part of a rule and stands outside one", word.start, word.end,
                   "no rule round it", ("write `rule NAME { when … -> orange  " + _line(s) + " }`",))  # fmt: skip


def _line(s: Sentence) -> str:
    end = s.text.find("\n", s[0].start)
    return s.said(s[0].start, end if end >= 0 else len(s.text))[:60]


def statement_inside(s: Sentence) -> Mistake | None:
    """`rule spike { let gap = … }`."""
    depth = sum((w.text == "{") - (w.text == "}") for w in s.before)
    if depth <= 0 or s[0].text not in _INSIDE or not s.opens_line(s[0]) or s.keyword == "profile":
        return None
    end = s.text.find("\n", s[0].start)
    end = len(s.text) if end < 0 else end
    what = s.said(s.words[0].start, s.words[1].end)
    label = f"not a part of `{what}`"
    edit = Edit(s[0].start, end, "")
    return Mistake("V042", f"`{s[0].text}` is a statement; it stands outside of rules", s[0].start, s[0].end, label,
                   ("put it before the rule; its name is known in the whole policy",), edit)  # fmt: skip


def part_unknown(s: Sentence) -> Mistake | None:
    """`wen`, `cooldwon 500 steps`, `message "…"` inside a rule."""
    if not s[0].is_name or not {"COOLDOWN", "BECAUSE"} <= s.expected:
        return None
    meant = _PARTS_MEANT.get(s[0].text.lower()) or _near(s[0].text, RULE_PARTS)
    if s[1].text in (":", "="):
        return None
    if not meant:
        if not s.opens_line(s[0]):
            return None
        parts = "when, clear, cooldown, inhibits, unknown, because, try, owner, runbook, shadow, disabled"
        return Mistake("V029", f"no part of a rule begins with `{s[0].text}`", s[0].start, s[0].end, "unknown word",
                       (f"the parts of a rule are {parts}",))  # fmt: skip
    edit = swap(s, s[0], meant)
    return Mistake("V029", f"no part of a rule begins with `{s[0].text}`", s[0].start, s[0].end, f"did you mean `{meant}`?",
                   s.write(edit), edit)  # fmt: skip


def misspelt(s: Sentence) -> Mistake | None:
    """`fro 20 steps`, `witihn 500 steps`, `untill`."""
    for k in (0, -1):
        word = s[k]
        if not word.is_name or word.text in _WORDS or len(word.text) < 2:
            continue
        candidates = [w for w in _WORDS if w.upper() in s.expected] if k == 0 else list(_WORDS)
        synonyms = {"during": "for", "lasting": "for", "persisting": "for", "over": "for", "til": "until", "using": "with",
                    "since": "for", "following": "then", "without": "unless", "followed": "then", "but": "and",
                    "also": "and", "reason": "because", "since_then": "then", "freq": "every", "fro": "for"}  # fmt: skip
        near = [m for m in (synonyms.get(word.text.lower()),) if m and m in candidates]
        near += difflib.get_close_matches(word.text.lower(), candidates, 2, 0.74)
        for meant in near:
            edit = swap(s, word, meant)
            if s.improved(edit):
                return Mistake("V029", f"`{word.text}` means nothing here", word.start, word.end, f"did you mean `{meant}`?",
                               s.write(edit), edit)  # fmt: skip
    return None


def equals_missing(s: Sentence) -> Mistake | None:
    """`let gap val_loss - loss`, `param k: 3`, `metric loss is "x"`, `with k 2`."""
    if "EQUAL" not in s.expected or s.at_end:
        return None
    name = s.said(s.words[s.index - 2].start if s.index > 1 else 0, s[-1].end)
    if s[0].text in (":", "is", ":=", "->", "as", "be", "means", "<-"):
        edit = Edit(s[-1].end, s[0].end, " =" if s.text[s[0].end : s[0].end + 1].isspace() else " = ")
        return Mistake("V033", f"`{name}` goes on with `=`, not `{s[0].text}`", s[0].start, s[0].end, "`=` here", s.write(edit),
                       edit)  # fmt: skip
    edit = Edit(s[-1].end, s[-1].end, " =" if s.text[s[-1].end : s[-1].end + 1].isspace() else " = ")
    if not s.improved(edit):
        return None
    return Mistake("V033", f"`{name}` lacks its `=`", s[0].start, s[0].end, "`=` before it", s.write(edit), edit)


def name_missing(s: Sentence) -> Mistake | None:
    """`rule { … }`, `let = 3`, `metric = "x"`."""
    if s[-1].text not in ("rule", "let", "event", "phase", "param", "metric", "policy", "profile", "limit", "each", "override",
            "disable") or s[0].is_name or s.index not in (1, 2, 3, 4, 5) or s[0].kind not in ("mark", "end", "string"):  # fmt: skip
        return None
    if s[0].text not in ("{", "=", "", ":", "->", "(") and s[0].kind != "string":
        return None
    if s[0].kind == "string":
        inside = re.sub(r"\W+", "_", s[0].text, flags=re.ASCII).strip("_").lower()[:24] or "spike"
        edit = Edit(s[-1].end, s[-1].end, f" {inside}")
    else:
        names = {"rule": "loss_spike", "metric": "loss", "policy": "pretraining", "profile": "careful", "limit": "rollback"}
        edit = Edit(s[-1].end, s[-1].end, f" {names.get(s[-1].text, 'gap')}")
    return Mistake("V043", f"`{s[-1].text}` has no name", s[-1].start, s[-1].end, "called what?",
                   (f"for example `{s.shown(edit)}`",), edit, True)  # fmt: skip


def value_wanted(s: Sentence) -> Mistake | None:
    """`param k = 3 * 2`, `param k = base`, `param k = 3 in [1, 10]`, `in 1 to 10`, `cooldown = 5`."""
    if s.keyword != "param":
        return None
    if s[0].text in ("to", "-", ",", "and", "…", "...", ":", "until") and "in" in [w.text for w in s.before] and s[-1].text != "in":
        edit = Edit(s[-1].end, s[0].end, " .." if s.text[s[0].end : s[0].end + 1].isspace() else " .. ")
        return Mistake("V044", f"a range is written with `..`, not `{s[0].text}`", s[0].start, s[0].end, "`..` here",
                       s.write(edit), edit)  # fmt: skip
    if s[-1].text == "in" and s[0].text in ("[", "("):
        line = s.text[s[0].start :].split("\n", 1)[0]
        found = re.match(r"[\[(]\s*([^,;\])]+?)\s*(?:,|;|\.\.|to)\s*([^,;\])]+?)\s*[\])]", line)
        edit = Edit(s[0].start, s[0].start + found.end(), f"{found[1]} .. {found[2]}") if found else None
        return Mistake("V044", "a range is written with `..`", s[0].start, edit.end if edit else s[0].end, "two values, `..` between",
                       s.write(edit) if edit else ("write `in 1 .. 10`",), edit)  # fmt: skip
    if s[-1].text == "=" and s[0].kind in ("name", "string", "mark", "family") and s[0].text not in ("-",):
        return Mistake("V044", f"`{s[0].text}` is no fixed value", s[0].start, s[0].end, "a number, a ratio or a length",
                       (f"write `{s.said(s.words[0].start, s[-1].end)} 3`; for what changes in a run write `let`",))  # fmt: skip
    if s[0].text in ("+", "*", "/", "-") and s[-1].kind in ("number", "percent"):
        return Mistake("V044", "a param is one value, not a sum", s[0].start, s[0].end, "a number, a ratio or a length",
                       ("work it out and write the result",))  # fmt: skip
    return None


EARLY_RECOGNISERS: tuple[Recogniser, ...] = (capitals, statement_inside)
RECOGNISERS: tuple[Recogniser, ...] = (unknown_statement, part_unknown, name_missing, equals_missing, value_wanted)
LATE_RECOGNISERS: tuple[Recogniser, ...] = (misspelt,)
