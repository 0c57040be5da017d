"""A policy as one text that stands alone: what is kept with a run, so that its verdicts can be had again."""

from __future__ import annotations

import importlib

from vitalsdsl.ground.source import Source
from vitalsdsl.language import rules
from vitalsdsl.language.renaming import replaced
from vitalsdsl.language.scope import name_rules
from vitalsdsl.language.sentences import is_oneliner
from vitalsdsl.policies.policy_files import SUFFIXES


def flattened(policy: rules.Policy, name: str) -> str:
    """The text of a policy whose `use`, `override`, `disable` and params are carried out already.

    Loading it gives the same digest, rule names and verdicts, whatever becomes of the other files, the packs and the
    date. Comments are left behind, since many of them are about what is no longer written there. Raises VitalsError if
    the meaning would change, which is a fault of ours.

    >>> from vitalsdsl.policies.policy import load
    >>> loaded = load("p", text="param k = 3  use 'pack:core' as core".replace("'", '"'), settings={"k": 2})
    >>> text = flattened(loaded.policy, "p.vitals")
    >>> load("p", text=text).digest == loaded.digest
    True
    """
    # Loaded only here, since it brings the reader of YAML, which is slow to load, to every `vitals check`.
    layout = importlib.import_module("vitalsdsl.language.layout")
    text: str = layout.format_policy(replaced(policy, source=Source(name, "")))
    return text


def with_names_written(policy: rules.Policy) -> rules.Policy:
    """The policy, with a bare `when` given its name in writing where what stands here would have it named otherwise.

    So it is where its file took a name for a metric that another file says is a phase, or where a name was taken.
    """
    here = [s for s in policy.statements if isinstance(s, rules.Rule)]
    if not any(map(is_oneliner, here)):
        return policy
    bare = tuple(
        (replaced(s, name="") if is_oneliner(s) else replaced(s, written=True)) if isinstance(s, rules.Rule) else s
        for s in policy.statements
    )
    again = name_rules(replaced(policy, statements=bare))
    changed = {before.name for before, after in zip(here, again.of(rules.Rule)) if before.name != after.name}
    if not changed:
        return policy
    kept = (replaced(s, written=True) if isinstance(s, rules.Rule) and s.name in changed else s
            for s in policy.statements)  # fmt: skip
    # A name that is written now is taken, so one that was found again may be so no longer.
    return with_names_written(replaced(policy, statements=tuple(kept)))


def file_name(reference: str) -> str:
    """The name of the file that a policy of this reference is kept in.

    >>> file_name("rules/llm.v2.yaml"), file_name("pack:core"), file_name("git+https://host/r.git//a/llm.vitals@v1")
    ('llm.v2.vitals', 'pack_core.vitals', 'llm.vitals')
    """
    name = reference.rstrip("/").rsplit("/", 1)[-1]
    for suffix in SUFFIXES:
        head, found, _ = name.partition(suffix + "@")
        name = head + suffix if found else name
        if name.lower().endswith(suffix):
            name = name[: -len(suffix)]
            break
    kept = "".join(c if c.isalnum() or c in "_.-" else "_" for c in name).lstrip(".")
    return (kept or "policy") + ".vitals"
