"""The layers of settings, and the page that lists them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from evireform.cli.config import ConfigFile, find_file, load_settings, setting_types, variable
from evireform.errors import UsageError
from evireform.settings import CorpusSettings, Settings

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")


def file(**values: Any) -> ConfigFile:
    return ConfigFile(Path("project/evireform.toml"), values)


def alpha(flags: dict[str, str], environ: dict[str, str], toml: ConfigFile | None) -> float:
    return load_settings(flags, environ, toml).settings.search.alpha


def test_without_any_layer_everything_is_as_the_settings_say() -> None:
    assert load_settings({}, {}, None) == (Settings(), None, None, True, "")


def test_flags_come_before_environment_before_file() -> None:
    toml = file(search={"alpha": 0.1})
    environ = {"EVIREFORM_SEARCH_ALPHA": "0.2"}
    flags = {"search.alpha": "0.3"}
    assert [alpha({}, {}, toml), alpha({}, environ, toml), alpha(flags, environ, toml)] == [0.1, 0.2, 0.3]


def test_layers_join_key_by_key() -> None:
    toml = file(schema="wiki", search={"k": 7, "alpha": 1})
    settings = load_settings({"embedding.threads": "3"}, {"EVIREFORM_SEARCH_K": "9"}, toml).settings
    assert (settings.schema, settings.search.k, settings.search.alpha) == ("wiki", 9, 1.0)
    assert settings.embedding.threads == 3


CHOICES = {
    "embedding.backend": "openai",
    "language.backend": "openai",
    "language.budget": "200k",
    "language.unsupported": "drop",
    "search.reformulate": "off",
}


def default_of(key: str) -> Any:
    section, _, name = key.rpartition(".")
    return getattr(getattr(Settings(), section) if section else Settings(), name)


@pytest.mark.parametrize("key", setting_types())
def test_each_setting_can_be_given_by_its_variable(key: str) -> None:
    default = default_of(key)
    value: Any = CHOICES.get(key, "x")
    if not isinstance(default, str):
        value = {bool: not default, int: default + 1, float: default / 2}[type(default)]
    models = {"EVIREFORM_LANGUAGE_MODEL": "m", "EVIREFORM_EMBEDDING_BACKEND": "openai"}
    environ = models | {variable(key): str(value)}
    settings = load_settings({}, environ, None).settings
    section, _, name = key.rpartition(".")
    assert getattr(getattr(settings, section) if section else settings, name) == value


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("1", True), ("ON", True), ("no", False), ("0", False)]
)
def test_a_switch_may_be_spelled_in_the_usual_ways(text: str, value: bool) -> None:
    assert load_settings({"search.exact": text}, {}, None).settings.search.exact is value


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load_settings({}, {"EVIREFORM_SEARCH_K": "", "EVIREFORM_HOME": ""}, None) == load_settings(
        {}, {}, None
    )


@pytest.mark.parametrize(
    ("flags", "environ", "message"),
    [
        ({"search.k": "many"}, {}, "search.k must be a whole number, not 'many'"),
        ({"search.exact": "maybe"}, {}, "search.exact must be true or false, not 'maybe'"),
        ({}, {"EVIREFORM_SEARCH_ALPHA": "half"}, "EVIREFORM_SEARCH_ALPHA must be a number, not 'half'"),
        ({"search.alpha": "nan"}, {}, "alpha must lie between 0 and 1"),
        ({"search.speed": "9"}, {}, "no setting 'search.speed'"),
        ({"language.backend": "magic"}, {}, "language backend must be one of rules, openai"),
        ({"embedding.dimensions": "64"}, {}, "`embedding.dimensions` asks a server"),
        ({"home": ""}, {}, "home must be a folder, not ''"),
        ({"database_url": "postgresql://h/\0"}, {}, "NUL"),
    ],
)
def test_a_wrong_value_is_named(flags: dict[str, str], environ: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        load_settings(flags, environ, None)


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"colour": "red"}, "'colour'"),
        ({"search": {"speed": 9}}, "'search.speed'"),
        ({"serach": {"k": 9}}, "'serach'"),
        ({"search": 9}, "'search'"),
        ({"search": {"home": "x"}}, "'search.home'"),
    ],
)
def test_an_unknown_key_is_refused_with_its_file(values: dict[str, Any], key: str) -> None:
    with pytest.raises(UsageError, match=rf"evireform\.toml has an unknown key {key}"):
        load_settings({}, {}, file(**values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"search": {"k": "5"}}, "search.k in evireform.toml must be a whole number"),
        ({"search": {"k": True}}, "search.k in evireform.toml must be a whole number"),
        ({"search": {"exact": 1}}, "search.exact in evireform.toml must be true or false"),
        ({"schema": 5}, "schema in evireform.toml must be text"),
        ({"database_url": 5}, "database_url in evireform.toml must be text"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_its_file(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        load_settings({}, {}, file(**values))


def test_naming_a_model_turns_the_rules_off() -> None:
    found = load_settings({}, {"EVIREFORM_LANGUAGE_MODEL": "some-model"}, None)
    assert (found.settings.language.backend, found.rules_by_default) == ("openai", False)


def test_rules_that_were_asked_for_are_no_default() -> None:
    found = load_settings({"language.backend": "rules"}, {"EVIREFORM_LANGUAGE_MODEL": "some-model"}, None)
    assert (found.settings.language.backend, found.rules_by_default) == ("rules", False)


URL = "postgresql://user@host/database"


@pytest.mark.parametrize(
    ("flags", "environ", "values", "url"),
    [
        ({"database_url": URL}, {"EVIREFORM_DATABASE_URL": "other"}, {"database_url": "file"}, URL),
        ({}, {"EVIREFORM_DATABASE_URL": URL}, {"database_url": "file"}, URL),
        ({}, {"PGHOST": "host"}, {"database_url": URL}, URL),
        ({}, {"PGHOST": "host"}, {}, ""),
        ({}, {"PGSERVICE": "index"}, {}, ""),
        ({}, {"PGUSER": "someone"}, {}, None),
        ({}, {"EVIREFORM_DATABASE_URL": ""}, {"database_url": "file"}, ""),
        ({}, {"EVIREFORM_HOME": "folder", "EVIREFORM_DATABASE_URL": URL}, {}, URL),
        ({"home": "folder"}, {"EVIREFORM_DATABASE_URL": URL, "PGHOST": "host"}, {}, None),
    ],
)
def test_which_database_is_opened(
    flags: dict[str, str], environ: dict[str, str], values: dict[str, Any], url: str | None
) -> None:
    assert load_settings(flags, environ, file(**values)).url == url


@pytest.mark.parametrize(
    ("flags", "environ", "values", "read_url"),
    [
        ({}, {}, {}, ""),
        ({"read_url": URL}, {"EVIREFORM_READ_URL": "other"}, {"read_url": "file"}, URL),
        ({}, {"EVIREFORM_READ_URL": URL}, {"read_url": "file"}, URL),
        ({}, {"EVIREFORM_READ_URL": ""}, {"read_url": "file"}, "file"),
        ({"database_url": "other"}, {"EVIREFORM_READ_URL": URL}, {}, ""),
        ({"home": "folder"}, {}, {"read_url": URL}, ""),
        ({"database_url": "other", "read_url": URL}, {}, {}, URL),
    ],
)
def test_which_standby_answers_searches(
    flags: dict[str, str], environ: dict[str, str], values: dict[str, Any], read_url: str
) -> None:
    assert load_settings(flags, environ, file(**values)).read_url == read_url


def test_url_and_home_together_are_refused() -> None:
    with pytest.raises(UsageError, match="not both"):
        load_settings({"database_url": URL, "home": "folder"}, {}, None)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:hun@ter2@host/database",
        "postgresql://user:hun/ter2@host/database",
    ],
)
def test_an_unescaped_password_is_refused_without_saying_it(url: str) -> None:
    with pytest.raises(UsageError, match="%40") as caught:
        load_settings({}, {"EVIREFORM_DATABASE_URL": url}, None)
    assert "ter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///database?host=/run/postgresql",
        "postgresql://user:p%40ss@[::1]:5432,other:5433/database?user=a@b",
        "host=/run/postgresql dbname=a@b/c",
        "",
    ],
)
def test_other_urls_are_left_to_libpq(url: str) -> None:
    assert load_settings({"database_url": url}, {}, None).url == url


@pytest.mark.parametrize(
    ("flags", "environ", "home"),
    [
        ({"home": "a"}, {"EVIREFORM_HOME": "b"}, Path("a")),
        ({}, {"EVIREFORM_HOME": "b"}, Path("b")),
        ({}, {}, Path("project/c")),
    ],
)
def test_where_the_embedded_server_lives(flags: dict[str, str], environ: dict[str, str], home: Path) -> None:
    assert load_settings(flags, environ, file(home="c")).home == home


def test_the_nearest_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "evireform.toml").write_text("schema = 'far'")
    (tmp_path / "a" / "evireform.toml").write_text("schema = 'near'")
    found = find_file(tmp_path / "a" / "b")
    assert found is not None
    assert found.values == {"schema": "near"}


def test_a_given_file_comes_before_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "evireform.toml").write_text("schema = 'near'")
    (tmp_path / "other.toml").write_text("schema = 'given'")
    found = find_file(tmp_path, tmp_path / "other.toml")
    assert found is not None
    assert found.values == {"schema": "given"}


def test_a_given_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.toml cannot be read: No such file"):
        find_file(tmp_path, tmp_path / "absent.toml")


@pytest.mark.parametrize("content", [b"schema = ", b"schema = '\xff'"])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "evireform.toml").write_bytes(content)
    with pytest.raises(UsageError, match=r"^evireform\.toml is not a TOML file"):
        find_file(tmp_path)


@pytest.mark.parametrize("key", ["database_url", "read_url", "schema", "tenant", "language.model"])
def test_text_that_is_not_utf8_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match="is not valid UTF-8"):
        load_settings({key: "a\udcff"}, {}, None)
    with pytest.raises(UsageError, match="is not valid UTF-8"):
        load_settings({}, {variable(key): "a\udcff"}, None)


@pytest.mark.parametrize("key", ["home", "embedding.model", "language.prices"])
def test_a_path_may_hold_any_byte(key: str) -> None:
    assert load_settings({key: "a\udcff"}, {}, None)


@pytest.mark.parametrize("key", setting_types())
def test_the_page_gives_each_setting_with_its_variable_and_default(key: str) -> None:
    default = default_of(key)
    shown = {True: "true", False: "false"}[default] if isinstance(default, bool) else default
    row = next(line for line in PAGE.splitlines() if f"`{variable(key)}`" in line)
    assert f"`{key}`" in row
    assert f"`{shown}`" in row or (default == "" and "empty" in row)


@pytest.mark.parametrize("name", [field.name for field in fields(CorpusSettings)])
def test_the_page_names_what_a_corpus_fixes(name: str) -> None:
    assert f"`{name}`" in PAGE
    assert f"`--{name}`" in PAGE


def test_the_example_of_the_page_is_valid() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    found = load_settings({}, {}, ConfigFile(Path("evireform.toml"), tomllib.loads(example)))
    assert found.settings.search.k == 10
    assert found.settings.language.backend == "openai"


def test_a_price_file_named_in_a_file_is_relative_to_it() -> None:
    settings = load_settings({}, {}, file(language={"prices": "prices.toml"})).settings
    assert Path(settings.language.prices) == Path("project/prices.toml")


def test_a_price_file_of_a_flag_is_taken_as_it_is() -> None:
    toml = file(language={"prices": "prices.toml"})
    settings = load_settings({"language.prices": "own.toml"}, {}, toml).settings
    assert settings.language.prices == "own.toml"


def test_a_budget_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="a budget must be tokens, such as 200k or 2M tokens, or money"):
        load_settings({"language.budget": "lots"}, {}, None)
