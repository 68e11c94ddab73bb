"""Where a benchmark runs: the server with evireform's tables, and what is to be said of the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import environment
from evireform.embedded import EmbeddedServer, default_home
from evireform.settings import DEFAULT_SCHEMA
from evireform.store.connection import Store
from evireform.store.migrate import init


def bench_home() -> Path:
    """The folder of the embedded server that keeps the corpora of all benchmarks."""
    return default_home().with_name("evireform-bench")


@contextmanager
def database(home: Path | None) -> Iterator[str]:
    """URL of the embedded server of a folder, by default `bench_home`; says what it stands on."""
    with EmbeddedServer(home or bench_home()) as server:
        url = server.start()
        with opened(url) as store:
            report = init(store)
        print(f"{environment.machine()}; load {os.getloadavg()[0]:.1f}; Python {platform.python_version()}")
        print(f"PostgreSQL {report.server_version}, pgvector {report.extension_version}", flush=True)
        yield url
        print(f"load at the end {os.getloadavg()[0]:.1f}")


@contextmanager
def opened(url: str) -> Iterator[Store]:
    """A store on evireform's tables there."""
    store = Store(url, schema=DEFAULT_SCHEMA)
    try:
        yield store
    finally:
        store.close()
