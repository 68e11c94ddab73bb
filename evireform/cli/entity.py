"""`evireform entity`: one entity with its neighbourhood, and what operators decide about entities."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from evireform.cli.commands import Corpus, in_utf8
from evireform.cli.session import Session, takes_session
from evireform.given import MOST

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The entity, in any of its forms.", show_default=False, callback=in_utf8
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")]
Limit = Annotated[int, typer.Option("-n", "--limit", min=1, max=MOST, help="Most rows of each list.")]
Passages = Annotated[
    list[str] | None,
    typer.Option(
        "--passage",
        metavar="KEY",
        help="In this passage alone; may be repeated.",
        show_default=False,
        callback=in_utf8,
    ),
]


@takes_session()
def show(session: Session, name: Name, corpus: Corpus, limit: Limit = 20) -> None:
    """Draw an entity: its forms, the passages that name it, its neighbours, and what was decided about it."""
    from evireform.cli import entities

    with session.connect() as db:
        found = db.corpus(corpus).entity(name, limit=limit)
    session.show({"corpus": corpus, "entity": asdict(found)}, entities.detail(found))


@takes_session()
def merge(
    session: Session,
    kept: Annotated[
        str,
        typer.Argument(metavar="KEPT", help="The name that stays.", show_default=False, callback=in_utf8),
    ],
    others: Annotated[
        list[str],
        typer.Argument(
            metavar="OTHER", help="Names that are one with it.", show_default=False, callback=in_utf8
        ),
    ],
    corpus: Corpus,
    passage: Passages = None,
    dry_run: DryRun = False,
) -> None:
    """Let names stand for one entity, now and for what is ingested later; takes a split back.

    `evireform entity split OTHER` undoes it.

    Where KEPT was split into OTHER in some passages, that is undone instead.
    """
    from evireform.cli import entities

    with session.connect() as db:
        change = db.corpus(corpus).merge_entities(kept, others, passage_keys=passage or (), dry_run=dry_run)
    session.show({"corpus": corpus, **asdict(change)}, entities.change(change))


@takes_session()
def split(
    session: Session,
    name: Name,
    corpus: Corpus,
    passage: Passages = None,
    into: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="With --passage: the name of the other one.",
            show_default=False,
            callback=in_utf8,
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Take a merge back; or, with --passage and --as, tell two of one name apart.

    Alone: NAME is an entity of its own again, with what was merged into it.

    With both: NAME is another in these passages, until the two are merged.
    """
    from evireform.cli import entities

    with session.connect() as db:
        change = db.corpus(corpus).split_entity(name, passage_keys=passage or (), into=into, dry_run=dry_run)
    session.show({"corpus": corpus, **asdict(change)}, entities.change(change))


@takes_session()
def log(session: Session, corpus: Corpus, limit: Limit = 20) -> None:
    """What was decided about entities and taken back, by whom and when; the newest first."""
    from evireform.cli import entities

    with session.connect() as db:
        entries = db.corpus(corpus).entity_log(limit=limit)
    session.show({"corpus": corpus, "log": [asdict(entry) for entry in entries]}, entities.log(entries))


@takes_session()
def suggest(session: Session, corpus: Corpus, limit: Limit = 20) -> None:
    """List pairs that are probably one: alike in spelling, or one with the other's initials."""
    from evireform.cli import entities

    with session.connect() as db:
        pairs = db.corpus(corpus).suggest_entities(limit=limit)
    document = {"corpus": corpus, "pairs": [asdict(pair) for pair in pairs]}
    session.show(document, entities.pairs(pairs))
