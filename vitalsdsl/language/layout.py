"""A whole policy file in its one style: blank lines, indentation, comments."""

from __future__ import annotations

from collections.abc import Sequence

from vitalsdsl.ground.errors import PolicyError, VitalsError
from vitalsdsl.ground.source import Source, is_yaml
from vitalsdsl.language import rules, sentences
from vitalsdsl.language.breaks import broken
from vitalsdsl.language.comments import Remarks, attach
from vitalsdsl.language.digest import canonical
from vitalsdsl.language.formatter import AS_WRITTEN
from vitalsdsl.language.lines import Line, head_lines, statement_lines
from vitalsdsl.language.parser import Parsed, parse

_INDENT = "  "


def format_policy(policy: Parsed | rules.Policy) -> str:
    """The text of a `.vitals` file in its one style. Formatting it again changes nothing.

    Comments stay with the statement, the part of a rule or the rung that they stand above or beside; of a YAML file,
    with their statement. The meaning is the same: the result is read again and compared.

    Raises `PolicyError` where the text could not be read, and `VitalsError` if the meaning would change, which is a
    fault of ours.

    >>> from vitalsdsl.language.parser import parse
    >>> print(format_policy(parse(Source("a.vitals", "when loss>3 for 1 step->fatal # bad"))), end="")
    when loss > 3 for 1 steps -> red  # bad
    """
    if isinstance(policy, Parsed):
        if not policy.ok:
            raise PolicyError(policy.diagnostics)
        policy = policy.policy
    if is_yaml(policy.source.name):
        lines, tail = _lines_with_remarks(policy)
        text = _joined(lines, tail)
    else:
        lines = _lines(policy)
        tail = attach(policy.source, lines)
        text = _joined(lines, tail, policy.source.text)
    again = parse(Source(policy.source.name, text))
    if not again.ok or canonical(again.policy) != canonical(policy):
        raise VitalsError(f"{policy.source.name} is left as it is: formatting it would change what it means")
    return text


def _lines(policy: rules.Policy) -> list[Line]:
    lines: list[Line] = []
    heads = head_lines(policy)
    if policy.name is not None and not any(line.text.startswith("policy") for line in heads):
        lines.append(Line(sentences.policy_line(policy)))
    before: rules.Statement | None = None
    for statement in policy.statements:
        if statement.span.source is policy.source:
            while heads and (heads[0].start or 0) < statement.span.start:
                lines.append(heads.pop(0))
        lines += _separated(statement_lines(AS_WRITTEN, statement, policy.source), statement, before)
        before = statement
    return lines + heads


def _lines_with_remarks(policy: rules.Policy) -> tuple[list[Line], list[tuple[str, bool]]]:
    remarks = Remarks.of(policy)
    lines = [Line("vitals 1", above=[(comment, False) for comment in remarks.top])]
    if policy.name is not None:
        lines.append(Line(sentences.policy_line(policy)))
    before: rules.Statement | None = None
    for statement in policy.statements:
        more = _separated(statement_lines(AS_WRITTEN, statement), statement, before)
        for comment in remarks.about.get(statement, ()):
            more[0].above.append((comment, more[0].blank))
            more[0].blank = False
        lines += more
        before = statement
    return lines, [(comment, place == 0) for place, comment in enumerate(remarks.tail)]


def _separated(lines: list[Line], statement: rules.Statement, before: rules.Statement | None) -> list[Line]:
    """Where the file does not say: a blank line between statements of different kinds."""
    lines[0].blank = type(before) is not type(statement)
    return lines


def _joined(lines: Sequence[Line], tail: Sequence[tuple[str, bool]], source: str | None = None) -> str:
    out: list[str] = []
    after_block = after_opening = False

    def put(text: str, blank: bool) -> None:
        if blank and out:
            out.append("")
        out.append(text)

    for line in lines:
        forced = after_block or line.opens
        lead = _INDENT * (line.depth + line.closes)
        for comment, blank in line.above:
            put(lead + comment, (blank or forced) and not after_opening)
            forced = after_opening = False
        beside = f"  {line.beside}" if line.beside else ""
        first, *more = broken(line, _INDENT, source)
        lead = _INDENT * line.depth
        put(lead + first + ("" if more else beside), (line.blank or forced) and not (after_opening or line.closes))
        out += [lead + text for text in more[:-1]] + [lead + text + beside for text in more[-1:]]
        after_block, after_opening = line.closes, line.opens
    for comment, blank in tail:
        put(comment, blank or after_block)
        after_block = False
    return "\n".join(out) + "\n" if out else ""
