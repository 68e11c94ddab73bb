"""Who uses the server: processes share it by file locks, objects within a process by a count.

Two lock files in the home: whoever starts or stops the server holds ``gate.lock`` alone while doing so; each
process that uses it holds ``users.lock`` shared. A process that lets go tries, under the gate, to lock the
latter alone: only the last can, and it stops the server. The kernel drops the locks of a killed process.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from evireform.embedded.binaries import installed_bin
from evireform.embedded.cluster import TIMEOUT_S, Cluster
from evireform.errors import EmbeddedServerError, UsageError

if sys.platform != "win32":
    import fcntl


def default_home() -> Path:
    """Where the server lives unless told: the user's data folder, for root ``/var/lib/evireform``."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/evireform")
    import platformdirs

    return platformdirs.user_data_path("evireform", appauthor=False)


class EmbeddedServer:
    """A use of the PostgreSQL server in ``home``: started on demand, stopped by its last user.

    Any number of objects, threads and processes of one user may use the same home. A forked child uses
    nothing until it calls `start` itself.

    >>> with EmbeddedServer(Path("/tmp/my-index")) as server:  # doctest: +SKIP
    ...     url = server.start()  # once more is free; it restarts a server that was killed
    """

    def __init__(self, home: Path | None = None) -> None:
        """Say where the server lives; nothing is touched before `start`.

        Args:
            home: Its folder, made when missing; None takes `default_home`.

        Raises:
            UsageError: the path cannot be one of PostgreSQL's.
        """
        self.home = (home or default_home()).expanduser().resolve()
        if "\n" in str(self.home):
            raise UsageError("the embedded server's home must not have a line break in its path")
        self._cluster = Cluster(self.home)
        self._user_pid = 0  # the process in which this object uses the server

    def start(self) -> str:
        """Use the server until `stop` or the end of the process; returns its libpq URL.

        Raises:
            EmbeddedServerError: the programs are missing, the home cannot be used, or the server does not
                start; ``log`` holds the end of what it said.
        """
        if sys.platform == "win32":
            raise EmbeddedServerError(
                "the embedded server runs on Linux and macOS: give a database URL instead"
            )
        with _lock:
            first = self._user_pid != os.getpid()
            url = _use(self._cluster, more=int(first))
            self._user_pid = os.getpid()
        return url

    def stop(self) -> None:
        """Let go of the server; the last of its users stops it. Twice is as good as once.

        Raises:
            EmbeddedServerError: it does not stop.
        """
        with _lock:
            mine, self._user_pid = self._user_pid == os.getpid(), 0
            if mine:
                _let_go(self._cluster)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def running(self) -> bool:
        """Whether the server is up, whoever started it."""
        with _lock:  # no child may be forked while a lock is tried
            return self._cluster.running()

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the server's log."""
        return self._cluster.log_tail(lines)

    @property
    def bin_dir(self) -> Path:
        """Folder with `psql`, `pg_dump` and the other programs.

        Raises:
            EmbeddedServerError: they are not installed.
        """
        return installed_bin()


@dataclass(slots=True)
class _Hold:
    """This process's shared lock on one home, and how many objects rely on it."""

    cluster: Cluster
    users_fd: int
    count: int = 0


_holds: dict[Path, _Hold] = {}
_lock = threading.Lock()
_log = logging.getLogger(__name__)


@contextmanager
def _translated(home: Path) -> Iterator[None]:
    """The operating system's refusals, told as what to do."""
    try:
        yield
    except OSError as exc:
        raise EmbeddedServerError(
            f"{exc.filename or home} cannot be used ({exc.strerror or exc}): "
            "set EVIREFORM_HOME to a folder that you may write, on a disk with space"
        ) from exc


def _use(cluster: Cluster, *, more: int) -> str:
    """Count one more use (or none) of the cluster in this process, and have its server run."""
    with _translated(cluster.home):
        _make_home(cluster.home)
    with _translated(cluster.home), _gate(cluster.home):
        hold = _holds.get(cluster.home)
        if hold is None or not _is_still(hold.users_fd, cluster.home / "users.lock"):
            users_fd = _open(cluster.home / "users.lock")
            fcntl.flock(users_fd, fcntl.LOCK_SH)
            if hold:
                os.close(hold.users_fd)
                hold.users_fd = users_fd
            else:
                hold = _holds[cluster.home] = _Hold(cluster, users_fd)
        try:
            url = cluster.ensure_running()
        except BaseException:
            if hold.count == 0:
                _drop(hold)
            raise
        hold.count += more
    return url


def _let_go(cluster: Cluster) -> None:
    """Count one use less; at none, this process is no user any more."""
    hold = _holds.get(cluster.home)
    if hold is None:
        return
    hold.count -= 1
    if hold.count > 0:
        return
    if not cluster.home.exists():  # removed by its owner; the server notices by itself
        os.close(_holds.pop(cluster.home).users_fd)
        return
    with _translated(cluster.home), _gate(cluster.home):
        _drop(hold)


def _drop(hold: _Hold) -> None:
    """Give the shared lock back and, as the last, stop the server. Under the gate."""
    del _holds[hold.cluster.home]
    try:
        if not _is_still(hold.users_fd, hold.cluster.home / "users.lock"):
            return  # the home is a new one, with users of its own
        try:
            fcntl.flock(hold.users_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # others use it
        hold.cluster.stop()
    finally:
        os.close(hold.users_fd)


def _let_go_of_all() -> None:
    with _lock:
        for hold in list(_holds.values()):
            hold.count = 1
            try:
                _let_go(hold.cluster)
            except EmbeddedServerError as exc:
                _log.warning("%s", exc)


def _forget_in_child() -> None:
    """A forked child holds nothing: its copies of the locks would outlive the parent's."""
    for hold in _holds.values():
        os.close(hold.users_fd)
    _holds.clear()
    _lock.release()


atexit.register(_let_go_of_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget_in_child)


@contextmanager
def _gate(home: Path) -> Iterator[None]:
    gate_fd = _open(home / "gate.lock")
    try:
        deadline = time.monotonic() + TIMEOUT_S + 60
        while True:
            try:
                fcntl.flock(gate_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise EmbeddedServerError(
                        f"another process has been starting or stopping the server in {home} for too long: "
                        "end it, and try again"
                    ) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(gate_fd)


def _make_home(home: Path) -> None:
    """Make the home and the folders above it that are missing, as open as the server's user needs them.

    Raises:
        EmbeddedServerError: it is another user's.
    """
    as_root = os.geteuid() == 0
    for folder in [*reversed(home.parents), home]:
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            folder.chmod((0o711 if folder == home else 0o755) if as_root else 0o700)
    owner = home.stat().st_uid
    if owner != os.geteuid():
        raise EmbeddedServerError(
            f"{home} belongs to user {owner}: run as that user, or set EVIREFORM_HOME to a new folder"
        )


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def _is_still(fd: int, path: Path) -> bool:
    """Whether this is the file that the path names now (the home may have been removed and made anew)."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
