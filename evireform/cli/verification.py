"""What an audit found, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from evireform.cli.render import counted, safe

if TYPE_CHECKING:
    from evireform.records import Finding, Verification


def verification(found: Verification) -> RenderableType:
    """One line when all is true; else every check that failed, with examples and what to do."""
    looked = f"{len(found.corpora)} corpora" if len(found.corpora) != 1 else "1 corpus"
    if not found.findings:
        return Text(f"{looked}: every row follows from what it derives from ({found.seconds:.1f} s)", "green")
    return Group(*(line for finding in found.findings for line in _lines(finding)))


def _lines(finding: Finding) -> list[Text]:
    place = (safe(finding.corpus, "cyan"), ": ") if finding.corpus else ()
    state = ("mended", "green") if finding.mended else ("wrong", "bold red")
    lines = [Text.assemble(*place, f"{finding.check}: {counted(finding.wrong, 'row')} ", state)]
    lines += [Text.assemble("  ", safe(example, "dim")) for example in finding.examples]
    if finding.wrong > len(finding.examples):
        lines.append(Text(f"  and {finding.wrong - len(finding.examples)} more", "dim"))
    if finding.remedy:
        lines.append(Text.assemble("  ", safe(finding.remedy)))
    return lines
