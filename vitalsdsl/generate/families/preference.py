"""Mixtures of experts and training from preferences: here the loss says little."""

from __future__ import annotations

import numpy as np

from vitalsdsl.generate.draft import EVALUATIONS, Draft
from vitalsdsl.generate.registry import Span, curve
from vitalsdsl.language.rules import Level


@curve("the router collapses onto one expert", Level.ORANGE, shows=("moe/maxvio", "moe/dead"))
def moe_collapse(draft: Draft, over: int = 300, onset: int | None = None) -> Span:
    """moe/maxvio from 0.3 to 7 and moe/dead (the share of dead experts) from 0 to 7/8 within `over` steps, of 8 experts;
    a point each 50 steps. The loss is perfect throughout.

    Source: a small model whose router was biased towards one expert; maxvio = most load / mean load - 1.
    """
    start = draft.onset(onset, over)
    fall = draft.ramp(start, over)
    noise = np.abs(0.05 * draft.gauss("moe"))
    draft.series["moe/maxvio"] = draft.every(50, 0.3 + 6.7 * fall + noise * (1 - fall))
    draft.series["moe/dead"] = draft.every(50, np.floor(7 * fall) / 8)
    return start, draft.length - 1


def _policy_gradient(draft: Draft) -> None:
    """Reinforcement from here: a loss about zero, a reward that rises and settles, a KL that grows slowly."""
    draft.only("grad_norm", "lr")
    draft.series["loss"] = 0.02 * draft.gauss("loss")
    draft.series["reward"] = 1 - np.exp(-draft.t / 1500) + 0.05 * draft.gauss("reward")
    draft.series["kl"] = 0.05 * (1 - np.exp(-draft.t / 1000)) * np.exp(0.1 * draft.gauss("kl"))
    draft.series["entropy"] = 2 + np.exp(-draft.t / 1500) + 0.05 * draft.gauss("entropy")
    draft.series["completions/mean_length"] = 300 * np.exp(0.05 * draft.gauss("length"))
    draft.series["completions/clipped_ratio"] = np.abs(0.02 + 0.01 * draft.gauss("clipped"))


@curve("the policy's entropy collapses", Level.ORANGE, shows=("entropy",), length=3000)
def grpo_entropy_collapse(draft: Draft, over: float = 100.0, onset: int | None = None) -> Span:
    """entropy from 4.16 nats down to 0.11, as e^(-t/over) from `onset` on.

    Source: a bandit of 64 arms, 4.16 to 0.11 in 100 steps; less than a tenth of the start is hard to recover from.
    """
    start = draft.onset(onset)
    _policy_gradient(draft)
    values = 0.11 + 4.05 * np.exp(-draft.since(start) / over)
    draft.series["entropy"] = values * np.exp(0.03 * draft.gauss("entropy"))
    return start, draft.length - 1


@curve(
    "the reward is hacked: it rises, what it stands for falls",
    Level.ORANGE,
    shows=("eval/gold_score", "kl"),
    length=6000,
)
def reward_hack(draft: Draft, onset: int | None = None) -> Span:
    """reward rises on to 6, eval/gold_score falls from 1 to -3, kl grows to 20 nats, from `onset` to the end; an
    evaluation each 500 steps.

    Source: L. Gao and others, Scaling laws for reward model overoptimization, 2022 (arxiv.org/abs/2210.10760).
    """
    start = draft.onset(onset, 1000)
    _policy_gradient(draft)
    climb = draft.ramp(start, draft.length - 1 - start)
    draft.series["reward"] = draft.series["reward"] + 5 * climb
    draft.series["kl"] = draft.series["kl"] + 20 * climb
    gold = 1 - np.exp(-draft.t / 1500) - 4 * climb + 0.05 * draft.gauss("gold")
    draft.series["eval/gold_score"] = draft.every(EVALUATIONS, gold)
    return start, draft.length - 1


@curve("the policy runs away from its reference", Level.ORANGE, shows=("kl",), length=3000)
def kl_runaway(draft: Draft, doubling: float = 150.0, onset: int | None = None) -> Span:
    """kl doubles each `doubling` steps from `onset` on, up to 50 nats.

    Source: twice the target for ten steps is TRL's and OpenRLHF's sign of a controller that has lost it.
    """
    start = draft.onset(onset)
    _policy_gradient(draft)
    draft.series["kl"] = np.minimum(50.0, draft.series["kl"] * 2 ** (draft.since(start) / doubling))
    return start, draft.length - 1


