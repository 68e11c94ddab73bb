"""Tenants of one database: what a member sees and writes, and what a hostile one learns of others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import psycopg
import pytest
from psycopg import sql

from evireform.errors import PermissionMissing, UsageError
from evireform.store import corpora, tenants
from evireform.store.connection import Store
from evireform.store.migrate import init
from tests.conftest import SCHEMA, database
from tests.database.roles import new_member, new_role
from tests.database.tenancy import WORDS, two_tenants

FOREIGN = WORDS["theirs"]
PATH = "SET search_path = evireform, public"

TABLES = """
SELECT relname::text FROM pg_class
WHERE relnamespace = 'evireform'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
  AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attname = 'tenant_id')
ORDER BY relname"""
VIEWS = """
SELECT relname::text FROM pg_class WHERE relnamespace = 'evireform'::regnamespace AND relkind = 'v'
ORDER BY relname"""
PARTITIONS = (
    "SELECT relname::text FROM pg_class WHERE relnamespace = 'evireform'::regnamespace AND relispartition"
)


class Shared:
    """A database with two tenants, and who is connected to it: the superuser, and members of `ours`."""

    def __init__(
        self, store: Store, owner: Any, reader: Any, writer: Any, corpus_ids: dict[str, int]
    ) -> None:
        self.store = store
        self.owner = owner
        self.reader = reader
        self.writer = writer
        self.corpus_ids = corpus_ids

    def relations(self, query: str) -> list[str]:
        return [row[0] for row in self.owner.execute(query)]


@pytest.fixture(scope="module")
def shared(server_url: str, template_database: str) -> Iterator[Shared]:
    """For all the tests of this module that leave nothing behind: whoever writes rolls back."""
    with database(server_url, template_database) as url:
        store = Store(url, schema=SCHEMA)
        corpus_ids = two_tenants(store)
        with ExitStack() as opened:
            members = [
                opened.enter_context(new_member(url, "ours", access)) for access in ("reader", "writer")
            ]
            connections = [opened.enter_context(psycopg.connect(each)) for each in (url, *members)]
            for connection in connections:
                connection.execute(PATH)
                connection.commit()
            yield Shared(store, *connections, corpus_ids)
        store.close()


@pytest.fixture(autouse=True)
def nothing_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "shared" in request.fixturenames:
        shared = request.getfixturevalue("shared")
        for connection in (shared.owner, shared.reader, shared.writer):
            connection.rollback()


def refusal(connection: Any, query: sql.Composable | str, *parameters: Any) -> tuple[str, str]:
    """SQLSTATE and message with which the server refuses a statement."""
    text = query if isinstance(query, sql.Composable) else sql.SQL(query)
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        connection.execute(text, parameters)
    assert caught.value.sqlstate
    return caught.value.sqlstate, str(caught.value)


# What the catalogue says.


def test_row_security_is_forced_on_every_table_of_tenants(shared: Shared) -> None:
    found = shared.owner.execute(
        "SELECT relname::text, relrowsecurity, relforcerowsecurity, "
        "ARRAY(SELECT polname::text FROM pg_policy WHERE polrelid = pg_class.oid ORDER BY polname) "
        "FROM pg_class WHERE relname = ANY (%s)",
        (shared.relations(TABLES),),
    ).fetchall()
    policies = ["maintenance", "member_reads", "writer_deletes", "writer_inserts", "writer_updates"]
    expected = {name: (True, True, policies) for name in shared.relations(TABLES)}
    expected |= {name: (True, False, ["member_reads"]) for name in ("tenant", "tenant_member")}
    assert {row[0]: row[1:] for row in found} == expected


def test_partitions_are_secured_and_granted_to_nobody(shared: Shared) -> None:
    found = shared.owner.execute(
        "SELECT relname::text, relrowsecurity AND relforcerowsecurity, relacl FROM pg_class "
        "WHERE relnamespace = 'evireform'::regnamespace AND relispartition AND relkind = 'r' ORDER BY relname"
    ).fetchall()
    assert found == [("embedding_1_1", True, None), ("embedding_2_1", True, None)]


def test_every_unique_key_has_the_corpus_or_the_tenant_or_is_given_out_by_the_database(
    shared: Shared,
) -> None:
    keys = shared.owner.execute(
        """
        SELECT relname::text, array_agg(attname::text ORDER BY attname)
        FROM pg_index
        JOIN pg_class ON pg_class.oid = indrelid
        JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
        WHERE indisunique AND relname = ANY (%s) AND relname NOT IN ('tenant', 'tenant_member')
        GROUP BY indexrelid, relname""",
        (shared.relations(TABLES),),
    ).fetchall()
    alone = {(name, *columns) for name, columns in keys if not {"corpus_id", "tenant_id"} & set(columns)}
    alone |= {("corpus", "corpus_id")}
    assert alone == {("corpus", "corpus_id"), ("model_call", "call_id"), ("worker", "worker_id")}
    for table, column in alone:
        for right in ("INSERT", "UPDATE"):
            query = "SELECT has_column_privilege(%s, %s, %s)"
            assert shared.writer.execute(query, (table, column, right)).fetchone() == (False,)


def test_no_text_is_kept_in_the_statistics_but_the_extremes_of_keys(shared: Shared) -> None:
    for name in shared.relations(TABLES):
        shared.owner.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(name)))
    kept = shared.owner.execute(
        "SELECT tablename, attname, cardinality(most_common_vals::text::text[]), "
        "cardinality(histogram_bounds::text::text[]) FROM pg_stats WHERE schemaname = 'evireform' "
        "AND (most_common_vals::text ~ 'foxglove' OR histogram_bounds::text ~ 'foxglove')"
    ).fetchall()
    assert {(most, bounds) for _, _, most, bounds in kept} <= {(1, None), (None, 2)}
    assert {"body", "title", "display", "question", "answer"} & {column for _, column, _, _ in kept} == set()


# What a member sees.


def test_a_member_sees_its_own_rows_of_every_table(shared: Shared) -> None:
    for name in shared.relations(TABLES):
        query = sql.SQL("SELECT DISTINCT tenant_id FROM {}").format(sql.Identifier(name))
        everyone = shared.owner.execute(query).fetchall()
        own = shared.owner.execute("SELECT tenant_id FROM tenant WHERE name = 'ours'").fetchall()
        assert len(everyone) >= 2, f"{name} has no rows of others: the test would show nothing"
        for member in (shared.reader, shared.writer):
            assert member.execute(query).fetchall() == own, name


def test_a_member_sees_its_own_rows_in_every_view(shared: Shared) -> None:
    for name in shared.relations(VIEWS):
        query = sql.SQL("SELECT to_jsonb(seen)::text FROM {} AS seen").format(sql.Identifier(name))
        everyone = "\n".join(row[0] for row in shared.owner.execute(query))
        own = [row[0] for row in shared.reader.execute(query)]
        assert len(everyone.splitlines()) > len(own) >= 1, f"{name} shows no more to the owner"
        assert FOREIGN not in "\n".join(own)
        assert '"tenant": "theirs"' not in "\n".join(own)


def test_a_member_knows_its_own_memberships_alone(shared: Shared) -> None:
    query = "SELECT role_name, access FROM tenant_member"
    assert shared.reader.execute(query).fetchall() == [(shared.reader.info.user, "reader")]
    assert shared.reader.execute("SELECT name FROM tenant").fetchall() == [("ours",)]


def test_a_partition_cannot_be_read_past_the_table(shared: Shared) -> None:
    for name in ("embedding_1_1", "embedding_2_1"):
        for member in (shared.reader, shared.writer):
            assert refusal(member, f"SELECT * FROM {name}")[0] == "42501"


def test_the_owner_of_the_tables_sees_his_own_tenants_rows(empty_database_url: str) -> None:
    with (
        new_role(empty_database_url) as role,
        psycopg.connect(empty_database_url, autocommit=True) as superuser,
    ):
        name = sql.Identifier(str(superuser.info.dbname))
        superuser.execute("CREATE EXTENSION vector")
        superuser.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(name, sql.Identifier(role)))
        url = psycopg.conninfo.make_conninfo(empty_database_url, user=role, password="secret")
        store = Store(url, schema=SCHEMA)
        init(store)
        with store.transaction() as tx:
            corpora.create_corpus(tx, "mine", titles="on")
            tenants.create_tenant(tx, "others")
        superuser.execute("INSERT INTO evireform.corpus (tenant_id, name, titles) VALUES (2, 'theirs', 'on')")
        with store.transaction() as tx:
            assert [row[0] for row in tx.driver.execute("SELECT name FROM corpus")] == ["mine"]
            tx.tenant = "others"
            with pytest.raises(PermissionMissing, match="no tenant 'others' is open to role"):
                corpora.list_corpora(tx)
            tx.run("maintain", {})
            names = [row[0] for row in tx.driver.execute("SELECT name FROM corpus ORDER BY name")]
            assert names == ["mine", "theirs"]
        store.close()


# What a member writes.


def rows_of(shared: Shared, table: str) -> list[dict[str, Any]]:
    """The rows of the other tenant, with the columns that a writer may give."""
    columns = shared.writer.execute(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
        "AND attgenerated = '' AND NOT attisdropped AND has_column_privilege(attrelid, attnum, 'INSERT') "
        "ORDER BY attnum",
        (table,),
    ).fetchall()
    query = sql.SQL(
        "SELECT {} FROM {} WHERE tenant_id = (SELECT tenant_id FROM tenant WHERE name = 'theirs')"
    )
    names = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(column)) for (column,) in columns)
    found = shared.owner.execute(query.format(names, sql.Identifier(table))).fetchall()
    return [dict(zip((column for (column,) in columns), row, strict=True)) for row in found]


def insertion(table: str, row: dict[str, Any]) -> tuple[sql.Composable, list[Any]]:
    names = sql.SQL(", ").join(map(sql.Identifier, row))
    values = sql.SQL(", ").join(sql.SQL("%s") for _ in row)
    return sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(sql.Identifier(table), names, values), [
        *row.values()
    ]


def test_a_writer_can_neither_add_to_others_nor_learn_by_trying(shared: Shared) -> None:
    own = shared.owner.execute("SELECT tenant_id FROM tenant WHERE name = 'ours'").fetchone()[0]
    for table in shared.relations(TABLES):
        if table in ("tenant", "tenant_member"):
            continue
        row = rows_of(shared, table)[0]
        violation = ("42501", f'new row violates row-level security policy for table "{table}"')
        attempts = [row]
        if "corpus_id" in row and table not in ("corpus", "model_call"):
            # Under his own name into their corpus, and into one that nobody has: both are told the same.
            attempts.append(row | {"tenant_id": own})
            if (
                table != "embedding"
            ):  # where it falls by the missing partition, whose name the catalogue tells
                attempts.append(row | {"tenant_id": own, "corpus_id": "999"})
        for attempt in attempts:
            query, values = insertion(table, attempt)
            for ending in ("", " ON CONFLICT DO NOTHING"):
                assert refusal(shared.writer, query + sql.SQL(ending), *values) == violation, table


def test_a_writer_changes_and_deletes_none_of_others_rows(shared: Shared) -> None:
    shared.owner.commit()
    assert shared.owner.execute("SELECT tenant_id FROM tenant WHERE name = 'theirs'").fetchone() == (3,)
    before = {table: rows_of(shared, table) for table in shared.relations(TABLES) if table != "tenant_member"}
    with shared.writer.transaction(force_rollback=True):
        shared.writer.execute("SET CONSTRAINTS ALL DEFERRED")
        for table in before:
            if table == "tenant":
                assert refusal(shared.writer, "DELETE FROM tenant")[0] == "42501"
                continue
            foreign = sql.SQL("{} WHERE tenant_id NOT IN (SELECT tenant_id FROM tenant)")
            table_name = sql.Identifier(table)
            deleted = shared.writer.execute(sql.SQL("DELETE FROM ") + foreign.format(table_name))
            assert deleted.rowcount == 0
            moved = sql.SQL("UPDATE {} SET tenant_id = 3").format(table_name)
            theirs = shared.corpus_ids["theirs"]
            assert refusal(shared.writer, moved)[0] == "42501", table
            if "corpus_id" in before[table][0] and table not in ("corpus", "model_call"):
                moved = sql.SQL("UPDATE {} SET corpus_id = %s").format(table_name)
                assert refusal(shared.writer, moved, theirs)[0] == "42501", table
    assert {table: rows_of(shared, table) for table in before} == before


def test_a_reader_writes_nothing(shared: Shared) -> None:
    for table in shared.relations(TABLES):
        for query in ("DELETE FROM {}", "UPDATE {} SET tenant_id = tenant_id", "TRUNCATE {}"):
            assert refusal(shared.reader, sql.SQL(query).format(sql.Identifier(table)))[0] == "42501"


def test_functions_of_the_owner_refuse_the_corpora_of_others(shared: Shared) -> None:
    definers = shared.owner.execute(
        "SELECT proname::text, pronargs FROM pg_proc "
        "WHERE pronamespace = 'evireform'::regnamespace AND prosecdef"
    ).fetchall()
    functions = [name for name, arguments in definers if arguments == 2]
    # Those two ask of nobody's corpus; each has a test of its own.
    assert {name for name, _ in definers} - set(functions) == {"analyze_corpus_tables", "shared_answer"}
    assert len(functions) >= 3
    for name in functions:
        call = sql.SQL("SELECT {}(%s, 1)").format(sql.Identifier(name))
        told = refusal(shared.writer, call, shared.corpus_ids["theirs"])
        nobodys = refusal(shared.writer, call, 999)
        assert told[0] == nobodys[0] == "42501", name
        assert told[1].partition("\n")[0].replace("corpus 2", "corpus 999") == nobodys[1].partition("\n")[0]
        assert refusal(shared.reader, call, shared.corpus_ids["ours"])[1].startswith("permission denied"), (
            name
        )


# What a hostile member tries.


def test_no_setting_opens_the_rows_of_others(shared: Shared) -> None:
    query = "SELECT count(*) FROM passage"
    for setting in (
        "SET evireform.maintenance = 'on'",
        "SET evireform.tenant = 'theirs'",
        "SET ROLE NONE",
        "SET session_replication_role = replica",
        "SET SESSION AUTHORIZATION DEFAULT",
        "SET row_security = off",
        f"SET ROLE {shared.owner.info.user}",
        f"SET SESSION AUTHORIZATION {shared.owner.info.user}",
        "ALTER TABLE passage DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE passage NO FORCE ROW LEVEL SECURITY",
        "CREATE POLICY open ON passage USING (true)",
        "INSERT INTO tenant_member (role_name, tenant_id, access) VALUES (current_user, 3, 'writer')",
        "UPDATE tenant_member SET tenant_id = 3",
    ):
        for member in (shared.reader, shared.writer):
            with member.transaction(force_rollback=True):
                with suppress(psycopg.errors.InsufficientPrivilege), member.transaction():
                    member.execute(setting)
                seen = None
                with suppress(psycopg.errors.InsufficientPrivilege), member.transaction():
                    seen = member.execute(query).fetchone()
                assert seen == (None if "row_security" in setting else (1,)), setting


def test_a_function_that_tells_what_it_is_given_is_given_nothing(shared: Shared) -> None:
    reader = shared.reader
    told: list[str] = []
    reader.add_notice_handler(lambda notice: told.append(str(notice.message_primary)))
    reader.execute(
        "CREATE FUNCTION pg_temp.tell(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS "
        "$$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$"
    )
    for table in shared.relations(TABLES):
        query = sql.SQL("SELECT count(*) FROM {0} WHERE pg_temp.tell({0}::text)").format(
            sql.Identifier(table)
        )
        reader.execute(query)
    for view in shared.relations(VIEWS):
        reader.execute(
            sql.SQL("SELECT count(*) FROM {0} AS v WHERE pg_temp.tell(v::text)").format(sql.Identifier(view))
        )
    assert len(told) > 10
    assert FOREIGN not in "\n".join(told)


@pytest.mark.parametrize(
    "condition",
    [
        "1 / (CASE WHEN body ~ 'foxglove' THEN 0 ELSE 1 END) = 1",
        "(CASE WHEN body ~ 'foxglove' THEN body ELSE '1' END)::integer = 1",
        "substring(body, 1, CASE WHEN body ~ 'foxglove' THEN -1 ELSE 1 END) <> ''",
    ],
)
def test_no_error_tells_of_a_row_of_others(shared: Shared, condition: str) -> None:
    shared.reader.execute(f"SELECT count(*) FROM passage WHERE {condition}")
    with pytest.raises(psycopg.Error):
        shared.reader.execute(
            f"SELECT count(*) FROM passage WHERE {condition.replace('foxglove', 'marigold')}"
        )


TEXT_KEYS = """
SELECT DISTINCT relname::text, attname::text FROM pg_index
JOIN pg_class ON pg_class.oid = indrelid
JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
WHERE relnamespace = 'evireform'::regnamespace AND atttypid = 'text'::regtype
  AND relname NOT IN ('tenant', 'tenant_member', 'alembic_version')
