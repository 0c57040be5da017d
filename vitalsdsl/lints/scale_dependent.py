"""An absolute threshold, in a policy for many, on a metric whose scale is the model's own."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.bounds import bounds

_SCALES = re.compile(r"norm|abs_?max|max_?abs|throughput|(?:tokens|samples|steps)_per|(?:step|iter)_time")


class ScaleDependent(Lint):
    """`grad_norm > 10` is right for one model: norms and rates scale with its size, its batch, its machine.

    In a policy for several frameworks (its metric has several logged names) make the number a param that each user sets,
    or compare with the metric's own past: `usual`, `baseline`.
    """

    code = "V208"
    bad = 'metric grad_norm = "train/grad_norm", "grad_norm"\nwhen grad_norm > 10 for 20 steps -> yellow'
    good = (
        'metric grad_norm = "train/grad_norm", "grad_norm"\nparam most = 10\n'
        "when grad_norm > most for 20 steps -> yellow"
    )

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for node in at.all(ex.Comparison):
            for bound in bounds(node, at):
                name, number = bound.subject, next((o for o in node.operands if isinstance(o, ex.Number)), None)
                if not isinstance(name, ex.Name) or bound.scaled is not None or number is None or bound.value == 0:
                    continue
                metric = at.scope.metrics.get(name.path)
                if metric is not None and len(metric.logged) > 1 and _SCALES.search(metric.name.lower()):
                    yield self.found(
                        f"`{name.path}` has another scale in each model", number.span, "right for one model",
                        f"compare it with `3 * usual({name.path}, 500 steps)`, or make the number a `param`",
                    )  # fmt: skip
