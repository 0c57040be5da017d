"""Metrics are read out of what frameworks write: fairseq, OpenMMLab, detectron2, DeepSpeed, LLaMA-Factory, anybody."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from test_json_lines import one, rows, runs

INNER = {
    "epoch": 1.0,
    "loss": 15.5,
    "nll_loss": 15.25,
    "ppl": 37113.5,
    "lr": 1.1e-7,
    "gnorm": 4.25,
    "loss_scale": 128.0,
}


@pytest.mark.parametrize(
    "text",
    [
        (
            "| epoch 001:     10 / 31621 loss=15.5, nll_loss=15.25, ppl=37113.5, num_updates=11, lr=1.1e-07, gnorm=4.25, "
            "loss_scale=128.000\n"
        ),
        (
            "2021-03-08 12:31:36 | INFO | train_inner | epoch 001:     10 / 31621 loss=15.5, nll_loss=15.25, ppl=37113.5, "
            "num_updates=11, lr=1.1e-07, gnorm=4.25, loss_scale=128\n"
        ),
        (
            '2021-03-08 12:31:36 | INFO | train_inner | {"epoch": 1, "loss": "15.5", "nll_loss": "15.25", "ppl": "37113.5", '
            '"num_updates": "11", "lr": "1.1e-07", "gnorm": "4.25", "loss_scale": "128"}\n'
        ),
        (
            '{"epoch": 1, "loss": "15.5", "nll_loss": "15.25", "ppl": "37113.5", "num_updates": "11", "lr": "1.1e-07", '
            '"gnorm": "4.25", "loss_scale": "128"}\n'
        ),
    ],
)
def test_a_training_line_of_fairseq_is_the_same_in_every_form(tmp_path: Path, text: str) -> None:
    assert one(tmp_path, text)[0] == [(11, INNER)]


def test_summaries_of_fairseq_have_the_names_of_its_json(tmp_path: Path) -> None:
    text = (
        "| epoch 001:     10 / 20 loss=9.5, num_updates=11, gnorm=4.25\n"
        "| epoch 001 | loss 9.25 | ppl 610.5 | num_updates 20 | gnorm 3.5\n"
        "2021-01-01 10:00:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 8.5 | ppl nan | num_updates 20\n"
    )
    training, summary, validation = one(tmp_path, text)[0]
    assert training == (11, {"epoch": 1.0, "loss": 9.5, "gnorm": 4.25})
    assert summary == (20, {"epoch": 1.0, "train_loss": 9.25, "train_ppl": 610.5, "train_gnorm": 3.5})
    assert validation[0] == 20
    assert isinstance(validation[1], dict)
    assert validation[1]["valid_loss"] == 8.5
    assert math.isnan(validation[1]["valid_ppl"])
    text = '{"epoch": 1, "train_loss": "9.25", "train_num_updates": "20"}\n{"epoch": 1, "valid_loss": "8.5", "valid_num_updates": "20"}\n'
    assert one(tmp_path, text)[0] == [(20, {"epoch": 1.0, "train_loss": 9.25}), (20, {"epoch": 1.0, "valid_loss": 8.5})]


def test_mmcv_lines_are_at_their_iteration_and_a_validation_at_the_one_before(tmp_path: Path) -> None:
    text = (
        "2022-05-07 16:43:08,063 - mmdet - INFO - Epoch [1][50/75]\tlr: 1.5e-03, eta: 1:53:59, time: 0.5, memory: 3786, "
        "loss_cls: 0.75, acc: 88.5, loss: 1.5\n"
        "2022-05-07 16:43:18,063 - mmdet - INFO - Epoch(val) [1][500]\tbbox_mAP: 0.25, bbox_mAP_50: 0.5\n"
        "2022-05-07 16:43:28,063 - mmdet - INFO - Epoch [2][50/75]\tlr: 1.5e-03, eta: 2 days, 1:00:00, time: 0.5, "
        "memory: 3786, loss_cls: 0.5, acc: 88.5, loss: nan\n"
    )
    first, validation, third = one(tmp_path, text)[0]
    assert first == (
        50,
        {"epoch": 1.0, "lr": 0.0015, "time": 0.5, "memory": 3786.0, "loss_cls": 0.75, "acc": 88.5, "loss": 1.5},
    )
    assert validation == (50, {"val/bbox_mAP": 0.25, "val/bbox_mAP_50": 0.5})
    assert third[0] == 125


def test_mmengine_lines_are_read_and_the_progress_of_a_validation_is_not(tmp_path: Path) -> None:
    text = (
        "06/28 03:16:23 - mmengine - INFO - Epoch(train)   [1][ 5/10]  lr: 5.0e-07  eta: 15:19:03  time: 5.5  "
        "data_time: 1.5  memory: 8801  grad_norm: nan  loss: 0.5  recall@top3: 0.75\n"
        "06/28 03:16:24 - mmengine - INFO - Epoch(val) [1][ 5/13]    eta: 0:00:00  time: 0.05  data_time: 0.01  memory: 191\n"
        "06/28 03:16:25 - mmengine - INFO - Epoch(val) [1][13/13]    coco/bbox_mAP: 0.25  data_time: 0.01  time: 0.05\n"
    )
    first, validation = one(tmp_path, text)[0]
    assert first[0] == 5
    assert isinstance(first[1], dict)
    assert math.isnan(first[1]["grad_norm"])
    assert (first[1]["loss"], first[1]["recall@top3"], "eta" in first[1]) == (0.5, 0.75, False)
    assert validation == (5, {"val/coco/bbox_mAP": 0.25, "val/data_time": 0.01, "val/time": 0.05})
    text = "- mmseg - INFO - Iter [50/80000]\tlr: 1.0e-02, eta: 1:00:00, decode.loss_ce: 2.5, loss: 3.5\n"
    [run] = runs(tmp_path, text)
    assert rows(run) == [(50, {"lr": 0.01, "decode.loss_ce": 2.5, "loss": 3.5})]
    assert run.info.total_steps == 80000


def test_olmo_blocks_are_rows(tmp_path: Path) -> None:
    text = (
        "2025-12-12 11:04:38.507\thost:0\tolmo.train:979\tINFO\tPre-train system metrics\n"
        "    System/Peak GPU Memory (MB)=20,487\n"
        "2025-12-12 11:05:02.009\thost:0\tolmo.train:979\tINFO\t[step=1/15000,epoch=0]\n"
        "    optim/total_grad_norm=0.25\n    train/CrossEntropyLoss=nan\n    throughput/total_tokens=2,097,152\n"
        "2025-12-12 11:05:05.850\thost:0\tolmo.train:979\tINFO\t[step=2/15000,epoch=0]\n"
        "    train/CrossEntropyLoss=2.5\n    System/Peak GPU Memory (MB)=111,477\n"
        "2025-12-12 11:05:06.000\thost:0\tolmo.train:979\tINFO\tall-small-ppl-validation\n"
        "    eval/pile/CrossEntropyLoss=2.75\n"
    )
    [run] = runs(tmp_path, text)
    first, second, third = rows(run)
    assert first[0] == 1
    assert isinstance(first[1], dict)
    assert math.isnan(first[1].pop("train/CrossEntropyLoss"))
    assert first[1] == {"epoch": 0.0, "optim/total_grad_norm": 0.25, "throughput/total_tokens": 2097152.0}
    assert second == (2, {"epoch": 0.0, "train/CrossEntropyLoss": 2.5, "System/Peak GPU Memory (MB)": 111477.0})
    assert third == (2, {"eval/pile/CrossEntropyLoss": 2.75})
    assert run.info.total_steps == 15000


def test_bars_with_metrics_are_rows_and_counted_on_through_the_epochs(tmp_path: Path) -> None:
    text = ""
    for epoch in range(2):
        for batch in range(0, 11, 5):
            drawn = f"\rEpoch {epoch}: {batch * 10:3d}%|██   | {batch}/10 [00:01<00:01,  9.5it/s, v_num=3, loss="
            text += f"{drawn}9.5]{drawn}{epoch}.5, lr=1e-4]"
        text += "\rValidation DataLoader 0: 100%|████| 4/4 [00:01<00:00,  9.5it/s]\n"
    read_rows, notes = one(tmp_path, text)
    assert read_rows == [
        (10 * epoch + batch, {"epoch": float(epoch), "loss": epoch + 0.5, "lr": 1e-4})
        for epoch in range(2)
        for batch in range(0, 11, 5)
    ]
    assert notes == ("the progress bar begins again: its batches are counted on",)


def test_the_bars_of_trlx_tell_metrics_before_them(tmp_path: Path) -> None:
    text = "[losses/total_loss: 1.50 | losses/policy_loss: -0.25]:   3%|▎    | 3/100 [00:01<00:51,  1.5it/s]\n"
    assert one(tmp_path, text)[0] == [(3, {"losses/total_loss": 1.5, "losses/policy_loss": -0.25})]


@pytest.mark.parametrize("style", ["5/5 [==========] - 62s 13s/step", "5/5 ━━━━━━━━━━ 62s 13s/step"])
def test_keras_tells_a_row_an_epoch(tmp_path: Path, style: str) -> None:
    begun = style.replace("5/5", "1/5")
    text = "".join(
        f"Epoch {epoch}/3\n\r{begun} - loss: 9.5 - accuracy: 0.125\r{style} - loss: {epoch}.5 - accuracy: 0.5"
        f"\r{style} - loss: {epoch}.25 - accuracy: 0.5 - val_loss: nan - val_accuracy: 0.25\n"
        for epoch in (1, 2)
    )
    text += style.replace("5/5", "13/13") + " - loss: 7.5 - accuracy: 0.25\nEpoch 3/3\n" + begun + " - loss: 9.5\n"
    [run] = runs(tmp_path, text)
    assert [row[0] for row in rows(run)] == [1, 2]
    assert isinstance(rows(run)[0][1], dict)
    assert list(rows(run)[0][1]) == ["epoch", "loss", "accuracy", "val_loss", "val_accuracy"]  # type: ignore[call-overload]
    assert rows(run)[1][1]["loss"] == 2.25  # type: ignore[index]
    assert run.info.total_steps == 3


def lines(*objects: dict[str, object]) -> str:
    return "".join(json.dumps(one) + "\n" for one in objects)


def test_the_iterations_of_mmcv_json_are_counted_on_through_the_epochs(tmp_path: Path) -> None:
    text = lines(
        {"env_info": "sys.platform: linux", "seed": 7},
        {"mode": "train", "epoch": 1, "iter": 50, "lr": 0.5, "loss": 2.5},
        {"mode": "train", "epoch": 1, "iter": 100, "lr": 0.5, "loss": 2.25},
        {"mode": "val", "epoch": 1, "iter": 5000, "lr": 0.5, "bbox_mAP": 0.25},
        {"mode": "train", "epoch": 2, "iter": 50, "lr": 0.5, "loss": 2.0},
    )
    read_rows, notes = one(tmp_path, text)
    assert [(row[0], *row[1]) for row in read_rows] == [  # type: ignore[misc]
        (50, "epoch", "lr", "loss"),
        (100, "epoch", "lr", "loss"),
        (100, "val/lr", "val/bbox_mAP"),
        (150, "epoch", "lr", "loss"),
    ]
    assert "`iter` begins anew with each `epoch`: it is counted on" in notes
    assert "a validation counts its own batches: it is read at the training step before it" in notes


def test_the_scalars_of_mmengine_put_a_validation_where_it_was_made(tmp_path: Path) -> None:
    text = lines(
        {"lr": 0.5, "data_time": 0.1, "loss": 2.5, "epoch": 1, "iter": 50, "memory": 100, "step": 50},
        {"lr": 0.5, "data_time": 0.1, "loss": 2.25, "epoch": 1, "iter": 100, "memory": 100, "step": 100},
        {"coco/bbox_mAP": 0.25, "data_time": 0.1, "step": 1},
    )
    assert one(tmp_path, text)[0][2] == (100, {"val/coco/bbox_mAP": 0.25, "val/data_time": 0.1})


def test_detectron_lines_are_read(tmp_path: Path) -> None:
    text = (
        "[11/07 14:28:51] d2.engine.train_loop INFO: Starting training from iteration 0\n"
        "[11/07 14:28:51] d2.utils.events INFO:  eta: 19:25:50  iter: 79  total_loss: 3.25  loss_cls: 0.5  time: 0.25  "
        "data_time: 0.0125  lr: 1.5e-05  max_mem: 2345M\n"
    )
    assert one(tmp_path, text)[0] == [
        (
            79,
            {"total_loss": 3.25, "loss_cls": 0.5, "time": 0.25, "data_time": 0.0125, "lr": 1.5e-5, "max_mem": 2345.0},
        )
    ]


def test_deepspeed_lines_are_read_with_the_scale_that_was_told_last(tmp_path: Path) -> None:
    log = "[2023-08-02 00:41:18,438] [INFO] "
    text = (
        f"{log}[logging.py:96:log_dist] [Rank 0] step=0, skipped=0, lr=[0.5], mom=[(0.9, 0.999)]\n"
        f"{log}[loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. "
        "Attempted loss scale: 131072, reducing to 65536\n"
        f"{log}[fused_optimizer.py:348:_update_scale] Reducing dynamic loss scale from 65536 to 32768.0\n"
        f"{log}[logging.py:96:log_dist] [Rank 0] step=10, skipped=2, lr=[0.5, 0.25], mom=[(0.9, 0.999), (0.9, 0.999)]\n"
        f"{log}[timer.py:215:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=202.5, "
        "CurrSamplesPerSec=139.5, MemAllocated=1.5GB, MaxMemAllocated=2.5GB\n"
        "steps: 20 loss: 10.5 iter time (s): 4.25 samples/sec: 7.5\n"
    )
    assert one(tmp_path, text)[0] == [
        (0, {"skipped": 0.0, "lr": 0.5}),
        (10, {"skipped": 2.0, "lr": 0.5, "lr/1": 0.25, "loss_scale": 32768.0}),
        (
            10,
            {
                "RunningAvgSamplesPerSec": 202.5,
                "CurrSamplesPerSec": 139.5,
                "MemAllocated": 1.5,
                "MaxMemAllocated": 2.5,
            },
        ),
        (20, {"loss": 10.5, "iter time (s)": 4.25, "samples/sec": 7.5}),
    ]


def test_the_counters_of_a_prediction_are_no_rows_of_llama_factory(tmp_path: Path) -> None:
    text = lines(
        {"current_steps": 10, "total_steps": 20, "loss": 2.5, "lr": 5e-5, "epoch": 0.5, "percentage": 50.0,
         "elapsed_time": "0:01:00"},
        {"current_steps": 20, "total_steps": 20, "eval_loss": 2.25, "epoch": 1.0, "percentage": 100.0},
        {"current_steps": 1, "total_steps": 2, "percentage": 50.0, "elapsed_time": "0:00:01"},
        {"current_steps": 2, "total_steps": 2, "percentage": 100.0, "elapsed_time": "0:00:02"},
    )  # fmt: skip
    [run] = runs(tmp_path, text)
    assert rows(run) == [
        (10, {"loss": 2.5, "lr": 5e-5, "epoch": 0.5, "percentage": 50.0, "total_steps": 20.0}),
        (20, {"eval_loss": 2.25, "epoch": 1.0, "percentage": 100.0, "total_steps": 20.0}),
    ]
    assert run.info.total_steps == 20
    assert "2 rows have nothing but counters and are left out" in run.info.notes


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Step 10/500 - loss: 2.5, lr=1e-4", (10, {"loss": 2.5, "lr": 1e-4})),
        ("Time: 2023-12-11 16:39:38, Epoch: 0, Step: 10, Rank: 0, loss = 8.5, acc = nan", None),
        ("[2024-01-01 10:00:00] iter=10 loss=2.5 grad norm: 1.5 took 3s", (10, {"loss": 2.5, "grad norm": 1.5})),
        ("epoch: 3|step: 10|act_loss: 0.5|cri_loss: -0.25", (10, {"epoch": 3.0, "act_loss": 0.5, "cri_loss": -0.25})),
        ("Epoch 7: train loss: 0.5, val loss: 0.75", (7, {"epoch": 7.0, "train loss": 0.5, "val loss": 0.75})),
        (
            "[rank0]:2024-06-01 10:00:00 - root - INFO - step:  10  loss:  2.5  memory: 10.5GiB(11.1%)  tps: 1,234",
            (10, {"loss": 2.5, "memory": 10.5, "tps": 1234.0}),
        ),
        ("2024-01-01 10:00:00,123 INFO Step: 10, loss: 2.5, lr: 1e-4", (10, {"loss": 2.5, "lr": 1e-4})),
        ("Epoch [1/10], Step [10/3125], Loss: 2.5", (10, {"epoch": 1.0, "Loss": 2.5})),
        ("Epoch [10/20], Loss: 0.5, Accuracy: 88.5%", (10, {"epoch": 10.0, "Loss": 0.5, "Accuracy": 88.5})),
    ],
)
def test_a_line_with_a_step_and_two_numbers_is_a_row_and_said(
    tmp_path: Path, line: str, expected: tuple[int, dict[str, float]] | None
) -> None:
    read_rows, notes = one(tmp_path, f"starting\n{line}\nall done\n")
    assert notes[0].startswith("lines with a step and numbers are read as rows, the first is line 2: ")
    [row] = read_rows
    if expected is not None:
        assert row == expected
    else:
        assert isinstance(row[1], dict)
        assert (row[0], row[1]["epoch"], row[1]["loss"]) == (10, 0.0, 8.5)
        assert math.isnan(row[1]["acc"])


@pytest.mark.parametrize(
    "line", ["epoch 3 done", "step 3 | loss: 2.5", "saved at step 10 of 20", "loss: 2.5, acc: 0.5"]
)
def test_a_line_without_a_step_or_with_one_number_is_no_row(tmp_path: Path, line: str) -> None:
    text = f"{line}\n" * 3 + "Step: 4, loss: 2.5, acc: 0.5\n"
    assert one(tmp_path, text)[0] == [(4, {"loss": 2.5, "acc": 0.5})]


def test_steps_that_begin_anew_with_each_epoch_are_counted_on(tmp_path: Path) -> None:
    text = "".join(f"epoch: {e} | step: {s} | loss: {3 - e} | lr: 0.5\n" for e in range(3) for s in range(0, 100, 10))
    read_rows, notes = one(tmp_path, text)
    assert [row[0] for row in read_rows] == [*range(0, 100, 10), *range(90, 190, 10), *range(180, 280, 10)]
    assert notes[-1] == "`step` begins anew with each `epoch`: it is counted on"
