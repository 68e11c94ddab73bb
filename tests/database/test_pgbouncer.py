"""The real thing: PgBouncer in transaction mode, with fewer server connections than clients."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from evireform.embedded.account import server_account
from evireform.embedded.binaries import bin_for
from evireform.errors import DatabaseError
from evireform.store import corpora, tenants
from evireform.store.connection import Store
from evireform.store.migrate import init
from evireform.store.revisions import known_revisions
from tests.conftest import SCHEMA
from tests.database.tenancy import two_tenants

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")

CONFIGURATION = """
[databases]
* = host={home} port=5432 user=owner
[pgbouncer]
unix_socket_dir = {home}
listen_port = 6432
auth_type = any
pool_mode = transaction
default_pool_size = 2
logfile = {home}/pgbouncer.log
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server of its own that trusts everybody who reaches its socket, with the pooler before it."""
    assert PGBOUNCER
    home = Path(tempfile.mkdtemp(prefix="evireform-pooled-"))
    account = server_account(home / "data")
    account.give(home)
    home.chmod(0o755)
    programs = bin_for(account, home)
    data = home / "data"
    configuration = home / "pgbouncer.ini"
    configuration.write_text(CONFIGURATION.format(home=home))
    configuration.chmod(0o644)

    def run(*command: str | Path) -> None:
        finished = account.run(command, cwd=Path("/"))
        assert finished.code == 0, finished.output

    run(programs / "initdb", "-D", data, "-A", "trust", "-U", "owner", "-E", "UTF8", "--no-sync")
    options = f"-k {home} -c listen_addresses='' -c fsync=off"
    run(programs / "pg_ctl", "-D", data, "-w", "-o", options, "-l", home / "server.log", "start")
    pooler = subprocess.Popen(
        [PGBOUNCER, configuration],
        user=account.uid if account.foreign else None,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )
    try:
        deadline = time.monotonic() + 30
        while not (home / ".s.PGSQL.6432").exists():
            assert time.monotonic() < deadline, (home / "pgbouncer.log").read_text()
            time.sleep(0.05)
        yield f"postgresql://owner@/postgres?host={quote(str(home))}&port=6432"
    finally:
        pooler.terminate()
        pooler.wait()
        run(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(home)


@pytest.fixture
def pooled(url: str) -> Iterator[Store]:
    store = Store(url, schema=SCHEMA, pool_size=20)
    init(store)
    yield store
    store.close()


def test_init_works_through_it_from_many_at_once(url: str) -> None:
    stores = [Store(url, schema="many") for _ in range(8)]
    before: list[str] = []
    threads = [
        threading.Thread(target=lambda store=store: before.append(init(store).migrated_from))
        for store in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    assert sorted(before) == ["", *[known_revisions()[-1]] * 7]


def test_a_snapshot_holds_through_it(pooled: Store) -> None:
    with pooled.transaction(read_only=True, snapshot=True) as tx:
        before = corpora.list_corpora(tx)
        with pooled.transaction() as other:
            corpora.create_corpus(other, "later", titles="on")
        assert corpora.list_corpora(tx) == before


def test_clients_share_its_connections_and_none_sees_anothers_settings(pooled: Store, url: str) -> None:
    wrong: list[str] = []

    def work(number: int) -> None:
        for turn in range(20):
            with pooled.transaction(ef_search=100 + number, exact=turn % 2 == 0) as tx:
                tx.run("failed_passages", {"corpus_id": number, "fetch": turn + 1})
                row = tx.driver.execute("SHOW hnsw.ef_search").fetchone()
                if row != (str(100 + number),):
                    wrong.append(f"{number}: {row}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    with psycopg.connect(url, prepare_threshold=None) as raw:
        assert raw.execute("SHOW search_path").fetchone() == ('"$user", public',)
        assert raw.execute("SHOW enable_indexscan").fetchone() == ("on",)
        servers = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        assert raw.execute(servers).fetchone() in [(1,), (2,)]


def test_a_connection_works_for_one_tenant_after_another(pooled: Store, url: str) -> None:
    roles = {"ours": "pooled_ours", "theirs": "pooled_theirs"}
    two_tenants(pooled)
    for tenant, role in roles.items():
        with pooled.transaction() as tx:
            tenants.grant(tx, tenant, role, "reader")
    wrong: list[str] = []

    def work(tenant: str) -> None:
        store = Store(url, schema=SCHEMA, role=roles[tenant])
        for turn in range(20):
            with suppress(DatabaseError, psycopg.Error), store.transaction(read_only=True) as tx:
                seen = tx.driver.execute("SELECT name, current_user::text FROM tenant").fetchall()
                if seen != [(tenant, roles[tenant])]:
                    wrong.append(f"{tenant}: {seen}")
                if turn % 3 == 0:
                    tx.driver.execute("SELECT 1 / 0")
        store.close()

    threads = [threading.Thread(target=work, args=(tenant,)) for tenant in (*roles, *roles, *roles)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    with pooled.plain_transaction() as tx:
        assert tx.driver.execute("SELECT current_user::text").fetchone() == ("owner",)
    for tenant, role in roles.items():
        with pooled.transaction() as tx:
            tenants.revoke(tx, tenant, role)
            tx.driver.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
