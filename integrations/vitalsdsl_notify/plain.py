"""Text that services show as it is: what names and rules say is never read as a mention, a link's mask or markup."""

from __future__ import annotations

import re

_GAP = "\u200b"
"""A space of no width. It parts what would be read as one."""

_ADDRESS = r"https?://[^\s<>|`]+"
_MENTION = re.compile(r"@(?=everyone|here|channel|all\b|team\b)|(?<![\w.+-])@(?=\S)|@(?!\w)(?=\S)", re.IGNORECASE)
_TAG = re.compile(r"<(?=[^\s\d=<])")
_END = re.compile(r"(?<=[^\s=<>-])>")
_MASKED = re.compile(r"\](?=[(\[])")
_EMOJI = re.compile(r":(?=[\w+-]+:)")
_SIGNS = re.compile(rf"({_ADDRESS})|([\\*_~`|\[\]])|^(\s*)([#>+-])(?=[\s#>])", re.MULTILINE)
_CUT = "\n… cut here; {} more characters are on the run"


def inert(text: str) -> str:
    """The text with what calls people or hides a link taken apart by spaces of no width, and tags in `‹›`.

    >>> inert("@channel <!here> loss < 3 -> red, mail ana@example.org").replace(chr(0x200b), "_")
    '@_channel ‹!here› loss < 3 -> red, mail ana@example.org'
    """
    shown = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)
    # Not only parted: some versions of apprise put such tags together again.
    shown = _END.sub("›", _TAG.sub("‹", shown))
    for pattern in (_MENTION, _MASKED, _EMOJI):
        shown = pattern.sub(lambda found: found[0] + _GAP, shown)
    return shown


def escaped(text: str) -> str:
    r"""The same text for services that read what they are sent as Markdown; addresses stay as they are.

    >>> escaped("*a* grad_norm https://host/a_b")
    '\\*a\\* grad\\_norm https://host/a_b'
    """

    def mend(found: re.Match[str]) -> str:
        address, sign, indent, opening = found.groups()
        return address or (f"\\{sign}" if sign else f"{indent}\\{opening}")

    return _SIGNS.sub(mend, text)


def shortened(text: str, most: int, cut: str = _CUT) -> str:
    """At most so many characters, with a word on how many are missing.

    >>> shortened("abcdef", 4, "…")
    'abc…'
    """
    if len(text) <= most:
        return text
    room = max(0, most - len(cut.format(len(text))))
    return (text[:room].rstrip("\\") + cut.format(len(text) - room))[:most]
