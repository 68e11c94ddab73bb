"""`evireform tenant` and the options that say for whom a command works."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict
from typer.testing import CliRunner, Result

from evireform.cli import app
from evireform.database import connect
from evireform.settings import Settings
from tests.database.roles import new_member, new_role

Run = Callable[..., Result]


@pytest.fixture
def run(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command on the test's database, unless the arguments name another."""
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", database_url)
    return lambda *arguments: CliRunner().invoke(app, arguments)


@pytest.fixture
def role(database_url: str) -> Iterator[str]:
    with new_role(database_url) as name:
        yield name


@pytest.fixture
def home() -> Iterator[Path]:
    """Where an embedded server may live, whatever system user runs it."""
    folder = Path(tempfile.mkdtemp(prefix="evireform-test-"))
    folder.chmod(0o755)
    yield folder / "home"
    shutil.rmtree(folder)


def said(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_a_tenant_from_its_making_to_its_end(run: Run, role: str) -> None:
    made = said(run("tenant", "create", "acme", "--role", role, "--json"))
    assert made == {"tenant": "acme", "role": role, "made_role": False}
    assert said(run("tenant", "grant", "acme", role, "--access", "reader", "--json"))["access"] == "reader"
    assert said(run("tenant", "share", "acme", "on", "--json")) == {"tenant": "acme", "shares_answers": True}
    assert said(run("tenant", "list", "--json"))["tenants"][0] == {
        "name": "acme",
        "corpora": 0,
        "shares_answers": True,
        "members": [{"role": role, "access": "reader"}],
    }
    assert said(run("tenant", "revoke", "acme", role, "--json")) == {"tenant": "acme", "role": role}
    refused = run("tenant", "delete", "acme")
    assert (refused.exit_code, "give --yes" in refused.stderr) == (2, True)
    gone = said(run("tenant", "delete", "acme", "--yes", "--json"))
    assert gone == {"tenant": "acme", "deleted": True, "corpora": 0}
    assert [one["name"] for one in said(run("tenant", "list", "--json"))["tenants"]] == ["default"]


def test_the_list_is_drawn(run: Run, role: str) -> None:
    run("tenant", "create", "acme", "--role", role)
    shown = run("tenant", "list").stdout
    (line,) = [line for line in shown.splitlines() if "acme" in line]
    assert [cell.strip() for cell in line.strip("│").split("│")] == ["acme", role, "", "0", "no"]


def test_a_command_works_for_the_tenant_that_is_named(run: Run, database_url: str) -> None:
    run("tenant", "create", "acme")
    for tenant, name in (("acme", "theirs"), ("default", "mine")):
        with connect(database_url, settings=Settings(tenant=tenant)) as db:
            db.corpus(name, create=True)
    for tenant, name in (("acme", "theirs"), ("default", "mine")):
        corpora = said(run("status", "--tenant", tenant, "--json"))["corpora"]
        assert [one["name"] for one in corpora] == [name]
    unknown = run("status", "--tenant", "nobody")
    assert (unknown.exit_code, "no tenant 'nobody' is open to role" in unknown.stderr) == (1, True)


def test_a_command_works_as_the_role_that_is_named(run: Run, database_url: str) -> None:
    with new_member(database_url, "acme") as url:
        with connect(url) as db:
            db.corpus("theirs", create=True)
        member = str(conninfo_to_dict(url)["user"])
        corpora = said(run("status", "--as-role", member, "--json"))["corpora"]
        assert [one["name"] for one in corpora] == ["theirs"]


@pytest.mark.parametrize("name", ["none", "public", "pg_mine"])
def test_a_name_that_postgresql_keeps_is_no_role(run: Run, name: str) -> None:
    refused = run("tenant", "create", "acme", "--role", name)
    assert refused.exit_code == 2
    assert f"no login role can be called '{name}': PostgreSQL keeps that name" in refused.stderr


def test_a_role_that_is_not_there_cannot_be_taken(run: Run) -> None:
    refused = run("status", "--as-role", "nope")
    assert refused.exit_code == 1
    assert 'no such role can be taken (role "nope" does not exist): name another' in refused.stderr


def test_a_role_of_several_tenants_is_told_to_name_one(run: Run, role: str) -> None:
    first = run("tenant", "create", "acme", "--role", role)
    second = run("tenant", "grant", "default", role, "--access", "reader")
    assert (first.exit_code, "several tenants" in first.stderr) == (0, False)
    assert second.exit_code == 0
    assert f"role {role} belongs to several tenants now (acme, default)" in second.stderr
    assert "several tenants now" in run("tenant", "create", "third", "--role", role).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("tenant", "create", "x" * 5000),
        ("tenant", "delete", "x" * 5000, "--yes"),
        ("status", "--tenant", "x" * 5000),
        ("status", "--as-role", "x" * 5000),
        ("status", "--schema", "x" * 5000),
        ("status", "--corpus", "x" * 5000),
    ],
)
def test_a_name_that_is_too_long_is_not_echoed_whole(run: Run, arguments: tuple[str, ...]) -> None:
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert "x" * 50 in refused.stderr
    assert len(refused.stderr) < 400


def test_who_may_not_delete_a_tenant_is_told_before_being_asked(run: Run, database_url: str) -> None:
    with new_member(database_url, "acme") as url:
        refused = run("tenant", "delete", "acme", "--database-url", url)
    assert refused.exit_code == 1
    assert "only the owner of the tables" in refused.stderr


@pytest.mark.parametrize("access", ["reader", "writer"])
def test_doctor_says_what_a_member_may(run: Run, database_url: str, access: Any) -> None:
    with new_member(database_url, "acme", access) as url:
        checks = json.loads(run("doctor", "--database-url", url, "--json").stdout)["checks"]
        user = conninfo_to_dict(url)["user"]
    found = {check["name"]: check for check in checks}
    only = "; it only reads" if access == "reader" else ""
    assert "permission" not in found
    assert found["tenant"]["ok"]
    assert found["tenant"]["detail"] == f"role {user}: acme ({access}); row-level security is forced{only}"


def test_doctor_says_who_sees_past_the_walls(run: Run) -> None:
    run("tenant", "create", "acme")
    checks = json.loads(run("doctor", "--json").stdout)["checks"]
    (tenant,) = [check for check in checks if check["name"] == "tenant"]
    assert tenant["detail"].endswith("sees those of all tenants, as one that bypasses row-level security")


def test_a_tenants_role_may_be_taken_on_the_embedded_server(home: Path) -> None:
    with connect(home=home) as database:
        database.create_tenant("acme", role="acme_app")
    with connect(home=home, settings=Settings(role="acme_app")) as database:
        database.corpus("wiki", create=True)
        assert [row.name for row in database.corpora()] == ["wiki"]
    with connect(home=home) as database:
        assert database.corpora() == []
