"""What a batch is made of, against plain counting."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from tests.torch.nets import loss_of, net, same_bits, words

torch = pytest.importorskip("torch")
from vitalsdsl_torch.vitals import Vitals  # noqa: E402


def shown(*batches: dict[str, Any], **options: Any) -> dict[str, float]:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    vitals = Vitals(model, optimizer, **options)
    for batch in batches:
        vitals.batch(**batch)
    loss_of(model, words(0)).backward()
    optimizer.step()
    found = vitals.step()
    assert "collector/failed" not in found
    return {name.removeprefix("batch/"): one for name, one in found.items() if name.startswith("batch/")}


def repeats(rows: list[list[int]]) -> tuple[int, int]:
    """Runs of four that stood in their row before, and all runs; counted one by one."""
    again = total = 0
    for row in rows:
        met: set[tuple[int, ...]] = set()
        for at in range(len(row) - 3):
            gram = tuple(row[at : at + 4])
            again += gram in met
            met.add(gram)
            total += 1
    return again, total


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("has_mask", [True, False])
def test_batches_are_counted_as_by_hand(seed: int, has_mask: bool) -> None:
    draw = random.Random(seed)
    batches, lengths, rows, valid, places = [], [], [], 0, 0
    for _ in range(3):
        width = draw.randint(5, 40)
        own = [[draw.randint(1, 3) for _ in range(draw.randint(2, width))] for _ in range(draw.randint(1, 6))]
        left = draw.random() < 0.5
        padded = [[0] * (width - len(one)) + one if left else one + [0] * (width - len(one)) for one in own]
        labels = [[draw.choice([-100, 7]) for _ in range(width)] for _ in own]
        ids = torch.tensor(padded)
        batch = {"input_ids": ids, "labels": torch.tensor(labels), "token_type_ids": None}
        batches.append(batch | ({"attention_mask": (ids != 0).int()} if has_mask else {"pad_id": 0}))
        lengths += map(len, own)
        rows += own
        valid += sum(one != -100 for row in labels for one in row)
        places += width * len(own)
    found = shown(*batches)
    again, total = repeats(rows)
    assert found == {
        "max_len": max(lengths),
        "min_len": min(lengths),
        "pad_frac": pytest.approx(1 - sum(lengths) / places, rel=1e-12),
        "valid_frac": pytest.approx(valid / places, rel=1e-12),
        "ngram_rep": pytest.approx(again / total, rel=1e-12),
    }


def test_one_word_over_and_over_is_all_repetition() -> None:
    found = shown({"input_ids": torch.full((2, 50), 9)})
    assert found == {"max_len": 50, "min_len": 50, "ngram_rep": pytest.approx(46 / 47)}


def test_large_ids_are_told_apart() -> None:
    draw = random.Random(5)
    rows = [[draw.choice([2**31 - 1, 2**31 - 2, 151_643, 0]) for _ in range(300)] for _ in range(4)]
    again, total = repeats(rows)
    assert shown({"input_ids": torch.tensor(rows)})["ngram_rep"] == pytest.approx(again / total, rel=1e-12)


def test_of_a_large_batch_evenly_spaced_rows_are_looked_at_for_repetition() -> None:
    rows = torch.arange(64 * 1024).reshape(64, 1024)
    rows[::8] = 1
    # 8,192 of 65,536 words: each eighth row, which are those of one word.
    assert shown({"input_ids": rows})["ngram_rep"] == pytest.approx(1020 / 1021)
    assert shown({"input_ids": rows[1:]})["ngram_rep"] == 0


@pytest.mark.parametrize(
    "batch, expected",
    [
        ({}, {}),
        ({"labels": torch.tensor([1, -100, 2, 0])}, {"valid_frac": 0.75}),
        ({"labels": torch.tensor([1, 5]), "ignore_index": 5}, {"valid_frac": 0.5}),
        ({"input_ids": torch.zeros(0, 9, dtype=torch.long)}, {}),
        ({"input_ids": torch.tensor([1, 2, 3])}, {"max_len": 3, "min_len": 3, "ngram_rep": math.nan}),
        ({"attention_mask": torch.ones(2, 1, 3, 3)}, {}),
        ({"attention_mask": torch.tensor([[1, 1, 0]])}, {"max_len": 2, "min_len": 2, "pad_frac": 1 / 3}),
        ({"pixel_values": torch.zeros(2, 3)}, {}),
    ],
)
def test_what_is_not_given_is_not_told(batch: dict[str, Any], expected: dict[str, float]) -> None:
    assert shown(batch) == pytest.approx(expected, nan_ok=True)


def test_what_is_no_batch_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    vitals = Vitals(model, optimizer, log_every=1)
    for step in range(2):
        vitals.batch("a batch of what?")  # type: ignore[arg-type]
        loss_of(model, words(step)).backward()
        optimizer.step()
        found = vitals.step()
        assert found["collector/failed"] == 1 and "grad_norm" in found
    assert len(caplog.records) == 1 and "`batch` is off" in caplog.text


def test_nothing_is_kept_where_it_is_not_due_or_off() -> None:
    batch = {"input_ids": torch.ones(2, 9, dtype=torch.long)}
    assert shown(batch, off=["batch"]) == {}
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    vitals = Vitals(model, optimizer, every={"batch": 2})
    found = []
    for step in range(1, 5):
        vitals.batch(torch.ones(2, 8 + step, dtype=torch.long))
        loss_of(model, words(step)).backward()
        optimizer.step()
        found.append(vitals.step().get("batch/max_len"))
    assert found == [9, 10, None, 12]


def test_showing_changes_no_bit() -> None:
    ends = []
    for is_shown in (False, True):
        model = net()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        vitals = Vitals(model, optimizer, every={"batch": 1})
        for step in range(10):
            batch = words(step)
            before = batch.clone()
            if is_shown:
                vitals.batch(batch, labels=batch, pad_id=0)
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            optimizer.step()
            vitals.step()
            assert torch.equal(batch, before)
        ends.append([one.detach() for one in model.parameters()])
    assert all(same_bits(one, other) for one, other in zip(*ends))
