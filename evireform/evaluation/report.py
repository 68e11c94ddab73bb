"""A study as a report for people: ``report.md`` with its figures, and ``report.html``, which is one file.

The Markdown is made from the study alone and, for the funnels, from the outcomes in its folder; the HTML is
the same Markdown rendered, with the figures inside it and nothing to fetch. Neither holds the text of a
question or passage. The same study gives the same bytes.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from markdown_it import MarkdownIt

from evireform.evaluation import funnel, plots
from evireform.evaluation.files import read_outcomes, read_questions, write_whole
from evireform.evaluation.records import (
    PAIRED,
    Column,
    Difference,
    MethodResult,
    Plot,
    Series,
    Study,
    Unit,
    Value,
)

FIGURES = "figures"

_MEASURES = (
    "recall@1", "recall@5", "recall@10", "recall@20", "chain@5", "chain@10", "hit@5", "f1", "em",
)  # fmt: skip
"""Columns of the table of measures, where there is such a figure."""

_SPLIT_MEASURES = ("recall@5", "chain@5")
"""Measures that are shown by hops and by kind."""

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$#])")

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>$title</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #111; background: #fff; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.2rem; border-bottom: 1px solid #999; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; display: block; overflow-x: auto; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ccc; white-space: nowrap; }
th { border-bottom: 2px solid #111; text-align: left; white-space: normal; vertical-align: bottom; }
tr td:first-child { font-weight: 600; }
img { max-width: 100%; height: auto; }
pre { background: #f3f3f3; padding: .6rem; overflow-x: auto; font-size: 12px; }
</style>
</head>
<body>
$body</body>
</html>
""")


def write(study: Study, directory: Path) -> None:
    """Write ``report.md``, ``report.html`` and ``figures/`` into the folder of a study.

    Without the package that draws (the extra ``evaluation``), there are tables only, and the report says so.

    Args:
        study: The study.
        directory: Its folder. With outcomes and questions in it, the report says why passages were missed.

    Raises:
        UsageError: a file cannot be written.
        InputError: the outcomes are malformed.
    """
    page = _Page(drawable=plots.drawable())
    _fill(page, study, funnels(study, directory))
    text = "\n".join(page.lines) + "\n"
    for old in (directory / FIGURES).glob("[0-9][0-9]-*.svg"):
        if old.name not in page.images:
            old.unlink()
    for name, image in page.images.items():
        write_whole(directory / FIGURES / name, image.decode())
    write_whole(directory / "report.md", text)
    write_whole(directory / "report.html", as_html(text, page.images, title=_title(study)))


def funnels(study: Study, directory: Path) -> dict[str, funnel.Funnel]:
    """Method to its funnel, under the main condition; empty where the folder holds no outcomes.

    Only methods that search propositions have one; a method that changes settings (``full@alpha=0.25``) is
    left out where the plain one is there.
    """
    if not (directory / "questions.jsonl").is_file():
        return {}
    gold = {question.key: question.gold for question in read_questions(directory)}
    main = study.conditions[0].label if study.conditions else ""
    results = {result.method: result for result in study.results if result.condition == main}
    counted = {}
    for method, result in results.items():
        plain_one, changed, _ = method.partition("@")
        if (changed and plain_one in results) or not (directory / result.outcomes).is_file():
            continue
        paths = (
            path
            for outcome in read_outcomes(directory, result)
            for path in funnel.of_outcome(outcome, gold.get(outcome.question, ()))
        )
        if (found := funnel.summed(paths)).stages["gold"]:
            counted[method] = found
    return counted


def as_html(markdown: str, images: Mapping[str, bytes], *, title: str) -> str:
    """A report's Markdown as one HTML page that fetches nothing.

    Args:
        markdown: The report. Raw HTML in it is shown as text.
        images: Name in ``figures/`` to SVG; images of the report that are here stand in the page.
        title: Title of the page.
    """
    renderer = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = renderer.parse(markdown)
    for token in tokens:
        for child in token.children or ():
            if child.type == "image" and isinstance(source := child.attrs.get("src"), str):
                name = source.removeprefix(f"{FIGURES}/")
                if name in images:
                    encoded = base64.b64encode(images[name]).decode()
                    child.attrs["src"] = f"data:image/svg+xml;base64,{encoded}"
    body = renderer.renderer.render(tokens, renderer.options, {})
    return _PAGE.substitute(title=html.escape(title), body=body)


