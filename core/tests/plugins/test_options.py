"""Options: a user's table becomes an attrs class, strictly, and every fault names its place."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NewType

import attrs
import pytest

from burnish._edges.options import OptionsError, structure_options
from burnish.abc import Json
from burnish.errors import ConfigError, UsageError

Seconds = NewType("Seconds", float)


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


@attrs.frozen(kw_only=True)
class Retry:
    attempts: int = 3
    waits: tuple[float, ...] = ()


@attrs.frozen(kw_only=True)
class Everything:
    """One field of each type that an option may have."""

    text: str = ""
    whole: int = 0
    number: float = 0.0
    flag: bool = False
    path: Path = Path()
    amount: Decimal = Decimal(0)
    maybe: str | None = None
    size: int | float | None = None
    mode: Literal["chat", "completions"] = "chat"
    words: tuple[str, ...] = ()
    pair: tuple[str, int] = ("", 0)
    listed: list[int] = attrs.field(factory=list)
    plain: tuple = ()  # type: ignore[type-arg]
    sequence: Sequence[str] = ()
    iterable: Iterable[str] = ()
    unique: frozenset[str] = frozenset()
    mapping: Mapping[str, Any] = attrs.field(factory=dict)
    headers: dict[str, str] = attrs.field(factory=dict)
    json: Json = None
    anything: Any = None
    level: Level = Level.LOW
    wait: Seconds = Seconds(0.0)
    noted: Annotated[int, "with a note"] = 0
    retry: Retry = Retry()
    maybe_retry: Retry | None = None
    one_or_many: str | tuple[str, ...] = ()
    retries: tuple[Retry, ...] = ()
    by_name: Mapping[str, Retry] = attrs.field(factory=dict)
    function: Callable[[], int] | None = None
    lines: str | Path = ""
    _hidden: int = 0
    computed: int = attrs.field(default=0, init=False)


def structured(key: str, value: Any) -> Any:
    return getattr(structure_options(Everything, {key: value}, where="x"), key)


def faults(options: type | None, table: Any) -> list[tuple[str, str]]:
    with pytest.raises(OptionsError) as caught:
        structure_options(options, table, where="cache `redis`")
    return list(caught.value.faults)


def fault(key: str, value: Any) -> tuple[str, str]:
    (only,) = faults(Everything, {key: value})
    return only


def a_function() -> int:
    return 1


ACCEPTED = [
    ("text", "a", "a"),
    ("whole", 3, 3),
    ("number", 0.5, 0.5),
    ("number", 2, 2.0),
    ("flag", True, True),
    ("path", "a/b", Path("a/b")),
    ("path", Path("a/b"), Path("a/b")),
    ("amount", "0.10", Decimal("0.10")),
    ("amount", 0.1, Decimal("0.1")),
    ("amount", Decimal("2.5"), Decimal("2.5")),
    ("maybe", "a", "a"),
    ("maybe", None, None),
    ("size", 5, 5),
    ("size", 5.0, 5.0),
    ("size", None, None),
    ("mode", "completions", "completions"),
    ("words", ["a", "b"], ("a", "b")),
    ("words", ("a",), ("a",)),
    ("pair", ["a", 1], ("a", 1)),
    ("listed", [1, 2], [1, 2]),
    ("plain", [1, "a"], (1, "a")),
    ("sequence", ["a"], ("a",)),
    ("iterable", ["a"], ("a",)),
    ("unique", ["a", "a"], frozenset({"a"})),
    ("unique", {"a"}, frozenset({"a"})),
    ("mapping", {"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
    ("headers", {"a": "b"}, {"a": "b"}),
    ("json", {"a": [1, None]}, {"a": [1, None]}),
    ("anything", {"a": 1}, {"a": 1}),
    ("level", "high", Level.HIGH),
    ("level", Level.HIGH, Level.HIGH),
    ("wait", 1, 1.0),
    ("noted", 1, 1),
    ("retry", {"attempts": 1, "waits": [1, 2.5]}, Retry(attempts=1, waits=(1.0, 2.5))),
    ("retry", Retry(attempts=9), Retry(attempts=9)),
    ("maybe_retry", {"attempts": 1}, Retry(attempts=1)),
    ("maybe_retry", None, None),
    ("one_or_many", "ab", "ab"),
    ("one_or_many", ["ab"], ("ab",)),
    ("retries", [{"attempts": 1}, {}], (Retry(attempts=1), Retry())),
    ("by_name", {"a": {"attempts": 1}}, {"a": Retry(attempts=1)}),
    ("function", a_function, a_function),
    ("lines", "a", "a"),
    ("lines", Path("a"), Path("a")),
]


@pytest.mark.parametrize(("key", "value", "expected"), ACCEPTED)
def test_a_value_of_the_right_type_arrives(key: str, value: Any, expected: Any) -> None:
    """Each type that an option may have takes what TOML or a Python caller writes for it, and keeps its type."""
    made = structured(key, value)
    assert (expected, type(expected)) == (made, type(made))


REFUSED = [
    ("text", 3, "expected text, got a whole number 3"),
    ("text", True, "expected text, got true"),
    ("whole", "3", "expected a whole number, got text '3'"),
    ("whole", 3.0, "expected a whole number, got a number 3.0"),
    ("whole", True, "expected a whole number, got true"),
    ("number", "0.5", "expected a number, got text '0.5'"),
    ("number", False, "expected a number, got false"),
    ("number", 10**400, "expected a number, got a whole number 1" + "0" * 59),
    ("flag", 1, "expected true or false, got a whole number 1"),
    ("flag", "yes", "expected true or false, got text 'yes'"),
    ("path", 5, "expected a path, got a whole number 5"),
    ("path", None, "expected a path, got None"),
    ("amount", "ten", "expected an amount, got text 'ten'"),
    ("amount", "nan", "expected an amount, got text 'nan'"),
    ("amount", True, "expected an amount, got true"),
    ("maybe", 1, "expected text, got a whole number 1"),
    ("size", "5", "expected a whole number or a number, got text '5'"),
    ("size", True, "expected a whole number or a number, got true"),
    ("mode", "chatt", "expected \"chat\" or \"completions\", got text 'chatt'"),
    ("mode", ["chat"], 'expected "chat" or "completions", got a list'),
    ("words", "ab", "expected a list, got text 'ab'"),
    ("words", {"a": 1}, "expected a list, got a table"),
    ("pair", ["a"], "expected a list of 2, got one of 1"),
    ("listed", "12", "expected a list, got text '12'"),
    ("sequence", "ab", "expected a list, got text 'ab'"),
    ("iterable", "ab", "expected a list, got text 'ab'"),
    ("unique", "ab", "expected a list, got text 'ab'"),
    ("mapping", "ab", "expected a table, got text 'ab'"),
    ("headers", ["a", "b"], "expected a table, got a list"),
    ("level", "mid", "expected \"low\" or \"high\", got text 'mid'"),
    ("retry", "fast", "expected a table, got text 'fast'"),
    ("maybe_retry", 3, "expected a table, got a whole number 3"),
    ("one_or_many", 3, "expected text or a list, got a whole number 3"),
    ("function", "f", "expected a Callable, got text 'f'"),
]


@pytest.mark.parametrize(("key", "value", "expected"), REFUSED)
def test_a_value_of_the_wrong_type_is_an_error_with_path_and_type(key: str, value: Any, expected: str) -> None:
    """Nothing is guessed: no number from text, no list from letters, no flag from 1; the message says what is taken."""
    assert (key, expected) == fault(key, value)


DEEP = [
    ({"retry": {"attempts": "3"}}, "retry.attempts", "expected a whole number, got text '3'"),
    ({"retry": {"waits": [1, "2"]}}, "retry.waits[1]", "expected a number, got text '2'"),
    ({"maybe_retry": {"attempts": "3"}}, "maybe_retry.attempts", "expected a whole number, got text '3'"),
    ({"retries": [{}, {"attempts": "3"}]}, "retries[1].attempts", "expected a whole number, got text '3'"),
    ({"by_name": {"a": {"attempts": "3"}}}, "by_name.a.attempts", "expected a whole number, got text '3'"),
    ({"headers": {"a": 1}}, "headers.a", "expected text, got a whole number"),
    ({"pair": ["a", "b"]}, "pair[1]", "expected a whole number, got text 'b'"),
    ({"one_or_many": ["a", 1]}, "one_or_many[1]", "expected text, got a whole number 1"),
]


@pytest.mark.parametrize(("table", "path", "what"), DEEP)
def test_the_path_leads_to_the_value(table: dict[str, Any], path: str, what: str) -> None:
    """In nested classes, lists, tables and unions the path names the value itself, not the option that holds it."""
    assert [(path, what)] == faults(Everything, table)


def test_an_unknown_key_is_named_with_the_nearest_known_one() -> None:
    """At the top and in nested classes; a key that resembles none gets the list alone."""
    assert [("atempts", "is not a known option; did you mean `attempts`? known: attempts, waits")] == faults(
        Retry, {"atempts": 1}
    )
    assert [("retry.zzz", "is not a known option; known: attempts, waits")] == faults(Everything, {"retry": {"zzz": 1}})


def test_a_private_attribute_is_set_by_its_argument_and_a_computed_one_not_at_all() -> None:
    """Keys are those of the class's `__init__`: what cannot be passed there is unknown."""
    assert 4 == structure_options(Everything, {"hidden": 4}, where="x")._hidden
    assert "is not a known option" in fault("_hidden", 4)[1]
    assert "is not a known option" in fault("computed", 4)[1]


