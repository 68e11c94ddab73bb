"""`evireform doctor`: what the system stands on, looked at piece by piece, each with its remedy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.util import find_spec

import typer

from evireform.cli.session import Session, takes_session
from evireform.errors import EvireformError, ModelUnavailable
from evireform.records import Check
from evireform.settings import EmbeddingSettings, LanguageSettings


@takes_session()
def doctor(session: Session) -> None:
    """Check server, extension, tables, vector spaces and models, and say how to mend each.

    The exit code is 1 when something is broken. No model is asked anything.
    """
    from evireform.cli import render

    with session.waiting("looking"):
        found = [*_database(session), *_models(session)]
    healthy = all(check.ok for check in found)
    session.show({"ok": healthy, "checks": [asdict(check) for check in found]}, render.checks(found))
    if not healthy:
        raise typer.Exit(1)


def _database(session: Session) -> Iterator[Check]:
    from evireform.ingestion import INDEX_THRESHOLD
    from evireform.store.checks import check_database

    embedded = session.configuration.url is None
    try:
        db = session.connect()
    except EvireformError as exc:
        yield _problem("embedded server" if embedded else "database", exc)
        return
    with db:
        if embedded:
            yield Check(name="embedded server", ok=True, detail="runs")
        yield from check_database(db.store, index_threshold=INDEX_THRESHOLD)


def _models(session: Session) -> Iterator[Check]:
    settings = session.configuration.settings
    yield _checked("embedding model", lambda: embedding_detail(settings.embedding, os.environ.get(_KEY)))
    yield _checked("language backend", lambda: language_detail(settings.language, os.environ.get(_KEY)))


_KEY = "OPENAI_API_KEY"


def embedding_detail(settings: EmbeddingSettings, key: str | None) -> str:
    """What embeds, once its files are there and are the right ones.

    Raises:
        ModelUnavailable: a package, a file or the key is missing, or a checksum is wrong.
    """
    if settings.backend == "openai":
        return f"openai {settings.model} ({_key_state(key)})"
    if settings.backend == "sentence-transformers":
        if find_spec("sentence_transformers") is None:
            raise ModelUnavailable(
                "sentence-transformers is not installed: pip install 'evireform[sentence-transformers]'"
            )
        return f"sentence-transformers {settings.model} (not loaded)"
    from evireform.embedding import load

    encoder = load(settings)
    return f"{encoder.model}, {encoder.dimensions}-d, its files are there and whole"


def language_detail(settings: LanguageSettings, key: str | None) -> str:
    """What extracts, selects and reformulates, once it could.

    Raises:
        ModelUnavailable: a package or the key is missing.
    """
    if settings.backend == "openai":
        return f"openai {settings.model} ({_key_state(key)})"
    from evireform.language.rules.parsing import PIPELINE, pipeline

    pipeline()
    return f"rules on spaCy with {PIPELINE}; {_KEY} is {'set' if key else 'not set'}, and not needed"


def _key_state(key: str | None) -> str:
    if not key:
        raise ModelUnavailable(f"{_KEY} is not set: set it (to any value for a server that asks for none)")
    return f"{_KEY} is set"


def _checked(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name=name, ok=True, detail=look())
    except EvireformError as exc:
        return _problem(name, exc)


def _problem(name: str, exc: EvireformError) -> Check:
    """Our messages say what is wrong, then a semicolon or a colon, and what to do."""
    message = str(exc)
    detail, _, remedy = message.rpartition("; ") if "; " in message else message.partition(": ")
    return Check(name=name, ok=False, detail=detail, remedy=remedy or "see the message")
