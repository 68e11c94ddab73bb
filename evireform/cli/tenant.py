"""`evireform tenant`: who shares a database without seeing each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from evireform.cli.commands import confirm, in_utf8
from evireform.cli.session import Session, takes_session

if TYPE_CHECKING:
    from evireform.database import Database

Name = Annotated[str, typer.Argument(metavar="NAME", help="The tenant.", callback=in_utf8)]
Role = Annotated[str, typer.Argument(metavar="ROLE", help="A login role.", callback=in_utf8)]


class AccessOption(StrEnum):
    """What a role may do in a tenant."""

    writer = "writer"
    reader = "reader"


class ShareOption(StrEnum):
    """Whether a tenant shares the answers of its models."""

    on = "on"
    off = "off"


@takes_session()
def create(
    session: Session,
    name: Name,
    role: Annotated[
        str | None,
        typer.Option(
            metavar="ROLE",
            help="A login role to write for it, made where it is missing.",
            show_default=False,
            callback=in_utf8,
        ),
    ] = None,
) -> None:
    """Make a tenant. Only the owner of the tables may."""
    with session.connect(standby=False) as db:
        made = db.create_tenant(name, role=role)
        belongs = _belongs(db, role)
    text = f"created tenant {name}" + (f"; role {role} writes for it" if role is not None else "")
    _show(session, {"tenant": name, "role": role, "made_role": made}, text, role if made else None)
    _note_several(session, role, belongs)


@takes_session()
def list_(session: Session) -> None:
    """The tenants, their members and how many corpora each has: all of them for the owner of the tables."""
    from rich.table import Table

    from evireform.cli.render import safe

    with session.connect(standby=False) as db:
        found = db.tenants()
    table = Table("tenant", "writers", "readers", "corpora", "shares answers")
    for one in found:
        roles = {kind: [m.role for m in one.members if m.access == kind] for kind in AccessOption}
        members = [safe(", ".join(roles[kind])) for kind in AccessOption]
        table.add_row(safe(one.name), *members, str(one.corpora), "yes" if one.shares_answers else "no")
    session.show({"tenants": [asdict(one) for one in found]}, table)


@takes_session()
def grant(
    session: Session,
    name: Name,
    role: Role,
    access: Annotated[
        AccessOption, typer.Option(help="Whether it writes, or only searches.", show_default=False)
    ],
) -> None:
    """Make a role a member of a tenant, or change its access; the role is made where it is missing."""
    with session.connect(standby=False) as db:
        made = db.grant_tenant(name, role, access=access.value)
        belongs = _belongs(db, role)
    document = {"tenant": name, "role": role, "access": access.value, "made_role": made}
    _show(session, document, f"role {role} is a {access.value} of tenant {name}", role if made else None)
    _note_several(session, role, belongs)


@takes_session()
def revoke(session: Session, name: Name, role: Role) -> None:
    """Take a role out of a tenant, and the rights that it had for it. The role itself stays."""
    with session.connect(standby=False) as db:
        db.revoke_tenant(name, role)
    _show(session, {"tenant": name, "role": role}, f"role {role} is no member of tenant {name} any more")


@takes_session()
def delete(
    session: Session,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a tenant with its corpora, log and part of the ledger. Its roles stay, without rights."""
    from evireform.cli.render import counted

    with session.connect(standby=False) as db:
        held = len(db.corpora_of_tenant(name))
        it = f"tenant {name} with {counted(held, 'corpus', 'corpora')}"
        if not yes:
            confirm(session, f"Delete {it}?")
        db.delete_tenant(name)
    text = f"deleted {it}"
    _show(session, {"tenant": name, "deleted": True, "corpora": held}, text)


@takes_session()
def share(
    session: Session,
    name: Name,
    answers: Annotated[ShareOption, typer.Argument(help="Whether it shares.", show_default=False)],
) -> None:
    """Let model calls of a tenant be answered by those of others that share too, and theirs by its own."""
    shares = answers is ShareOption.on
    with session.connect(standby=False) as db:
        db.share_answers(name, shares)
    text = f"tenant {name} {'shares' if shares else 'does not share'} the answers of its models"
    _show(session, {"tenant": name, "shares_answers": shares}, text)


def _show(session: Session, document: Mapping[str, object], text: str, made: str | None = None) -> None:
    from evireform.cli.render import safe

    session.show(document, safe(text))
    if made is not None:
        session.note(f"role {made} has no password yet: set one with \\password in `evireform psql`")


def _belongs(db: Database, role: str | None) -> list[str]:
    """The tenants that a role belongs to."""
    return [one.name for one in db.tenants() if any(member.role == role for member in one.members)]


def _note_several(session: Session, role: str | None, belongs: Sequence[str]) -> None:
    if len(belongs) > 1:
        session.note(
            f"role {role} belongs to several tenants now ({', '.join(belongs)}): "
            "its commands must name one of them (--tenant)"
        )
