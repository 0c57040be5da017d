"""Levels and what is done at them: unknown, forgotten, an action in their place, parts in the wrong order."""

from __future__ import annotations

import difflib

from vitalsdsl.mistakes.sentence import LEVELS, Edit, Mistake, Recogniser, Sentence, swap

_ACTIONS = {"alert": "yellow", "tag": "yellow", "notify": "yellow", "checkpoint": "orange", "pause": "orange",
            "lr": "orange", "request": "orange", "rollback": "red", "stop": "red", "kill": "red", "abort": "red",
            "halt": "red"}  # fmt: skip
_OTHER_ACTIONS = {"kill": "stop", "abort": "stop", "halt": "stop"}
_MEANT = {
    "amber": "orange", "error": "orange", "err": "orange", "major": "orange", "medium": "orange", "high": "red",
    "warn": "yellow", "minor": "yellow", "info": "yellow", "low": "yellow", "notice": "yellow", "gold": "yellow",
    "crit": "orange", "severe": "red", "danger": "red", "page": "red", "emergency": "red", "alarm": "orange",
    "fail": "red", "failed": "red", "failure": "red", "panic": "red", "p1": "red", "p2": "orange", "p3": "yellow",
    "debug": "yellow", "bad": "orange", "stopped": "red",
}  # fmt: skip
_KNOWN = "yellow, orange or red (or warning, critical, fatal)"


def _nearest(word: str) -> str:
    low = word.lower()
    if low in _MEANT:
        return _MEANT[low]
    near = difflib.get_close_matches(low, LEVELS, 1, 0.55)
    return near[0] if near else ""


def wrong_level(s: Sentence) -> Mistake | None:
    """`-> amber`, `-> RED`, `-> alert`, `-> 3`, `->` and nothing."""
    if s[-1].text not in ("->", "level") or "LEVEL" not in s.expected:
        return None
    word, after = s[0], s[-1].text
    if word.is_name and word.text in _ACTIONS and after == "->":
        return _action(s)
    if s.at_end or word.text in ("do", "after", "}", "->", ",", "#") or word.is_name and s.opens_line(word):
        edit = Edit(s[-1].end, s[-1].end, " orange")
        return Mistake("V024", f"no level after `{after}`", s[-1].start, s[-1].end, "which level?",
                       (f"{s.write(edit)[0]}; the levels are {_KNOWN}",), edit, True)  # fmt: skip
    if not word.is_name:
        return Mistake("V024", f"`{word.text}` is no level", word.start, word.end, f"a level is {_KNOWN}",
                       (f"write `{after} orange`",), swap(s, word, "orange"), True)  # fmt: skip
    near = _nearest(word.text)
    if not near:
        return Mistake("V024", f"`{word.text}` is no level", word.start, word.end, f"a level is {_KNOWN}",
                       (f"write `{after} orange`, or the level that you mean",), swap(s, word, "orange"), True)  # fmt: skip
    edit = swap(s, word, near)
    if word.text.lower() == near:
        return Mistake("V019", f"`{word.text}` is written in small letters", word.start, word.end, f"`{near}`",
                       s.write(edit), edit)  # fmt: skip
    return Mistake("V024", f"`{word.text}` is no level", word.start, word.end, f"did you mean `{near}`?",
                   (f"{s.write(edit)[0]}; the levels are {_KNOWN}",), edit)  # fmt: skip


def _action(s: Sentence) -> Mistake:
    word = s[0]
    level, action = _ACTIONS[word.text], _OTHER_ACTIONS.get(word.text, word.text)
    if action == "alert" and s[1].text not in ("(", ","):
        edit = Edit(word.start, word.end, level)
        help_ = f"{s.write(edit)[0]}, which alerts; `-> {level} do alert` alerts and does nothing else"
    else:
        edit = Edit(word.start, word.end, f"{level} do {action}")
        help_ = s.write(edit)[0]
    return Mistake("V024", f"`{word.text}` is an action; after `->` stands a level", word.start, word.end,
                   f"a level is {_KNOWN}", (help_,), edit)  # fmt: skip


