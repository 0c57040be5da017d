"""From the bytes of a log to its text: compression, encodings, and what is no text at all."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from vitalsdsl.ground.errors import SourceError

HEAD = 64 * 1024
"""How much of a log is looked at to find its format, in bytes."""
START = 512
"""How much is looked at to find a binary format, in bytes."""

PIECE = 1024 * 1024
LOOKED_THROUGH = 16 * PIECE
"""How far rows may begin in a log whose beginning is in no known format, in characters."""

_GZIP = b"\x1f\x8b"
_LFS = "version https://git-lfs.github.com/spec/"
_MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


@dataclass(frozen=True)
class Log:
    """A log that can be opened again and again, and what messages call it. `more`: the other files that belong to it."""

    name: str
    open: Callable[[], Any]
    more: tuple[Callable[[], Any], ...] = ()


class Joined(io.RawIOBase):
    """The bytes already read from a stream, then the rest as it comes. Compressed data that breaks off is its end."""

    def __init__(self, head: bytes, rest: Any, broken: Callable[[], None], owned: tuple[Any, ...] = ()) -> None:
        self._head = memoryview(head)
        self._rest = rest
        self._read = getattr(rest, "read1", rest.read)
        self._broken = broken
        self._owned = owned

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part: Any = self._head[: len(buffer)]
        if part:
            self._head = self._head[len(part) :]
        else:
            part = self._more(len(buffer))
        buffer[: len(part)] = part
        return len(part)

    def _more(self, size: int) -> bytes:
        try:
            return bytes(self._read(size) or b"")
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self._broken()
            self._read = lambda size: b""
            return b""

    def close(self) -> None:
        for stream in self._owned:
            stream.close()
        super().close()


def text_of(binary: Any, name: str, note: Callable[[str], None]) -> TextIO:
    """The text of an open file, its byte order mark left out and any line end read as a line feed.

    Bytes that are no text become U+FFFD. Closing it closes the file. Raises SourceError where the file cannot be read.
    """

    def broken() -> None:
        note(f"`{name}` breaks off in its compressed data: what came before is read")

    start = up_to(binary, HEAD)
    layer = io.BufferedReader(Joined(start, binary, broken, (binary,)), HEAD)
    if start.startswith(_GZIP):
        unpacked = Joined(b"", gzip.GzipFile(fileobj=layer), broken)
        start = up_to(unpacked, HEAD)
        layer = io.BufferedReader(Joined(start, unpacked, broken, (unpacked, layer)), HEAD)
    return io.TextIOWrapper(layer, encoding=encoding_of(start), errors="replace")


def up_to(stream: Any, size: int) -> bytes:
    """The next `size` bytes, or fewer at the end."""
    parts = []
    while size > 0 and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def encoding_of(start: bytes) -> str:
    """The encoding that the first bytes name; UTF-8 where they name none."""
    return next((encoding for mark, encoding in _MARKS if start.startswith(mark)), "utf-8-sig")


def start_of(log: Log) -> bytes:
    """The first bytes of a log. Raises SourceError where it cannot be opened."""
    try:
        with log.open() as binary:
            return up_to(binary, START)
    except OSError as problem:
        raise unreadable(log.name, problem) from problem


def head_of(log: Log) -> str:
    """The beginning of a log's text. Raises SourceError where there is none to read, and says why."""
    try:
        with text_of(log.open(), log.name, lambda note: None) as text:
            head = text.read(HEAD)
    except OSError as problem:
        raise unreadable(log.name, problem) from problem
    _refuse(head, log.name)
    return head


def pieces_of(log: Log) -> Iterator[str]:
    """The first 16 MiB of a log's text, piece by piece; each begins and ends with a line where lines are not too long."""
    with text_of(log.open(), log.name, lambda note: None) as text:
        rest, left = "", LOOKED_THROUGH
        while left > 0 and (more := text.read(min(PIECE, left))):
            left -= len(more)
            ended = more.rfind("\n") + 1
            yield rest + (more[:ended] if ended else more)
            rest = more[ended:] if ended else ""
        if rest:
            yield rest


def unreadable(name: str, problem: OSError) -> SourceError:
    """The error to raise where the system does not let a log be read."""
    return SourceError(f"`{name}` cannot be read: {(problem.strerror or str(problem)).lower()}")


def _refuse(head: str, name: str) -> None:
    if not head.strip("\0 \t\r\n\ufeff"):
        raise SourceError(f"`{name}` is empty")
    if head.startswith(_LFS):
        raise SourceError(f"`{name}` is a Git LFS pointer, not the log itself: run `git lfs pull`")
    if _is_binary(head):
        raise SourceError(f"`{name}` is a binary file, not a text log")


def _is_binary(head: str) -> bool:
    """Whether the beginning of a file is no text. Zero bytes at its very end do not count: a crash leaves such."""
    text = head.rstrip("\0")
    strange = sum(c == "\ufffd" or (c < " " and c not in "\t\r\n\f\x1b\b") for c in text)
    return "\0" in text or strange * 10 > len(text)
