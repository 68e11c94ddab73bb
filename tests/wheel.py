"""The package as users get it: built, and unpacked away from the source tree."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def build(folder: Path) -> tuple[Path, Path]:
    """Make the source distribution, and the wheel from it, without the network; returns both."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return source, wheel


class Installed:
    """A wheel unpacked into a folder, as pip would, with the environment's dependencies beside it."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        self.folder = folder
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run Python on the unpacked wheel, in its folder's parent; fails when the program does."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("EVIREFORM_")}
        return subprocess.run(
            [sys.executable, *arguments],
            check=True,
            capture_output=True,
            text=True,
            cwd=self.folder.parent,
            env={**inherited, "PYTHONPATH": str(self.folder), "PYTHONSAFEPATH": "1", **environment},
        )
