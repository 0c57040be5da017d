"""Readers of the training logs that people have on disk: data such as JSON lines and CSV, and what trainers print.

The format is found by content, never by name. A further format is one file in `formats`, or an entry point of a third
party in the group `vitalsdsl.formats`.
"""

from __future__ import annotations

from vitalsdsl.runs.sources import Recording
from vitalsdsl_files.format import BinaryFormat, Format, Reading
from vitalsdsl_files.reader import folders_in, logs_in, read

__all__ = ["BinaryFormat", "Format", "Reading", "Recording", "folders_in", "logs_in", "read"]
