"""`evireform compare`: two evaluations of the same questions against each other."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evireform.cli.session import Session, takes_session


@takes_session(without=("database_url", "read_url", "home", "schema", "config", "assignments"))
def compare(
    session: Session,
    first: Annotated[Path, typer.Argument(metavar="A", help="Folder that evaluate wrote: what was.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Folder that evaluate wrote: what is.")],
) -> None:
    """What changed between two evaluations of the same questions: settings, measures, and which questions.

    Markdown; nothing is searched again. Differences are B minus A, with the interval of a paired bootstrap.
    """
    from rich.markdown import Markdown

    from evireform.evaluation import compare as comparing

    comparison = comparing.compare(first, second)
    text = comparing.markdown(comparison)
    if session.as_json or session.out.is_terminal:
        session.show(asdict(comparison), Markdown(text))
    else:
        typer.echo(text, nl=False)
