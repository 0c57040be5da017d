"""A log that breaks off in its last line: no value is read that the whole log does not have, and one note says the loss."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from test_json_lines import one, rows, runs

from vitalsdsl.ground.errors import SourceError

LOGS = {
    "CSV": "step,loss,lr\n101,2.5,0.001\n102,2.125,0.00125\n103,1.234,0.0015\n",
    "CSV whose step comes last": "loss,lr,step\n2.5,0.001,101\n2.125,0.00125,102\n1.234,0.0015,103\n",
    "TSV": "step\tloss\tlr\n101\t2.5\t1e-03\n102\t2.125\t1.5e-03\n103\tinf\t1.25e-04\n",
    "quoted CSV": '"step","loss","lr"\n"101","2.5","1"\n"102","2.125","25"\n"103","1.234","36"\n',
    "JSON lines": '{"step": 101, "loss": 2.5}\n{"step": 102, "loss": 2.125}\n{"step": 103, "loss": 1.234}\n',
    "Megatron": "".join(
        f" iteration {i}/ 400 | lm loss: {loss}E+00 | grad norm: 1.{i} |\n"
        for i, loss in ((100, 2.5), (110, 2.125), (120, 1.234))
    ),
    "nanoGPT": "".join(
        f"iter {i}: loss {loss}, time 20.50ms, mfu 12.75%\n" for i, loss in ((100, 2.5), (110, 2.125), (120, 1.234))
    ),
    "modded-nanoGPT": "".join(
        f"step:{i}/1390 train_loss:{loss} train_time:{i}512ms\n" for i, loss in ((100, 2.5), (110, 2.125))
    ),
    "llm.c": "s:100 tel:4.25\ns:100 trl:4.125 lr:0.00060 norm:1.25\ns:110 trl:4.0625 lr:0.00055 norm:1.5\n",
    "detectron2": "".join(
        f"[d2.utils.events]:  eta: 0:12:05  iter: {i}  total_loss: {loss}  lr: 1.25e-04  max_mem: 2345M\n"
        for i, loss in ((19, 2.5), (139, 2.125), (159, 1.234))
    ),
    "OLMo": "".join(
        f"[step={i}/15000,epoch=0]\n    train/CrossEntropyLoss={loss}\n    throughput/total_tokens=41,943,040\n"
        for i, loss in ((100, 2.5), (110, 2.125))
    ),
    "Hugging Face console": "".join(
        f"{{'loss': {loss}, 'grad_norm': 1.5, 'step': {i}}}\n" for i, loss in ((100, 2.5), (110, 2.125))
    ),
    "fairseq": "".join(
        f"epoch 001: {i} / 31621 loss={loss}, ppl=12.125, num_updates={i}, lr=1.25e-05\n"
        for i, loss in ((100, 2.5), (110, 2.125))
    ),
    "OpenMMLab": "".join(
        f"mmdet - INFO - Epoch [1][{i}/930]\tlr: 1.250e-02, loss_cls: 0.{i}25, loss: {loss}\n"
        for i, loss in ((100, 2.5), (150, 2.125))
    ),
    "anybody's lines": "".join(
        f"Step: {i}, loss = {loss}, lr: 1.25e-04\n" for i, loss in ((100, 2.5), (110, 2.125), (120, 1.234))
    ),
    "DeepSpeed": "".join(f"[Rank 0] step={i}, skipped=12, lr=[0.0001, 0.0002], mom=[0.9]\n" for i in (100, 110, 120)),
    "DeepSpeed-Chat": "".join(
        f"Epoch: 0 | Step: {i} | PPO Epoch: 1 | Actor Loss: 0.{i} | Critic Loss: 0.25\naverage reward score: 1.{i}\n"
        for i in (100, 110)
    ),
    "Keras": "".join(
        f"Epoch {e}/20\n50/50 [=====] - 62s 13ms/step - loss: {loss} - val_loss: 2.125\n"
        for e, loss in ((1, 2.5), (12, 1.234))
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", LOGS)
def test_wherever_a_log_breaks_off_each_value_is_as_it_was_logged(tmp_path: Path, form: str) -> None:
    text = LOGS[form]
    logged, whole_notes = one(tmp_path, text)
    expected = {(step, name): value for step, values in logged for name, value in dict(values).items()}
    last = text.rindex("\n", 0, -1) + 1
    assert len(expected) >= 2
    for end in range(len(text) - len(text[last:].lstrip()) + 1, len(text)):
        found, notes = one(tmp_path, text[:end])
        values = {(step, name): value for step, values in found for name, value in dict(values).items()}
        assert values.items() <= expected.items(), text[:end]
        said = [note for note in notes if note not in whole_notes]
        assert len(said) <= 1
        if values != expected:
            assert said[0].startswith(f"the last line, {text.count(chr(10))}, "), text[:end]


@pytest.mark.parametrize(
    ("text", "found", "said"),
    [
        ("step,loss\n1,3.5\n2,1.2", [(1, {"loss": 3.5})], "is cut off and left out"),
        ("step,lr,loss\n1,2,3.5\n2,2,1.2", [(1, {"lr": 2.0, "loss": 3.5}), (2, {"lr": 2.0})], "has no line end: "),
        ("loss,step\n3.5,1\n1.2,2", [(1, {"loss": 3.5})], "is cut off and left out"),
        ("iter 0: loss 4.5, time 8ms\niter 1: loss 4.2", [(0, {"loss": 4.5, "time": 8.0})], "has no line end: "),
        ("iter 0: loss 4.5, time 8ms\nite", [(0, {"loss": 4.5, "time": 8.0})], "has no line end: "),
        (
            "iter 0: loss 9, a 1\niter 1: loss 8, a 1.2",
            [(0, {"loss": 9.0, "a": 1.0}), (1, {"loss": 8.0})],
            "has no line",
        ),
    ],
)
def test_what_a_cut_off_tail_costs_is_said(tmp_path: Path, text: str, found: list[object], said: str) -> None:
    read_rows, notes = one(tmp_path, text)
    assert read_rows == found
    [note] = [note for note in notes if "last line" in note]
    assert said in note


def test_a_last_value_that_can_be_no_other_is_read_without_a_line_end(tmp_path: Path) -> None:
    for cell, value in (("nan", math.nan), ("-inf", -math.inf), ('"1.25"', 1.25), ("12%", 12.0)):
        [*_, (step, values)], notes = one(tmp_path, f"step,loss\n1,2\n2,{cell}")
        assert (step, str(dict(values)["loss"]), notes) == (2, str(value), ())
    assert one(tmp_path, "iter 0: loss 2, time 8ms\nkilled by pid 17")[1] == ()


def test_a_table_of_one_row_that_breaks_off_has_none(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no rows"):
        runs(tmp_path, "step,loss\n1,2.5")
    assert rows(runs(tmp_path, "step,loss\n1,2.5\n")[0]) == [(1, {"loss": 2.5})]
