"""Why a passage cannot go in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from evireform.formats.text import json_problem, key_problem, storable, text_problem
from evireform.records import Passage, Rejected


def problem(passage: Passage, seen: set[bytes]) -> Rejected | None:
    """Why a passage cannot go in, or None.

    Args:
        passage: It may come from a program, so that anything may be of another type.
        seen: Digests of the keys given before; that of a passage that goes in is added.
    """
    wrong = next((n for n in ("key", "text", "title") if not isinstance(getattr(passage, n), str)), "")
    if wrong:
        kind = type(getattr(passage, wrong)).__name__
        return Rejected(
            reason=f"the {wrong} must be text, not {kind}", passage_key=storable(str(passage.key))
        )
    reason = _reason(passage)
    if not reason:
        digest = hashlib.blake2b(passage.key.encode(), digest_size=16).digest()
        if digest not in seen:
            seen.add(digest)
            return None
        reason = "the key was given before in this ingestion"
    return Rejected(reason=reason, passage_key=storable(passage.key))


def _reason(passage: Passage) -> str:
    if found := key_problem(passage.key):
        return f"the key {found}"
    if not passage.text.strip():
        return "the text is empty"
    for name, found in (
        ("text", text_problem(passage.text)),
        ("title", text_problem(passage.title)),
        ("metadata", _metadata_problem(passage.metadata)),
    ):
        if found:
            return f"the {name} {found}"
    return ""


def _metadata_problem(metadata: Mapping[str, object]) -> str:
    """Why a JSON column cannot hold metadata that a program made up; empty when it can."""
    try:
        return json_problem(dict(metadata)) or json_problem(json.loads(json.dumps(metadata, allow_nan=False)))
    except (TypeError, ValueError) as error:
        return f"is no JSON: {error}"
