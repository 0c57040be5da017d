"""vitals.toml: which policy judges which runs, and where messages go. A project's own file, over the user's.

home = ".vitals"

[channels.team]                          # rules say: when … -> red do notify("team")
url = "env:TEAM_SLACK_URL"               # never the secret itself
at_most = "10 per hour"

[channels.bot]                           # a webhook of one's own: JSON, signed with the secret
url = "env:HOOK_URL"
secret = "env:HOOK_SECRET"

[[policies]]
target = "mlflow:experiments/llm-*"
tags = { team = "nlp" }
policy = "policies/llm.vitals"
profile = "big"
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from vitalsdsl.ground.errors import UsageError
from vitalsdsl.ground.home import home_of
from vitalsdsl.ground.toml_text import line_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "vitals.toml"

_SECONDS = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}
_SECRET = re.compile(r"(env:[A-Za-z_][A-Za-z0-9_]*|keyring:[^/\s]+/\S+)")


class Channel(BaseModel):
    """Where messages under one name go. `url` says where the secret address is kept, and is never the address; with a
    `secret`, which is kept in the same way, the address is that of a webhook that takes signed JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    url: str
    secret: str | None = None
    at_most: str = "30 per hour"

    @field_validator("url", "secret")
    @classmethod
    def _is_a_reference(cls, value: str | None, field: ValidationInfo) -> str | None:
        if value is not None and _SECRET.fullmatch(value) is None:
            what = "secret" if field.field_name == "secret" else "address"
            raise ValueError(f"say where the {what} is kept, not the {what}: `env:NAME` or `keyring:SERVICE/USER`")
        return value

    @field_validator("at_most")
    @classmethod
    def _is_a_rate(cls, value: str) -> str:
        _rate(value)
        return value

    @property
    def rate(self) -> tuple[int, float]:
        """How many messages in how many seconds."""
        return _rate(self.at_most)


def _rate(text: str) -> tuple[int, float]:
    found = re.fullmatch(r"(\d{1,6}) per (minute|hour|day)", text.strip())
    if found is None or int(found[1]) < 1:
        raise ValueError("write it as `10 per hour` (minute, hour or day)")
    return int(found[1]), _SECONDS[found[2]]


class Assigned(BaseModel):
    """A policy for the runs of a target: those with these tags, if any are named (`true`: with any value)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    target: str
    policy: str
    profile: str | None = None
    tags: Mapping[str, str | Literal[True]] = Field(default_factory=dict)
    set: Mapping[str, str | float | int | bool] = Field(default_factory=dict)
    folder: Path = Field(default=Path(), exclude=True)

    @property
    def wanted_tags(self) -> dict[str, str | None]:
        return {name: None if value is True else str(value) for name, value in self.tags.items()}

    @property
    def reference(self) -> str:
        """The policy; a file is looked for beside vitals.toml."""
        return self.policy if re.match(r"[a-z][a-z+]+:", self.policy) else str(_shortly(self.folder / self.policy))


def _shortly(path: Path) -> Path:
    """A path without `..`, unless that would be another file: behind a link it may."""
    shorter = Path(os.path.normpath(path))
    try:
        return shorter if shorter.samefile(path) else path
    except OSError:  # not there, which is said of the shorter one
        return shorter


class Configuration(BaseModel):
    """All that `vitals.toml` can say."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    home: str | None = None
    channels: Mapping[str, Channel] = Field(default_factory=dict)
    policies: tuple[Assigned, ...] = ()


def configuration(start: Path | None = None) -> Configuration:
    """What holds in a folder: the nearest vitals.toml at or above it, and under it the user's own
    (`~/.config/vitals/vitals.toml`), whose channels it may replace. Neither needs to be there.

    Raises UsageError, with the place, where one cannot be read.
    """
    found = Configuration.model_construct()  # nothing is validated, and nothing loaded for it, where there is no file
    for path in files(start):
        over = _read(path)
        channels = {**found.channels, **over.channels}
        found = over.model_copy(update={"channels": channels, "home": over.home or found.home})
    return found


def home_here(given: str | os.PathLike[str] | None = None) -> Path:
    """The folder of stores and journals that holds in the working directory: `home_of` with what vitals.toml says.

    Raises UsageError where a vitals.toml cannot be read.
    """
    return home_of(given, configuration().home)


def known_channels(start: Path | None = None) -> frozenset[str] | None:
    """The names of the channels that hold in a folder; None where no vitals.toml says anything about any.

    Raises UsageError where one cannot be read.
    """
    return frozenset(configuration(start).channels) if files(start) else None


def files(start: Path | None = None) -> list[Path]:
    """The files that hold in a folder: the user's and over it the project's, as far as they are there."""
    project = next((path for folder in _upwards(start or Path.cwd()) if (path := folder / FILE).is_file()), None)
    return [path for path in dict.fromkeys((_users(), project)) if path is not None and path.is_file()]


def looked_in(start: Path | None = None) -> str:
    """Where a setting that is not there was looked for, to be said right behind it."""
    if files(start):
        return f" in {FILE}"
    return f", as there is no {FILE} in {start or Path.cwd()} or above it, nor {_users()}"


def _users() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "vitals" / FILE


def _upwards(folder: Path) -> list[Path]:
    folder = folder.absolute()
    return [folder, *folder.parents]


def _read(path: Path) -> Configuration:
    try:
        text = path.read_text("utf-8")
        data = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}") from error
    listed = data.get("policies")
    for number, policy in enumerate(listed if isinstance(listed, list) else (), 1):
        if isinstance(policy, dict):
            if "folder" in policy:  # ours, and below it is what we make of it
                said = f"there is no setting `policies.{number}.folder`"
                raise UsageError(_at(path, text, ("policies", number - 1, "folder"), said))
            policy["folder"] = path.parent
    try:
        found = Configuration.model_validate(data)
    except ValidationError as error:
        raise UsageError(_at(path, text, *_first(error))) from error
    if found.home is not None:
        found = found.model_copy(update={"home": str(path.parent / Path(found.home).expanduser())})
    return found


def _at(path: Path, text: str, place: tuple[str | int, ...], said: str) -> str:
    """A mistake with its file and line. The line itself is not shown: it may hold an address that is nobody's business."""
    line = line_of(text, place)
    return f"{path}: {said}" if line is None else f"{path}:{line}: {said}"


def _first(error: ValidationError) -> tuple[tuple[str | int, ...], str]:
    """The first mistake: where, and in words of ours. A setting that nobody knows comes before one that is missing: it is
    most often the missing one, misspelt."""
    found: Any = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    return found["loc"], _in_words(found)


def _in_words(found: Any) -> str:
    place = ".".join(str(part + 1) if isinstance(part, int) else str(part) for part in found["loc"])
    if found["type"] == "extra_forbidden":
        model = _MODELS.get(str(found["loc"][0]), Configuration) if len(found["loc"]) > 1 else Configuration
        near = difflib.get_close_matches(str(found["loc"][-1]), settings_of(model), 1)
        hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(f'`{n}`' for n in settings_of(model))}"
        return f"there is no setting `{place}`; {hint}"
    if found["type"] == "missing":
        return f"`{place}` is missing"
    if found["type"] == "value_error":
        return f"`{place}`: {found['ctx']['error']}"
    return f"`{place}` is of the wrong kind"


_MODELS: dict[str, type[BaseModel]] = {"channels": Channel, "policies": Assigned}


def settings_of(model: type[BaseModel]) -> list[str]:
    """What can be written in a part of the file."""
    return [name for name, field in model.model_fields.items() if not field.exclude]
