"""`evireform cost`: what model calls took, by whatever one wants to know."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

from evireform.cli.commands import in_utf8
from evireform.cli.session import Session, takes_session


class By(StrEnum):
    """What costs are told apart by."""

    corpus = "corpus"
    passage = "passage"
    question = "question"
    model = "model"
    purpose = "purpose"
    day = "day"
    round = "round"


@takes_session()
def cost(
    session: Session,
    corpus: Annotated[
        str | None,
        typer.Option(
            "--corpus",
            metavar="NAME",
            help="Only this corpus, which may be deleted.",
            show_default=False,
            callback=in_utf8,
        ),
    ] = None,
    by: Annotated[
        By, typer.Option("--by", metavar="WHAT", help=f"What to tell apart: {', '.join(By)}.")
    ] = By.corpus,
    since: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
            metavar="DAY",
            help="Only calls from then on, in UTC: 2026-11-30, or 2026-11-30T08:00:00.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """What model calls took: calls, tokens and money, in the currency of the price file (US dollars)."""
    from evireform.cli import accounts

    with session.connect() as db:
        report = db.cost(corpus=corpus, by=by.value, since=since)
    session.show(asdict(report), accounts.costs(report))
