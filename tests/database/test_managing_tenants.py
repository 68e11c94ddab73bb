"""Making tenants, granting and revoking, deleting, sharing answers, and working as one role after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from evireform.database import Database, connect
from evireform.errors import DatabaseError, PermissionMissing, UsageError
from evireform.records import CorpusRow, ModelCall, TenantMember, TenantRow
from evireform.settings import LanguageSettings, Settings
from evireform.store import calls, corpora
from evireform.store.connection import Store
from tests.conftest import SCHEMA
from tests.database.roles import new_member, new_role, run_as_owner
from tests.database.tenancy import TABLES, two_tenants


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def role(database_url: str) -> Iterator[str]:
    with new_role(database_url) as name:
        yield name


def as_role(url: str, role: str) -> str:
    return make_conninfo(url, user=role, password="secret")


def may(url: str, role: str, right: str, table: str = "passage") -> bool:
    """Whether a role has a right on a table or on some of its columns."""
    whole = "SELECT has_table_privilege(%s, %s, %s)"
    some = "SELECT has_any_column_privilege(%s, %s, %s)"
    with psycopg.connect(url) as connection:
        query = whole if right == "DELETE" else some
        return connection.execute(query, (role, f"evireform.{table}", right)).fetchone() == (True,)


# Members and their rights.


def test_a_tenant_is_made_with_a_writer(db: Database, role: str) -> None:
    assert db.create_tenant("acme", role=role) is False
    made, default = db.tenants()
    writer = TenantMember(role=role, access="writer")
    assert made == TenantRow(name="acme", corpora=0, shares_answers=False, members=(writer,))
    assert (default.name, [member.access for member in default.members]) == ("default", ["writer"])


def test_a_role_that_is_missing_is_made_without_a_password(db: Database, database_url: str) -> None:
    name = "evireform_test_made"
    try:
        assert db.create_tenant("acme", role=name) is True
        with psycopg.connect(database_url) as connection:
            made = connection.execute(
                "SELECT rolcanlogin, rolsuper, rolpassword FROM pg_authid WHERE rolname = %s", (name,)
            ).fetchone()
        assert made == (True, False, None)
    finally:
        db.revoke_tenant("acme", name)
        run_as_owner(database_url, "DROP ROLE {}", name)


def test_an_owner_who_may_not_make_roles_is_told_the_statement(empty_database_url: str) -> None:
    with new_role(empty_database_url) as owner:
        name = str(conninfo_to_dict(empty_database_url)["dbname"])
        run_as_owner(empty_database_url, "CREATE EXTENSION vector")
        run_as_owner(empty_database_url, "ALTER DATABASE {} OWNER TO {}", name, owner)
        with connect(as_role(empty_database_url, owner)) as db:
            db.init()
            with pytest.raises(PermissionMissing) as caught:
                db.create_tenant("acme", role='o"dd')
            assert caught.value.remedy == 'run, as a superuser, and repeat: CREATE ROLE "o""dd" LOGIN'
            assert [tenant.name for tenant in db.tenants()] == ["default"]
            with new_role(empty_database_url) as member:
                db.create_tenant("acme", role=member)
                with connect(as_role(empty_database_url, member)) as theirs:
                    theirs.corpus("wiki", create=True)
                assert [(tenant.name, tenant.corpora) for tenant in db.tenants()] == [
                    ("acme", 1),
                    ("default", 0),
                ]
                assert db.corpora() == []
                db.delete_tenant("acme")
            assert [tenant.name for tenant in db.tenants()] == ["default"]


def test_access_follows_the_memberships(db: Database, database_url: str, role: str) -> None:
    db.create_tenant("acme")
    db.create_tenant("other")
    found = []
    steps: list[Callable[[], object]] = [
        lambda: db.grant_tenant("acme", role, access="reader"),
        lambda: db.grant_tenant("other", role, access="writer"),
        lambda: db.revoke_tenant("other", role),
        lambda: db.grant_tenant("acme", role, access="writer"),
        lambda: db.grant_tenant("acme", role, access="reader"),
        lambda: db.revoke_tenant("acme", role),
    ]
    for step in steps:
        step()
        rights = ("SELECT", "INSERT", "UPDATE", "DELETE")
        found.append("".join(right[0] for right in rights if may(database_url, role, right)))
    assert found == ["S", "SIUD", "S", "SIUD", "S", ""]


def test_a_member_that_lacks_a_right_gets_it_from_init(db: Database, database_url: str, role: str) -> None:
    db.create_tenant("acme", role=role)
    run_as_owner(database_url, "DROP VIEW evireform.cost_by_day")
    run_as_owner(database_url, "REVOKE DELETE ON evireform.passage FROM {}", role)
    db.init()
    assert may(database_url, role, "SELECT", "cost_by_day")
    assert may(database_url, role, "DELETE")


def test_only_the_owner_of_the_tables_manages_tenants(database_url: str) -> None:
    with new_member(database_url, "acme") as url, connect(url) as member:
        for attempt in (
            lambda: member.create_tenant("mine"),
            lambda: member.grant_tenant("acme", "somebody", access="writer"),
            lambda: member.share_answers("acme", True),
            lambda: member.delete_tenant("default"),
        ):
            with pytest.raises(PermissionMissing, match="only the owner of the tables, role"):
                attempt()
        assert [tenant.name for tenant in member.tenants()] == ["acme"]


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "x" * 201, "\ud800"])
def test_what_cannot_be_the_name_of_a_tenant(db: Database, name: str) -> None:
    with pytest.raises(UsageError, match="a tenant needs a name of 1 to 200 characters"):
        db.create_tenant(name)


def test_what_is_not_there_is_named(db: Database) -> None:
    with pytest.raises(UsageError, match="there is a tenant 'default' already"):
        db.create_tenant("default")
    with pytest.raises(UsageError, match="there is no tenant 'acme'; there is default"):
        db.delete_tenant("acme")
    with pytest.raises(UsageError, match="role 'nobody' is no member of tenant 'default'"):
        db.revoke_tenant("default", "nobody")


# Deleting.


def test_a_deleted_tenant_leaves_nothing_and_takes_nothing_of_others(db: Database, database_url: str) -> None:
    ids = two_tenants(db.store)
    with new_member(database_url, "theirs") as url:
        role = str(conninfo_to_dict(url)["user"])
        db.delete_tenant("theirs")
        assert not may(database_url, role, "SELECT")
    with psycopg.connect(database_url) as connection:
        connection.execute("SET search_path = evireform")
        for table in ("corpus", *(table.name for table in TABLES)):
            count = sql.SQL("SELECT count(DISTINCT tenant_id) FROM {}").format(sql.Identifier(table))
            assert connection.execute(count).fetchone() == (1,), table
        partitions = "SELECT to_regclass(format('embedding_%%s_1', %s::bigint)) IS NULL"
        assert connection.execute(partitions, (ids["theirs"],)).fetchone() == (True,)
        assert connection.execute(partitions, (ids["ours"],)).fetchone() == (False,)
    assert [tenant.name for tenant in db.tenants()] == ["default", "ours"]


# Whose answers a call finds.


CALL = ModelCall(purpose="extract", model="m", prompt_version="1", prompt_hash="h")


def find(url: str, key: str) -> str | None:
    """What the ledger answers a member's identical call with."""
    store = Store(url, schema=SCHEMA)
    try:
        with store.transaction() as tx:
            corpus = corpora.create_corpus(tx, "wiki", titles="on")
        return calls.Calls(store, LanguageSettings(backend="openai", model="m")).find(corpus, key)
    finally:
        store.close()


