"""Short logs in which something goes wrong, in the shapes of published ones: issue threads, chronicles, runs of fine-tunes."""

from __future__ import annotations

import math

from tests.detecting.short_logs import CADENCES, Pen, shape
from vitalsdsl.language.rules import Level


@shape(Level.YELLOW)
def reward_collapses(pen: Pen) -> int:
    """The third stage of DeepSpeed-Chat: two hundred rows, the reward down by several of its scatters from row 112 on."""
    level, scatter, fall = pen.one_of(-3.0, 0.5, 4.0), pen.between(0.3, 1.0), pen.between(3, 6)
    over = pen.whole(20, 60)
    for row in range(1, 221):
        down = fall * scatter * min(1.0, max(0, row - 112) / over)
        pen.log(row, {
            "act_loss": 0.05 * pen.gauss(),
            "cri_loss": 0.1 * pen.factor(0.5),
            "Average reward score": level + 0.5 * min(1.0, row / 60) - down + scatter * pen.gauss(),
        })  # fmt: skip
    return 112


@shape(Level.YELLOW)
def overflow_in_three_points(pen: Pen) -> int:
    """Three rows in all; in the last the loss scale is halved and the loss at twice to six times what it was."""
    start, loss = pen.whole(900, 1100), pen.between(0.5, 4)
    for row in range(3):
        jump = pen.between(2.2, 6) if row == 2 else pen.factor(0.05)
        pen.log(start + row, {"loss": loss * jump, "loss_scale": 65536.0 if row < 2 else 32768.0})
    return start + 2


@shape(Level.ORANGE)
def nan_gradient_then_zero(pen: Pen) -> int:
    """Hugging Face: the gradient norm is NaN from the first row on, the loss 0 from the second."""
    stride = pen.one_of(*CADENCES)
    for row in range(1, pen.whole(3, 20) + 1):
        loss = pen.between(1, 30) if row == 1 else 0.0
        pen.log(row * stride, {"loss": loss, "grad_norm": math.nan, "learning_rate": 1e-5 / row, "epoch": 0.01 * row})
    return stride


@shape(Level.YELLOW)
def loss_rises_in_twelve(pen: Pen) -> int:
    """Twelve rows in all; from the third on the loss rises by a tenth to a third of its start with each."""
    stride, start, rise = pen.one_of(*CADENCES), pen.between(0.5, 3), pen.between(0.06, 0.3)
    for row in range(1, 13):
        level = start * (1 - 0.03 * min(row, 3) + rise * max(0, row - 3))
        pen.log(row * stride, {"loss": level * pen.factor(0.02), "learning_rate": 2e-5, "epoch": 0.02 * row})
    return 3 * stride


@shape(Level.ORANGE)
def all_nan_in_one_row(pen: Pen) -> int:
    """SimPO: one row, and all of it NaN; or the loss is 0, since the logger hides its NaN."""
    loss = pen.one_of(math.nan, 0.0)
    values = {"loss": loss, "grad_norm": math.nan, "rewards/chosen": math.nan, "rewards/margins": math.nan}
    pen.log(pen.one_of(*CADENCES), {**values, "learning_rate": 6e-7, "epoch": 0.01})
    return pen.rows[0][0]


@shape(Level.YELLOW)
def learns_nothing(pen: Pen) -> int:
    """A classifier at chance: twenty and more evaluations, each as good as the first."""
    stride, level = pen.one_of(10, 50, 100), math.log(pen.one_of(2, 3, 4, 20))
    evaluations = pen.whole(21, 40)
    for row in range(1, evaluations + 1):
        pen.log(row * stride, {
            "loss": level * (1 + pen.gauss(0.015)), "learning_rate": 2e-5, "epoch": row / evaluations * 3,
            "grad_norm": pen.between(0.5, 3), "eval_loss": level * (1 + pen.gauss(0.001)),
        })  # fmt: skip
    return stride


