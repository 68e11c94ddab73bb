"""The system user that runs the server's programs: oneself, or for root an unprivileged account."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evireform.errors import EmbeddedServerError

if sys.platform != "win32":
    import pwd

_UNPRIVILEGED = ("postgres", "nobody")
"""Accounts that root takes, in this order: `postgres` exists to own databases, `nobody` is everywhere."""

_PASSED_ON = ("PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""All that the programs see of our environment: no `PG*` setting, no locale, no API key."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended: its exit code and what it printed on both streams."""

    code: int
    output: str


@dataclass(frozen=True, slots=True)
class Account:
    """A system user; ``foreign`` when it is not the user of this process, which then is root."""

    name: str
    uid: int
    gid: int
    foreign: bool

    def run(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        typed: str = "",
        pass_fds: Sequence[int] = (),
    ) -> Finished:
        """Run a program as this user, in a session of its own, and wait for it.

        The output goes through a file: a server that the program leaves behind would keep a pipe open.

        Raises:
            EmbeddedServerError: the program cannot be executed.
        """
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        with tempfile.TemporaryFile() as typed_file, tempfile.TemporaryFile() as output_file:
            typed_file.write(typed.encode())
            typed_file.seek(0)
            try:
                code = subprocess.run(
                    command,
                    cwd=cwd,
                    env={**kept, "LC_ALL": "C", **(environment or {})},
                    stdin=typed_file,
                    stdout=output_file,
                    stderr=subprocess.STDOUT,
                    pass_fds=pass_fds,
                    start_new_session=True,
                    umask=0o077,
                    user=self.uid if self.foreign else None,
                    group=self.gid if self.foreign else None,
                    extra_groups=[] if self.foreign else None,
                    check=False,
                ).returncode
            except OSError as exc:
                raise EmbeddedServerError(
                    f"{command[0]} cannot be run as user {self.name!r}: {exc.strerror}"
                ) from exc
            output_file.seek(0)
            output = output_file.read().decode(errors="replace")
        if code < 0:
            output += f"ended by signal {signal.Signals(-code).name}\n"
        return Finished(code, output)

    def first_closed(self, folder: Path) -> Path | None:
        """The topmost folder on the way to ``folder`` that this user may not enter, or None."""
        way = [*reversed(folder.parents), folder]
        script = 'for d do cd -- "$d" 2>/dev/null || { printf %s "$d"; exit; }; done'
        finished = self.run(["/bin/sh", "-c", script, "sh", *way], cwd=Path("/"))
        return Path(finished.output) if finished.output else None

    def reads(self, *paths: Path) -> bool:
        """Whether this user may read every one of these files."""
        script = 'for f do [ -r "$f" ] || exit 1; done'
        return self.run(["/bin/sh", "-c", script, "sh", *paths], cwd=Path("/")).code == 0

    def owns(self, path: Path) -> bool:
        """Whether a real folder of this user is there that nobody else may enter."""
        return (
            path.is_dir()
            and not path.is_symlink()
            and path.stat().st_uid == self.uid
            and (path.stat().st_mode & 0o077 == 0)
        )

    def give(self, path: Path) -> None:
        """Make this user the owner of a file or folder that we just created."""
        if self.foreign:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def server_account(data: Path) -> Account:
    """The user that runs the server of a data directory: its owner, before it exists the one to be.

    Raises:
        EmbeddedServerError: the user has no name in the system (PostgreSQL needs one), or as root there is no
            unprivileged account, or the data directory belongs to root or, without being root, to another.
    """
    me = os.geteuid()
    if data.exists():
        owner = data.stat().st_uid
        if owner not in (me, 0) and me != 0:
            raise EmbeddedServerError(
                f"{data} belongs to another user: set EVIREFORM_HOME to a folder of yours"
            )
        if owner == 0:
            raise EmbeddedServerError(
                f"{data} belongs to root, whom PostgreSQL refuses: set EVIREFORM_HOME elsewhere"
            )
        return _named(owner, foreign=me == 0)
    if me != 0:
        return _named(me, foreign=False)
    for name in _UNPRIVILEGED:
        try:
            return _named(pwd.getpwnam(name).pw_uid, foreign=True)
        except KeyError:
            continue
    raise EmbeddedServerError(
        f"PostgreSQL refuses to run as root and there is no user {' or '.join(_UNPRIVILEGED)}: "
        "run as an ordinary user, or give a database URL"
    )


def _named(uid: int, *, foreign: bool) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError as exc:
        raise EmbeddedServerError(
            f"user id {uid} has no name in this system, and PostgreSQL needs one: "
            "add it to /etc/passwd, run as another user, or give a database URL"
        ) from exc
    return Account(entry.pw_name, uid, entry.pw_gid, foreign)
