"""`evireform.evaluation.report` and `plots`: what a study says is there, however it is named, and no more."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from evireform.evaluation import files, funnel, plots, report
from evireform.evaluation.records import Outcome, Plot, Pools, Series
from evireform.records import Question
from tests.unit.studies import result, study


class Page(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def written(folder: Path, **changes: Any) -> tuple[str, str]:
    report.write(study(**changes), folder)
    return (folder / "report.md").read_text("utf-8"), (folder / "report.html").read_text("utf-8")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the study as `study` makes it."""
    folder = tmp_path_factory.mktemp("report")
    written(folder)
    return folder


@pytest.fixture
def markdown(plain: Path) -> str:
    return (plain / "report.md").read_text("utf-8")


@pytest.fixture
def page(plain: Path) -> str:
    return (plain / "report.html").read_text("utf-8")


def keep_outcomes(folder: Path, *outcomes: Outcome, method: str = "full") -> None:
    """The files of a study of which the funnels are made."""
    questions = [Question(key=one.question, text="Who?", gold=("g1", "g2")) for one in outcomes]
    files.write_questions(folder, questions)
    lines = "".join(files.to_json(one) + "\n" for one in outcomes)
    files.write_whole(folder / "outcomes" / f"{method}.jsonl", lines)


def test_measures_are_percent_and_differences_points(markdown: str) -> None:
    assert "| method | R@1 | R@5 | R@10 | Chain@5 | Hit@5 | degraded |" in markdown
    assert "| full | 30.0 | 86.0 | 90.0 | 70.0 | 100.0 | 0 |" in markdown
    assert "| full | propagation | R@5 | +6.00 | +2.00 | +10.00 | yes | 9 | 4 |" in markdown
    assert "| reformulation | propagation | R@5 | -2.00 | -6.00 | +2.00 | no | 9 | 4 |" in markdown


def test_the_report_says_how_to_run_it_again(markdown: str) -> None:
    assert "`evireform evaluate DIR --study ablation --titles on`" in markdown
    for said in (
        "abc123",
        "| version | evireform | 0.1.0 |",
        "| seed | bootstrap | 202707 |",
        '"alpha": 0.5',
    ):
        assert said in markdown


def test_questions_by_hops_are_shown_and_one_kind_alone_is_not(markdown: str) -> None:
    assert "## By number of hops\n\n2: 30 questions; 3: 10 questions." in markdown
    assert "| R@5 by hops | 2 | 3 |" in markdown
    assert "| full | 86.0 | 76.0 |" in markdown
    assert "By kind" not in markdown


def test_several_conditions_are_told_apart(tmp_path: Path) -> None:
    one = study().conditions[0]
    markdown, _ = written(
        tmp_path,
        conditions=(replace(one, label="small"), replace(one, label="large")),
        results=(result("full", 0.8, 0.5, condition="small"), result("full", 0.9, 0.6, condition="large")),
    )
    assert "| small | full | 30.0 | 80.0 |" in markdown
    assert "| large | full | 30.0 | 90.0 |" in markdown


def test_the_same_study_gives_the_same_bytes(plain: Path, tmp_path: Path) -> None:
    report.write(study(), tmp_path)
    first, second = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")}
        for folder in (plain, tmp_path)
    )
    assert first == second
    assert len(first) == 6


def test_the_page_fetches_nothing(page: str) -> None:
    sources = [
        value
        for _, attributes in Page(page).tags
        for name, value in attributes.items()
        if name in ("src", "href")
    ]
    assert len(sources) == 4
    assert all(value and value.startswith("data:image/svg+xml;base64,") for value in sources)
    assert "<script" not in page
    assert not re.search(r"url\(|@import", page)


def test_every_figure_has_a_text_in_its_place(page: str) -> None:
    texts = [attributes["alt"] for tag, attributes in Page(page).tags if tag == "img"]
    assert texts == [
        "Differences of R@5 in points with their intervals. full against propagation: +6.00 [2.00, 10.00]; "
        "full against reformulation: +8.00 [3.00, 13.00]; "
        "reformulation against propagation: -2.00 [-6.00, 2.00].",
        "Lines of R@5, % over alpha. full (0.25: 81, …, 0.75: 84); propagation (0.25: 78, …, 0.75: 79); "
        "residual-only (0.25: 74, …, 0.75: 76).",
        "Lines of R@5, % over passages. full (1200: 90, …, 6000: 87.8); dense (1200: 80, …, 6000: 72).",
        "Bars of share, % over pool. gold passages (C_0: 72, C_+: 91); complete chains (C_0: 50, C_+: 80).",
    ]


HOSTILE = "<script>alert('x')</script> | *a* [b](http://example.org) `c` &amp; $d$ \\ # ~"


def test_foreign_text_stays_text(tmp_path: Path) -> None:
    base = study()
    _, page = written(
        tmp_path,
        dataset=HOSTILE,
        notes=(HOSTILE, "two\n\n# lines"),
        results=(replace(base.results[0], method=HOSTILE, by_hops={}),),
        models={"embedding": HOSTILE},
        plots=(replace(base.plots[0], title=HOSTILE, y_label=HOSTILE),),
    )
    parsed = Page(page)
    tags = {tag for tag, _ in parsed.tags}
    assert tags & {"script", "a", "em"} == set()
    assert parsed.text.count(HOSTILE) >= 5
    assert sum(tag == "h1" for tag, _ in parsed.tags) == 1
    assert "two # lines" in parsed.text


