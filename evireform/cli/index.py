"""`evireform index`: the indexes of vectors, built, and measured against exact search."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from evireform.cli.session import Session, takes_session
from evireform.cli.space import OneCorpus


@takes_session()
def index(
    session: Session,
    corpus: OneCorpus = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build anew also what is there; searches go on meanwhile.")
    ] = False,
    sample: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Vectors of each space whose neighbours are looked for; 0 measures nothing.",
        ),
    ] = 100,
) -> None:
    """Build the indexes that are missing, and measure what each finds of the 100 nearest of exact search.

    The sample is of the space's own vectors, each left out of its own neighbours, at the `search.ef_search`
    of the settings. The result is kept for `doctor`.
    """
    from evireform.cli import spaces

    with session.connect() as db:
        names = [corpus] if corpus is not None else [row.name for row in db.corpora()]
        found = {}
        for name in names:
            stage = f"measuring {name}"
            with session.progress(stage) as advance:
                found[name] = db.corpus(name).index(
                    rebuild=rebuild, sample=sample, progress=partial(advance, stage)
                )
    document = {
        "corpora": [
            {"corpus": name, "spaces": [asdict(one) for one in reports]} for name, reports in found.items()
        ]
    }
    session.show(document, spaces.indexes(found))
