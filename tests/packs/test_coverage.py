"""Every claim and every incident has its place, and every place that is named exists."""

from __future__ import annotations

from tests.packs.coverage import KINDS, PAGE, Item, existing, items, page, wanted


def test_the_page_is_made_from_the_data(update: bool) -> None:
    if update:
        PAGE.write_text(page(), "utf-8")
    assert PAGE.read_text("utf-8") == page()


def test_every_item_is_there_once_and_in_order() -> None:
    assert list(items()) == wanted()


def test_every_item_has_a_place() -> None:
    assert not [item.name for item in items().values() if not item.has_place]


def test_a_curve_alone_is_no_place() -> None:
    served = dict.fromkeys(KINDS, ())
    assert not Item("I1", "a claim", {**served, "curves": ("healthy",)}).has_place
    assert Item("I1", "a claim", {**served, "rules": ("core.loss_spike",)}).has_place


def test_what_serves_an_item_exists() -> None:
    there = existing()
    lost = {
        f"{item.name}: {kind}": sorted(set(item.served[kind]) - there[kind])
        for item in items().values()
        for kind in KINDS
        if set(item.served[kind]) - there[kind]
    }
    assert not lost


def test_what_there_is_is_found() -> None:
    # Of each kind one that is known to exist, so that an empty set cannot pass for agreement.
    there = existing()
    for kind, name in {
        "rules": "core.loss_spike", "functions": "mad", "collectors": "grad_norm", "actions": "rollback",
        "curves": "nan_at", "pages": "docs/guard.md#rollback",
    }.items():  # fmt: skip
        assert name in there[kind]
        assert "no_such_thing" not in there[kind]


def test_a_claim_is_one_line_and_a_sentence() -> None:
    assert not [
        i.name for i in items().values() if "\n" in i.claim or not i.claim.endswith((".", "?")) or len(i.claim) > 160
    ]
