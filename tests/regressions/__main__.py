"""Run the commands of expected.yaml and print OK or the difference: ``python -m tests.regressions``."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.regressions.checks import conditions, differences, steps

DATA = Path(os.environ.get("EVIREFORM_DATA") or Path(__file__).parents[3] / "shared" / "data")


def main() -> int:
    """Every condition that was asked for; 1 where one differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.regressions", description=__doc__)
    parser.add_argument("words", nargs="*", help="only conditions whose name holds one of these words")
    parser.add_argument("--home", type=Path, help="a database to use; else a fresh one, which is what counts")
    asked = parser.parse_args()
    failed = 0
    with home_of(asked.home) as home:
        for condition in conditions():
            name = condition["condition"]
            if asked.words and not any(word in name for word in asked.words):
                continue
            if not all(path.exists() for path in needed(condition)):
                print(f"{name}: skipped, its files are not in EVIREFORM_DATA", flush=True)
                continue
            measured = run(condition, home)
            found = differences(condition, measured)
            failed += bool(found)
            print(f"{name}: {'OK' if not found else ''}", *found, sep="\n    " if found else "", flush=True)
            for measure in condition["holds"]:
                order = ", ".join(f"{step} {100 * ahead:+.2f}" for step, ahead in steps(measured, measure))
                print(f"    order by {measure}: {order}", flush=True)
    return 1 if failed else 0


@contextmanager
def home_of(given: Path | None) -> Iterator[Path]:
    """The folder of the embedded server: the given one, or one that goes at the end."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="evireform-regressions-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def arguments(condition: dict[str, Any]) -> list[str]:
    """The command with the folder of the data in it."""
    return shlex.split(condition["command"].format(data=shlex.quote(str(DATA))))


def needed(condition: dict[str, Any]) -> list[Path]:
    """Files and folders of the data that the command names."""
    return [Path(one) for one in arguments(condition) if Path(one).is_relative_to(DATA)]


def run(condition: dict[str, Any], home: Path) -> dict[str, dict[str, float]]:
    """The measures by method that the command prints."""
    with tempfile.TemporaryDirectory() as output:
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "evireform"),
                *arguments(condition),
                *("--json", "--home", str(home), "--output", output),
            ],
            stdout=subprocess.PIPE,
            check=True,
        )
    methods: dict[str, dict[str, float]] = json.loads(ended.stdout)["methods"]
    return methods


if __name__ == "__main__":
    sys.exit(main())