ORDER BY 1, 2"""


def removed(plan: Any) -> int:
    """Rows that a plan found and then threw away, in all of its nodes."""
    own = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
    return int(own) + sum(map(removed, plan.get("Plans", ())))


def test_the_row_counts_of_a_plan_do_not_tell_whether_others_have_a_key(shared: Shared) -> None:
    keys = shared.owner.execute(TEXT_KEYS).fetchall()
    assert {("passage", "passage_key"), ("entity", "canonical"), ("model_call", "corpus_name")} <= set(keys)
    shared.reader.execute("SET LOCAL enable_seqscan = off")
    theirs, nobodys = (shared.corpus_ids["theirs"], "foxglove", "fp"), (999, "goxglove", "gp")
    for table, column in keys:
        conditions = [("{0} = %s", 1), ("{0} >= %s AND {0} < %s", 1)]
        if table != "corpus":
            conditions += [(f"corpus_id = %s AND {text}", 0) for text, _ in conditions]
        for condition, first in conditions:
            explain = "EXPLAIN (ANALYZE, FORMAT JSON) SELECT 1 FROM {1} WHERE " + condition
            query = sql.SQL(explain).format(sql.Identifier(column), sql.Identifier(table))
            counts = []
            for asked in (theirs, nobodys):
                values = asked[first : first + condition.count("%s")]
                (found,) = shared.reader.execute(query, values).fetchone()
                assert found[0]["Plan"]["Node Type"] != "Seq Scan"
                counts.append(removed(found[0]["Plan"]))
            assert counts[0] == counts[1], (table, condition)


def test_the_catalogue_gives_neither_statistics_nor_statements_of_others(shared: Shared) -> None:
    for table in shared.relations(TABLES):
        shared.owner.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(table)))
    shared.owner.execute("SELECT 'foxglove in a statement'")
    assert shared.reader.execute(
        "SELECT count(*) FROM pg_stats WHERE schemaname = 'evireform'"
    ).fetchone() == (0,)
    assert refusal(shared.reader, "SELECT * FROM pg_statistic")[0] == "42501"
    said = shared.reader.execute(
        "SELECT query FROM pg_stat_activity WHERE usename <> current_user"
    ).fetchall()
    assert said
    assert FOREIGN not in str(said)


def test_sequences_say_nothing(shared: Shared) -> None:
    names = shared.relations(
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'evireform'::regnamespace AND relkind = 'S'"
    )
    assert len(names) >= 5
    for name in names:
        assert (
            refusal(shared.reader, sql.SQL("SELECT last_value FROM {}").format(sql.Identifier(name)))[0]
            == "42501"
        )
        assert refusal(shared.writer, "SELECT nextval(%s::regclass)", name)[0] == "42501"
    seen = shared.reader.execute(
        "SELECT last_value FROM pg_sequences WHERE schemaname = 'evireform'"
    ).fetchall()
    assert set(seen) == {(None,)}


def test_a_prepared_statement_of_another_role_sees_what_the_role_of_now_may(shared: Shared) -> None:
    role = shared.reader.info.user
    owner = shared.owner
    owner.execute("PREPARE seen AS SELECT count(*) FROM passage")
    everyone = owner.execute("EXECUTE seen").fetchone()
    owner.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
    try:
        assert (everyone, owner.execute("EXECUTE seen").fetchone()) == ((2,), (1,))
    finally:
        owner.execute("DEALLOCATE seen")


# Whose corpora are meant.


def test_two_tenants_have_a_corpus_of_one_name(shared: Shared) -> None:
    for name, corpus_id in shared.corpus_ids.items():
        with shared.store.transaction() as tx:
            tx.tenant = name
            assert corpora.get_corpus(tx, "wiki").corpus_id == corpus_id
            assert [row.corpus_id for row in corpora.list_corpora(tx)] == [corpus_id]


def test_the_only_tenant_of_a_role_needs_no_name(shared: Shared) -> None:
    store = Store(shared.reader.info.dsn + " password=secret", schema=SCHEMA)
    with store.transaction() as tx:
        assert corpora.get_corpus(tx, "wiki").corpus_id == shared.corpus_ids["ours"]
    store.close()


def test_a_role_without_a_tenant_is_told_so(database_url: str) -> None:
    with new_member(database_url, "ours") as url:
        member = Store(url, schema=SCHEMA, tenant="default")
        with member.transaction() as tx, pytest.raises(PermissionMissing) as caught:
            corpora.list_corpora(tx)
        assert "no tenant 'default' is open to role" in str(caught.value)
        assert "which belongs to 'ours'" in str(caught.value)
        member.close()


def test_a_role_of_several_tenants_must_name_one(store: Store, database_url: str) -> None:
    with new_member(database_url, "ours") as url:
        role = psycopg.conninfo.conninfo_to_dict(url)["user"]
        with store.transaction() as tx:
            tenants.create_tenant(tx, "theirs")
            tenants.grant(tx, "theirs", str(role), "reader")
        member = Store(url, schema=SCHEMA)
        with (
            member.transaction() as tx,
            pytest.raises(UsageError, match=r"several tenants \('ours', 'theirs'\)"),
        ):
            corpora.list_corpora(tx)
        with member.transaction() as tx:
            tx.tenant = "ours"
            assert corpora.create_corpus(tx, "wiki", titles="on").name == "wiki"
        with member.transaction() as tx:
            tx.tenant = "theirs"
            with pytest.raises(PermissionMissing), tx.driver.transaction():
                corpora.create_corpus(tx, "wiki", titles="on")
        member.close()


PLANS = {
    "default": "",
    "by index": "SET LOCAL enable_seqscan = off",
    "by scan": "SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; "
    "SET LOCAL enable_bitmapscan = off",
}
ELSEWHERE = {"text": "|| 'x'", "bigint": "+ 100000", "integer": "+ 100000", "double precision": "+ 0.5"}
"""Type of a column to what makes of a value one that nobody has."""
COMPARABLE = """
SELECT relname::text, attname::text, format_type(atttypid, NULL) FROM pg_attribute
JOIN pg_class ON pg_class.oid = attrelid
WHERE relname = ANY (%s) AND attnum > 0 AND NOT attisdropped AND relnamespace = 'evireform'::regnamespace
  AND format_type(atttypid, NULL) = ANY (%s)
