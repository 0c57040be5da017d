"""Conditions that lack a piece, and words that are not used so."""

from __future__ import annotations

from vitalsdsl.builder import RESERVED
from vitalsdsl.mistakes.sentence import COMPARES, Edit, Mistake, Recogniser, Sentence, Word

_JOINTS = ("and", "or", "not", "then", "no", "when", "unless", "is", "within", "for", "on", "before", "at", "do")
_OPERATORS = (*COMPARES, "+", "-", "*", "/")


def _wants_value(word: Word) -> bool:
    return word.text in _OPERATORS or word.text in ("and", "or", "not", "when", "=", "(", ",", "then", "no", ":")


def lacking(s: Sentence) -> Mistake | None:
    """`when -> red`, `loss > -> red`, `loss > 3 and -> red`, `let gap =`; also where a joint was read as a name."""
    last, stop = s[-1], s[0]
    if s[-1].text in RESERVED and s[-1].is_name and _wants_value(s[-2]) and s[-1].text in _JOINTS:
        last, stop = s[-2], s[-1]
    elif not s.operand_wanted() or not _wants_value(last) or stop.text in ("[", ".", "!", "@", "$", "?") or stop.kind in (
        "open", "other", "string", "name") and not (stop.is_name and stop.text in RESERVED or s.opens_line(stop)):  # fmt: skip
        return None
    if stop.text in COMPARES:
        return _left_missing(s, last, stop)
    if stop.text == "=" and last.text in COMPARES:
        return None
    message, label = _what_is_missing(s, last)
    place = last
    help_, edit = _completed(s, last, stop)
    return Mistake("V034", message, place.start, place.end, label, help_, edit, True)


def _completed(s: Sentence, last: Word, stop: Word) -> tuple[tuple[str, ...], Edit | None]:
    """The line with something in the gap; or without what leads to it."""
    if last.text in ("and", "or", "+", "*", "/", ","):
        before = next((w for w in reversed(s.words) if w.end <= last.start), None)
        if before is not None:
            edit = Edit(before.end, last.end, "")
            return (f"{s.write(edit)[0]}, or say what comes after `{last.text}`",), edit
    filler = {"when": "loss > 3", "=": "loss", "not": "spike", "then": "recovered", "(": "loss"}.get(last.text, "3")
    edit = Edit(last.end, last.end, f" {filler}" if last.text != "(" else filler)
    return (f"for example `{s.shown(edit)}`",), edit


def _what_is_missing(s: Sentence, last: Word) -> tuple[str, str]:
    if last.text == "when":
        return "`when` has no condition", "when what?"
    if last.text == "=" and len(s.words) > 1:
        return f"`{s.said(s.words[0].start, s.words[1].end)}` has no value", "nothing after `=`"
    if last.text in COMPARES:
        return f"nothing to compare with after `{last.text}`", f"`{last.text}` what?"
    if last.text in ("(", ","):
        return f"nothing stands after this `{last.text}`", "something is missing after it"
    return f"nothing stands after `{last.text}`", f"{last.text} what?"


def _left_missing(s: Sentence, last: Word, stop: Word) -> Mistake:
    """`loss > 3 and < 5`, `when > 3`."""
    left = _left_operand(s, last) if last.text in ("and", "or", "not") else ""
    if last.text == "not" and left:
        left = ""
    if left:
        edit = Edit(stop.start, stop.start, left + " ")
        message = f"nothing stands between `{last.text}` and `{stop.text}`"
        return Mistake("V034", message, last.start, stop.end, "say again what is compared", s.write(edit), edit)
    edit = Edit(stop.start, stop.start, "loss ")
    return Mistake("V034", f"nothing stands before `{stop.text}`", stop.start, stop.end, f"what is `{stop.text}`?",
                   (f"name the metric: `{s.shown(edit)}`",), edit, True)  # fmt: skip


def _left_operand(s: Sentence, last: Word) -> str:
    """What the comparison before this `and` compares."""
    before = [w for w in s.words if w.end <= last.start]
    for at in range(len(before) - 1, 0, -1):
        if before[at].text in COMPARES:
            start = at
            while start > 0 and before[start - 1].text not in ("when", "and", "or", "not", "=", "(", "then", "no", *COMPARES):
                start -= 1
            return s.said(before[start].start, before[at - 1].end) if start < at else ""
    return ""


