"""`retry`: what failed once more."""

from __future__ import annotations

from evireform.cli.commands import Budget, Corpus, NoCache, take_spending_flags
from evireform.cli.ingesting import run_ingestion
from evireform.cli.session import Session, takes_session


@takes_session()
def retry(session: Session, corpus: Corpus, budget: Budget = None, no_cache: NoCache = False) -> None:
    """Extract again the passages whose extraction failed, from the texts that the corpus holds.

    The exit code is 1 while some still fail.
    """
    take_spending_flags(session, budget, no_cache)
    with session.connect() as db:
        target = db.corpus(corpus)
        run_ingestion(session, corpus, target.retry, total=target.status().failed)
