"""The options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from vitalsdsl.ground.claims import run_name
from vitalsdsl.language.rules import LEVEL_WORDS


def _settings(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """`--set k=2.5` as a mapping."""
    pairs = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise click.BadParameter(f"`{value}`: write it as name=value, as in --set k=2.5")
        pairs[name.strip()] = text.strip()
    return pairs


_set = click.option("--set", "settings", multiple=True, metavar="p=v", callback=_settings, help="Set a param.")
_profile = click.option("--profile", metavar="P", help="Take the param values of a profile.")


def loading_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--set` and `--profile`, since both are part of what a policy means."""
    return _set(_profile(function))


form_option = click.option("--format", "form", type=click.Choice(["text", "jsonl"]), default="text")

step_option = click.option("--step", "step_key", metavar="KEY", help="The logged name that is the training step.")

fail_option = click.option(
    "--fail-on", type=click.Choice(LEVEL_WORDS), help="Exit 3 where a level at or above this is reached."
)

home_option = click.option(
    "--home",
    type=click.Path(path_type=Path),
    help="The folder of journals and the store; else VITALS_HOME, vitals.toml's home, or .vitals.",
)

control_option = click.option(
    "--control", metavar="DIR", help="The folder in which trainings look for requests; `mlflow:` for tags of the run."
)


def _run_name(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    return run_name(value)


run_argument = click.argument("run", callback=_run_name)
"""A run by its id, as `mlflow:RUN_ID` or `wandb:ENTITY/PROJECT/RUN`, or by the address of its page: its id."""


class TakesMany(click.Command):
    """A command whose options that may be given several times take every word behind them, up to the next option:
    `--against a.jsonl b.jsonl` is `--against a.jsonl --against b.jsonl`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        many = {o for p in self.params if isinstance(p, click.Option) and p.multiple for o in p.opts}
        given: list[str] = []
        taking, took = "", 0
        for word in [*args, "--"]:
            if word.startswith("-") and word != "-":
                if taking and not took:
                    raise click.BadOptionUsage(taking, f"Option '{taking}' requires an argument.", ctx)
                taking, took = (word, 0) if word in many else ("", 0)
                given += [] if taking else [word]
            elif taking:
                given += [taking, word]
                took += 1
            else:
                given.append(word)
        return super().parse_args(ctx, given[:-1] if given[-1:] == ["--"] else given)
