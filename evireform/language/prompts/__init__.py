"""The prompts of the language verbs: one text file each, with its version in the first line.

A prompt is the whole system message; what a call is about comes after it, as JSON in the user message.
Change the wording and raise the version: the ledger records both the version and a hash of the messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_FILE = re.compile(r"version: (\S+)\n\n(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model is told to do for one purpose."""

    purpose: str
    version: str
    text: str


@cache
def load(purpose: str) -> Prompt:
    """The prompt for a purpose, such as ``extract``, ``select`` or ``read``.

    Raises:
        ValueError: its file does not begin with ``version: …`` and an empty line.

    >>> load("select").purpose
    'select'
    """
    content = (files(__name__) / f"{purpose}.txt").read_text(encoding="utf-8")
    match = _FILE.fullmatch(content)
    if match is None:
        raise ValueError(f"the prompt {purpose!r} must begin with 'version: …' and an empty line")
    return Prompt(purpose=purpose, version=match[1], text=match[2].strip())


def load_all() -> list[Prompt]:
    """Every prompt, in the order of their names."""
    names = sorted(file.name for file in files(__name__).iterdir() if file.name.endswith(".txt"))
    return [load(name.removesuffix(".txt")) for name in names]
