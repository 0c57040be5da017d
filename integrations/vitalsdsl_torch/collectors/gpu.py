"""The collector of the GPUs themselves: work, heat, power, clocks."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.watched import Watched

SLOWED = 0x8 | 0x20 | 0x40 | 0x80
"""Reasons of NVML for lowered clocks that are no good: hardware slowdown, heat by software and hardware, power brake."""
POWER_CAP = 0x4


class Gpu(Collector):
    """How busy, hot and fast the GPUs are that this process may use, as the driver says.

    `<n>` is a GPU's number within this process, as in `cuda:<n>`. What a GPU does not tell is absent, and all of it where
    NVML is not there.
    """

    name = "gpu"
    every = timedelta(minutes=10)
    cost = "five questions to the driver a GPU, some milliseconds"
    needs = "CUDA, and `pip install nvidia-ml-py`"
    metrics = {
        "gpu/<n>/util": "share of the last moments (up to a second) in which it computed, 0 to 1",
        "gpu/<n>/temp": "°C",
        "gpu/<n>/power": "W",
        "gpu/<n>/sm_clock": "MHz",
        "gpu/<n>/throttle": "1 while its clocks are lowered for heat or for a power brake, else 0",
        "gpu/<n>/power_cap": "1 while they are lowered to keep within its power limit, as at full load is common, else 0",
    }
    on_skipped = True

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._library: Any = None
        self._devices: dict[int, Any] | None = None

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        if self._devices is None:
            self._library = _library()
            self._devices = _devices(self._library) if self._library is not None else {}
        for number, device in self._devices.items():
            for name, value in _answers(self._library, device):
                yield f"gpu/{number}/{name}", value


def _library() -> Any | None:
    """NVML, begun. None where it, or its library of Python, is not there."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        library.nvmlInit()
    except library.NVMLError:
        return None
    return library


def _devices(library: Any) -> dict[int, Any]:
    """NVML's handles of the GPUs that torch sees, which may be fewer, and in another order."""
    found = {}
    for number in range(torch.cuda.device_count()):
        # NVML knows nothing of CUDA_VISIBLE_DEVICES: its own numbers are others.
        identity = f"GPU-{torch.cuda.get_device_properties(number).uuid}"
        try:
            found[number] = library.nvmlDeviceGetHandleByUUID(identity)
        except library.NVMLError:
            continue
    return found


def _answers(library: Any, device: Any) -> Iterator[tuple[str, float]]:
    def asked(question: Callable[..., Any], *options: Any) -> Any | None:
        try:
            return question(device, *options)
        except library.NVMLError:  # not every GPU, nor every part of one, has an answer to each
            return None

    if (use := asked(library.nvmlDeviceGetUtilizationRates)) is not None:
        yield "util", use.gpu / 100
    if (heat := asked(library.nvmlDeviceGetTemperature, library.NVML_TEMPERATURE_GPU)) is not None:
        yield "temp", float(heat)
    if (power := asked(library.nvmlDeviceGetPowerUsage)) is not None:
        yield "power", power / 1000
    if (clock := asked(library.nvmlDeviceGetClockInfo, library.NVML_CLOCK_SM)) is not None:
        yield "sm_clock", float(clock)
    # Under the newer name where the library has it; drivers before 535 know only the older.
    for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        question = getattr(library, name, None)
        if question is not None and (reasons := asked(question)) is not None:
            yield "throttle", float(bool(reasons & SLOWED))
            yield "power_cap", float(bool(reasons & POWER_CAP))
            return