@shape(Level.YELLOW)
def overfits_in_three_evaluations(pen: Pen) -> int:
    """Three epochs, an evaluation after each: the training loss falls to a tenth, validation is best after the second."""
    start, best = pen.between(0.6, 2), pen.between(0.4, 1.2)
    per_epoch, stride = pen.whole(8, 20), pen.one_of(5, 10, 50)
    for row in range(1, 3 * per_epoch + 1):
        level = start * math.exp(-2.3 * row / (3 * per_epoch))
        pen.log(row * stride, {"loss": level * pen.factor(0.08), "epoch": row / per_epoch, "learning_rate": 1e-5})
        if row % per_epoch == 0:
            rise = (1.15, 1.0, 1 + pen.between(0.05, 0.4))[row // per_epoch - 1]
            at_best = max(best, 2 * start * math.exp(-2.3 * 2 / 3))
            pen.log(row * stride, {"eval_loss": at_best * rise})
    return 2 * per_epoch * stride


@shape(Level.YELLOW)
def overfits_in_nine_evaluations(pen: Pen) -> int:
    """Nine evaluations, best at the third to the fifth; from there on validation rises by 2 to 8 % with each."""
    best_at, rise = pen.whole(3, 5), pen.between(0.02, 0.08)
    start, per_evaluation, stride = pen.between(0.8, 2), pen.whole(4, 12), pen.one_of(5, 10, 50)
    for row in range(1, 9 * per_evaluation + 1):
        share = row / (9 * per_evaluation)
        loss = start * (0.15 + 0.85 * math.exp(-5 * share)) * pen.factor(0.06)
        pen.log(row * stride, {"loss": loss, "epoch": 9 * share, "learning_rate": 1e-5})
        if row % per_evaluation == 0:
            at = row // per_evaluation
            val = start * 0.7 * (1 + 0.08 * max(0, best_at - at) + rise * max(0, at - best_at))
            pen.log(row * stride, {"eval_loss": val * pen.factor(0.004)})
    return best_at * per_evaluation * stride


@shape(Level.YELLOW)
def overfits_after_eight_evaluations(pen: Pen) -> int:
    """Eleven to sixteen evaluations, best at the seventh to ninth; from there on validation rises by 2 to 6 % with each."""
    evaluations, best_at, rise = pen.whole(11, 16), pen.whole(7, 9), pen.between(0.02, 0.06)
    start, per_evaluation, stride = pen.between(0.8, 2), pen.whole(4, 12), pen.one_of(5, 10, 50)
    if evaluations - best_at < 4:
        evaluations = best_at + 4
    for row in range(1, evaluations * per_evaluation + 1):
        share = row / (evaluations * per_evaluation)
        loss = start * (0.15 + 0.85 * math.exp(-5 * share)) * pen.factor(0.06)
        pen.log(row * stride, {"loss": loss, "epoch": 5 * share, "learning_rate": 1e-5})
        if row % per_evaluation == 0:
            at = row // per_evaluation
            val = start * 0.7 * (1 + 0.05 * max(0, best_at - at) + rise * max(0, at - best_at))
            pen.log(row * stride, {"eval_loss": val * pen.factor(0.004)})
    return best_at * per_evaluation * stride


@shape(Level.YELLOW)
def overfits_by_epochs(pen: Pen) -> int:
    """A row an epoch, training and validation loss in each; validation is best at epoch 2 to 16 and rises from there."""
    best_at, epochs, rise = pen.whole(2, 16), pen.whole(30, 60), pen.between(0.01, 0.05)
    start, noise = pen.between(0.3, 3), pen.between(0.005, 0.03)
    for epoch in range(epochs):
        loss = start * (0.1 + 0.9 * math.exp(-epoch / 10))
        best = start * (0.15 + 0.9 * math.exp(-best_at / 10))
        val = best * (1 + rise * (epoch - best_at)) if epoch > best_at else start * (0.15 + 0.9 * math.exp(-epoch / 10))
        pen.log(epoch, {"epoch": epoch, "loss": loss * pen.factor(0.01), "val_loss": val * pen.factor(noise)})
    return best_at


@shape(Level.YELLOW)
def plateau_by_epochs(pen: Pen) -> int:
    """A row an epoch; from epoch 20 on neither loss gets better."""
    start, epochs = pen.between(0.3, 3), pen.whole(42, 60)
    for epoch in range(epochs):
        level = start * (0.3 + 0.7 * math.exp(-min(epoch, 20) / 6))
        pen.log(epoch, {"epoch": epoch, "loss": level * pen.factor(0.008), "val_loss": 1.05 * level * pen.factor(0.01)})
    return 20


@shape(Level.YELLOW)
def plateau_in_ten_evaluations(pen: Pen) -> int:
    """Ten evaluations of a fine-tune; from the second on neither loss moves, far above nothing."""
    start, stride, per_evaluation = pen.between(0.7, 3), pen.one_of(10, 50, 100), pen.whole(5, 10)
    for row in range(1, 10 * per_evaluation + 1):
        level = start * (1 - 0.005 * min(row, 4))
        pen.log(row * stride, {"loss": level * pen.factor(0.01), "epoch": 0.3 * row, "grad_norm": pen.between(0.3, 1)})
        if row % per_evaluation == 0:
            pen.log(row * stride, {"eval_loss": start * 0.98 * pen.factor(0.002)})
    return 2 * per_evaluation * stride


@shape(Level.ORANGE)
def diverges_from_row_three(pen: Pen) -> int:
    """Megatron: fifty rows and more, the loss from the third on at twice to eight times its start."""
    stride, start, top = pen.one_of(1, 10, 100), pen.between(7, 11), pen.between(2.2, 8)
    for row in range(1, pen.whole(50, 90) + 1):
        level = start * (1 if row < 3 else 1 + (top - 1) * min(1.0, (row - 2) / 5))
        pen.log(row * stride, {
            "lm loss": level * pen.factor(0.05), "grad norm": pen.between(2, 90), "loss scale": 65536.0,
            "learning rate": 1e-6 * row,
        })  # fmt: skip
    return 3 * stride


@shape(Level.ORANGE)
def diverges_in_twelve(pen: Pen) -> int:
    """Twelve rows in all, one an epoch or one each some steps: the loss falls for five, then climbs past where it began."""
    stride, start, up = pen.one_of(1, 10, 500), pen.between(0.5, 3), pen.between(1.3, 2.0)
    for row in range(1, 13):
        level = start * 0.85**row if row <= 5 else start * 0.85**5 * up ** (row - 5)
        values = {"loss": level * pen.factor(0.03), "grad_norm": pen.between(0.5, 2)}
        pen.log(row * stride, {**values, "epoch": float(row)})
    return 6 * stride


@shape(Level.YELLOW)
def turns_up_in_twelve(pen: Pen) -> int:
    """Twelve rows in all: the loss falls for five, then climbs by a tenth or so with each, and stays below its start."""
    stride, start = pen.one_of(1, 10, 500), pen.between(0.5, 3)
    up = pen.between(1.06, 1.12)
    for row in range(1, 13):
        level = start * 0.8 ** min(row, 5) * up ** max(0, row - 5)
        values = {"loss": level * pen.factor(0.01), "grad_norm": pen.between(0.5, 2)}
        pen.log(row * stride, {**values, "epoch": float(row)} if stride == 1 else values)
    return 6 * stride


@shape(Level.ORANGE)
def diverges_midway(pen: Pen) -> int:
    """Some hundred rows, with a loss that falls for two thirds of them and then climbs by a half to threefold, gradients too."""
    rows, stride, up = pen.whole(60, 200), pen.one_of(10, 50, 100), pen.between(1.6, 4)
    start, over = pen.between(1, 4), pen.whole(10, 20)
    turn = 2 * rows // 3
    for row in range(1, rows + 1):
        climb = min(1.0, max(0, row - turn) / over)
        level = start * (0.4 + 0.6 * math.exp(-4 * min(row, turn) / rows)) * (1 + (up - 1) * climb)
        values = {"loss": level * pen.factor(0.04), "grad_norm": (1 + 4 * climb) * pen.factor(0.3)}
        pen.log(row * stride, {**values, "learning_rate": 1e-4, "epoch": row / rows})
    return turn * stride


@shape(Level.YELLOW)
def spike_at_the_start(pen: Pen) -> int:
    """Megatron: the loss falls for some rows of warm-up, then is above its start for some, and falls again."""
    stride, start, at = pen.one_of(1, 10), pen.between(8, 11), pen.whole(12, 30)
    for row in range(1, pen.whole(80, 200) + 1):
        level = start * (0.5 + 0.5 * math.exp(-row / 30)) + start * pen.between(0.8, 1.4) * (at <= row < at + 4)
        pen.log(
            row * stride, {"lm loss": level * pen.factor(0.01), "grad norm": pen.between(1, 4), "loss scale": 4096.0}
        )
    return at * stride


@shape(Level.YELLOW, most=Level.YELLOW)
def benign_spike(pen: Pen) -> int:
    """Some hundred rows each step, of which one to five are far out and the next as before."""
    rows, level, noise = pen.whole(150, 400), pen.between(0.3, 3), pen.between(0.02, 0.06)
    at, wide, high = pen.whole(80, 140), pen.whole(1, 5), pen.between(1.8, 4)
    for row in range(1, rows + 1):
        out = high if at <= row < at + wide else 1.0
        values = {
            "loss": level * (1 + math.exp(-row / 20)) * out * pen.factor(noise),
            "grad_norm": out * pen.factor(0.2),
        }
        pen.log(2000 + row, values)
    return 2000 + at


@shape(Level.YELLOW)
def weak_plateau(pen: Pen) -> int:
    """A hundred evaluations, the last eighty of which gain less than a two-thousandth each twenty."""
    level = pen.between(0.5, 4)
    for row in range(1, 101):
        val = level * (1 + 0.5 * math.exp(-row / 4) - 1e-5 * row)
        pen.log(100 * row, {"loss": val * pen.factor(0.01), "eval_loss": val * pen.factor(0.0005), "lr": 3e-4})
    return 2000


@shape(Level.ORANGE)
def nan_late(pen: Pen) -> int:
    """NaN after some hundred good rows, and to the end."""
    rows, stride = pen.whole(50, 300), pen.one_of(*CADENCES)
    at = pen.whole(rows // 2, rows - 1)
    pen.trained(
        rows, stride, lambda share: math.nan if share * rows >= at else (0.5 + math.exp(-5 * share)) * pen.factor(0.1)
    )
    return at * stride


@shape(Level.ORANGE)
def explodes_in_eleven(pen: Pen) -> int:
    """Eleven rows, a mean squared error that multiplies with each from the second on."""
    start, ratio = pen.between(0.5, 50), pen.between(2, 30)
    stride = pen.one_of(1, 5, 10)
    for row in range(1, 12):
        pen.log(
            row * stride, {"train/loss": start * ratio ** max(0, row - 1), "train/grad_norm": 10 * ratio ** (row - 1)}
        )
    return 2 * stride


@shape(Level.YELLOW)
def gradients_spike_in_noise(pen: Pen) -> int:
    """A gradient norm that scatters by half, doubles slowly and then spikes to thirty times its usual again and again."""
    rows = pen.whole(180, 260)
    for row in range(1, rows + 1):
        rise = 1 + 2.5 * max(0, row - 60) / rows
        spike = 31 if row >= 115 and row % 23 == 0 else 1
        values = {
            "train/loss": (1 + math.exp(-row / 30)) * pen.factor(0.05),
            "train/grad_norm": 0.4 * rise * spike * pen.factor(0.5),
        }
        pen.log(10 * row, values)
    return 600


@shape(Level.YELLOW)
def spike_that_heals_slowly(pen: Pen) -> int:
    """A hundred rows; at the 42nd loss and gradient jump, and the loss takes thirty rows to come down."""
    stride, height = pen.one_of(1, 10), pen.between(0.6, 2)
    for row in range(1, 121):
        out = height * math.exp(-max(0, row - 42) / 12) * (row >= 42)
        loss = (1.2 + math.exp(-row / 10)) * (1 + out) * pen.factor(0.04)
        norm = 0.8 * (1 + 8 * out) * pen.factor(0.25)
        pen.log(row * stride, {"train/loss": loss, "train/grad_norm": norm})
    return 42 * stride


@shape(Level.ORANGE)
def dead_from_the_start(pen: Pen) -> int:
    """LLaMA-Factory: the loss is 0 in each row, and so is the gradient norm."""
    for row in range(1, pen.whole(3, 40) + 1):
        pen.log(10 * row, {"train/loss": 0.0, "train/grad_norm": 0.0, "train/epoch": 0.1 * row})
    return 10


@shape(Level.ORANGE)
def nan_gradients(pen: Pen) -> int:
    """The gradient norm is NaN in each row; the loss is the first one's in the first row and 0 in the rest."""
    level = pen.between(0.5, 12)
    for row in range(1, pen.whole(4, 40) + 1):
        pen.log(row, {"train/loss": level if row == 1 else 0.0, "train/grad_norm": math.nan, "train/epoch": 0.05 * row})
    return 1


@shape(Level.ORANGE)
def nan_gradients_and_a_loss(pen: Pen) -> int:
    """The gradient norm is NaN in each row, and the loss what it was: no step is ever taken."""
    level = pen.between(0.5, 12)
    for row in range(1, pen.whole(8, 40) + 1):
        pen.log(
            10 * row, {"train/loss": level * pen.factor(0.03), "train/grad_norm": math.nan, "train/epoch": 0.05 * row}
        )
    return 10


@shape(Level.ORANGE)
def gradient_vanishes(pen: Pen) -> int:
    """From the second row on the gradient norm is a thousandth of the first, and the loss stands where it began."""
    level, norm, rows = pen.between(0.7, 10), pen.between(0.5, 20), pen.whole(30, 80)
    stride = pen.one_of(1, 5, 10)
    for row in range(1, rows + 1):
        fade = 1 if row == 1 else pen.between(3e-4, 3e-3)
        pen.log(
            row * stride,
            {"train/loss": level * pen.factor(0.005), "train/grad_norm": norm * fade, "train/epoch": 0.1 * row},
        )
    return 2 * stride


@shape(Level.ORANGE)
def nan_from_row_two(pen: Pen) -> int:
    """All that is logged is NaN from the second row on."""
    stride = pen.one_of(1, 10, 100)
    for row in range(1, pen.whole(3, 30) + 1):
        here = {"train/loss": 3.0, "train/grad_norm": 1.5, "param_norm": 40.0, "val/loss": 3.1}
        pen.log(row * stride, here if row == 1 else dict.fromkeys(here, math.nan))
    return 2 * stride


@shape(Level.ORANGE)
def nan_in_a_summary(pen: Pen) -> int:
    """One row: what a tracker keeps as the last value of each metric."""
    pen.log(
        pen.whole(500, 9000),
        {"loss": math.nan, "grad_norm": math.nan, "param_norm": math.nan, "val_loss": math.nan, "lr": 1e-4},
    )
    return pen.rows[0][0]
