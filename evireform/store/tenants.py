"""Tenants and their members. All of it is for the owner of the tables, but for looking at one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from evireform.errors import PermissionMissing, UsageError
from evireform.given import shown
from evireform.records import Access, CorpusRow, TenantMember, TenantRow
from evireform.store import corpora
from evireform.store.checks import quoted
from evireform.store.schema import corpus, model_call, tenant, tenant_member, worker
from evireform.wellformed import well_formed

if TYPE_CHECKING:
    from evireform.store.connection import Transaction


_NO_ROLES = ("none", "public")


def list_tenants(tx: Transaction) -> list[TenantRow]:
    """The tenants that the role may know of, by name: its own, or all of them where it owns the tables."""
    tx.run("maintain", {})
    return [
        TenantRow(
            name=name,
            corpora=held,
            shares_answers=shares,
            members=tuple(
                TenantMember(role=role, access=access) for role, access in zip(roles, accesses, strict=True)
            ),
        )
        for name, shares, held, roles, accesses in tx.run("tenant_overview", {})
    ]


def create_tenant(tx: Transaction, name: str) -> None:
    """Make a tenant that nobody belongs to yet.

    Raises:
        UsageError: the name cannot be one, or is taken.
        PermissionMissing: the role does not own the tables.
    """
    if not name.strip() or "\0" in name or len(name) > 200 or well_formed(name) != name:
        raise UsageError(f"a tenant needs a name of 1 to 200 characters, not {shown(name)}")
    _begin(tx)
    made = insert(tenant).values(name=name).on_conflict_do_nothing().returning(tenant.c.tenant_id)
    if not tx.core(made):
        raise UsageError(f"there is a tenant {name!r} already")


def grant(tx: Transaction, name: str, role: str, access: Access) -> bool:
    """Make a role a member of a tenant, or change its access.

    Returns:
        Whether the role was made, because it was missing: then it has no password yet.

    Raises:
        UsageError: there is no such tenant, or no role can have this name.
        PermissionMissing: the role of the connection does not own the tables, or may not create roles.
    """
    if access not in ("writer", "reader"):
        raise UsageError(f"access must be writer or reader, not {access!r}")
    if not role or "\0" in role or well_formed(role) != role or len(role.encode()) > 63:
        raise UsageError(f"the name of a role has 1 to 63 bytes, unlike {shown(role)}")
    if role in _NO_ROLES or role.startswith("pg_"):
        raise UsageError(f"no login role can be called {role!r}: PostgreSQL keeps that name for itself")
    tenant_id = _begin(tx, name)
    try:
        made = bool(tx.run("make_role", {"role": role})[0][0])
    except PermissionMissing as exc:
        raise PermissionMissing(
            f"there is no role {quoted(role)}, and this one may not create it",
            remedy=f"run, as a superuser, and repeat: CREATE ROLE {quoted(role)} LOGIN",
            statement=exc.statement,
            sqlstate=exc.sqlstate,
        ) from exc
    member = insert(tenant_member).values(role_name=role, tenant_id=tenant_id, access=access)
    key = [tenant_member.c.role_name, tenant_member.c.tenant_id]
    tx.core(member.on_conflict_do_update(index_elements=key, set_={"access": access}))
    tx.run("settle_access", {"role": role})
    return made


def revoke(tx: Transaction, name: str, role: str) -> None:
    """Take a role out of a tenant, and the rights that no other membership gives it. The role itself stays.

    Raises:
        UsageError: there is no such tenant, or the role is no member of it.
        PermissionMissing: the role of the connection does not own the tables.
    """
    tenant_id = _begin(tx, name)
    this = (tenant_member.c.role_name == role, tenant_member.c.tenant_id == tenant_id)
    if not tx.core(sa.delete(tenant_member).where(*this).returning(tenant_member.c.role_name)):
        raise UsageError(f"role {role!r} is no member of tenant {name!r}")
    tx.run("settle_access", {"role": role})


def share_answers(tx: Transaction, name: str, shares: bool) -> None:
    """Let the model calls of a tenant be answered by those of others that share too, and theirs by its own.

    Raises:
        UsageError: there is no such tenant.
        PermissionMissing: the role does not own the tables.
    """
    tenant_id = _begin(tx, name)
    tx.core(sa.update(tenant).where(tenant.c.tenant_id == tenant_id).values(shares_answers=shares))


def corpora_of_tenant(tx: Transaction, name: str) -> list[CorpusRow]:
    """The corpora of a tenant, for who may delete it; errors as `shut_out`."""
    return corpora.corpora_of(tx, corpus.c.tenant_id == _begin(tx, name))


def shut_out(tx: Transaction, name: str) -> list[CorpusRow]:
    """Take every member out of a tenant that is to be deleted. Returns its corpora.

    Raises:
        UsageError: there is no such tenant.
        PermissionMissing: the role does not own the tables.
    """
    tenant_id = _begin(tx, name)
    gone = sa.delete(tenant_member).where(tenant_member.c.tenant_id == tenant_id)
    for (role,) in tx.core(gone.returning(tenant_member.c.role_name)):
        tx.run("settle_access", {"role": role})
    return corpora.corpora_of(tx, corpus.c.tenant_id == tenant_id)


def delete_corpus(tx: Transaction, row: CorpusRow) -> None:
    """Delete a corpus of a tenant that is to be deleted."""
    _begin(tx)
    corpora.delete_found_corpus(tx, row)


def delete_tenant(tx: Transaction, name: str) -> None:
    """Delete a tenant whose corpora are deleted, with its part of the ledger.

    Raises:
        UsageError: there is no such tenant.
        PermissionMissing: the role does not own the tables.
    """
    tenant_id = _begin(tx, name)
    for table in (model_call, worker, tenant):
        tx.core(sa.delete(table).where(table.c.tenant_id == tenant_id))


def settle_members(tx: Transaction) -> None:
    """Grant the members what they lack, because a migration or `init` made it anew."""
    for (role,) in tx.run("unsettled_roles", {}):
        tx.run("settle_access", {"role": role})


def _begin(tx: Transaction, name: str | None = None) -> int:
    """Open the rows of every tenant, one transaction at a time; the id of a tenant, where it is named."""
    tx.run("init_lock", {})
    ((mine, owner),) = tx.run("tables_are_mine", {})
    if not mine:
        raise PermissionMissing(
            f"only the owner of the tables, role {quoted(owner)}, manages tenants",
            remedy="connect as that role, or as a superuser",
        )
    tx.run("maintain", {})
    if name is None:
        return 0
    found = tx.core(sa.select(tenant.c.tenant_id).where(tenant.c.name == name).with_for_update())
    if not found:
        names = ", ".join(row[0] for row in tx.core(sa.select(tenant.c.name).order_by(tenant.c.name)))
        raise UsageError(f"there is no tenant {shown(name)}; there is {names}")
    return int(found[0][0])
