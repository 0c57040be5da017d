"""The reference of all metrics, made from the collectors themselves."""

from __future__ import annotations

import inspect
from datetime import timedelta

from vitalsdsl_torch.collectors.base import Cadence, collectors

_HEAD = """\
# The vitals of a torch training

`vitalsdsl_torch.Vitals` measures these around each optimizer step; `Vitals.step` gives those that are due, to be logged.
This page is made from the collectors: `pytest --update tests/torch/test_vitals_page.py` rewrites it.

```python
import torch
from vitalsdsl_torch import Vitals

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

vitals = Vitals(model, optimizer)  # before torch.compile; with a GradScaler: scaler=scaler
for batch in vitals.loader([torch.randn(16, 8) for _ in range(100)]):
    loss = (model(batch).squeeze() - batch.sum(dim=1)).pow(2).mean()
    loss.backward()
    vitals.clip_grad_norm_(1.0)  # in place of torch.nn.utils.clip_grad_norm_
    optimizer.step()
    metrics = vitals.step(loss=loss, samples=len(batch))  # what is due: much at the first and each fiftieth step
    optimizer.zero_grad()
    ...  # mlflow.log_metrics(metrics, step=step), wandb.log(metrics), guard.step(metrics)

print([name for name in sorted(metrics) if name.startswith("grad")])
```

prints

```text
['grad_nonfinite', 'grad_norm', 'grad_norm_clipped']
```

Gradients are those of the whole optimizer step: accumulated, unscaled, and as they are before `Vitals.clip_grad_norm_`
clips them; clipped by other means before the optimizer's step, they are measured clipped. Norms are L2, added up in
float32. A parameter counts once, tied or not; frozen ones and those without a gradient do not count. A metric that does
not apply is absent, never 0; NaN and infinity are logged as they are.

Groups `<g>` are embed, head, attn, mlp, norm, router, expert, other, by the names and types of the modules, and trunk: all
but embed and head. Layers `<i>` are those of the model's numbered list; with several lists they are counted through.

Each collector can be left out (`off={"logits"}`) and has a cadence of its own (`every={"activations": 200}`), in optimizer
steps or as a `timedelta`; with steps it is due at the first and at each multiple. "Each logged step" is each fiftieth, or
what `log_every` says. Between two points a rule sees nothing: `for 20 steps` over a metric of each fiftieth is over at the
next point, and where rules shall see every step, `log_every=1` costs one wait for the device a step.

`Vitals.detail(steps, every)` makes the collectors marked "detail" due more often for a while. After `vitals.follow(guard)`
rules ask for it: a level that does `request("detail", steps: 200)` has them about twenty times in the next 200 steps.

With several processes `Vitals` is made on all of them alike, and its methods are called at the same steps: the ranks then
exchange one small row of numbers at a measured step. Loss, tokens and samples are those of all ranks (of `process_group`,
where one is given: give that of the data-parallel copies where other ranks get the same data), or with
`over_ranks=False` of this rank alone. What is said of parameters and gradients is always that of whole ones, sharded or not:
FSDP2 (`fully_shard`) and tensor parallelism in any mix, at one more collective a measured step and mesh dimension, and one
for each gradient that is still `Partial`. Each stage of a pipeline measures its own parameters. What layers give out, time and memory
are those of each rank.

A collector that fails on one rank is switched off on all. A step that the loss scaler skipped has no gradient metrics: they come with the next.
`collector/failed` counts collectors that failed and were switched off; it is absent while there are none.
"""

_TAIL = """\
## A validation set

Not part of the optimizer's step, hence not of `Vitals`: an evaluation adds its batches to a `Validation`, and logs what
it says at the step at which it is held.

```python
import torch
from vitalsdsl_torch import Validation

validation = Validation("hard", tokenizer="bpe-32k v2")
for ids, mask in [([[5, 7, 0], [9, 9, 9]], [[1, 1, 0], [1, 1, 1]]), ([[4, 2]], [[1, 1]])]:
    ids, mask = torch.tensor(ids), torch.tensor(mask)
    loss = torch.tensor(2.0 if len(ids) == 2 else 1.3)  # what the model says of this batch
    validation.add(loss, tokens=mask.sum(), ids=ids, mask=mask)
print(validation.metrics())
```

| metric | meaning |
|---|---|
| `val_loss` | Σ loss × tokens / Σ tokens; NaN where there was no token. `val_loss/<set>` where the set has a name, and so for the others |
| `val_samples` | samples |
| `val_fingerprint` | a whole number that stays as long as the set does: the same in any order, batch size and padding, another for other words, samples, or another tokenizer; absent without the ids |

## What is not here

- `ppl`, `gap`, `gap_rel`, `mfu` and `lr_expected` follow from what is logged and from what only the user knows (operations a
  token, the schedule): a rule file says how, with `let`.
- `rl/…`, `dpo/…`, `reward`, `kl` and the like: the library that trains logs them, and rules read them under the names that it
  gives. Log your own beside those of `Vitals.step`: `wandb.log(vitals.step() | {"rl/kl": kl})`.
- Rates by layer are a matter of the optimizer: see [parameter groups](parameter_groups.md).
"""


def page() -> str:
    """The page as Markdown."""
    return "\n".join([_HEAD, *(_section(name) for name in collectors()), _TAIL])


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
    return "logged step" if cadence == 1 else f"{cadence} steps"