def test_figures_are_whole_svg_without_a_date(plain: Path) -> None:
    figures = sorted((plain / "figures").iterdir())
    assert [path.name for path in figures] == [
        "01-differences-recall-5.svg",
        "02-sensitivity-to-alpha.svg",
        "03-growth-of-the-corpus.svg",
        "04-coverage-of-the-pools.svg",
    ]
    for path in figures:
        assert ET.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
        assert "<dc:date>" not in path.read_text("utf-8")


def test_lines_differ_without_colour() -> None:
    svg = plots.draw(study().plots[0]).decode()
    assert len(set(re.findall(r"stroke-dasharray: ([^;\"]+)", svg))) >= 2
    colours = {colour for colour in re.findall(r"#[0-9a-f]{6}", svg)}
    assert all(colour[1:3] == colour[3:5] == colour[5:7] for colour in colours)


def test_bars_are_grey_and_one_of_every_group_is_there() -> None:
    svg = plots.draw(study().plots[2]).decode()
    assert all(f">{value}<" in svg for value in ("72", "91", "50", "80"))
    colours = set(re.findall(r"#[0-9a-f]{6}", svg))
    assert all(colour[1:3] == colour[3:5] == colour[5:7] for colour in colours)


def test_only_shares_are_drawn_as_percent() -> None:
    plot = Plot(
        title="Cost", kind="lines", x_label="passages", y_label="seconds", unit="seconds",
        series=(Series(label="full", x=(1.0, 2.0), y=(0.5, 0.25)),),
    )  # fmt: skip
    assert plots.alt_text(plot) == "Lines of seconds over passages. full (1: 0.5, 2: 0.25)."
    assert (
        plots.alt_text(replace(plot, unit="share"))
        == "Lines of seconds, % over passages. full (1: 50, 2: 25)."
    )


def test_lines_over_names_share_their_places() -> None:
    plot = Plot(
        title="Models", kind="lines", x_label="model", y_label="R@5",
        series=(Series(label="a", x=("m1", "m2"), y=(0.1, 0.2)), Series(label="b", x=("m2",), y=(0.3,))),
    )  # fmt: skip
    svg = plots.draw(plot).decode()
    assert svg.count(">m1<") == svg.count(">m2<") == 1


def test_without_the_drawing_package_there_are_tables_and_a_word_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "drawable", lambda: False)
    markdown, page = written(tmp_path)
    assert "There are no plots: they need the extra `evaluation`" in markdown
    assert "| full | 30.0 | 86.0 |" in markdown
    assert "<img" not in page
    assert not (tmp_path / "figures").exists()


def test_the_funnel_counts_the_outcomes_of_the_folder(tmp_path: Path) -> None:
    pools = Pools(candidates=("g1", "x"), observed=("g1",))
    keep_outcomes(
        tmp_path,
        Outcome(question="q1", passages=(("g1", 0.5), ("g2", 0.4)), pools=pools),
        Outcome(question="q2", passages=(("g1", 0.5),), pools=pools),
    )
    markdown, _ = written(tmp_path)
    assert "| full | 4 | 2 | 2 | 2 | 2 | 1 | 3 | 3 |" in markdown
    assert "| full | 1 | 1 | 0 | 0 | 0 | 0 | 0 |" in markdown
    assert (tmp_path / "figures" / "05-funnel-of-the-gold-passages.svg").is_file()


@pytest.mark.parametrize(
    ("methods", "shown"), [(("full", "full@alpha=1"), ["full"]), (("full@alpha=1",), ["full@alpha=1"])]
)
def test_a_changed_setting_has_a_funnel_only_where_the_plain_method_has_none(
    tmp_path: Path, methods: tuple[str, ...], shown: list[str]
) -> None:
    for method in methods:
        keep_outcomes(tmp_path, Outcome(question="q1", pools=Pools(candidates=("g1",))), method=method)
    made = study(results=tuple(result(method, 0, 0) for method in methods))
    assert list(report.funnels(made, tmp_path)) == shown


def test_figures_of_an_earlier_report_do_not_stay(tmp_path: Path) -> None:
    written(tmp_path)
    written(tmp_path, plots=())
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["01-differences-recall-5.svg"]


def test_methods_that_search_no_propositions_have_no_funnel(tmp_path: Path) -> None:
    keep_outcomes(tmp_path, Outcome(question="q1", passages=(("g1", 0.5),)))
    assert report.funnels(study(), tmp_path) == {}


def test_neither_file_holds_what_was_asked(tmp_path: Path) -> None:
    keep_outcomes(tmp_path, Outcome(question="q1", pools=Pools(candidates=("g1",))))
    markdown, page = written(tmp_path)
    assert "Who?" not in markdown + page


def test_a_study_of_answers_alone_shows_them(tmp_path: Path) -> None:
    answered = replace(result("direct", 0, 0), means={"f1": 0.5, "em": 0.25}, by_hops={})
    markdown, _ = written(tmp_path, results=(answered,), differences=(), tables=(), plots=())
    assert "| method | F1 | EM | degraded |" in markdown
    assert "| direct | 50.0 | 25.0 | 0 |" in markdown


def test_funnels_count_each_stage_once() -> None:
    path = funnel.gold_paths(Pools(candidates=("a",), observed=("a",), found=("a",)), ["a"], ["a"])
    assert funnel.summed(path).stages == {**dict.fromkeys(funnel.STAGES, 1), "propagation": 0}
