"""What an action in a policy asks for: its arguments by name, or what is wrong with them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from vitalsdsl.actions.base import Accepts, Action, Parameter, registry
from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.ground.source import Span
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import AS_WRITTEN
from vitalsdsl.language.rules import Level

Params = Mapping[str, rules.Param]

DEFAULTS: dict[Level, tuple[tuple[str, Mapping[str, Any]], ...]] = {
    Level.GREEN: (),
    Level.YELLOW: (("alert", {}), ("tag", {})),
    Level.ORANGE: (("alert", {}), ("tag", {}), ("pause", {})),
    Level.RED: (("alert", {}), ("tag", {}), ("rollback", {"lr": 0.9})),
}
"""What a level does unless the policy says otherwise."""


_CHANNELS = frozenset(
    "slack email mail e_mail teams discord telegram pagerduty opsgenie webhook sms mattermost ntfy phone page push".split()
)
"""What channels are usually called."""

_SURELY_PERCENT = 50
"""A number of this size or more, up to a hundred, is a percentage without its sign; a smaller one may be a factor."""


class Asked(NamedTuple):
    """One action with its arguments, as a policy asks for it; `text` is how it is written. One that is asked for
    `by_default` nobody wrote: it comes with the level."""

    action: type[Action]
    arguments: Mapping[str, Any]
    text: str
    by_default: bool = False

    @property
    def name(self) -> str:
        return self.action.name


def asked(name: str, arguments: Mapping[str, Any] | None = None, text: str = "") -> Asked:
    """An action that nobody wrote, such as a level's default.

    >>> asked("rollback").arguments
    {'lr': 0.9, 'skip': None}
    """
    action = registry()[name]
    given = {p.name: p.default for p in action.parameters} | dict(arguments or {})
    return Asked(action, given, text or name)


def default_actions(level: Level) -> tuple[Asked, ...]:
    """What a level does by default.

    >>> [a.text for a in default_actions(Level.RED)]
    ['alert', 'tag', 'rollback(lr: 90%)']
    """
    texts = {"rollback": "rollback(lr: 90%)"}
    found = (asked(name, arguments, texts.get(name, "")) for name, arguments in DEFAULTS[level])
    return tuple(one._replace(by_default=True) for one in found)


def read_actions(
    actions: Iterable[rules.Action], params: Params | None = None
) -> tuple[tuple[Asked, ...], list[Diagnostic]]:
    """The actions of one `do` as they are asked for, and what is wrong with them. Faulty ones are left out.

    `params` are the policy's params by name.
    """
    found: list[Asked] = []
    diagnostics: list[Diagnostic] = []
    interventions: list[str] = []
    for action in actions:
        reading = _Reading(action, params or {})
        diagnostics += reading.diagnostics
        if reading.asked is None:
            continue
        found.append(reading.asked)
        if reading.asked.action.rank:
            interventions.append(reading.asked.name)
            if len(interventions) > 1:
                first, second = interventions[:2]
                message = f"`{first}` and `{second}` in one `do`: one step asks for one of them at most"
                diagnostics.append(
                    Diagnostic("V083", Severity.WARNING, message, action.span, "the weightier one wins", ("keep one",))
                )
    return tuple(found), diagnostics


class _Reading:
    """One action being read."""

    def __init__(self, written: rules.Action, params: Params) -> None:
        self.written = written
        self.params = params
        self.diagnostics: list[Diagnostic] = []
        self.arguments: dict[str, Any] = {}
        self.asked: Asked | None = None
        action = registry().get(written.name)
        if action is None:
            self._unknown()
            return
        self.action = action
        self._read()
        if not self.diagnostics:
            self.asked = Asked(action, self.arguments, AS_WRITTEN.action(written))

    def _error(self, code: str, message: str, span: Span, label: str = "", *help_: str) -> None:
        self.diagnostics.append(Diagnostic(code, Severity.ERROR, message, span, label, help_))

    def _unknown(self) -> None:
        span = self.written.span
        span = Span(span.source, span.start, span.start + len(self.written.name))
        name = self.written.name
        # What changes the run is never guessed.
        harmless = [n for n, action in registry().items() if not action.asks and not action.rank]
        near = difflib.get_close_matches(name, harmless, 1, 0.7)
        help_ = "there are " + ", ".join(f"`{n}`" for n in sorted(registry()))
        if near:
            help_ = f"did you mean `{near[0]}`?"
        elif name.lower() in _CHANNELS:
            help_ = f'to tell a channel, write `notify("{name}")`'
        self._error("V080", f"there is no action `{name}`", span, "unknown action", help_)

    def _read(self) -> None:
        action = self.action
        places = [p for p in action.parameters if not p.keyword]
        for argument in self.written.arguments:
            parameter = self._place(argument, places)
            if parameter is None and not (action.takes_any_keyword and argument.keyword):
                continue
            name = parameter.name if parameter is not None else str(argument.keyword)
            if name in self.arguments:
                self._error("V081", f"`{name}` is said twice", argument.span, "again", "keep one of them")
                continue
            value = self._value(argument, parameter)
            if value is not None:
                self.arguments[name] = value
        self._complete()

    def _place(self, argument: rules.ActionArgument, places: list[Parameter]) -> Parameter | None:
        action, keyword = self.action, argument.keyword
        if keyword is None:
            if places:
                return places.pop(0)
        elif keyword in action.keywords():
            return action.keywords()[keyword]
        elif action.takes_any_keyword:
            return None
        written = AS_WRITTEN.action_argument(argument)
        if not action.parameters:
            self._error("V081", f"`{action.name}` takes nothing", argument.span, "", f"write `{action.name}`")
        elif keyword is None:
            self._error("V081", f"`{action.name}` does not take a bare `{written}`", argument.span, "which one?",
                        f"it is written `{action.signature()}`")  # fmt: skip
        else:
            near = difflib.get_close_matches(keyword, action.keywords(), 1, 0.5)
            help_ = f"did you mean `{near[0]}`?" if near else f"it is written `{action.signature()}`"
            self._error("V081", f"`{action.name}` takes no `{keyword}`", argument.span, "unknown", help_)
        return None

    def _complete(self) -> None:
        if self.diagnostics:
            return
        for parameter in self.action.parameters:
            if parameter.name in self.arguments:
                continue
            if parameter.required:
                message = f"`{self.action.name}` needs its {parameter.name}"
                self._error("V081", message, self.written.span, "", f"write `{self.action.signature()}`")
            else:
                self.arguments[parameter.name] = parameter.default
        if not self.diagnostics:
            wrong = self.action.check(self.arguments)
            if wrong is not None:
                self._error("V082", wrong, self.written.span)

    # ---------------------------------------------------------------- values

    def _value(self, argument: rules.ActionArgument, parameter: Parameter | None) -> Any:
        value: Any = argument.value
        if isinstance(value, ex.Name) and not value.quoted and value.path in self.params:
            value = self.params[value.path].value
        if parameter is None:
            return _free(value)
        read = {Accepts.TEXT: _text, Accepts.RATIO: _ratio, Accepts.STEPS: _steps}[parameter.accepts]
        found = read(value, parameter)
        if isinstance(found, _Wrong):
            written = AS_WRITTEN.action_argument(argument).rpartition(": ")[2]
            message = f"`{parameter.name}` of `{self.action.name}` is {found.kind}, not `{written}`"
            self._error("V082", message, argument.span, found.label, found.help)
            return None
        return found


class _Wrong(NamedTuple):
    kind: str
    label: str
    help: str


def _text(value: Any, parameter: Parameter) -> str | _Wrong:
    if isinstance(value, rules.ActionText):
        return value.text
    if isinstance(value, ex.Name):
        return value.path if value.quoted else _Wrong(Accepts.TEXT.value, "not in quotes", f'write `"{value.path}"`')
    return _Wrong(Accepts.TEXT.value, "", f"write `{parameter.example}`")


def _ratio(value: Any, parameter: Parameter) -> float | _Wrong:
    most = f" of at most {parameter.most:.0%}" if parameter.most < float("inf") else ""
    kind = f"a ratio above 0{most}"
    if not isinstance(value, ex.Number):
        return _Wrong(kind, "", f"write `{parameter.written().strip('[]')}`")
    if not value.ratio and _SURELY_PERCENT <= value.value <= 100:
        return _Wrong(kind, f"{value.text} what?", f"write `{value.text}%`")
    if not value.ratio and value.value > 1:  # twice, or two percent? One would do the opposite of the other
        range_ = f"above 0% and {f'at most {parameter.most:.0%}' if most else 'without a bound'}"
        return _Wrong(kind, "out of range", f"say what part of it, {range_}: such as `{parameter.example}`")
    if not 0 < value.value <= parameter.most:
        return _Wrong(kind, "out of range", f"write `{parameter.written().strip('[]')}`")
    return value.value


def _steps(value: Any, parameter: Parameter) -> float | _Wrong:
    if isinstance(value, ex.Number):
        return _Wrong(Accepts.STEPS.value, f"{value.text} what?", f"write `{value.text} steps`")
    if not isinstance(value, ex.Length) or value.unit != "steps" or value.size < 1:
        return _Wrong(Accepts.STEPS.value, "", f"write `{parameter.written().strip('[]')}`")
    return value.size


def _free(value: Any) -> Any:
    """A value that only the training side understands."""
    if isinstance(value, rules.ActionText):
        return value.text
    if isinstance(value, ex.Number):
        return value.value
    if isinstance(value, ex.Negative):
        return -_free(value.operand)
    return value.path if isinstance(value, ex.Name) else AS_WRITTEN.text(value)
