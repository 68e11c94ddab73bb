"""`verify`: is all that derives as what it derives from says?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from evireform.cli.commands import in_utf8
from evireform.cli.session import Session, takes_session


@takes_session()
def verify(
    session: Session,
    corpus: Annotated[
        str | None,
        typer.Option(
            "--corpus", metavar="NAME", help="Only this corpus.", show_default="all", callback=in_utf8
        ),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend the tables that derive; writers wait meanwhile.")
    ] = False,
) -> None:
    """Compare what the index holds with the passages, propositions and mentions that it derives from.

    The exit code is 1 while something is wrong that was not mended.
    """
    from evireform.cli.verification import verification

    with session.connect() as db, session.progress("verifying") as advance:
        target = db if corpus is None else db.corpus(corpus)
        found = target.verify(repair=repair, progress=advance)
    session.show({"true": found.true, "verification": asdict(found)}, verification(found))
    if not found.true:
        raise typer.Exit(1)
