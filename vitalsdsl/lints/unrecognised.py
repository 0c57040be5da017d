"""Packs that look for a loss which no run logs under a name they know."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.likely_names import CENTRAL, likely
from vitalsdsl.ground.quoting import quoted
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import name_text
from vitalsdsl.language.scope import match_family
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.on_runs import place_of_use


class Unrecognised(Lint):
    """A pack reads the loss, or the gradient norm, and no run logs it under a name that the pack knows.

    What a pack reads is `optional`, so that it is for any run; all its rules on the loss are then silent. A line of your own
    adds the name: the pack's names stay.
    """

    code = "V318"
    logged = ({"my.loss": ("2 x50", 1), "lr": ("1 x50", 1)},)
    bad = 'use "pack:core" as core'
    good = 'use "pack:core" as core\nmetric core.loss = "my.loss"'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        if at.runs is None or not at.runs.count:
            return
        logged = at.runs.survey.metrics
        read = {name.path for name in at.all(ex.Name)}
        for metric in at.scope.metrics.values():
            space, _, name = metric.name.rpartition(".")
            is_of_pack = metric.optional and metric.span.source is not at.policy.source
            if (
                name not in CENTRAL
                or not is_of_pack
                or metric.name not in read
                or any(n in logged for n in metric.logged)
            ):
                continue
            near = likely(name, [n for n in logged if not _is_declared(n, at)])
            if near or name == "loss" and not _has_parts(at):
                place = place_of_use(rf"\buse\b[^\n]*\bas {space}\b" if space else r"\buse\b", at)
                write = f"if it is `{near[0]}`, {_further_name(metric.name, near[0], at)}" if near else ""
                yield self.found(
                    f"no run logs `{name_text(metric.name)}` under a name that is known here ({at.runs.told()})", place,
                    "reads it", write or "`vitals names SOURCE` lists what there is",
                )  # fmt: skip


def _further_name(metric: str, logged: str, at: Looked) -> str:
    """What to write for it. Without a namespace a metric of one's own would clash with the pack's."""
    if "." in metric:
        return f"write `metric {name_text(metric)} = {quoted(logged)}`"
    own = at.policy.source.name
    if own.startswith("pack:"):
        space = own.rpartition(":")[2]
        return f'write `use "{own}" as {space}` and `metric {space}.{metric} = {quoted(logged)}`'
    return f"bring the pack in by `as NAME` and write `metric NAME.{metric} = {quoted(logged)}`"


def _is_declared(name: str, at: Looked) -> bool:
    metrics = at.scope.metrics.values()
    return any(
        name in m.logged or m.family and any(match_family(p, name) is not None for p in m.logged) for m in metrics
    )


def _has_parts(at: Looked) -> bool:
    """Whether the runs log losses that have no total, such as an actor's."""
    assert at.runs is not None
    parts = (m for m in at.scope.metrics.values() if m.name.endswith("_loss") and not m.name.endswith("val_loss"))
    return any(name in at.runs.survey.metrics for part in parts for name in part.logged)
