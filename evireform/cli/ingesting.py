"""What `ingest` and `retry` share: a run with its progress, its summary and its exit code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Protocol

import typer

from evireform.cli.session import Session

if TYPE_CHECKING:
    from evireform.ingestion import Progress, WorkingOn
    from evireform.records import EnqueueSummary, IngestionSummary, Passage, Rejected


class Enqueue(Protocol):
    """`Corpus.enqueue` with the rest of its arguments given."""

    def __call__(self, *, progress: Progress) -> EnqueueSummary: ...


class Run(Protocol):
    """`Corpus.ingest` or `Corpus.retry`, with the rest of their arguments given."""

    def __call__(self, *, progress: Progress, working_on: WorkingOn) -> IngestionSummary: ...


def run_ingestion(
    session: Session, corpus: str, run: Run, *, total: int | None, rejected: Iterable[Rejected] = ()
) -> None:
    """Run it, show what it did, and end with the exit code that says whether all went in.

    Args:
        session: Where it speaks.
        corpus: Name of the corpus.
        run: The job.
        total: Passages to expect, where that is known.
        rejected: What was refused before.

    Raises:
        typer.Exit: with 1 where a passage did not go in.
        KeyboardInterrupt: Ctrl-C, after the summary of what was done.
    """
    from evireform.cli import render
    from evireform.ingestion import Interrupted

    def working_on(passage: Passage) -> None:
        session.note(f"working on {passage.key} ({len(passage.text):,} characters)")

    interrupt: Interrupted | None = None
    with session.progress("passages", total) as advance:
        try:
            summary = run(progress=lambda done: advance("passages", done, 0), working_on=working_on)
        except Interrupted as error:
            summary, interrupt = error.summary, error
    summary = replace(summary, rejected=(*summary.rejected, *rejected))
    session.show({"corpus": corpus, **asdict(summary)}, render.ingestion(summary, corpus))
    if interrupt is not None:
        raise interrupt
    if summary.rejected or summary.failed or summary.stopped:
        raise typer.Exit(1)


def run_enqueuing(
    session: Session, corpus: str, run: Enqueue, *, total: int | None, rejected: Iterable[Rejected]
) -> None:
    """Let passages wait, and show what became of them. See `run_ingestion`."""
    from evireform.cli import render

    with session.progress("passages", total) as advance:
        summary = run(progress=lambda done: advance("passages", done, 0))
    summary = replace(summary, rejected=(*summary.rejected, *rejected))
    session.show({"corpus": corpus, **asdict(summary)}, render.enqueued(summary, corpus))
    if summary.rejected:
        raise typer.Exit(1)