def record(url: str, key: str, answer: str) -> CorpusRow:
    store = Store(url, schema=SCHEMA)
    with store.transaction() as tx:
        corpus = corpora.create_corpus(tx, "wiki", titles="on")
        calls.insert_call(tx, corpus, CALL, key=key, answer=answer)
    store.close()
    return corpus


@pytest.mark.parametrize(
    ("asking", "asked", "found"),
    [(False, False, None), (True, False, None), (False, True, None), (True, True, "theirs")],
)
def test_an_answer_is_shared_where_both_tenants_share(
    db: Database, database_url: str, asking: bool, asked: bool, found: str | None
) -> None:
    with new_member(database_url, "ours") as ours, new_member(database_url, "theirs") as theirs:
        record(theirs, "key", "theirs")
        db.share_answers("ours", asking)
        db.share_answers("theirs", asked)
        assert find(ours, "key") == found
        corpus = record(ours, "key", "ours")
        assert find(ours, "key") == "ours"
        store = Store(ours, schema=SCHEMA)
        record(theirs, "other", "theirs")
        with store.transaction() as tx:
            settings = LanguageSettings(backend="openai", model="m")
            known = calls.answered(tx, corpus.tenant_id, ["key", "other", "unknown"], settings)
        store.close()
        assert known == ({"key", "other"} if found else {"key"})


def test_who_belongs_to_no_tenant_that_shares_is_told_no_answer(db: Database, database_url: str) -> None:
    with new_member(database_url, "ours") as ours, new_member(database_url, "theirs") as theirs:
        record(theirs, "key", "theirs")
        db.share_answers("theirs", True)
        with psycopg.connect(ours) as connection:
            connection.execute("SET search_path = evireform")
            for tenant_id in range(5):
                answer = connection.execute("SELECT shared_answer(%s, 'key', 0)", (tenant_id,)).fetchone()
                assert answer == (None,)


