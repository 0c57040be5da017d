"""A run over a validation set: the mean over tokens, and a fingerprint that changes with the set and with nothing else."""

from __future__ import annotations

import hashlib
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from vitalsdsl_torch.validation import Validation  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "vitals.md"


def samples(seed: int = 0, count: int = 40) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(30) for _ in range(draw.randint(0, 12))] for _ in range(count)]


def fingerprint(rows: list[list[int]], size: int = 7, *, left: bool = False, pad: int = 0, **options: Any) -> float:
    validation = Validation(**options)
    for at in range(0, len(rows), size):
        part = rows[at : at + size]
        width = max(map(len, part))
        gaps = [[pad] * (width - len(row)) for row in part]
        used = [[1] * len(row) for row in part]
        zeros = [[0] * len(gap) for gap in gaps]
        padded = [gap + row if left else row + gap for gap, row in zip(gaps, part)]
        mask = [zero + one if left else one + zero for zero, one in zip(zeros, used)]
        validation.add(ids=torch.tensor(padded, dtype=torch.long), mask=torch.tensor(mask))
    found = validation.metrics()
    assert found["val_samples"] == len(rows)
    return found["val_fingerprint"]


def test_the_loss_is_the_mean_over_tokens() -> None:
    draw = random.Random(1)
    batches = [(draw.uniform(0, 5), draw.randint(0, 50)) for _ in range(20)]
    validation = Validation("hard")
    for loss, tokens in batches:
        given = torch.tensor(loss if tokens else math.nan, dtype=torch.float64)
        validation.add(given, tokens=torch.tensor(tokens), samples=3)
    expected = sum(loss * tokens for loss, tokens in batches) / sum(tokens for _, tokens in batches)
    assert validation.metrics() == {
        "val_samples/hard": 60,
        "val_loss/hard": pytest.approx(expected, rel=1e-12),
    }


def test_without_tokens_the_samples_weigh() -> None:
    validation = Validation()
    validation.add(1.0, samples=3)
    validation.add(5.0, samples=1)
    assert validation.metrics() == {"val_samples": 4, "val_loss": 2.0}


def test_a_loss_that_is_not_finite_shows() -> None:
    validation = Validation()
    validation.add(torch.tensor(1.0), tokens=3)
    validation.add(torch.tensor(math.nan), tokens=2)
    assert math.isnan(validation.metrics()["val_loss"])


def test_without_a_token_there_is_no_number() -> None:
    validation = Validation()
    assert validation.metrics() == {}
    validation.add(torch.tensor(math.nan), tokens=0)
    assert math.isnan(validation.metrics()["val_loss"])


@pytest.mark.parametrize("seed", range(3))
def test_order_batches_and_padding_do_not_matter(seed: int) -> None:
    rows = samples(seed)
    expected = fingerprint(rows)
    random.Random(seed).shuffle(rows)
    assert {
        fingerprint(rows, size, left=left, pad=pad) for size in (1, 3, 40) for left in (True, False) for pad in (0, 9)
    } == {expected}
    assert expected == int(expected) and 0 <= expected < 2**32


def test_another_set_has_another_fingerprint() -> None:
    rows = samples()
    others = [rows[:-1], [*rows, rows[0]], [*rows[:-1], [1]], [*rows, []]]
    for place in (3, 8, 21):
        word = [*rows[place], 5]
        others.append([*rows[:place], word, *rows[place + 1 :]])
        others.append([*rows[:place], list(reversed(word)), *rows[place + 1 :]])
    # A word that changes its sample: the words of all together are the same.
    moved = [list(row) for row in rows]
    moved[0].append(moved[1].pop())
    others.append(moved)
    found = [fingerprint(one) for one in [rows, *others]]
    assert len(set(found)) == len(found)


def test_of_many_sets_that_differ_in_a_word_none_are_alike() -> None:
    base = [[1, 2, 3, 4], [5, 6, 7, 8]]
    found = set()
    for word in range(3000):
        found.add(fingerprint([[1, 2, word, 4], base[1]]))
    assert len(found) == 3000


def test_the_tokenizer_belongs_to_it() -> None:
    class Tokenizer:
        def __init__(self, **words: int) -> None:
            self.words = words

        def get_vocab(self) -> dict[str, int]:
            return self.words

    rows = samples()
    tokenizers = ["", "bpe", Tokenizer(a=0, b=1), Tokenizer(a=1, b=0)]
    assert len({fingerprint(rows, tokenizer=one) for one in tokenizers}) == 4
    assert fingerprint(rows, tokenizer=Tokenizer(b=1, a=0)) == fingerprint(rows, tokenizer=tokenizers[2])


def signed(value: int) -> int:
    """As an int64 that has overflowed."""
    return (value + 2**63) % 2**64 - 2**63


def mixed(value: int) -> int:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = signed((value ^ (value >> shift)) * factor)
    return value ^ (value >> 31)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_same_in_every_version_and_on_every_machine(seed: int) -> None:
    rows = samples(seed)
    total = 0
    for row in rows:
        powers = (6364136223846793005 ** (place + 2) for place in range(len(row)))
        total += mixed(signed(sum(mixed(word + 1) * power for word, power in zip(row, powers)) + len(row)))
    text = f"bpe {len(rows)} {signed(total)}"
    digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    assert fingerprint(rows, tokenizer="bpe") == int(digest, 16)


def test_a_batch_without_ids_leaves_no_fingerprint() -> None:
    validation = Validation()
    validation.add(ids=torch.ones(2, 3, dtype=torch.long))
    validation.add(1.0, samples=2)
    assert set(validation.metrics()) == {"val_samples", "val_loss"}


@pytest.mark.parametrize(
    "batch",
    [
        {"ids": torch.rand(2, 3)},
        {"ids": "words", "samples": 2},
        {"ids": torch.ones(2, 3).long(), "mask": torch.ones(2, 4)},
    ],
)
def test_what_cannot_be_counted_is_said_and_ends_nothing(
    batch: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    validation = Validation("hard")
    validation.add(torch.tensor(1.5), tokens=4, **batch)
    assert validation.metrics() == {"val_samples/hard": 2, "val_loss/hard": 1.5}
    assert "set/hard could not be counted" in caplog.text and len(caplog.records) == 1


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (script,) = re.findall(
        r"```python\n(import torch\nfrom vitalsdsl_torch import Validation.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    )
    exec(compile(script, "docs/vitals.md", "exec"), {})
    found = capsys.readouterr().out
    assert "'val_samples/hard': 3.0" in found
    assert float(re.findall(r"'val_loss/hard': ([\d.]+)", found)[0]) == pytest.approx((2.0 * 5 + 1.3 * 2) / 7, rel=1e-6)
