"""The training is not changed, the loop is not broken, and hardly slowed down."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.torch.nets import WIDTH, Mixture, loss_of, net, same_bits, words

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from vitalsdsl_torch.collectors.base import collectors  # noqa: E402
from vitalsdsl_torch.data import Batches  # noqa: E402
from vitalsdsl_torch.vitals import Vitals  # noqa: E402

from vitalsdsl.ground.errors import UsageError  # noqa: E402

EACH = dict.fromkeys(collectors(), 1)


def trained_for(steps: int, is_watched: bool, clips: bool, is_scaled: bool) -> tuple[Any, Any, Any]:
    model = net(tied=True, odd=True)
    dropout = nn.Dropout(0.1)
    model.layers[1].register_forward_hook(lambda module, args, output: dropout(output))  # draws random numbers
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, enabled=is_scaled)
    vitals = Vitals(model, optimizer, scaler=scaler, every=EACH) if is_watched else None
    for step in range(steps):
        optimizer.zero_grad()
        for part in words(step).chunk(2):
            with torch.autocast("cpu", torch.float16, enabled=is_scaled):
                loss = loss_of(model, part) / 2
            scaler.scale(loss).backward()
            if vitals:
                vitals.micro_batch(loss=loss * 2, tokens=part[:, 1:].numel())
        if clips and vitals:
            vitals.clip_grad_norm_(0.5)
        elif clips:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        if vitals:
            assert "collector/failed" not in vitals.step()
    return model, optimizer, torch.get_rng_state()


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("clips", [False, True])
def test_fifty_steps_end_with_the_same_bits(clips: bool, is_scaled: bool) -> None:
    bare, bare_optimizer, bare_random = trained_for(50, False, clips, is_scaled)
    model, optimizer, random = trained_for(50, True, clips, is_scaled)
    for one, other in zip(bare.parameters(), model.parameters()):
        assert same_bits(one.detach(), other.detach())
    states = zip(bare_optimizer.state.values(), optimizer.state.values())
    assert all(same_bits(one["exp_avg_sq"], other["exp_avg_sq"]) for one, other in states)
    assert torch.equal(bare_random, random)


class Reads(TorchDispatchMode):
    """Counts the operations that bring a number from a tensor to the host, and all others."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = self.operations = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += 1
        self.reads += function in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default)
        return function(*args, **(kwargs or {}))


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The sizes of the tensors that were turned into lists."""
    sizes: list[int] = []
    plain = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: sizes.append(tensor.numel()) or plain(tensor))
    yield sizes


def test_a_measured_step_reads_one_vector_and_another_none(lists: list[int]) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vitals = Vitals(model, optimizer, every=dict.fromkeys(collectors(), 3))
    vitals.detail(steps=7, every=4)
    for step in range(1, 8):
        loss = loss_of(model, words(step))
        loss.backward()
        lists.clear()
        with Reads() as seen:
            vitals.clip_grad_norm_(1.0)
            optimizer.step()
            found = vitals.step(loss=loss, tokens=torch.tensor(64))
        optimizer.zero_grad()
        assert bool(found) == (step in (1, 3, 5, 6))
        assert len(lists) == bool(found)
        assert seen.reads == 0


def test_attention_experts_and_batches_are_looked_at_without_a_read(lists: list[int]) -> None:
    attends = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 2, 8, batch_first=True), 2)
    for model, given in ((attends, torch.randn(2, 5, WIDTH)), (Mixture(), words(0))):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        vitals = Vitals(model, optimizer, every=EACH)
        lists.clear()
        with Reads() as seen:
            vitals.batch(words(0), attention_mask=words(0), labels=words(0))
            model(given).sum().backward()
            optimizer.step()
            found = vitals.step()
        assert "attn/layer1/entropy" in found or "moe/z" in found
        assert "batch/ngram_rep" in found and "collector/failed" not in found
        assert seen.reads == 0 and len(lists) == 1


def test_operations_of_a_usual_step_do_not_grow_with_the_layers() -> None:
    counts = []
    for layers in (2, 16):
        model = net(layers=layers)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        vitals = Vitals(model, optimizer, log_every=1)
        for step in range(2):
            loss_of(model, words(step)).backward()
            with Reads() as bare:
                optimizer.step()
            vitals.step()
        vitals.detach()
        with Reads() as without:
            optimizer.step()
        counts.append(bare.operations - without.operations)
    assert counts[0] == counts[1] <= 15


def test_the_default_collectors_add_at_most_one_percent_of_a_step_s_operations_to_a_deep_model() -> None:
    """Counted, not timed: of a thousand steps the four kinds that there are. An operation on many tensors counts once,
    which favours the bare step: its optimizer has nothing but those."""

    def operations(is_watched: bool, step: int) -> int:
        model = net(layers=48)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
        vitals = Vitals(model, optimizer) if is_watched else None
        for number in (1, step):  # at the first all that has to be made is made
            if vitals:
                vitals.load_state_dict({"step": number - 1})
            optimizer.zero_grad()
            with Reads() as seen:
                loss = loss_of(model, words(number))
                loss.backward()
                if vitals:
                    vitals.clip_grad_norm_(1.0)
                else:
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                if vitals:
                    vitals.step(loss=loss, tokens=64)
        return seen.operations

    bare = operations(False, 2)
    more = {step: operations(True, step) - bare for step in (2, 50, 500, 1000)}
    assert 0 <= more[2] <= more[50] <= more[500] <= more[1000]
    assert 980 * more[2] + 18 * more[50] + more[500] + more[1000] <= 0.01 * 1000 * bare


def test_a_collector_that_fails_is_switched_off(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Any, moment: Any) -> None:
        raise ValueError("out of luck")

    monkeypatch.setattr(collectors()["param_norm"], "after", fails)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vitals = Vitals(model, optimizer, every={"param_norm": 1}, log_every=1)
    with caplog.at_level(logging.WARNING, "vitalsdsl"):
        for step in range(3):
            loss_of(model, words(step)).backward()
            optimizer.step()
            found = vitals.step()
            assert found["collector/failed"] == 1 and "grad_norm" in found and "param_norm" not in found
    assert [one.getMessage() for one in caplog.records] == [
        "the collector `param_norm` is off from step 1 on: out of luck"
    ]


def test_a_call_without_an_optimizer_step_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    model = net()
    vitals = Vitals(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with caplog.at_level(logging.WARNING, "vitalsdsl"):
        for _ in range(3):
            assert "grad_norm" not in vitals.step(loss=1.0)
    assert len(caplog.records) == 1 and "did not step" in caplog.text


def test_a_model_that_cannot_be_looked_through_trains_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = net()
    optimizer = torch.optim.SGD(list(model.embed.parameters()), lr=0.1)
    vitals = Vitals(model, optimizer, log_every=1)
    optimizer.add_param_group({"params": list(model.lm_head.parameters())})
    monkeypatch.setattr(model, "named_modules", lambda **options: 1 / 0)
    before = model.lm_head.weight.detach().clone()
    for step in range(3):
        loss_of(model, words(step)).backward()
        optimizer.step()
        assert vitals.step(loss=1.0)["loss"] == 1.0
    assert not torch.equal(before, model.lm_head.weight)
    assert [one.getMessage() for one in caplog.records] == ["the vitals of step 1 could not be taken: division by zero"]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_time_is_split_between_data_and_the_rest() -> None:
    clock = Clock()
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cadence = timedelta(seconds=10)
    vitals = Vitals(model, optimizer, clock=clock, log_every=1, every={"throughput": cadence, "memory": cadence})

    def batches() -> Iterator[Any]:
        for step in range(7):
            clock.now += 1.0
            yield words(step)

    found = []
    for batch in vitals.loader(batches()):
        loss_of(model, batch).backward()
        clock.now += 3.0
        optimizer.step()
        found.append(vitals.step(tokens=100, samples=5))
    assert "step_time" not in found[0]
    assert (found[1]["step_time"], found[1]["data_time"], found[1]["data_frac"]) == (4.0, 1.0, 0.25)
    assert found[1]["collector/overhead_frac"] == 0.0
    # Due at the start (t = 0, step 1), then at the first step that begins ten seconds on: t = 12, step 4.
    assert ["mem/rss" in one for one in found] == [True, False, False, True, False, False, True]
    assert [one.get("throughput") for one in found] == [None, None, None, 25.0, None, None, 25.0]
    assert found[3]["throughput/samples"] == 1.25


def test_detail_is_measured_for_a_while() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vitals = Vitals(model, optimizer)
    due = []
    for step in range(1, 31):
        loss_of(model, words(step)).backward()
        optimizer.step()
        if "grad_norm/layer/0" in vitals.step():
            due.append(step)
        if step == 10:
            vitals.detail(steps=12, every=5)
    assert due == [1, 11, 16, 21]


def test_counters_go_on_from_a_checkpoint() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vitals = Vitals(model, optimizer)
    for step in range(3):
        loss_of(model, words(step)).backward()
        optimizer.step()
        vitals.step(tokens=torch.tensor(64), samples=8)
    saved = vitals.state_dict()
    assert saved == {"step": 3, "tokens": 192.0, "samples": 24.0}
    again = Vitals(model, optimizer, every={"param_norm": 5}, log_every=1)
    again.load_state_dict(saved)
    for step in (4, 5):
        loss_of(model, words(step)).backward()
        optimizer.step()
        found = again.step(tokens=64, samples=8, epoch=0.5)
        assert ("param_norm" in found) == (step == 5)
    assert (found["tokens"], found["samples"], found["epoch"]) == (320.0, 40.0, 0.5)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"every": {"grad_nrom": 3}}, "there is no collector `grad_nrom`"),
        ({"off": ["everything"]}, "there is no collector `everything`"),
        ({"every": {"loss": 0}}, "the cadence of `loss` is 0"),
        ({"every": {"loss": 2.5}}, "the cadence of `loss` is 2.5"),
        ({"every": {"memory": timedelta(0)}}, "the cadence of `memory`"),
        ({"log_every": -1}, "the cadence of `log_every` is -1"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_at_once(options: dict[str, Any], message: str) -> None:
    model = net()
    with pytest.raises(UsageError, match=message):
        Vitals(model, torch.optim.SGD(model.parameters(), lr=0.1), **options)


def test_a_torch_without_what_is_needed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(nn.utils, "clip_grads_with_norm_")
    model = net()
    with pytest.raises(UsageError, match="too old"):
        Vitals(model, torch.optim.SGD(model.parameters(), lr=0.1))


def test_a_wrapped_optimizer_is_refused_before_anything_is_hung_on_the_model() -> None:
    class Wrapped(torch.optim.Optimizer):  # as accelerate does it: no optimizer inside, but by its name
        def __init__(self) -> None: ...

    model = net()
    with pytest.raises(UsageError, match="Wrapped takes no hooks: give the torch optimizer that is inside"):
        Vitals(model, Wrapped())
    assert not any(one._forward_hooks for one in model.modules())


@pytest.mark.parametrize("max_norm", [-1.0, float("nan")])
def test_a_norm_that_is_none_is_refused(max_norm: float) -> None:
    model = net()
    vitals = Vitals(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(UsageError, match="max_norm"):
        vitals.clip_grad_norm_(max_norm)


def test_collectors_that_are_off_are_not_there() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vitals = Vitals(model, optimizer, off=["activations", "attention", "dead_units", "logits", "grad_norm"])
    assert not any(one._forward_hooks for one in model.modules())
    loss_of(model, words(0)).backward()
    optimizer.step()
    assert "grad_norm" not in vitals.step()


def test_one_frozen_as_another_thaws_is_noticed() -> None:
    model = nn.ModuleList([nn.Linear(3, 1), nn.Linear(3, 1)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vitals = Vitals(model, optimizer, log_every=1)
    for trained in (0, 1):
        for number, one in enumerate(model):
            one.requires_grad_(number == trained)
        (model[trained](torch.ones(1, 3)).sum() * (1 + trained)).backward()
        optimizer.step()
        found = vitals.step()
        optimizer.zero_grad()
        assert found["grad_norm"] == pytest.approx(2.0 * (1 + trained))  # four ones, times the factor


def test_a_loader_that_is_timed_is_otherwise_the_loader() -> None:
    told = []

    class Sampler:
        def set_epoch(self, epoch: int) -> None:
            told.append(epoch)

    class Loader(list[int]):
        sampler = Sampler()

    model = net()
    vitals = Vitals(model, torch.optim.SGD(model.parameters(), lr=0.1))
    inside = Batches(vitals.loader(Loader([1, 2])))
    assert [next(inside) for _ in range(5)] == [1, 2, 1, 2, 1] and told == [0, 1, 2]
    outside = vitals.loader(Batches([1, 2]))
    assert next(outside) == 1 and outside.position == 1
    outside.skip_to(3)
    assert next(outside) == 2
    assert vitals.loader([]) and copy.copy(vitals.loader([7])).index(7) == 0
