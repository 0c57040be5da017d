"""The reference of all metrics, made from the collectors themselves."""

from __future__ import annotations

import inspect
from datetime import timedelta

from vitalsdsl_torch.collectors.base import Cadence, collectors

_HEAD = """\
# The vitals of a torch training

`vitalsdsl_torch.Vitals` measures these around each optimizer step; `Vitals.step` gives those that are due, to be logged.
This page is made from the collectors: `pytest --update tests/torch/test_vitals_page.py` rewrites it.

Gradients are those of the whole optimizer step: accumulated, unscaled, and as they are before `Vitals.clip_grad_norm_`
clips them; clipped by other means before the optimizer's step, they are measured clipped. Norms are L2, added up in
float32. A parameter counts once, tied or not; frozen ones and those without a gradient do not count. A metric that does
not apply is absent, never 0; NaN and infinity are logged as they are.

Groups `<g>` are embed, head, attn, mlp, norm, router, expert, other, by the names and types of the modules, and trunk: all
but embed and head. Layers `<i>` are those of the model's numbered list; with several lists they are counted through.

Each collector can be left out (`off={"logits"}`) and has a cadence of its own (`every={"activations": 200}`), in optimizer
steps or as a `timedelta`; with steps it is due at the first and at each multiple. `Vitals.detail` makes those marked
"detail" due more often for a while. A step that the loss scaler skipped has no gradient metrics: they come with the next.
`collector/failed` counts collectors that failed and were switched off; it is absent while there are none.
"""


def page() -> str:
    """The page as Markdown."""
    return "\n".join([_HEAD, *(_section(name) for name in collectors())])


def _section(name: str) -> str:
    one = collectors()[name]
    facts = [f"Every {_span(one.every)}{' (detail)' if one.is_detail else ''}.", f"Cost: {one.cost}."]
    facts += [f"Needs: {one.needs}."] if one.needs else []
    rows = [f"| `{metric}` | {meaning} |" for metric, meaning in one.metrics.items()]
    about = [f"## {name}", inspect.cleandoc(one.__doc__ or ""), " ".join(facts)]
    return "\n\n".join([*about, "\n".join(["| metric | meaning |", "|---|---|", *rows, ""])])


def _span(cadence: Cadence) -> str:
    if isinstance(cadence, timedelta):
        return f"{cadence.total_seconds() / 60:g} minutes"
    return "step" if cadence == 1 else f"{cadence} steps"