def test_an_answer_that_expired_is_not_shared(db: Database, database_url: str) -> None:
    with new_member(database_url, "ours") as ours, new_member(database_url, "theirs") as theirs:
        record(theirs, "key", "theirs")
        run_as_owner(database_url, "UPDATE evireform.model_call SET called_at = now() - interval '3 days'")
        db.share_answers("ours", True)
        db.share_answers("theirs", True)
        with psycopg.connect(ours) as connection:
            connection.execute("SET search_path = evireform")
            query = "SELECT shared_answer((SELECT tenant_id FROM tenant), 'key', %s)"
            assert [connection.execute(query, (days,)).fetchone() for days in (2, 4)] == [
                (None,),
                ("theirs",),
            ]


def test_costs_are_those_of_the_tenant(db: Database, database_url: str) -> None:
    with new_member(database_url, "ours") as ours, new_member(database_url, "theirs") as theirs:
        record(ours, "key", "ours")
        record(theirs, "key", "theirs")
        record(theirs, "other", "theirs")
        for url, count in ((ours, 1), (theirs, 2)):
            with connect(url) as member:
                assert member.cost().total.calls == count
        with connect(database_url, settings=Settings(tenant="theirs")) as owner:
            assert owner.cost().total.calls == 2
        assert db.cost().total.calls == 0


# One connection, several roles.


@pytest.fixture
def service(db: Database, database_url: str) -> Iterator[tuple[str, dict[str, str]]]:
    """A login role that may work as a member of either tenant, and these roles."""
    two_tenants(db.store)
    with new_role(database_url) as login, new_role(database_url) as ours, new_role(database_url) as theirs:
        roles = {"ours": ours, "theirs": theirs}
        for tenant, role in roles.items():
            db.grant_tenant(tenant, role, access="writer")
            run_as_owner(database_url, "GRANT {} TO {}", role, login)
        yield as_role(database_url, login), roles


def test_a_service_role_sees_what_the_role_that_it_takes_may(service: tuple[str, dict[str, str]]) -> None:
    url, roles = service
    for tenant, role in roles.items():
        with connect(url, settings=Settings(role=role)) as db:
            assert [corpus.name for corpus in db.corpora()] == ["wiki"]
            with db.store.transaction() as tx:
                seen = tx.driver.execute("SELECT name FROM tenant").fetchall()
            assert seen == [(tenant,)]


def test_nothing_of_a_role_outlives_its_transaction(service: tuple[str, dict[str, str]]) -> None:
    url, roles = service
    store = Store(url, schema=SCHEMA, pool_size=1)
    pids, seen = set(), []
    for tenant in ("ours", "theirs", "ours"):
        for ending in ("commit", "error", "statement error"):
            store.role = roles[tenant]
            try:
                with store.transaction() as tx:
                    pids.add(tx.driver.info.backend_pid)
                    seen.append(
                        (tenant, *tx.driver.execute("SELECT DISTINCT extractor FROM corpus").fetchall())
                    )
                    if ending == "error":
                        raise RuntimeError
                    if ending == "statement error":
                        tx.driver.execute("SELECT 1 / 0")
            except (RuntimeError, DatabaseError):
                pass
    assert len(pids) == 1
    assert set(seen) == {("ours", ("marigold",)), ("theirs", ("foxglove",))}
    store.role = ""
    with store.plain_transaction() as tx:
        assert tx.driver.execute("SELECT current_user::text").fetchone() == (conninfo_to_dict(url)["user"],)
    store.close()


def test_what_a_client_before_left_on_the_session_counts_for_nothing(
    service: tuple[str, dict[str, str]],
) -> None:
    url, roles = service
    store = Store(url, schema=SCHEMA, role=roles["ours"], pool_size=1)
    with store.plain_transaction() as tx:
        tx.driver.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(roles["theirs"])))
        tx.driver.execute("SET search_path = pg_catalog")
    with store.transaction() as tx:
        assert tx.driver.execute("SELECT name FROM tenant").fetchall() == [("ours",)]
    store.role = ""
    with store.transaction() as tx:  # the rights of the roles that it may take, and the rows of none
        assert tx.driver.execute("SELECT name FROM tenant").fetchall() == []
    store.close()


def test_a_role_that_the_login_may_not_take_is_refused(
    service: tuple[str, dict[str, str]], role: str
) -> None:
    url, _ = service
    with connect(url, settings=Settings(role=role)) as db, pytest.raises(PermissionMissing, match="GRANT"):
        db.corpora()


@pytest.mark.parametrize(
    "given", [{"tenant": "a\0"}, {"tenant": "x" * 201}, {"role": "none"}, {"role": "x" * 64}]
)
def test_settings_that_name_nobody(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"must be (a|the) name of"):
        Settings(**given)
