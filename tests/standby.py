"""A primary and a hot standby that streams from it: the bundled programs, on sockets in one folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from evireform.embedded.account import Account, server_account
from evireform.embedded.binaries import bin_for

PRIMARY_PORT, STANDBY_PORT = 5432, 5433


@dataclass(frozen=True, slots=True)
class Servers:
    """Both servers; everybody who reaches their sockets is let in as the superuser ``owner``."""

    home: Path
    account: Account
    programs: Path

    def url(self, port: int) -> str:
        """Of the database ``postgres`` on one of them."""
        return f"postgresql://owner@/postgres?host={quote(str(self.home))}&port={port}"

    @property
    def primary_url(self) -> str:
        return self.url(PRIMARY_PORT)

    @property
    def standby_url(self) -> str:
        return self.url(STANDBY_PORT)

    def run(self, program: str, *arguments: str | Path) -> None:
        """Run one of PostgreSQL's programs."""
        finished = self.account.run([self.programs / program, *arguments], cwd=Path("/"))
        assert finished.code == 0, finished.output

    def start(self, name: str, port: int) -> None:
        """Start one of both, and wait until it answers."""
        options = f"-k {self.home} -p {port} -c listen_addresses='' -c fsync=off -c autovacuum=off"
        log = self.home / f"{name}.log"
        self.run("pg_ctl", "-D", self.home / name, "-w", "-o", options, "-l", log, "start")

    def stop(self, name: str) -> None:
        """Stop one of both as a crash would."""
        self.run("pg_ctl", "-D", self.home / name, "-w", "-m", "immediate", "stop")

    def promote(self) -> None:
        """Let the standby become a primary of its own."""
        self.run("pg_ctl", "-D", self.home / "standby", "-w", "promote")


@contextmanager
def streaming() -> Iterator[Servers]:
    """Both servers running, the standby connected."""
    home = Path(tempfile.mkdtemp(prefix="evireform-standby-"))
    account = server_account(home / "data")
    account.give(home)
    home.chmod(0o755)
    servers = Servers(home, account, bin_for(account, home))
    initdb = ("-A", "trust", "-U", "owner", "-E", "UTF8", "--no-sync")
    try:
        servers.run("initdb", "-D", home / "primary", *initdb)
        servers.start("primary", PRIMARY_PORT)
        copied = ("-R", "-X", "stream", "-c", "fast", "--no-sync")
        servers.run("pg_basebackup", "-D", home / "standby", "-d", servers.primary_url, *copied)
        servers.start("standby", STANDBY_PORT)
        yield servers
    finally:
        for name in ("standby", "primary"):
            if (home / name / "postmaster.pid").exists():
                servers.stop(name)
        shutil.rmtree(home)
