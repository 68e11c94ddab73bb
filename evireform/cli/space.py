"""`evireform space`: the vector spaces of a corpus, and how it gets another embedding model."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from evireform.cli.commands import Corpus, in_utf8
from evireform.cli.session import Session, takes_session

if TYPE_CHECKING:
    from evireform.records import SpaceReport

OneCorpus = Annotated[
    str | None,
    typer.Option("--corpus", metavar="NAME", help="Only this corpus.", show_default=False, callback=in_utf8),
]


@takes_session()
def show(session: Session, corpus: OneCorpus = None) -> None:
    """Vector spaces: their models, which are active, what each holds, and what its index finds."""
    from evireform.cli import spaces

    with session.connect() as db:
        names = [corpus] if corpus is not None else [row.name for row in db.corpora()]
        found = {name: db.corpus(name).spaces() for name in names}
    document = {
        "corpora": [
            {"corpus": name, "spaces": [asdict(one) for one in reports]} for name, reports in found.items()
        ]
    }
    session.show(document, spaces.table(found))


@takes_session()
def build(session: Session, corpus: Corpus) -> None:
    """Embed a corpus with the model of the settings, beside the active one, which goes on serving.

    Nothing is extracted again. What was made before an interruption is not made again.
    """
    with session.connect() as db:
        target = db.corpus(corpus)
        with session.progress("vectors") as advance:
            made = target.build_space(progress=partial(advance, "vectors"))
        _show(session, corpus, made, target.spaces(), f"embedded {made:,} texts of corpus {corpus}")


@takes_session()
def switch(session: Session, corpus: Corpus) -> None:
    """Let searches use the model of the settings, once it is built: in one statement, and reversibly.

    What was added since it was built is embedded first. The old vectors stay until `space drop`.
    """
    with session.connect() as db:
        target = db.corpus(corpus)
        with session.progress("vectors") as advance:
            made = target.switch_space(progress=partial(advance, "vectors"))
        model = db.encoder.model
        text = f"corpus {corpus} is searched with {model} now; {made:,} texts were embedded first"
        _show(session, corpus, made, target.spaces(), text)


@takes_session()
def drop(
    session: Session,
    space_id: Annotated[
        int, typer.Argument(metavar="SPACE", help="Its number, as `space show` says.", min=0)
    ],
    corpus: Corpus,
) -> None:
    """Drop a space that searches do not use, with its vectors. The active ones are refused."""
    from evireform.cli import render

    with session.connect() as db:
        dropped = db.corpus(corpus).drop_space(space_id)
    text = f"dropped space {space_id} of corpus {corpus}: {dropped.kind} vectors of {dropped.model}"
    session.show({"corpus": corpus, "dropped": asdict(dropped)}, render.safe(text))


def _show(session: Session, corpus: str, made: int, reports: list[SpaceReport], text: str) -> None:
    from evireform.cli import render, spaces

    document = {"corpus": corpus, "embedded": made, "spaces": [asdict(one) for one in reports]}
    session.show(document, render.safe(text), spaces.table({corpus: reports}))
