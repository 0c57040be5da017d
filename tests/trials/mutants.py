"""Which small wrongs in a pack its tests do not notice: `python -m tests.trials.mutants [PACK]… [--rule NAME]…`.

Minutes for all packs. Prints each survivor: the statement, what was done to it, and where. Exits with 1 where a mutant
survives that `tests/packs/survivors.yaml` does not list; `--note` lists it there as open.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.packs.killing import Killer
from tests.packs.survivors import Survivors
from vitalsdsl.policies.packs import packs


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.trials.mutants")
    parser.add_argument("pack", nargs="*", help="a shipped pack; all where none is given")
    parser.add_argument("--rule", action="append", default=[], help="only what these rules read")
    parser.add_argument("--note", action="store_true", help="list what survives as open")
    asked = parser.parse_args(arguments)
    listed = Survivors()
    found: dict[str, list[str]] = {}
    unlisted = 0
    for pack in asked.pack or [n for n, package in packs().items() if package == "vitalsdsl_rules"]:
        killer = Killer.of(pack)
        if killer is None:
            print(f"{pack}: no tests")
            continue
        reasons = listed.equivalent.get(pack, {})
        since, tried = time.monotonic(), 0
        found[pack] = []
        for mutant in killer.mutants:
            if asked.rule and not mutant.rules & set(asked.rule):
                continue
            tried += 1
            if killer.survives(mutant):
                if mutant.text in reasons:
                    print(f"  equivalent  {mutant.text}   # {reasons[mutant.text]}")
                    continue
                is_new = mutant.text not in listed.known(pack)
                unlisted += is_new
                found[pack].append(mutant.text)
                print(f"  {'SURVIVES' if is_new else 'open    '}    {mutant.text}", flush=True)
            elif mutant.text in listed.known(pack):
                print(f"  noticed     {mutant.text}   # and listed: take it off the list")
        print(f"{pack}: {tried} mutants, {len(found[pack])} not noticed, {time.monotonic() - since:.0f} s", flush=True)
    if asked.note:
        listed.note(found)
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
