"""Steps that begin anew with each epoch, counted on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from vitalsdsl.ground.points import number
from vitalsdsl_files.format import Reading
from vitalsdsl_files.rows import whole


def counted_on(
    rows: Iterable[Mapping[str, object]], reading: Reading, step: str, epoch: str
) -> Iterator[Mapping[str, object]]:
    """The rows, with the steps of all epochs before added to a step that falls where the epoch rises, which is said.

    A row without an epoch, and steps that go on through the epochs, stay as they are. Where the epoch falls (a resume, a
    new run), its steps are counted as they were before. How long an epoch is, is not known: the last step that was seen
    in it counts, so the sum can fall short of the steps that were made.

    >>> each = [{"it": s, "epoch": e, "loss": 1} for e in (1, 2) for s in (50, 100)]
    >>> [row["it"] for row in counted_on(each, Reading("log"), "it", "epoch")]
    [50, 100, 150, 200]
    """
    offsets: dict[float, int] = {}
    offset = last = 0
    current: float | None = None
    seen: set[str] = set()
    told = False
    for row in rows:
        at, now = whole(row.get(step)), number(row.get(epoch))
        if at is None or now is None or now != now:
            yield row
            continue
        names = set(row)
        if current is None or now < current:
            offset = offsets.get(now, 0)
        elif now > current and (at < last or (at == last and names <= seen)):
            offset += last
            if not told:
                reading.notes.append(f"`{step}` begins anew with each `{epoch}`: it is counted on")
                told = True
        seen = seen | names if (now, at) == (current, last) else names
        offsets.setdefault(now, offset)
        current, last = now, at
        yield {**row, step: at + offset} if offset else row
