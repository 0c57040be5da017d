"""What a plan remembers, as data: written to a file, or kept in this process for a run that goes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vitalsdsl.ground.errors import StateError
from vitalsdsl.planning.plan import Plan


def state_of(plan: Plan, to_keep: bool = False) -> dict[str, Any]:
    """As plain data that JSON can hold, or else to be kept in this process, which is sooner done."""
    clock = plan.graph.clock
    return {
        "clock": [clock.step, clock.time, clock.first_step, clock.first_time, clock.total_steps, dict(clock.counters)],
        "bound": {name: intake.bound for name, intake in plan.metrics.intakes.items() if intake.bound is not None},
        "counted": {name: counter.bound for name, counter in plan.metrics.counters.items() if counter.bound},
        "metrics": {name: node.save() for name, node in plan.metrics.nodes.items()},
        "roots": [root.save() for root in plan.graph.roots],
        "points": [ring.keep() if to_keep else ring.save() for ring in plan.graph.rings.values()],
        "kernels": [kernel.keep() if to_keep else kernel.save() for kernel in plan.graph.states],
        "kept": to_keep,
        "rules": [rule.save() for rule in plan.rules if rule.guard is None],
        "guards": {rule.name: rule.save() for rule in plan.rules if rule.guard is not None},
        "stalled": [node.now for node in plan.graph.stalled],
    }


def put_back(plan: Plan, state: Mapping[str, Any]) -> None:
    """Have a plan of the same policy, which has seen the same names, stand where the other stood. Raises StateError where it
    is of another policy."""
    clock = plan.graph.clock
    clock.step, clock.time, clock.first_step, clock.first_time, clock.total_steps, counters = state["clock"]
    clock.counters = dict(counters)
    for name, bound in state["bound"].items():
        plan.metrics.intakes[name].bound = bound
    for name, bound in state["counted"].items():
        plan.metrics.counters[name].bound = bound
    for name, node in state["metrics"].items():
        plan.metrics.node(name).load(node)
    for rule in plan.rules:
        if rule.guard is not None:
            rule.load(state["guards"][rule.name])
    memory = "put_back" if state.get("kept") else "load"
    rings = list(plan.graph.rings.values()) if "points" in state else []  # an earlier version has them with each window
    for owned, saved, put in (
        (rings, state.get("points", []), memory),
        (plan.graph.roots, state["roots"], "load"),
        (plan.graph.states, state["kernels"], memory),
        ([rule for rule in plan.rules if rule.guard is None], state["rules"], "load"),
    ):
        if len(owned) != len(saved):
            raise StateError("saved rule state belongs to another policy")
        for part, data in zip(owned, saved):
            getattr(part, put)(data)
    for node, now in zip(plan.graph.stalled, state["stalled"]):
        node.now = now
