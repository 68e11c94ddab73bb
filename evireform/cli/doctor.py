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

    The exit code is 1 when something is broken. A server is asked which models it has; no model is asked.
    """
    from evireform.cli import render

    with session.waiting("looking"):
        found = [*_database(session), *_models(session)]
    healthy = all(check.ok for check in found)
    session.show({"ok": healthy, "checks": [asdict(check) for check in found]}, render.checks(found))
    if not healthy:
        raise typer.Exit(1)


def _database(session: Session) -> Iterator[Check]:
    from evireform.store.checks import check_database
    from evireform.store.spaces import INDEX_THRESHOLD

    embedded = session.configuration.url is None
    try:
        db = session.connect()
    except EvireformError as exc:
        yield _problem("embedded server" if embedded else "database", exc)
        return
    with db:
        if embedded:
            yield Check(name="embedded server", ok=True, detail="runs")
        yield from check_database(
            db.store, index_threshold=INDEX_THRESHOLD, min_recall=db.settings.min_recall
        )


def _models(session: Session) -> Iterator[Check]:
    settings = session.configuration.settings
    yield _checked("embedding model", lambda: embedding_detail(settings.embedding, os.environ.get(_KEY)))
    yield _checked("language backend", lambda: language_detail(settings.language, os.environ.get(_KEY)))


_KEY = "OPENAI_API_KEY"
_PATIENCE_S = 5.0


def embedding_detail(settings: EmbeddingSettings, key: str | None) -> str:
    """What embeds, once its files are there and are the right ones, or its server answers.

    Raises:
        ModelUnavailable: a package, a file, the key or the server is missing, or a checksum is wrong.
    """
    if settings.backend == "openai":
        state = _key_state(key)
        served = models_of(settings.base_url, settings.model, setting="embedding.base_url")
        return f"openai {settings.model} ({state}): {served}"
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
        ModelUnavailable: a package, the key or the server is missing.
    """
    if settings.backend == "openai":
        state = _key_state(key)
        served = models_of(settings.base_url, settings.model, setting="language.base_url")
        return f"openai {settings.model} ({state}): {served}"
    from evireform.language.rules.parsing import PIPELINE, pipeline

    pipeline()
    return f"rules on spaCy with {PIPELINE}; {_KEY} is {'set' if key else 'not set'}, and not needed"


def models_of(base_url: str, model: str, *, setting: str) -> str:
    """What a server says when it is asked which models it has; one that does not list them answers too.

    Raises:
        ModelUnavailable: it does not answer, or refuses the key.
    """
    from openai import APIConnectionError, APIStatusError, OpenAI, OpenAIError

    try:
        client = OpenAI(base_url=base_url or None, timeout=_PATIENCE_S, max_retries=0)
    except Exception as error:  # httpx and its proxies raise their own kinds, which may quote secrets
        raise ModelUnavailable(f"the address of the server cannot be used; look at {setting}") from error
    place = str(client.base_url.copy_with(userinfo=b""))
    try:
        listed = {one.id for one in client.models.list().data or ()}
    except APIConnectionError as error:
        raise ModelUnavailable(f"{place} does not answer; start it, or look at {setting}") from error
    except APIStatusError as error:
        if error.status_code in (401, 403):
            raise ModelUnavailable(
                f"{place} refuses the key (HTTP {error.status_code}); look at {_KEY} and {setting}"
            ) from error
        return f"{place} answers, and does not list its models (HTTP {error.status_code})"
    except (OpenAIError, ValueError, AttributeError):
        return f"{place} answers, but not as a server of this protocol does"
    finally:
        client.close()
    return f"{place} answers" + ("" if model in listed else ", and does not list this model")


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