def bound_missing(s: Sentence) -> Mistake | None:
    """`spike then recovered -> red`, `missing loss -> red`, `stalled -> red`."""
    inside = [w.text for w in s.words[s.opening : s.index]]
    if "WITHIN" in s.expected and "then" in inside and s[0].text not in COMPARES:
        if s[0].text in ("in", "for", "before", "after", "until", "inside", "by"):
            edit = Edit(s[0].start, s[0].end, "within")
            return Mistake("V038", f"the bound of `then` is `within`, not `{s[0].text}`", s[0].start, s[0].end, "`within`",
                           s.write(edit), edit)  # fmt: skip
        then = next(w for w in reversed(s.before) if w.text == "then")
        edit = Edit(s[-1].end, s[-1].end, " within 500 steps")
        return Mistake("V038", "`then` needs a bound", then.start, then.end, "within how long?", s.write(edit), edit)
    if "FOR" in s.expected and ("missing" in (s[-2].text, s[-1].text) or s[-1].text == "stalled") and "ARROW" not in s.expected:
        first = s[-1] if s[-1].text in ("stalled", "missing") else s[-2]
        said = s.said(first.start, s[-1].end)
        if s[0].text in ("since", "over", "within", "during", "in", "after"):
            edit = Edit(s[0].start, s[0].end, "for")
        elif s[0].is_number:
            edit = Edit(s[-1].end, s[-1].end, " for")
        else:
            edit = Edit(s[-1].end, s[-1].end, " for 10 min" if first.text == "stalled" else " for 100 steps")
        return Mistake("V038", f"`{said}` needs a length of time", first.start, s[-1].end, "for how long?", s.write(edit), edit)
    return None


def length_missing(s: Sentence) -> Mistake | None:
    """`for -> red`, `cooldown`, `within`."""
    words = ("for", "within", "after", "every", "cooldown", "apart", "per", "before")
    last = s[-1]
    if last.text not in words or not {"NUMBER", "NAME"} <= s.expected or s[0].is_number:
        return None
    if s[0].kind not in ("end", "mark") and not (s[0].is_name and s.opens_line(s[0])):
        return None
    if s[0].text in (":", "=", ".", "~", "-", "$"):
        return None
    edit = Edit(last.end, last.end, " 20 steps")
    return Mistake("V038", f"`{last.text}` needs a length of time", last.start, last.end, "how long?",
                   (f"for example `{s.shown(edit)}`; also samples, min, h",), edit, True)  # fmt: skip


def each(s: Sentence) -> Mistake | None:
    """`each layer act/*`, `each act/* as layer`, `each layer in act`, `for each …`, `in startup`."""
    if s[-2].text == "each" and s[0].text in ("of", "from", "over", ":", "=", "on"):
        edit = Edit(s[0].start, s[0].end, "in" if s[0].text != ":" else " in")
        return Mistake("V039", f"`each` goes with `in`, not `{s[0].text}`", s[0].start, s[0].end, "`in`", s.write(edit), edit)
    if s[-2].text == "each" and s[0].kind == "family":
        edit = Edit(s[0].start, s[0].start, "in ")
        return Mistake("V039", "no `in` after the name of the member", s[-1].start, s[0].end, "`in` between them",
                       s.write(edit), edit)  # fmt: skip
    if s[-1].text == "each" and s[0].kind == "family":
        end = s[2].end if s[1].text == "as" else s[0].end
        member = s[2].text if s[1].text == "as" else "m"
        edit = Edit(s[0].start, end, f"{member} in {s[0].text}")
        return Mistake("V039", "`each` first names the member", s[0].start, end, "a name, then `in`", s.write(edit), edit)
    if s[-1].text == "in" and s[-3].text == "each" and s[0].kind in ("name", "string"):
        name = s[0].text.strip('"').replace(" ", "_")
        edit = Edit(s[0].start, s[0].end, f"{name}/*" if "*" not in name else name)
        return Mistake("V039", f"`{s[0].text}` is no family of metrics", s[0].start, s[0].end, "no `*` in it", s.write(edit),
                       edit)  # fmt: skip
    if s[0].text == "for" and s[1].text == "each" and s.keyword == "rule":
        edit = Edit(s[0].start, s[1].end, "each")
        return Mistake("V039", "`for each` is only `each`", s[0].start, s[0].end, "leave it out", s.write(edit), edit)
    if s[-1].text == "in" and "PHASE" in s.expected and s[0].is_name:
        edit = Edit(s[0].start, s[0].start, "phase ")
        return Mistake("V039", f"`in {s[0].text}` does not say what that is", s[0].start, s[0].end, "a phase?", s.write(edit),
                       edit)  # fmt: skip
    return None