ORDER BY relname, attname"""
THEIRS = """
SELECT {column}, {column} {elsewhere} FROM {table} WHERE tenant_id <> {ours} AND {column} IS NOT NULL
  AND {column} NOT IN (SELECT {column} FROM {table} WHERE tenant_id = {ours} AND {column} IS NOT NULL)
LIMIT 1"""


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("member", ["reader", "writer"])
def test_t14_what_a_query_computes_along_the_way_does_not_tell_of_others(
    shared: Shared, plan: str, member: str
) -> None:
    """A sub-select runs where the comparison before it held for some row: it must not be one of others."""
    hostile = getattr(shared, member)
    ours = shared.owner.execute("SELECT tenant_id FROM tenant WHERE name = 'ours'").fetchone()[0]
    tables = [*shared.relations(TABLES), "tenant_member", "tenant"]
    columns = shared.owner.execute(COMPARABLE, (tables, list(ELSEWHERE))).fetchall()
    tried, told = set(), []
    with hostile.transaction(force_rollback=True):
        hostile.execute("CREATE TEMP SEQUENCE probe")
        if PLANS[plan]:
            hostile.execute(PLANS[plan])
        for table, column, kind in columns:
            names = {"table": sql.Identifier(table), "column": sql.Identifier(column)}
            theirs = sql.SQL(THEIRS).format(**names, ours=ours, elsewhere=sql.SQL(ELSEWHERE[kind]))
            for value, nobodys in shared.owner.execute(theirs).fetchall():
                tried.add(table)
                for condition in ("{column} = {value}", "{column} >= {value} AND {column} <= {value}"):
                    computed = [
                        _computes(hostile, sql.SQL(condition).format(**names, value=one), names["table"])
                        for one in (value, nobodys)
                    ]
                    if computed[0] != computed[1]:
                        told.append((table, column, condition))
    assert told == []
    assert tried == set(tables)


def _computes(connection: Any, condition: sql.Composable, table: sql.Composable) -> bool:
    """Whether a query with a condition gets as far as the sub-select behind it."""
    connection.execute("SELECT setval('pg_temp.probe', 1, false)")
    query = "SELECT 1 FROM {} WHERE {} AND tenant_id > (SELECT nextval('pg_temp.probe') OFFSET 0)"
    connection.execute(sql.SQL(query).format(table, condition))
    return bool(connection.execute("SELECT is_called FROM pg_temp.probe").fetchone()[0])
