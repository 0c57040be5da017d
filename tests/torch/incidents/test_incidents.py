"""Ten incidents that are provoked for real: each is seen by its rule, in time, and its clean twin is left in peace.

`python -m tests.trials.incidents` does so over several seeds, and makes the table of docs/incidents.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.torch.incidents.provoked import INCIDENTS, TWINS, Incident
from tests.torch.incidents.trainings import POLICY, Training, Watched, watched

PAGE = POLICY.with_suffix(".md").read_text("utf-8")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.name)
def test_an_incident_is_seen_by_its_rule_in_time_and_answered(incident: Incident, tmp_path: Path) -> None:
    seen = watched(incident.training(True), tmp_path / "run")
    found = seen.first(incident.rule, incident.level)
    assert found is not None, seen.transitions
    assert 0 <= found.step - incident.onset(seen) <= incident.within, seen.transitions
    assert not [
        t for t in seen.transitions if t.step < incident.onset(seen) and t.reason == "condition" and t.attempt == 0
    ]
    said = " ".join(seen.deeds)
    assert re.fullmatch(incident.answer, said), said
    if "back to" in said:
        losses = [row["loss"] for row in seen.metrics]
        assert sum(losses[-20:]) < 1.02 * sum(losses[70:90])  # of healthy steps, long before it began


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_a_clean_twin_stays_green(twin: type[Training], tmp_path: Path) -> None:
    seen: Watched = watched(twin(False), tmp_path / "run")
    assert len(seen.metrics) == twin.steps
    assert seen.transitions == []
    assert seen.deeds == []


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.name)
def test_every_incident_stands_on_the_page(incident: Incident) -> None:
    assert re.search(rf"^\| {re.escape(incident.name)} \| `{re.escape(incident.rule)}` \|", PAGE, re.MULTILINE)
