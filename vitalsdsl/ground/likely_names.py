"""Which of the names that a run logs is probably its training loss, or the norm of its gradients."""

from __future__ import annotations

import re
from collections.abc import Iterable

CENTRAL = ("loss", "grad_norm")
"""The metrics without which little can be said of a training's health."""

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

_LOSS = frozenset({"loss", "losses", "nll", "ce", "xent", "crossentropy", "trainloss", "trainingloss"})
_GRADIENT = frozenset({"grad", "grads", "gradient", "gradients"})
_GRADIENT_NORM = frozenset({"gnorm", "gradnorm"})

_PLAIN = frozenset(
    "train training trainer step batch iter model objective total global running avg mean raw current cross entropy lm "
    "norm norms l2 optim metrics nll loss".split()
)
"""Words that leave a loss the loss of training."""

_OTHER = frozenset(
    "val valid validation eval evaluation test dev holdout predict scale scaler scaling best min max target weight coef "
    "std var delta diff ratio count num clip clipped aux box cls dfl mask kl z router balance balancing actor critic "
    "policy value vf pg generator discriminator gen disc g d reg regularization".split()
)
"""Words that make it another metric: of an evaluation, a part, a setting."""


def likely(metric: str, logged: Iterable[str]) -> list[str]:
    """The names that probably are the `loss` or the `grad_norm`, the likeliest first; empty where none is.

    >>> likely("loss", ["train.loss", "eval.loss", "loss_scale", "lr", "lossTrain", "Loss/train_step", "nll"])
    ['nll', 'train.loss', 'lossTrain', 'Loss/train_step']
    >>> likely("grad_norm", ["train.grad_norm", "max_grad_norm", "layers.3.grad_norm"])
    ['train.grad_norm']
    """
    found = []
    for name in logged:
        words = [word.lower() for word in _WORD.findall(name)]
        more = [word for word in words if word not in _PLAIN]
        if _OTHER.isdisjoint(words) and (_is_loss(words) if metric == "loss" else _is_gradient_norm(words)):
            further = len([word for word in more if word not in _LOSS | _GRADIENT | _GRADIENT_NORM])
            if metric == "loss" and further <= 1 or not further:
                found.append((further, len(words), name))
    return [name for _, _, name in sorted(found, key=lambda one: one[:2])]


def _is_loss(words: list[str]) -> bool:
    return not _LOSS.isdisjoint(words)


def _is_gradient_norm(words: list[str]) -> bool:
    return not _GRADIENT_NORM.isdisjoint(words) or ("norm" in words and not _GRADIENT.isdisjoint(words))