def condition_and_no_level(s: Sentence) -> Mistake | None:
    """`when loss > 3 for 20 steps` and nothing; `when loss > 3 do pause`; `when loss > 3 { alert }`."""
    if "ARROW" not in s.expected or s.part != "when" or s[-1].text == "nonfinite":
        return None
    if s[0].text == "do":
        edit = Edit(s[0].start, s[0].start, f"-> {_ACTIONS.get(s[1].text, 'orange')} ")
        return Mistake("V024", "actions belong to a level", s[0].start, s[0].end, "no `-> LEVEL` before it",
                       s.write(edit), edit)  # fmt: skip
    if s[0].is_name and s[0].text in _ACTIONS and not s.opens_line(s[0]):
        edit = Edit(s[0].start, s[0].end, f"-> {_ACTIONS[s[0].text]} do {_OTHER_ACTIONS.get(s[0].text, s[0].text)}")
        return Mistake("V024", f"`{s[0].text}` is an action; it belongs to a level", s[0].start, s[0].end,
                       "no `-> LEVEL do` before it", s.write(edit), edit)  # fmt: skip
    if s[0].text in ("{", ":", "?"):
        return Mistake("V023", "a `when` ends in an arrow and a level", s[0].start, s[0].end, "`-> LEVEL` here",
                       (f"write `{s.said(s.words[s.opening].start, s[-1].end)[-70:]} -> orange`",),
                       Edit(s[-1].end, s[0].end, " -> orange"), True)  # fmt: skip
    if s.at_end or s[0].text in ("}", ";", ".") or s[0].is_name and s.opens_line(s[0]) and s[0].text not in ("for", "on"):
        edit = Edit(s[-1].end, s[-1].end, " -> orange")
        opening = s.words[s.opening]
        return Mistake("V023", "this `when` leads to no level", opening.start, s[-1].end, "and then?",
                       (f"{s.write(edit)[0]}, or yellow or red",), edit, True)  # fmt: skip
    return None


def do_missing(s: Sentence) -> Mistake | None:
    """`-> red pause`, `-> red, pause`, `-> red: pause`, `level orange alert`."""
    if s[-1].text not in LEVELS or "DO" not in s.expected:
        return None
    k = 1 if s[0].text in (",", ":", "and", "then", "(", "=", "+", "with", "=>", "->", "&") else 0
    if not (s[k].is_name and s[k].text in _ACTIONS) or k == 0 and s.opens_line(s[0]):
        return None
    edit = Edit(s[-1].end, s[k].end, f" do {_OTHER_ACTIONS.get(s[k].text, s[k].text)}")
    return Mistake("V048", f"an action comes after `do`: `{s[k].text}`", s[0].start, s[k].end, "`do` before it",
                   s.write(edit), edit)  # fmt: skip


def action_list(s: Sentence) -> Mistake | None:
    """`do alert and pause`, `do alert pause`, `do` and nothing."""
    if s[-1].text == "do" and "NAME" in s.expected and (s.at_end or s[0].text in ("}", "->", ",")):
        edit = Edit(s[-1].end, s[-1].end, " alert, tag")
        return Mistake("V048", "nothing to do after `do`", s[-1].start, s[-1].end, "what?", s.write(edit), edit, True)
    inside = [w.text for w in s.words[s.opening : s.index]]
    if "do" not in inside or not s[-1].is_name and s[-1].text != ")":
        return None
    if s[0].text in ("and", "then", "+", "&", "&&", ";") and s[1].is_name and s[1].text in _ACTIONS:
        edit = Edit(s[-1].end, s[0].end, ",")
        return Mistake("V048", "actions are listed with commas", s[0].start, s[0].end, "`,` here", s.write(edit), edit)
    if s[0].is_name and s[0].text in _ACTIONS and s[-1].text in _ACTIONS and not s.opens_line(s[0]):
        edit = Edit(s[-1].end, s[-1].end, ",")
        return Mistake("V048", "actions are listed with commas", s[-1].end - 1, s[0].end, "`,` between them",
                       s.write(edit), edit)  # fmt: skip
    return None


def too_late(s: Sentence) -> Mistake | None:
    """`-> red for 20 steps`, `-> red do rollback after 700 steps`, `on loss for 20 steps`."""
    word = s[0].text
    inside = s.words[s.opening : s.index]
    anchors = {"for": ("->", "on", "apart"), "on": ("->",), "after": ("do",), "in": (), "if": ("->",)}.get(word, ())
    if not anchors or s.part not in ("when", "clear", "event"):
        return None
    anchor = next((w for name in anchors for w in inside if w.text == name), None)
    if anchor is None:
        return None
    if word == "if":
        return None
    if word == "after":
        anchor = next(w for w in reversed(inside) if w.text == "do")
    last = 1
    while s[last + 1].text and (s[last + 1].text in ("steps", "samples", "min", "h", "d", "s", "epochs", "tokens", "step",
            "sample", "of", "and") or s[last].text in ("of", "and")):  # fmt: skip
        last += 1
    phrase = s.said(s[0].start, s[last].end)
    edit = Edit(anchor.start, s[last].end, f"{phrase} {s.text[anchor.start : s[-1].end]}")
    return Mistake("V041", f"`{word}` stands before `{anchor.text}`", s[0].start, s[last].end, f"before `{anchor.text}`",
                   s.write(edit), edit)  # fmt: skip


RECOGNISERS: tuple[Recogniser, ...] = (wrong_level, do_missing, action_list, too_late, condition_and_no_level)
