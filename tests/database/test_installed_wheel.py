"""An installed wheel makes the tables by itself: migrations, functions and views come from inside it."""

from __future__ import annotations

import json
from pathlib import Path

from evireform.store.revisions import known_revisions
from tests.wheel import Installed, build


def test_an_installed_wheel_creates_the_tables(empty_database_url: str, tmp_path: Path) -> None:
    _, wheel = build(tmp_path)
    installed = Installed(wheel, tmp_path / "site")
    where = installed.run("-c", "import evireform; print(evireform.__file__)").stdout
    finished = installed.run("-m", "evireform", "init", "--json", EVIREFORM_DATABASE_URL=empty_database_url)
    assert Path(where.strip()).is_relative_to(installed.folder)
    assert json.loads(finished.stdout)["migrated_to"] == known_revisions()[-1]
