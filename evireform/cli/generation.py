"""`evireform generation`: a corpus extracted anew beside the old one, compared with it, and switched to."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from evireform.cli.commands import (
    Budget,
    Corpus,
    NoCache,
    TitlesOption,
    confirm,
    in_utf8,
    take_spending_flags,
)
from evireform.cli.ingesting import run_ingestion
from evireform.cli.session import Session, takes_session
from evireform.errors import UsageError


@takes_session()
def start(
    session: Session,
    corpus: Corpus,
    as_name: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="Name of the new generation.",
            show_default="NAME-next",
            callback=in_utf8,
        ),
    ] = None,
    titles: Annotated[
        TitlesOption | None,
        typer.Option(
            help="Whether titles join the text in the new generation.", show_default="as in the corpus"
        ),
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only say what it would ask of a model, and ask none.")
    ] = False,
    budget: Budget = None,
    no_cache: NoCache = False,
) -> None:
    """Extract a corpus with the settings of now, beside the one that serves; or go on with that.

    What is there already is skipped, what failed is tried again, what the corpus has no longer is deleted.
    """
    from evireform.cli import accounts
    from evireform.generations import name_of_shadow

    take_spending_flags(session, budget, no_cache)
    with session.connect(standby=False) as db:
        generation = db.generation(corpus)
        name = as_name or generation.shadow() or name_of_shadow(corpus)
        if estimate:
            expected = generation.estimate(as_name=as_name, titles=titles.value if titles else None)
            session.show({"corpus": name, "estimate": asdict(expected)}, accounts.estimate(expected, name))
            return
        session.note_language()
        held = db.corpus(corpus).status()

        run = partial(generation.start, as_name=as_name, titles=titles.value if titles else None)
        run_ingestion(session, name, run, total=held.ready + held.empty + held.failed)


@takes_session()
def status(
    session: Session,
    corpus: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only this corpus.", show_default=False, callback=in_utf8),
    ] = None,
) -> None:
    """Which corpora have another generation, what made it, and what it still lacks."""
    from evireform.cli import generations

    with session.connect(standby=False) as db, session.waiting("comparing passages"):
        names = db.generations() if corpus is None else [corpus]
        found = [db.generation(name).status() for name in names]
    document = {"generations": [asdict(one) | {"complete": one.complete} for one in found]}
    session.show(document, generations.standings(found))


@takes_session()
def compare(
    session: Session,
    corpus: Corpus,
    questions: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Questions (JSONL); those with gold passages are measured.",
            show_default=False,
        ),
    ],
    k: Annotated[int, typer.Option("-k", help="Passages of each ranking that are compared.")] = 5,
    shadow_set: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="A setting that only the new generation is searched with, such as "
            "embedding.model=NAME; may be repeated.",
            show_default=False,
        ),
    ] = None,
    budget: Budget = None,
    no_cache: NoCache = False,
) -> None:
    """Ask both generations the same questions: measures with paired differences, and what ranks otherwise."""
    from evireform.cli import generations
    from evireform.formats.questions import read_questions

    take_spending_flags(session, budget, no_cache)
    others = _assignments(shadow_set or ())
    asked = read_questions(questions)
    with (
        session.connect() as db,
        session.with_flags(others).connect() if others else nullcontext() as shadow,
        session.progress("questions", len(asked)) as advance,
    ):
        found = db.generation(corpus).compare(
            asked,
            k=k,
            shadow=shadow,
            progress=lambda done: advance("questions", done, 0),
        )
    session.show({"corpus": corpus, "comparison": asdict(found)}, generations.comparison(found))


@takes_session()
def switch(
    session: Session,
    corpus: Corpus,
    force: Annotated[
        bool, typer.Option("--force", help="Although the new generation lacks something.")
    ] = False,
) -> None:
    """Let the new generation serve under the corpus's name, at one moment for all; again: back."""
    from evireform.cli import render

    with session.connect(standby=False) as db:
        kept = db.generation(corpus).switch(force=force)
    session.show(
        {"corpus": corpus, "kept_as": kept},
        render.safe(f"the new generation serves as {corpus}; the old one is kept as {kept}"),
    )


@takes_session()
def drop(
    session: Session,
    corpus: Corpus,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete the generation of a corpus that does not serve."""
    from evireform.cli import render

    with session.connect(standby=False) as db:
        generation = db.generation(corpus)
        if not yes and (name := generation.shadow()):
            confirm(session, f"Delete {name}, the generation of {corpus} that does not serve?")
        dropped = generation.drop()
    session.show({"corpus": corpus, "dropped": dropped}, render.safe(f"deleted {dropped}"))


def _assignments(given: list[str] | tuple[()]) -> dict[str, str]:
    """Settings of models by key.

    Raises:
        UsageError: one is no assignment, or of no setting of a model.
    """
    flags = {}
    for assignment in given:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip().startswith(("embedding.", "language.")):
            raise UsageError(
                f"--shadow-set takes embedding.KEY=VALUE or language.KEY=VALUE, not {assignment!r}"
            )
        flags[key.strip()] = value
    return flags
