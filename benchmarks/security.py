"""What row-level security costs a search: the same database as superuser and as a reader."""

from __future__ import annotations

from benchmarks import environment

if __name__ == "__main__":
    environment.require("benchmarks.security")

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from benchmarks import machine, synthetic
from benchmarks.compare import Times, open_index
from benchmarks.concurrency import corpus
from benchmarks.doubles import PreparedQuestion
from benchmarks.sides import alternately, searching, table
from evireform.settings import DEFAULT_SCHEMA
from evireform.store import tenants
from evireform.store.connection import Store

ROLE = f"evireform_benchmark_{os.getpid()}"


def measure(store: Store, url: str, name: str, questions: Sequence[PreparedQuestion]) -> dict[str, Times]:
    """Times of both roles on a corpus of the default tenant.

    Raises:
        RuntimeError: they rank differently, or the first role is bound by row-level security too.
    """
    with store.transaction(read_only=True) as tx:
        free = tx.driver.execute(
            "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
    if free != (True,):
        raise RuntimeError("the role of the URL is bound by row-level security: connect as a superuser")
    with reader(store, url) as reading:
        sides = {
            "superuser": searching(store, name, questions),
            "reader": searching(reading, name, questions),
        }
        times, rankings = alternately(sides, questions)
    ranked = [
        [(p.passage_key, p.score) for r in of_side for p in r.passages] for of_side in rankings.values()
    ]
    if ranked[0] != ranked[1]:
        raise RuntimeError("both roles must rank the same")
    return times


@contextmanager
def reader(store: Store, url: str) -> Iterator[Store]:
    """A store of a role that reads the default tenant, and is gone afterwards."""
    role = sql.Identifier(ROLE)
    with store.transaction() as tx:
        tenants.grant(tx, "default", ROLE, "reader")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER ROLE {} LOGIN PASSWORD 'benchmark'").format(role))
    reading = Store(make_conninfo(url, user=ROLE, password="benchmark"), schema=DEFAULT_SCHEMA)
    try:
        yield reading
    finally:
        reading.close()
        with store.transaction() as tx:
            tenants.revoke(tx, "default", ROLE)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
            connection.execute(sql.SQL("DROP ROLE {}").format(role))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.security", description=__doc__)
    parser.add_argument("--propositions", type=int, default=100_000, help="of the corpus (100000)")
    parser.add_argument("--questions", type=int, default=100, help="asked by each role, in turns (100)")
    parser.add_argument("--home", type=Path, help="folder of the embedded server that keeps the corpora")
    options = parser.parse_args()
    with machine.database(options.home) as url, machine.opened(url) as store:
        name = corpus(store, options.propositions)
        questions = synthetic.questions(open_index(store, name)[1].vectors, options.questions)
        print("\n".join(table(measure(store, url, name, questions))))


if __name__ == "__main__":
    main()
