"""Records come out of a `.wandb` file whole and once, however its bytes come, and never wrongly where it is damaged."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

if "CI" not in os.environ:
    pytest.importorskip("wandb")

from vitalsdsl_wandb import framing
from vitalsdsl_wandb.framing import Frames

from tests.wandb.run_files import BEGINNING, BLOCK, framed
from vitalsdsl.ground.errors import SourceError


def payloads(seed: int, count: int, largest: int) -> list[bytes]:
    dice = random.Random(seed)
    return [dice.randbytes(dice.choice([0, 1, 5, dice.randrange(largest)])) + b"%d" % i for i in range(count)]


def read(data: bytes, offset: int = 0, torn: bool = False) -> tuple[list[bytes], Frames]:
    frames = Frames("run-x.wandb", offset, torn)
    return list(frames.feed(data[offset:])), frames


def pieces(data: bytes, dice: random.Random) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = dice.choice([1, 3, 7, dice.randrange(1, 200), dice.randrange(1, 2 * BLOCK)])
        yield data[at : at + size]
        at += size


@pytest.mark.parametrize("seed", range(20))
def test_any_pieces_give_the_same_records(seed: int) -> None:
    wanted = payloads(seed, 300, 3 * BLOCK if seed % 4 == 0 else 700)
    frames = Frames("run-x.wandb")
    found = [record for piece in pieces(framed(wanted), random.Random(seed)) for record in frames.feed(piece)]
    assert found == wanted
    assert frames.damage == 0 and frames.waiting == 0


@pytest.mark.parametrize("seed", range(6))
def test_reading_goes_on_after_any_record(seed: int) -> None:
    wanted = payloads(seed, 60, BLOCK)
    data = framed(wanted)
    frames = Frames("run-x.wandb")
    marks = [frames.offset for _ in frames.feed(data)]
    for count, offset in enumerate(marks, 1):
        rest, after = read(data, offset)
        assert rest == wanted[count:] and after.damage == 0


def test_a_file_cut_at_any_byte_of_its_last_block_gives_what_is_whole_and_then_the_rest() -> None:
    wanted = payloads(3, 640, 400)
    data = framed(wanted)
    begin = len(data) // BLOCK * BLOCK
    assert len(data) - begin > 2000
    frames = Frames("run-x.wandb")
    ends = [frames.offset for _ in frames.feed(data)]
    before = max(end for end in ends if end <= begin)
    last = wanted[ends.index(before) + 1 :]
    for cut in range(begin, len(data)):
        found, short = read(data[:cut], before)
        whole = sum(before < end <= cut for end in ends)
        assert found == last[:whole] and short.damage == 0
        assert short.waiting == cut - short.offset
        assert list(short.feed(data[cut:])) == last[whole:]


@pytest.mark.parametrize("seed", range(60))
def test_a_flipped_byte_loses_at_most_its_block_and_is_counted(seed: int) -> None:
    dice = random.Random(seed)
    wanted = payloads(5, 800, 2000)
    data = bytearray(framed(wanted))
    at = dice.randrange(len(BEGINNING), len(data))
    data[at] ^= 1 << dice.randrange(8)
    found, frames = read(bytes(data))
    known = set(wanted)
    assert all(record in known for record in found), "a record that was never written"
    block = at // BLOCK
    reader = Frames("run-x.wandb")
    kept = []
    for record in reader.feed(framed(wanted)):
        begins_after = reader.offset - len(record) - 7 >= (block + 1) * BLOCK
        if reader.offset <= block * BLOCK or begins_after:
            kept.append(record)
    assert [record for record in found if record in set(kept)] == kept
    last = len(data) // BLOCK
    is_waiting = block == last and frames.waiting > 0
    is_padding = BLOCK - at % BLOCK < 7
    assert frames.damage >= 1 or is_waiting or is_padding


@pytest.mark.parametrize("seed", range(40))
def test_after_damage_reading_goes_on_from_where_it_stopped(seed: int) -> None:
    dice = random.Random(seed)
    data = bytearray(framed(payloads(5, 800, 2000)))
    data[dice.randrange(len(BEGINNING), len(data) - BLOCK)] ^= 0x55
    whole, once = read(bytes(data))
    found: list[bytes] = []
    offset, torn, damage = 0, False, 0
    while True:
        frames = Frames("run-x.wandb", offset, torn)
        for record in frames.feed(bytes(data[offset:])):
            found.append(record)
            if dice.random() < 0.05:
                break
        else:
            damage += frames.damage
            break
        offset, torn = frames.offset, frames.torn
        damage += frames.damage
    assert found == whole and damage == once.damage


def test_damage_at_the_end_waits_for_the_next_block() -> None:
    wanted = payloads(5, 800, 2000)
    data = bytearray(framed(wanted))
    cut = 2 * BLOCK + 5000
    data[cut - 4000] ^= 1
    found, frames = read(bytes(data[:cut]))
    assert frames.damage == 1 and frames.offset == 3 * BLOCK and frames.torn
    resumed = Frames("run-x.wandb", frames.offset, frames.torn)
    assert list(resumed.feed(b"")) == []
    rest = list(resumed.feed(bytes(data[3 * BLOCK :])))
    assert rest == wanted[-len(rest) :] and resumed.damage == 0
    assert list(frames.feed(bytes(data[cut:]))) == rest


def test_space_that_was_set_aside_is_no_damage() -> None:
    first, second = framed([b"one"]), framed([b"two"])[len(BEGINNING) :]
    data = first + bytes(BLOCK - len(first)) + second
    found, frames = read(data)
    assert found == [b"one", b"two"] and frames.damage == 0
    found, frames = read(first + bytes(100))
    assert found == [b"one"] and frames.damage == 0


def test_a_record_beyond_all_measure_is_not_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "LARGEST", 3 * BLOCK)
    wanted = [b"before", b"x" * (10 * BLOCK), b"after"]
    found, frames = read(framed(wanted))
    assert found == [b"before", b"after"] and frames.damage == 1


@pytest.mark.parametrize("data", [b"hello, world", b":W&B\xe1\xbf\x00", b"{"])
def test_another_file_is_refused(data: bytes) -> None:
    with pytest.raises(SourceError, match="`run-x.wandb` is no W&B run file"):
        read(data)


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(SourceError, match="version 1 of W&B's file format, and only version 0"):
        read(BEGINNING[:6] + b"\x01" + framed([b"row"])[7:])


@pytest.mark.parametrize("size", range(8))
def test_a_file_that_is_hardly_begun_waits(size: int) -> None:
    found, frames = read(framed([b"row"])[:size])
    assert found == [] and frames.damage == 0
