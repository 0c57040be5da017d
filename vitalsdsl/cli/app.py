"""The program as a whole: finds its commands, and turns what goes wrong into one clear message and an exit code."""

from __future__ import annotations

import importlib
import logging
import os
import pkgutil
import sys
from typing import Any, NoReturn

import click

from vitalsdsl import __version__
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.errors import PolicyError, VitalsError

NO_COMMANDS = frozenset(
    {"app", "backtest_plain", "bar", "backtest_scores", "backtest_tables", "heartbeat", "options", "output", "recorded"}
)
"""The files of this package that are no commands."""

EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_LEVEL = 3


class HarmlessLines(logging.Formatter):
    """Log lines whose names cannot move the cursor or colour the terminal; the lines of a traceback stay lines."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, super().format(record).split("\n")))


class Commands(click.Group):
    """Loads a command's file only when it is called, so that each starts as fast as it can."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        package = importlib.import_module("vitalsdsl.cli")
        return sorted(m.name for m in pkgutil.iter_modules(package.__path__) if m.name not in NO_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"vitalsdsl.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with the first line of each one's file, which is all that is read of it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(name)) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PolicyError as error:
            click.echo(str(error), err=True)
            ctx.exit(EXIT_USAGE)
        except VitalsError as error:
            fail(str(error))
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)
        except RecursionError:
            fail("this is nested too deep to be read")
        except MemoryError:
            fail("there is not enough memory for this")


def _summary(name: str) -> str:
    """What a command does: its file's docstring without its name."""
    text = (pkgutil.get_data("vitalsdsl.cli", f"{name}.py") or b"").decode("utf-8").split("\n", 1)[0]
    return text.strip('".').partition(": ")[2]


def fail(message: str) -> NoReturn:
    """One message, and exit 2."""
    click.echo("error: " + "\n".join(printable(line) for line in message.splitlines()), err=True)
    raise SystemExit(EXIT_USAGE)


def whoami() -> str:
    """The user's name, as far as this machine knows one: in a container it may not."""
    try:
        return str(importlib.import_module("getpass").getuser())
    except (ImportError, KeyError, OSError):
        return "somebody"


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vitals")
@click.pass_context
def vitals(ctx: click.Context) -> None:
    """Health rules for model training, as config."""
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(HarmlessLines("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[shown])
