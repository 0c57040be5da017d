"""Healthy short logs, in the cadence and under the names of each framework."""

from __future__ import annotations

import math

from tests.detecting.short_logs import CADENCES, Pen, shape


@shape()
def hugging_face(pen: Pen) -> None:
    """A fine-tune by Hugging Face's trainer; in half of them with some evaluations."""
    rows, stride, start, end = pen.whole(10, 500), pen.one_of(*CADENCES), pen.between(1, 3), pen.between(0.3, 0.9)
    noise = pen.between(0.02, 0.2)
    pen.trained(rows, stride, lambda share: start * (end + (1 - end) * math.exp(-6 * share)) * pen.factor(noise))
    if pen.one_of(True, False):
        _evaluated(
            pen, pen.whole(3, 12), lambda share: start * (end + (1.05 - end) * math.exp(-6 * share)) * pen.factor(0.01)
        )


def _evaluated(pen: Pen, times: int, loss: object) -> None:
    """Evaluations at even distances, in rows that are there."""
    assert callable(loss)
    for at in range(1, times + 1):
        step, values = pen.rows[at * len(pen.rows) // times - 1]
        values["eval_loss"] = loss(at / times)


@shape()
def quick_to_learn(pen: Pen) -> None:
    """Instruction tuning with batches of one: the loss falls at once and scatters by a quarter from there."""
    rows, stride, level = pen.whole(30, 500), pen.one_of(1, 1, 5, 10), pen.between(0.5, 1.5)
    noise = pen.between(0.1, 0.3) / math.sqrt(stride)
    pen.trained(rows, stride, lambda share: level * (1 + math.exp(-30 * share)) * pen.factor(noise))


@shape()
def classifier(pen: Pen) -> None:
    """A classifier whose loss goes towards zero, with a scatter as large as it is; evaluations that turn up a little."""
    rows, stride = pen.whole(10, 120), pen.one_of(10, 50, 500)
    floor = pen.between(0.02, 0.1)
    pen.trained(rows, stride, lambda share: (floor + 0.65 * math.exp(-5 * share)) * pen.factor(0.3))
    _evaluated(pen, pen.whole(3, 6), lambda share: (0.2 + 0.4 * math.exp(-5 * share)) * pen.factor(0.02))


@shape()
def diffusion(pen: Pen) -> None:
    """Diffusers: the loss is noise from the first row on, scattering by half, since each step draws another time."""
    rows, stride, level = pen.whole(30, 500), pen.one_of(1, 10, 50), pen.between(0.02, 0.3)
    noise = pen.between(0.2, 0.7) / math.sqrt(min(stride, 10))
    for row in range(1, rows + 1):
        pen.log(row * stride, {"train_loss": level * (1 + 0.2 * math.exp(-row / 20)) * pen.factor(noise), "lr": 1e-4})


@shape()
def preference(pen: Pen) -> None:
    """DPO: from the log of two down to a third or so, with margins that grow."""
    rows, stride = pen.whole(20, 200), pen.one_of(1, 5, 10, 50)
    pen.trained(
        rows, stride, lambda share: 0.3 + 0.393 * math.exp(-3 * share) + pen.gauss(0.02),
        **{"rewards/margins": lambda share: 1.5 * share + pen.gauss(0.1),
           "rewards/accuracies": lambda share: min(1.0, 0.5 + 0.3 * share + pen.gauss(0.05)),
           "logps/chosen": lambda share: -250 - 10 * share + pen.gauss(8)},
    )  # fmt: skip


@shape()
def grpo(pen: Pen) -> None:
    """GRPO: a loss that starts at 0 and stays near it, of either sign; a reward that rises."""
    rows, stride = pen.whole(20, 300), pen.one_of(1, 5, 10)
    pen.trained(
        rows, stride, lambda share: (0.0 if share * rows < 2 else 0.002 * share + pen.gauss(0.003)),
        reward=lambda share: 0.2 + 1.2 * (1 - math.exp(-3 * share)) + pen.gauss(0.12),
        kl=lambda share: 0.04 * share * pen.factor(0.3), entropy=lambda share: 0.6 - 0.2 * share + pen.gauss(0.03),
        **{"completions/mean_length": lambda share: 200 + 60 * share + pen.gauss(15)},
    )  # fmt: skip


@shape()
def rlhf_by_deepspeed(pen: Pen) -> None:
    """The third stage of DeepSpeed-Chat: losses of either sign, a reward that rises under its noise."""
    scatter = pen.between(0.3, 1.0)
    for row in range(1, pen.whole(50, 400) + 1):
        pen.log(row, {
            "act_loss": 0.05 * pen.gauss(), "cri_loss": 0.1 * pen.factor(0.6),
            "Average reward score": 0.5 + 1.5 * (1 - math.exp(-row / 100)) + scatter * pen.gauss(),
        })  # fmt: skip


@shape()
def megatron(pen: Pen) -> None:
    """Pretraining by Megatron: from the log of the vocabulary down, with loss scale and a gradient norm that settles."""
    rows, stride = pen.whole(20, 500), pen.one_of(1, 5, 10, 100)
    exponent = pen.between(0.15, 0.4)
    for row in range(1, rows + 1):
        done = row * stride
        pen.log(done, {
            "lm loss": (1.6 + 9.2 * (1 + done / 30) ** -exponent) * pen.factor(0.01),
            "grad norm": (0.3 + 4 * math.exp(-done / 200)) * pen.factor(0.2), "loss scale": 65536.0 * 2 ** (done // 1000),
            "learning rate": 6e-5 * min(1.0, done / 2000), "elapsed time per iteration (ms)": 900 * pen.factor(0.02),
        })  # fmt: skip


@shape()
def nano_gpt(pen: Pen) -> None:
    """nanoGPT: losses each ten steps, both losses each 250."""
    rows = pen.whole(20, 500)
    for row in range(rows):
        level = 1.5 + 9 * (1 + row / 3) ** -0.6
        pen.log(10 * row, {"loss": level * pen.factor(0.03), "mfu": 0.3 + pen.gauss(0.01)})
        if row % 25 == 0:
            pen.log(10 * row, {"train/loss": level * pen.factor(0.005), "val/loss": 1.02 * level * pen.factor(0.005)})


@shape()
def llm_c(pen: Pen) -> None:
    """llm.c and torchtitan: each step, from 11 nats, with a warm-up that shows in the gradient norm."""
    rows = pen.whole(50, 500)
    for row in range(1, rows + 1):
        pen.log(row, {
            "loss_metrics/global_avg_loss": (3.2 + 7.7 * math.exp(-row / 80)) * pen.factor(0.01),
            "grad_norm": (0.4 + 12 * math.exp(-row / 25)) * pen.factor(0.25),
            "throughput(tps)": 5200 * pen.factor(0.02), "lr": 6e-4 * min(1.0, row / 700),
        })  # fmt: skip


@shape()
def lightning(pen: Pen) -> None:
    """Lightning's table: a training loss each fifty steps, a validation loss each epoch."""
    epochs, per_epoch = pen.whole(5, 40), pen.whole(2, 12)
    start, end = pen.between(0.5, 3), pen.between(0.2, 0.7)
    for row in range(1, epochs * per_epoch + 1):
        level = start * (end + (1 - end) * math.exp(-5 * row / (epochs * per_epoch)))
        pen.log(50 * row - 1, {"train_loss_step": level * pen.factor(0.1), "epoch": float((row - 1) // per_epoch)})
        if row % per_epoch == 0:
            pen.log(50 * row - 1, {"val_loss": 1.1 * level * pen.factor(0.015)})


@shape()
def keras(pen: Pen) -> None:
    """A row an epoch with both losses; both fall to the end, validation with its noise."""
    epochs, start, end = pen.whole(10, 200), pen.between(0.3, 3), pen.between(0.15, 0.6)
    for epoch in range(epochs):
        level = start * (end + (1 - end) * math.exp(-3 * epoch / epochs))
        pen.log(epoch, {"epoch": epoch, "loss": level * pen.factor(0.015), "val_loss": 1.15 * level * pen.factor(0.03)})


@shape()
def detector(pen: Pen) -> None:
    """A detector, an epoch a row: parts of a loss without their sum."""
    epochs = pen.whole(20, 300)
    for epoch in range(1, epochs + 1):
        fall = 0.4 + 0.6 * math.exp(-4 * epoch / epochs)
        pen.log(epoch, {
            "epoch": epoch, "train/box_loss": 1.8 * fall * pen.factor(0.02), "val/box_loss": 2.0 * fall * pen.factor(0.04),
            "train/cls_loss": 2.5 * fall * pen.factor(0.03), "x/lr0": 0.01 * (1.01 - epoch / epochs),
        })  # fmt: skip


@shape()
def adversarial(pen: Pen) -> None:
    """A GAN: two losses that wander, of either sign."""
    first, second = 0.7, 1.0
    for row in range(1, pen.whole(50, 500) + 1):
        first, second = 0.95 * first + 0.03 + pen.gauss(0.15), 0.95 * second + 0.05 + pen.gauss(0.3)
        pen.log(100 * row, {"d_loss": first, "g_loss": second})


@shape()
def low_from_the_start(pen: Pen) -> None:
    """A fine-tune of what the model knows already: hardly anything to gain, a scatter of a tenth."""
    rows, stride, level = pen.whole(10, 100), pen.one_of(1, 10, 50), pen.between(0.1, 1.2)
    pen.trained(rows, stride, lambda share: level * (1 - 0.08 * share) * pen.factor(0.1))


@shape()
def easy_first_batch(pen: Pen) -> None:
    """The first row happens to be an easy batch, at half to two thirds of the level from which the loss then falls."""
    rows, stride, level = pen.whole(30, 200), pen.one_of(1, 5), pen.between(0.8, 2.5)
    easy = pen.between(0.5, 0.75)
    pen.trained(
        rows, stride,
        lambda share: level * (easy if share * rows < 1.5 else 0.6 + 0.4 * math.exp(-4 * share)) * pen.factor(0.08),
    )  # fmt: skip


@shape()
def restarts(pen: Pen) -> None:
    """Cosine restarts: a wave of a tenth of the loss after each, seen in both losses."""
    rows, stride = pen.whole(90, 300), pen.one_of(10, 50)
    for row in range(1, rows + 1):
        phase = (row % 60) / 60
        level = 0.8 + 1.5 * math.exp(-row / 40) + 0.08 * (row >= 60) * math.exp(-8 * phase)
        values = {"loss": level * pen.factor(0.02), "lr": 1e-4 * (0.55 + 0.45 * math.cos(math.pi * phase))}
        pen.log(row * stride, {**values, "grad_norm": (1 + 0.4 * (1 - phase)) * pen.factor(0.15)})


@shape()
def half_precision(pen: Pen) -> None:
    """fp16: the loss scale is found in the first rows, whose gradient norms are infinite, and overflows once in a while."""
    rows, scale = pen.whole(60, 300), 65536.0
    for row in range(1, rows + 1):
        skipped = row <= 4 or row % 90 == 0
        scale = scale / 2 if skipped else scale * 2 if row % 90 == 89 else scale
        norm = math.inf if skipped else (0.8 + 2 * math.exp(-row / 20)) * pen.factor(0.2)
        pen.log(
            row, {"loss": (1.2 + 1.8 * math.exp(-row / 40)) * pen.factor(0.04), "grad_norm": norm, "loss_scale": scale}
        )
