"""`worker`: drain the queue until it is told to stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evireform.cli.commands import Budget, NoCache, in_utf8, take_spending_flags
from evireform.cli.session import INTERRUPTED, Session, takes_session

if TYPE_CHECKING:
    from evireform.records import BatchDone, Passage

GRACE_S = 5.0
"""How long calls in flight may take after the first signal."""


@takes_session()
def worker(
    session: Session,
    corpus: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only this corpus.", show_default="every corpus", callback=in_utf8),
    ] = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="End when nothing waits any more, and no worker has anything.")
    ] = False,
    batch: Annotated[
        int | None, typer.Option(metavar="N", help="Passages taken and written together.", show_default="32")
    ] = None,
    lease_s: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Seconds after which the passages of a worker that vanished go to another.",
            show_default="60",
        ),
    ] = None,
    attempts: Annotated[
        int | None,
        typer.Option(metavar="N", help="Attempts after which a passage has failed.", show_default="3"),
    ] = None,
    budget: Budget = None,
    no_cache: NoCache = False,
) -> None:
    """Extract and write the passages that `ingest --queue` let wait; any number of workers, on any machines.

    It waits for more until SIGTERM or Ctrl-C, or, with --drain, until the queue is empty. The first signal
    lets it finish what is in flight within five seconds and give back the rest, a second one ends it at once.
    The exit code is 1 where no model call could be made or, with --drain, where passages failed.
    """
    from evireform.cli import render

    take_spending_flags(session, budget, no_cache)
    given = {"worker.batch": batch, "worker.lease_s": lease_s, "worker.attempts": attempts}
    session.flags.update({key: str(value) for key, value in given.items() if value is not None})

    def working_on(passage: Passage) -> None:
        session.note(f"working on {passage.key} ({len(passage.text):,} characters)")

    with session.connect() as db:
        if corpus is not None:
            db.corpus(corpus)
        session.note_language()
        waiting = None
        if session.err.is_terminal:
            waiting = sum(one.waiting + one.leased for one in db.progress(corpus))
        interrupted = False
        with session.progress("passages", waiting) as advance:

            def told(done: BatchDone) -> None:
                session.err.print(render.batch(done))
                advance("passages", done.written + done.lost, 0)

            made = db.worker(corpus=corpus, on_batch=told, working_on=working_on)
            with _signals(made.stop) as received:
                try:
                    made.run(drain=drain)
                except KeyboardInterrupt:
                    interrupted = True
        summary = made.summary()
        session.show(asdict(summary), render.worker(summary))
    if signal.SIGINT in received or (interrupted and not received):
        raise typer.Exit(INTERRUPTED)
    if summary.reason or (drain and not received and (summary.failed or summary.refused)):
        raise typer.Exit(1)


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[list[int]]:
    """The first SIGTERM or SIGINT stops gracefully, what comes later is Ctrl-C; gives the signals so far."""
    received: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGALRM or received:
            raise KeyboardInterrupt
        received.append(number)
        stop()
        signal.setitimer(signal.ITIMER_REAL, GRACE_S)

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)
    before: list[Any] = [signal.signal(number, handle) for number in numbers]
    try:
        yield received
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