def call(s: Sentence) -> Mistake | None:
    """`baseline 500`, `mean (loss)`, `Mean(loss)`, `np.mean(loss)`, `mean loss`."""
    name = s[-1]
    if not name.is_name or name.text in RESERVED or not s.expected & {"COMPARE", "PLUS"}:
        return None
    if s[0].text == "(":
        plain = name.text.lower().replace("/", ".").rsplit(".", 1)[-1]
        edit = Edit(name.start, s[0].start, plain)
        if plain != name.text:
            return Mistake("V019" if plain == name.text.lower() else "V040", f"the functions have plain small names: `{plain}`",
                           name.start, name.end, f"`{plain}`", s.write(edit), edit)  # fmt: skip
        return Mistake("V040", f"no white space between `{name.text}` and its `(`", name.start, s[0].end,
                       "they touch", s.write(edit), edit)  # fmt: skip
    if s[0].is_number:
        end = s[1].end if s[1].text in ("steps", "step", "samples", "sample", "min", "h", "d", "s") else s[0].end
        edit = Edit(name.end, end, f"({s.said(s[0].start, end)})")
        return Mistake("V040", f"what `{name.text}` takes stands in parentheses", name.start, end, "`( )` round it",
                       s.write(edit), edit)  # fmt: skip
    if s[0].text == "of" and (s[1].is_name or s[1].kind == "string"):
        edit = Edit(name.end, s[1].end, f"({s[1].text})")
        return Mistake("V040", f"what `{name.text}` takes stands in parentheses", name.start, s[1].end, "no `of` here",
                       s.write(edit), edit)  # fmt: skip
    return None


def is_what(s: Sentence) -> Mistake | None:
    """`loss is null`, `loss is NaN`, `loss is missing`, `loss missing for 10 steps`, `loss not nan`, `loss > 3 is true`."""
    states = {"nan": "nan", "inf": "inf", "infinite": "inf", "infinity": "inf", "finite": "finite", "null": "nan",
              "none": "nan", "na": "nan", "n/a": "nan", "nonfinite": "not finite", "invalid": "not finite"}  # fmt: skip
    if s[0].text == "missing" and s[-1].text in ("is", "not") or s[0].text == "missing" and "COMPARE" in s.expected:
        subject = s[-2] if s[-1].text == "is" else s[-1]
        if subject.is_name or subject.kind == "string":
            rest = "" if s[1].text == "for" else " for 100 steps"
            edit = Edit(subject.start, s[0].end, f"missing {subject.text}{rest}")
            return Mistake("V046", f"`missing` stands before `{subject.text}`", s[-1].start, s[0].end, "the other way round",
                           s.write(edit), edit)  # fmt: skip
    before = s[-1].text
    if before not in ("is", "not") and "COMPARE" not in s.expected or not s[0].is_name:
        if not (before in ("is", "not") and "STATE" in s.expected):
            return None
    if before in ("is", "not") and "STATE" not in s.expected:
        return None
    low = s[0].text.lower()
    if s[0].text == "not" and s[1].text.lower() in states and "IS" in s.expected:
        edit = Edit(s[0].start, s[1].end, f"is not {states[s[1].text.lower()]}")
        return Mistake("V046", f"`not {s[1].text}` comes after `is`", s[0].start, s[1].end, "`is` before it", s.write(edit),
                       edit)  # fmt: skip
    if before in ("is", "not") and low in states and s[0].is_name:
        code, label = ("V019" if low == states[low] else "V046"), f"`{states[low]}`"
        edit = Edit(s[0].start, s[0].end, states[low])
        if before == "not" and states[low].startswith("not "):
            edit = Edit(s[-1].start, s[0].end, "finite")
        return Mistake(code, f"`{before} {s[0].text}` is written `{before} {states[low]}`", s[0].start, s[0].end, label,
                       s.write(edit), edit)  # fmt: skip
    if before not in ("is", "not"):
        return None
    return _is_value(s)


def _is_value(s: Sentence) -> Mistake | None:
    start = s[-2] if s[-1].text == "not" else s[-1]
    same, right = (s[-1].text != "not", "==") if s[-1].text != "not" else (False, "!=")
    if s[0].text.lower() in ("true", "false"):
        flips = (s[0].text.lower() == "false") == same
        edit = None if flips else Edit(s[-2 if same else -3].end, s[0].end, "")
        return Mistake("V046", "a condition stands for itself", start.start, s[0].end, "leave it out",
                       s.write(edit) if edit else ("write `not (…)` round the condition",), edit)  # fmt: skip
    edit = Edit(start.start, s[-1].end, right)
    label = "only nan, inf, finite come after `is`"
    if not (s[0].is_number or s[0].is_name or s[0].text == "-" or s[0].kind in ("percent", "string", "end")):
        return None
    help_ = s.write(edit) if s[0].kind != "end" else ("write `is nan`, `is inf` or `is not finite`",)
    return Mistake("V046", f"`{s.said(start.start, s[0].end)}` is no test", start.start, s[0].end, label, help_,
                   edit if s[0].kind != "end" else None)  # fmt: skip


RECOGNISERS: tuple[Recogniser, ...] = (each, is_what, bound_missing, length_missing, lacking)
LATE_RECOGNISERS: tuple[Recogniser, ...] = (call,)