@curve("answers grow long and are cut off", Level.YELLOW, most=Level.ORANGE,
       shows=("completions/mean_length", "completions/clipped_ratio"), length=3000)  # fmt: skip
def len_explosion(draft: Draft, over: int = 500, onset: int | None = None) -> Span:
    """completions/mean_length from 300 to 1500 tokens and completions/clipped_ratio from 2 % to 60 % within `over` steps,
    while the reward stays as it is.

    Source: TRL's documentation of GRPO; longer reasoning that earns reward is none of this.
    """
    start = draft.onset(onset, over)
    _policy_gradient(draft)
    climb = draft.ramp(start, over)
    draft.series["completions/mean_length"] = draft.series["completions/mean_length"] * (1 + 4 * climb)
    draft.series["completions/clipped_ratio"] = draft.series["completions/clipped_ratio"] + 0.58 * climb
    return start, draft.length - 1


@curve("the preferred answers become less likely", Level.YELLOW, most=Level.ORANGE,
       shows=("logps/chosen", "rewards/margins"), length=3000)  # fmt: skip
def dpo_displacement(draft: Draft, onset: int | None = None) -> Span:
    """logps/chosen from -3.9 to -14.3 nats and rewards/margins from 0 to 0.52, from `onset` to the end: the margin grows
    because the rejected answers fall faster.

    Source: N. Razin and others, Unintentional unalignment, 2024 (arxiv.org/abs/2410.08847); a softmax of 8 features.
    """
    start = draft.onset(onset, 2)
    draft.only("grad_norm", "lr")
    climb = draft.ramp(start, draft.length - 1 - start)
    draft.series["loss"] = np.log(2) - 0.2 * climb + 0.02 * draft.gauss("loss")
    draft.series["logps/chosen"] = -3.9 - 10.4 * climb + 0.05 * draft.gauss("chosen")
    draft.series["logps/rejected"] = -4.0 - 16.0 * climb + 0.05 * draft.gauss("rejected")
    draft.series["rewards/margins"] = 0.52 * climb + 0.01 * draft.gauss("margins")
    draft.series["rewards/accuracies"] = np.clip(0.5 + 0.4 * climb + 0.03 * draft.gauss("accuracies"), 0, 1)
    return start, draft.length - 1


@curve(length=6000)
def healthy_rl(draft: Draft) -> Span:
    """Reinforcement in good health: a reward that rises and settles, kl up to 0.05 nats, entropy from 3 to 2 nats, answers
    of 300 tokens; one group in ten without a spread of rewards; rollout and trainer agree to 1 %."""
    _policy_gradient(draft)
    draft.series["reward_std"] = 0.3 * np.exp(0.1 * draft.gauss("reward_std"))
    draft.series["frac_reward_zero_std"] = np.clip(0.1 + 0.03 * draft.gauss("zero_std"), 0, 1)
    draft.series["clip_ratio/region_mean"] = np.clip(0.02 + 0.005 * draft.gauss("clip_ratio"), 0, 1)
    draft.series["sampling/sampling_logp_difference/mean"] = 0.01 * np.exp(0.1 * draft.gauss("difference"))
    draft.series["sampling/importance_sampling_ratio/mean"] = 1 + 0.01 * draft.gauss("ratio")
    draft.series["critic/vf_explained_var"] = 0.7 + 0.03 * draft.gauss("explained")
    gold = 1 - np.exp(-draft.t / 1500) + 0.05 * draft.gauss("gold")
    draft.series["eval/gold_score"] = draft.every(EVALUATIONS, gold)
    return None


@curve(length=3000)
def healthy_dpo(draft: Draft) -> Span:
    """Preference training in good health: margins from 0 to 1.5, accuracies from 0.5 to 0.8, the logps of the preferred
    answers hardly lower (-3.9 to -4.3 nats)."""
    draft.only("grad_norm", "lr")
    climb = 1 - np.exp(-draft.t / 700)
    draft.series["loss"] = np.log(2) - 0.25 * climb + 0.02 * draft.gauss("loss")
    draft.series["logps/chosen"] = -3.9 - 0.4 * climb + 0.05 * draft.gauss("chosen")
    draft.series["logps/rejected"] = -4.0 - 2.5 * climb + 0.05 * draft.gauss("rejected")
    draft.series["rewards/margins"] = 1.5 * climb + 0.05 * draft.gauss("margins")
    draft.series["rewards/accuracies"] = np.clip(0.5 + 0.3 * climb + 0.03 * draft.gauss("accuracies"), 0, 1)
    return None