@attrs.frozen(kw_only=True)
class Endpoint:
    url: str
    port: int = attrs.field(default=80, validator=attrs.validators.lt(65536))
    scheme: str = attrs.field(default="http", validator=attrs.validators.in_(["http", "https"]))
    tags: tuple[str, ...] = attrs.field(default=(), converter=tuple)

    def __attrs_post_init__(self) -> None:
        if not self.url:
            raise ConfigError("endpoint: `url` must not be empty")
        if self.url == "broken":
            raise KeyError("a fault of the class itself")


def test_all_faults_of_a_table_are_named_at_once() -> None:
    """Unknown key, missing key and wrong type come together, in this order, one line each."""
    assert [
        ("prot", "is not a known option; did you mean `port`? known: url, port, scheme, tags"),
        ("url", "is missing"),
        ("scheme", "expected text, got a whole number 1"),
    ] == faults(Endpoint, {"prot": 1, "scheme": 1})


def test_a_refusal_of_the_class_itself_keeps_its_words() -> None:
    """A validator's message, the error that `__attrs_post_init__` raises, and a fault of the class by its type."""
    assert "must be < 65536" in faults(Endpoint, {"url": "u", "port": 70000})[0][1]
    ((path, what),) = faults(Endpoint, {"url": "u", "scheme": "ftp"})
    assert "scheme" == path
    assert what.startswith("'scheme' must be in ['http', 'https'] (got 'ftp')")
    assert [("", "endpoint: `url` must not be empty")] == faults(Endpoint, {"url": ""})
    assert [("", "KeyError: 'a fault of the class itself'")] == faults(Endpoint, {"url": "broken"})


