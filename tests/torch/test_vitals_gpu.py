"""What NVML says, told under our names; played by a module that answers like it.

No machine of ours has a GPU. Names, units and the failure without a driver are those of nvidia-ml-py 13. That
`uuid` of torch, with `GPU-` before it, is NVML's name of the device, and which answers a GPU refuses, are guesses.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.torch.nets import loss_of, net, words

torch = pytest.importorskip("torch")
from vitalsdsl_torch.vitals import Vitals  # noqa: E402


class Refused(Exception):
    """NVMLError."""


ANSWERS = {"GPU-aa": (87, 71, 412_500, 1785, 0x4), "GPU-bb": (3, 93, 88_250, 345, 0x40 | 0x1)}


def nvml(refused: tuple[str, ...] = (), absent: tuple[str, ...] = ()) -> Any:
    """A module that answers for two GPUs as NVML does; some of its functions refuse, or are not there."""
    module = ModuleType("pynvml")
    module.NVMLError, module.NVML_TEMPERATURE_GPU, module.NVML_CLOCK_SM = Refused, 0, 1
    module.asked = []
    questions = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: ANSWERS[uuid],
        "nvmlDeviceGetUtilizationRates": lambda device: SimpleNamespace(gpu=device[0], memory=50),
        "nvmlDeviceGetTemperature": lambda device, sensor: device[1] if sensor == 0 else 1 / 0,
        "nvmlDeviceGetPowerUsage": lambda device: device[2],
        "nvmlDeviceGetClockInfo": lambda device, clock: device[3] if clock == 1 else 1 / 0,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda device: device[4],
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda device: device[4],
    }

    def question(name: str) -> Any:
        def ask(*options: Any) -> Any:
            module.asked.append(name)
            if name in refused:
                raise Refused("not supported")
            return questions[name](*options)

        return ask

    for name in questions:
        if name not in absent:
            setattr(module, name, question(name))
    return module


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch that sees two GPUs, in another order than NVML numbers them."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: SimpleNamespace(uuid=("bb", "aa")[number]))


def told(steps: int = 1) -> dict[str, float]:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vitals = Vitals(model, optimizer, log_every=1, every={"gpu": 1})
    for step in range(steps):
        loss_of(model, words(step)).backward()
        optimizer.step()
        found = vitals.step()
        assert "collector/failed" not in found and "grad_norm" in found
    return {name: one for name, one in found.items() if name.startswith("gpu/")}


EXPECTED = {
    "gpu/0/util": 0.03, "gpu/0/temp": 93.0, "gpu/0/power": 88.25, "gpu/0/sm_clock": 345.0,
    "gpu/0/throttle": 1.0, "gpu/0/power_cap": 0.0,
    "gpu/1/util": 0.87, "gpu/1/temp": 71.0, "gpu/1/power": 412.5, "gpu/1/sm_clock": 1785.0,
    "gpu/1/throttle": 0.0, "gpu/1/power_cap": 1.0,
}  # fmt: skip


def test_each_gpu_tells_under_the_number_that_torch_gives_it(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    library = nvml()
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert told(steps=3) == pytest.approx(EXPECTED)
    assert library.asked.count("nvmlInit") == 1 and library.asked.count("nvmlDeviceGetHandleByUUID") == 2


@pytest.mark.parametrize(
    "refused, absent",
    [
        (("nvmlDeviceGetCurrentClocksEventReasons",), ()),
        ((), ("nvmlDeviceGetCurrentClocksEventReasons",)),
    ],
    ids=["an older driver", "an older library"],
)
def test_reasons_are_asked_for_under_the_older_name_too(
    refused: tuple[str, ...], absent: tuple[str, ...], two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml(refused, absent))
    assert told() == pytest.approx(EXPECTED)


@pytest.mark.parametrize(
    "refused, missing",
    [
        (("nvmlDeviceGetUtilizationRates",), ("util",)),
        (("nvmlDeviceGetTemperature", "nvmlDeviceGetClockInfo"), ("temp", "sm_clock")),
        (("nvmlDeviceGetPowerUsage",), ("power",)),
        (
            ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
            ("throttle", "power_cap"),
        ),
    ],
)
def test_what_a_gpu_refuses_to_tell_is_absent(
    refused: tuple[str, ...], missing: tuple[str, ...], two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml(refused))
    expected = {name: one for name, one in EXPECTED.items() if name.rpartition("/")[2] not in missing}
    assert told() == pytest.approx(expected)


@pytest.mark.parametrize(
    "library", [None, nvml(refused=("nvmlInit",)), nvml(refused=("nvmlDeviceGetHandleByUUID",))],
    ids=["not installed", "no driver", "no such device"],
)  # fmt: skip
def test_without_nvml_there_is_nothing_to_tell(library: Any, two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library)  # None: it cannot be imported
    assert told() == {}


def test_where_torch_sees_no_gpu_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    assert told() == {}
