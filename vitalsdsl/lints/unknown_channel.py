"""A message to a channel that nobody has configured."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import rules
from vitalsdsl.lints.base import Lint, Looked


class UnknownChannel(Lint):
    """The night comes, the rule fires, and its message goes nowhere: the channel is called otherwise in vitals.toml.

    Said only where there is a vitals.toml, the project's or the user's own; a policy that is checked elsewhere may name
    channels that are known only where it is used.
    """

    code = "V608"
    bad = 'level yellow do notify("taem")\nwhen loss > 3 -> yellow'
    good = '# with [channels.team] in vitals.toml\nlevel yellow do notify("team")\nwhen loss > 3 -> yellow'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        named = [action for action in _actions(at) if action.name == "notify" and action.arguments]
        known = at.channels() if named and at.channels is not None else None
        if known is None:
            return
        for action in named:
            said = action.arguments[0].value
            channel = said.text if isinstance(said, rules.ActionText) else ""
            if channel not in known:
                near = difflib.get_close_matches(channel, known, 1)
                listed = ", ".join(f"`{name}`" for name in sorted(known)) or "none"
                help_ = f"did you mean `{near[0]}`?" if near else f"channels here: {listed}"
                yield self.found(f"vitals.toml knows no channel `{channel}`", action.span, "reaches nobody", help_)


def _actions(at: Looked) -> Iterator[rules.Action]:
    for level in at.policy.of(rules.LevelDefault):
        yield from level.actions
    for guard in at.policy.of(rules.Nonfinite):
        yield from guard.actions or ()
    for _, clause in at.clauses:
        for rung in clause.rungs:
            yield from rung.actions or ()