def plain(text: str) -> str:
    """Foreign text in Markdown: on one line, every character for itself.

    >>> print(plain("a|b *c*"))
    a\\|b \\*c\\*
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def table(columns: Sequence[Column], rows: Iterable[Sequence[Value]]) -> list[str]:
    """A table in Markdown; figures to the right."""
    head = " | ".join(plain(plots.measure_name(column.name)) for column in columns)
    rule = " | ".join("---" if column.unit == "text" else "---:" for column in columns)
    body = (
        " | ".join(cell(value, column.unit) for value, column in zip(row, columns, strict=True))
        for row in rows
    )
    return [f"| {line} |" for line in (head, rule, *body)]


def cell(value: Value, unit: Unit) -> str:
    """A figure as it is written: shares in percent, differences in points with their sign.

    >>> cell(0.5, "share"), cell(-0.0125, "points"), cell(3, "count"), cell(None, "share")
    ('50.0', '-1.25', '3', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, str) or unit == "text":
        return plain(str(value))
    match unit:
        case "share":
            return f"{100 * value:.1f}"
        case "points":
            return f"{100 * value:+.2f}"
        case "count":
            return f"{value:,.0f}"
        case "seconds":
            return f"{value:,.1f}" if value >= 10 else f"{value:.3f}"
        case _:
            return f"{value:,.1f}"


@dataclass(slots=True)
class _Page:
    """What is written so far: lines of Markdown, and figures by name."""

    drawable: bool
    lines: list[str] = field(default_factory=list)
    images: dict[str, bytes] = field(default_factory=dict)

    def add(self, *paragraphs: str) -> None:
        for paragraph in paragraphs:
            self.lines += [paragraph, ""]

    def add_table(self, columns: Sequence[Column], rows: Iterable[Sequence[Value]]) -> None:
        self.lines += [*table(columns, rows), ""]

    def add_plot(self, plot: Plot) -> None:
        if self.drawable and any(series.y for series in plot.series):
            self._add_image(plot.title, plots.draw(plot), plots.alt_text(plot))

    def add_differences(self, title: str, differences: Sequence[Difference]) -> None:
        if self.drawable:
            image = plots.draw_differences(differences)
            self._add_image(title, image, plots.alt_text_of_differences(differences))

    def _add_image(self, title: str, image: bytes, alt: str) -> None:
        stem = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        name = f"{len(self.images) + 1:02d}-{stem[:60]}.svg"
        self.images[name] = image
        self.add(f"![{plain(alt)}]({FIGURES}/{name})")


def _fill(page: _Page, study: Study, counted: Mapping[str, funnel.Funnel]) -> None:
    page.add(f"# {plain(_title(study))}")
    unjudged = f", {study.unjudged} of them without gold passages" if study.unjudged else ""
    page.add(
        f"{study.questions} questions{unjudged}; titles {plain(study.titles)}. "
        "Figures are percent, differences percentage points, unless said otherwise."
    )
    if study.shortfalls:
        page.add("**These are not the figures of the whole set:**")
        page.lines += [*(f"- {plain(text)}." for text in study.shortfalls), ""]
    if not page.drawable:
        page.add(
            "There are no plots: they need the extra `evaluation` (`pip install 'evireform[evaluation]'`)."
        )
    _measures(page, study)
    _differences(page, study)
    titles = [plot.title for plot in study.plots] + [item.title for item in study.tables]
    for title in dict.fromkeys(titles):
        _findings(page, study, title)
    _split(page, study, "by_hops", "By number of hops", "hops")
    _split(page, study, "by_kind", "By kind of question", "kind")
    _why(page, study, counted)
    _cost(page, study)
    _notes(page, study)
    _again(page, study)


def _title(study: Study) -> str:
    return f"{study.title}: {study.dataset}"


def _measures(page: _Page, study: Study) -> None:
    shown = [name for name in _MEASURES if any(name in result.means for result in study.results)]
    if not shown:
        return
    page.add("## Measures")
    page.add_table(
        [
            *_heads(study),
            *(Column(name=plots.measure_name(name), unit="share") for name in shown),
            Column(name="degraded", unit="count"),
        ],
        [
            (*_named(study, result), *(result.means.get(name) for name in shown), result.degraded)
            for result in study.results
        ],
    )


def _heads(study: Study) -> list[Column]:
    """The columns that name a result: the method, and the condition where there are several."""
    names = ("condition", "method") if len(study.conditions) > 1 else ("method",)
    return [Column(name=name, unit="text") for name in names]


def _named(study: Study, result: MethodResult) -> tuple[str, ...]:
    return (result.condition, result.method) if len(study.conditions) > 1 else (result.method,)


def _differences(page: _Page, study: Study) -> None:
    if not study.differences:
        return
    page.add(
        "## Paired differences",
        "Method minus the one that it is compared with, over the same questions, with the 95 % interval of a "
        "paired bootstrap. Better and worse count questions.",
    )
    columns = [
        Column(name="method", unit="text"),
        Column(name="against", unit="text"),
        Column(name="measure", unit="text"),
        *PAIRED,
    ]
    page.add_table(
        columns,
        [
            (
                item.method, item.against, plots.measure_name(item.measure), item.difference, item.low,
                item.high, "yes" if item.significant else "no", item.better, item.worse,
            )
            for item in study.differences
        ],
    )  # fmt: skip
    for measure in dict.fromkeys(item.measure for item in study.differences):
        same = [item for item in study.differences if item.measure == measure]
        page.add_differences(f"differences {measure}", same)