def test_the_message_names_file_component_and_path() -> None:
    """`file: component.path: what`, a line for each fault; the facts are attributes too."""
    with pytest.raises(OptionsError) as caught:
        structure_options(Retry, {"attempts": "3", "wait": 1}, where="cache `redis`", file="burnish.toml")
    assert [
        "burnish.toml: cache `redis`.wait: is not a known option; did you mean `waits`? known: attempts, waits",
        "burnish.toml: cache `redis`.attempts: expected a whole number, got text '3'",
    ] == str(caught.value).splitlines()
    assert ("cache `redis`", "burnish.toml") == (caught.value.where, caught.value.file)
    assert isinstance(caught.value, UsageError)


def test_a_plugin_without_options_takes_an_empty_table_only() -> None:
    """It gets None; each key of a table that is not empty is named."""
    assert structure_options(None, {}, where="x") is None
    assert [("ttl", "this plugin takes no options")] == faults(None, {"ttl": 1})


def test_what_is_no_table_at_all_is_named() -> None:
    """`cache = {redis = "x"}` written one level too high."""
    assert [("", "expected a table, got text 'x'")] == faults(Retry, "x")
    assert [("", "expected a table, got a list")] == faults(None, [])


def test_the_class_and_its_defaults_are_left_alone() -> None:
    """Structuring the same class twice gives equal, separate instances; what is not given has the class's default."""
    first, second = (structure_options(Everything, {"listed": [1]}, where="x") for _ in range(2))
    assert first == second
    assert first.listed is not second.listed
    assert Everything().retry == first.retry


@attrs.frozen(kw_only=True)
class Secretive:
    """Options whose names say that they hold secrets, and what a validator says of one."""

    headers: Mapping[str, str] = {}
    api_key: int = 0
    password: str = attrs.field(default="", validator=attrs.validators.matches_re("[0-9]*"))
    tokens: Mapping[str, tuple[int, ...]] = {}
    max_tokens: int = 0
    author: int = 0
    signature: int = 0


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"headers": "Bearer sk-secret"}, "expected a table, got text"),
        ({"headers": ["Bearer sk-secret"]}, "expected a table, got a list"),
        ({"headers": {"X-Any": ("sk-secret",)}}, "expected text, got a list"),
        ({"headers": {"X-Any": 774411}}, "expected text, got a whole number"),
        ({"api_key": "sk-secret"}, "expected a whole number, got text"),
        ({"password": "sk-secret"}, "[redacted]"),
        ({"token": "sk-secret"}, "is not a known option"),
        ({"max_tokens": "many"}, "expected a whole number, got text 'many'"),
        ({"author": "ada"}, "expected a whole number, got text 'ada'"),
        ({"signature": "q -> a"}, "expected a whole number, got text 'q -> a'"),
    ],
)
def test_no_message_quotes_a_secret(table: dict[str, Any], expected: str) -> None:
    """Below a name that may hold a secret the type is said, and the value neither by us nor by a validator (62)."""
    ((_, what),) = faults(Secretive, table)
    assert expected in what
    assert "sk-secret" not in what
    assert "774411" not in what
