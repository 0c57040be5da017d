"""The catalogue is made of the packs and is current; every shipped rule says where it is from and what confuses it."""

from __future__ import annotations

import pytest

from tests.packs.catalogue import PAGE, Pack, measured, measured_of, page, shipped
from vitalsdsl.language.layout import format_policy
from vitalsdsl.language.parser import parse
from vitalsdsl.language.rules import Level, Rule


def test_the_catalogue_is_made_from_the_packs(update: bool) -> None:
    if update:
        PAGE.write_text(page(), "utf-8")
    assert PAGE.read_text("utf-8") == page()


@pytest.mark.parametrize("pack", shipped(), ids=lambda p: p.name)
def test_every_shipped_rule_says_its_source_and_its_confusers(pack: Pack) -> None:
    lacking = {name: sorted({"source", "confusers"} - said.keys()) for name, said in pack.notes.items()}
    assert not {name: words for name, words in lacking.items() if words}


@pytest.mark.parametrize("pack", shipped(), ids=lambda p: p.name)
def test_every_shipped_pack_is_in_the_one_style(pack: Pack) -> None:
    source = pack.loaded.policy.source
    assert format_policy(parse(source)) == source.text


@pytest.mark.parametrize("pack", shipped(), ids=lambda p: p.name)
def test_every_shipped_rule_fires_in_a_test(pack: Pack) -> None:
    assert not {rule.name for rule in pack.own} - pack.fired_in.keys()


def test_what_was_measured_is_of_packs_and_rules_that_there_are() -> None:
    packs = {pack.name: pack for pack in shipped()}
    for name, found in measured().items():
        assert name in packs and found["digest"].startswith("sha256:")
        known = (
            {rule.name for rule in packs[name].loaded.policy.of(Rule)}
            if found["digest"] == packs[name].loaded.digest
            else None
        )
        for rule, by_stride in found["rules"].items():
            assert known is None or rule in known
            assert all({"steps", *(lv.word for lv in Level if lv)} == row.keys() for row in by_stride.values())


def test_a_pack_that_was_measured_as_a_part_of_another_says_so() -> None:
    packs = {pack.name: pack for pack in shipped()}
    rates = {"default": {"digest": "sha256:0"}}
    assert measured_of(packs["core"], shipped(), rates) == (packs["default"], rates["default"])
    own = {**rates, "core": {"digest": "sha256:1"}}
    assert measured_of(packs["core"], shipped(), own) == (packs["core"], own["core"])
    # Nobody brings the check-lists into a pack of theirs.
    assert measured_of(packs["checkup"], shipped(), rates) == (packs["checkup"], {})