def _findings(page: _Page, study: Study, title: str) -> None:
    """The plots and tables of one title."""
    page.add(f"## {plain(title)}")
    for plot in study.plots:
        if plot.title == title:
            page.add_plot(plot)
    for item in study.tables:
        if item.title == title:
            page.add_table(item.columns, item.rows)
            if item.note:
                page.add(plain(item.note))


def _split(page: _Page, study: Study, attribute: str, title: str, name: str) -> None:
    """Measures of the main condition for each group of questions."""
    main = study.conditions[0].label if study.conditions else ""
    results = [result for result in study.results if result.condition == main]
    parts: dict[str, Mapping[str, Mapping[str, float]]] = {
        result.method: getattr(result, attribute) for result in results
    }
    groups = sorted({group for groups in parts.values() for group in groups})
    if len(groups) < 2:
        return
    page.add(f"## {title}")
    asked = {group: value["questions"] for groups_ in parts.values() for group, value in groups_.items()}
    under = f" Under the condition {plain(main)}." if len(study.conditions) > 1 else ""
    page.add("; ".join(f"{plain(group)}: {asked[group]:.0f} questions" for group in groups) + "." + under)
    for measure in _SPLIT_MEASURES:
        if not any(measure in of for groups_ in parts.values() for of in groups_.values()):
            continue
        columns = [Column(name=f"{plots.measure_name(measure)} by {name}", unit="text")]
        columns += [Column(name=group, unit="share") for group in groups]
        page.add_table(
            columns,
            [(method, *(of.get(group, {}).get(measure) for group in groups)) for method, of in parts.items()],
        )


def _why(page: _Page, study: Study, counted: Mapping[str, funnel.Funnel]) -> None:
    if not counted:
        return
    several = len(study.conditions) > 1
    under = f", under the condition {plain(study.conditions[0].label)}" if several else ""
    page.add(
        "## Why gold passages were missed",
        f"Gold passages of all questions{under}, by how far they came. A passage is observed when a "
        "proposition of it was selected; propagation may rank passages that were never in hand.",
    )
    first = Column(name="method", unit="text")
    page.add_table(
        [first, *(Column(name=text, unit="count") for text in funnel.STAGES.values())],
        [(method, *item.stages.values()) for method, item in counted.items()],
    )
    page.add_plot(
        Plot(
            title="Funnel of the gold passages",
            kind="bars",
            x_label="how far they came",
            y_label="gold passages",
            series=tuple(
                Series(
                    label=method,
                    x=("candidates", "C_0", "observed", "observed or found", "ranked", "first 5"),
                    y=tuple(
                        item.stages[stage] / item.stages["gold"]
                        for stage in ("candidates", "initial", "observed", "in hand", "ranked", "first")
                    ),
                )
                for method, item in list(counted.items())[:6]
            ),
        )
    )
    page.add(
        f"The missed ones (below rank {funnel.PRIMARY_K}), by where they were lost:",
    )
    page.add_table(
        [
            first,
            Column(name="missed", unit="count"),
            *(Column(name=fate, unit="count") for fate in funnel.FATES),
        ],
        [(method, item.missed, *item.fates.values()) for method, item in counted.items()],
    )
    page.lines += [f"- {fate}: {meaning}." for fate, meaning in funnel.FATES.items()]
    page.lines.append("")


def _cost(page: _Page, study: Study) -> None:
    if not study.results:
        return
    page.add("## Cost of a question", "Means. Seconds differ from run to run; all else does not.")
    kinds: dict[str, Unit] = {
        "model_calls": "mean",
        "tokens_in": "mean",
        "tokens_out": "mean",
        "seconds": "seconds",
    }
    page.add_table(
        [*_heads(study), *(Column(name=name.replace("_", " "), unit=unit) for name, unit in kinds.items())],
        [(*_named(study, result), *(result.cost.get(name) for name in kinds)) for result in study.results],
    )


def _notes(page: _Page, study: Study) -> None:
    if study.notes:
        page.add("## Notes")
        page.lines += [f"- {plain(note)}" for note in study.notes]
        page.lines.append("")


def _again(page: _Page, study: Study) -> None:
    """Everything that it takes to run the study again."""
    page.add("## To run it again", f"`evireform evaluate DIR {study.command}`")
    text = Column(name="", unit="text")
    if study.conditions:
        page.add_table(
            [
                Column(name="condition", unit="text"),
                Column(name="corpus", unit="text"),
                Column(name="passages", unit="count"),
                Column(name="embedding", unit="text"),
                Column(name="corpus digest", unit="text"),
            ],
            [(c.label or "–", c.corpus, c.passages, c.embedding, c.corpus_digest) for c in study.conditions],
        )
    rows = [("model", *row) for row in sorted(study.models.items())]
    rows += [("version", *row) for row in sorted(study.versions.items())]
    rows += [("seed", name, str(seed)) for name, seed in sorted(study.seeds.items())]
    if rows:
        page.add_table([Column(name="what", unit="text"), Column(name="name", unit="text"), text], rows)
    settings = json.dumps(study.settings, indent=2, sort_keys=True, ensure_ascii=False, default=str)
    page.add("Search settings that the methods start from:", f"```json\n{settings}\n```")
