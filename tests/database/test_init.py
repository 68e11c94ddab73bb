"""`init` on every kind of database that it may meet."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from evireform.errors import ExtensionMissing, PermissionMissing, SchemaMissing, SchemaTooNew, ServerTooOld
from evireform.records import InitReport
from evireform.store import corpora, revisions
from evireform.store.checks import ServerFacts, require_extension, require_schema, require_server
from evireform.store.connection import Store
from evireform.store.migrate import init
from evireform.store.revisions import known_revisions
from tests.conftest import SCHEMA
from tests.database.roles import new_role, run_as_owner

OPENED = """
import sys
from evireform.store.connection import Store
from evireform.store.migrate import init
store = Store(sys.argv[1], schema="evireform")
print(repr(init(store).migrated_from))
store.close()
"""

FACTS = ServerFacts(
    version_number=160004,
    version="16.4",
    database="wiki",
    role="ann",
    standby=False,
    creates_schemas=True,
    owns_schema=True,
    creates_in_public=False,
    available="0.8.1",
    installed="0.8.1",
    extension_schema="public",
    uses_extension=True,
)


def make(url: str, schema: str = SCHEMA) -> InitReport:
    """Run `init`, then use what it made."""
    store = Store(url, schema=schema)
    try:
        report = init(store)
        with store.transaction() as tx:
            corpus = corpora.create_corpus(tx, "wiki", titles="on")
            corpora.create_space(tx, corpus, kind="proposition", model="m", dimensions=3, prompts={})
    finally:
        store.close()
    return report


def value(url: str, query: str, *parameters: object) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode(), parameters).fetchone()
    return row and row[0]


def as_role(url: str, role: str) -> str:
    return make_conninfo(url, user=role, password="secret")


def database_of(url: str) -> str:
    return str(conninfo_to_dict(url)["dbname"])


@pytest.fixture
def role(empty_database_url: str) -> Iterator[str]:
    with new_role(empty_database_url) as name:
        yield name


def test_it_reports_what_it_made(empty_database_url: str) -> None:
    report = make(empty_database_url)
    assert (report.schema, report.migrated_from, report.migrated_to) == (
        "evireform",
        "",
        known_revisions()[-1],
    )
    assert (report.extension_version, report.extension_schema) == (
        value(empty_database_url, "SELECT extversion FROM pg_extension WHERE extname = 'vector'"),
        "public",
    )
    assert report.server_version == value(empty_database_url, "SHOW server_version")


def test_again_it_changes_nothing(empty_database_url: str) -> None:
    make(empty_database_url)
    tables = "SELECT array_agg(oid::text || relname ORDER BY oid) FROM pg_class WHERE relname !~ '^pg_'"
    before = value(empty_database_url, tables)
    report = make(empty_database_url)
    assert report.migrated_from == report.migrated_to
    assert value(empty_database_url, tables) == before
    assert value(empty_database_url, "SELECT count(*) FROM evireform.tenant") == 1


def test_the_default_tenant_is_the_role_that_ran_it(empty_database_url: str) -> None:
    make(empty_database_url)
    user = value(empty_database_url, "SELECT current_user::text")
    assert value(empty_database_url, "SELECT role_name FROM evireform.tenant_member") == user


def test_t15_eight_processes_at_once(empty_database_url: str) -> None:
    command = [sys.executable, "-c", OPENED, empty_database_url]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    said = [process.communicate()[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * 8
    assert sorted(said) == ["''"] + [repr(known_revisions()[-1])] * 7
    assert value(empty_database_url, "SELECT count(*) FROM evireform.tenant") == 1


def test_the_owner_of_the_database_need_not_be_superuser(empty_database_url: str, role: str) -> None:
    run_as_owner(empty_database_url, "ALTER DATABASE {} OWNER TO {}", database_of(empty_database_url), role)
    run_as_owner(empty_database_url, "CREATE EXTENSION vector")
    assert make(as_role(empty_database_url, role)).migrated_from == ""


def test_a_role_that_may_create_in_the_database_need_not_own_it(empty_database_url: str, role: str) -> None:
    run_as_owner(
        empty_database_url, "GRANT CREATE ON DATABASE {} TO {}", database_of(empty_database_url), role
    )
    run_as_owner(empty_database_url, "CREATE EXTENSION vector")
    assert make(as_role(empty_database_url, role)).migrated_from == ""


def test_without_a_public_schema_the_extension_goes_into_ours(empty_database_url: str) -> None:
    run_as_owner(empty_database_url, "DROP SCHEMA public")
    assert make(empty_database_url).extension_schema == "evireform"


@pytest.mark.parametrize("schema", ['Größe "x"; --', "a.b", "%s %(x)s {}", "select", "it's", "東京"])
def test_a_schema_may_have_any_name(empty_database_url: str, schema: str) -> None:
    assert make(empty_database_url, schema).schema == schema
    query = "SELECT count(*) FROM pg_tables WHERE schemaname = %s AND tablename = 'embedding_1_1'"
    assert value(empty_database_url, query, schema) == 1


def test_an_extension_in_another_schema_is_used(empty_database_url: str) -> None:
    run_as_owner(empty_database_url, "CREATE SCHEMA {}", "Exten sions")
    run_as_owner(empty_database_url, "CREATE EXTENSION vector SCHEMA {}", "Exten sions")
    assert make(empty_database_url).extension_schema == "Exten sions"


def test_two_schemas_share_a_database(empty_database_url: str) -> None:
    make(empty_database_url, "one")
    assert make(empty_database_url, "two").migrated_from == ""
    assert value(empty_database_url, "SELECT count(*) FROM pg_tables WHERE tablename = 'passage'") == 2


def test_anothers_table_of_migrations_is_left_alone(empty_database_url: str) -> None:
    run_as_owner(empty_database_url, "CREATE TABLE public.alembic_version AS SELECT 'theirs' AS version_num")
    assert make(empty_database_url).migrated_from == ""
    assert value(empty_database_url, "SELECT version_num FROM public.alembic_version") == "theirs"


def test_what_people_dropped_comes_back(empty_database_url: str) -> None:
    make(empty_database_url)
    run_as_owner(empty_database_url, "DROP VIEW evireform.cost_by_day")
    run_as_owner(empty_database_url, "DROP FUNCTION evireform.create_space_index")
    make(empty_database_url)
    assert value(empty_database_url, "SELECT to_regclass('evireform.cost_by_day') IS NOT NULL") is True
    assert value(empty_database_url, "SELECT to_regproc('evireform.create_space_index') IS NOT NULL") is True


def test_grants_on_views_are_kept(empty_database_url: str, role: str) -> None:
    make(empty_database_url)
    run_as_owner(empty_database_url, "GRANT SELECT ON evireform.cost_by_day TO {}", role)
    make(empty_database_url)
    granted = "SELECT has_table_privilege(%s, 'evireform.cost_by_day', 'SELECT')"
    assert value(empty_database_url, granted, role) is True


def refused_with_a_remedy(url: str, schema: str = SCHEMA) -> str:
    """Run `init`, which is refused; the statement that the message asks for."""
    with pytest.raises(PermissionMissing) as caught:
        make(url, schema)
    found = re.search(r"\b(CREATE|GRANT) .*", caught.value.remedy)
    assert found, caught.value.remedy
    return found[0]


def test_a_role_that_may_not_install_the_extension_is_told_the_statement_that_helps(
    empty_database_url: str, role: str
) -> None:
    run_as_owner(empty_database_url, "CREATE SCHEMA evireform AUTHORIZATION {}", role)
    remedy = refused_with_a_remedy(as_role(empty_database_url, role))
    assert remedy == "CREATE EXTENSION vector"
    run_as_owner(empty_database_url, remedy)
    make(as_role(empty_database_url, role))


@pytest.mark.parametrize("schema", ["evireform", 'o"dd'])
def test_a_role_that_may_not_create_the_schema_is_told_the_statement_that_helps(
    empty_database_url: str, role: str, schema: str
) -> None:
    run_as_owner(empty_database_url, "CREATE EXTENSION vector")
    remedy = refused_with_a_remedy(as_role(empty_database_url, role), schema)
    assert remedy.startswith("CREATE SCHEMA ")
    run_as_owner(empty_database_url, remedy)
    make(as_role(empty_database_url, role), schema)


def test_a_role_that_may_not_create_in_the_schema_is_told_the_statement_that_helps(
    empty_database_url: str, role: str
) -> None:
    run_as_owner(empty_database_url, "CREATE EXTENSION vector")
    run_as_owner(empty_database_url, "CREATE SCHEMA evireform")
    remedy = refused_with_a_remedy(as_role(empty_database_url, role))
    assert remedy.startswith("GRANT CREATE, USAGE ON SCHEMA ")
    run_as_owner(empty_database_url, remedy)
    make(as_role(empty_database_url, role))


def test_a_role_that_may_not_use_the_extension_is_told_the_statement_that_helps(
    empty_database_url: str, role: str
) -> None:
    run_as_owner(empty_database_url, "CREATE SCHEMA evireform AUTHORIZATION {}", role)
    run_as_owner(empty_database_url, "CREATE SCHEMA extensions")
    run_as_owner(empty_database_url, "CREATE EXTENSION vector SCHEMA extensions")
    remedy = refused_with_a_remedy(as_role(empty_database_url, role))
    assert remedy.startswith('GRANT USAGE ON SCHEMA "extensions"')
    run_as_owner(empty_database_url, remedy)
    make(as_role(empty_database_url, role))


def test_a_refused_init_leaves_nothing_behind(empty_database_url: str, role: str) -> None:
    run_as_owner(empty_database_url, "CREATE SCHEMA evireform")
    refused_with_a_remedy(as_role(empty_database_url, role), "other")
    schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'other'"
    assert value(empty_database_url, schemas) == 0


def test_tables_of_a_newer_version_are_refused(database_url: str) -> None:
    run_as_owner(database_url, "UPDATE evireform.alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaTooNew, match=r"migrated to 9999 by a newer evireform.*: upgrade the package"):
        make(database_url)


def test_tables_of_a_newer_version_are_not_used(database_url: str, store: Store) -> None:
    run_as_owner(database_url, "UPDATE evireform.alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaTooNew), store.transaction():
        pass


def test_tables_of_an_older_version_need_init(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "known_revisions", lambda: (*known_revisions(), "9999"))
    with pytest.raises(SchemaMissing, match=r"needs 9999: run `evireform init`"), store.transaction():
        pass


@pytest.mark.parametrize(
    ("check", "facts", "error", "message"),
    [
        (
            require_server,
            replace(FACTS, version_number=140012, version="14.12"),
            ServerTooOld,
            "the server is PostgreSQL 14.12, evireform needs 15 or newer",
        ),
        (
            require_extension,
            replace(FACTS, installed="", available=None),
            ExtensionMissing,
            "the server has no pgvector: install it there .*postgresql-16-pgvector",
        ),
        (
            require_extension,
            replace(FACTS, installed="0.7.4"),
            ServerTooOld,
            r"has pgvector 0.7.4, evireform needs 0.8 or newer: .*ALTER EXTENSION vector UPDATE",
        ),
        (
            require_extension,
            replace(FACTS, installed="", available="0.5.1"),
            ServerTooOld,
            "offers pgvector 0.5.1, evireform needs 0.8 or newer",
        ),
        (
            lambda facts: require_schema(facts, "evireform"),
            replace(FACTS, standby=True),
            PermissionMissing,
            "the server is a standby: connect to its primary",
        ),
    ],
)
def test_what_cannot_serve_is_refused_with_what_to_do(
    check: Callable[[ServerFacts], None], facts: ServerFacts, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        check(facts)


@pytest.mark.parametrize(
    "facts",
    [
        FACTS,
        replace(FACTS, installed="0.10.0"),
        replace(FACTS, installed="1.0"),
        replace(FACTS, installed="0.8.0", available=None),
        replace(FACTS, installed=""),
        replace(FACTS, owns_schema=None, creates_schemas=True),
        replace(FACTS, version_number=150000, version="15.0"),
    ],
)
def test_what_can_serve_is_accepted(facts: ServerFacts) -> None:
    require_server(facts)
    require_extension(facts)
    require_schema(facts, "evireform")
