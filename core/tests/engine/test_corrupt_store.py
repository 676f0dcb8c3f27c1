"""A run whose files were damaged: a clear error or the same run again, never a wrong score or another sort of crash."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import attrs
import pytest

import burnish as b
from burnish import Plan, Report, abc, toolkit
from burnish.errors import StoreError
from burnish.events import fold, read_events
from burnish.testing import ScriptedModel
from burnish_programs import Predict

pytestmark = pytest.mark.slow
ROWS = [{"q": f"say x{n}", "a": f"x{n}"} for n in range(14)]
PAGE = 4096


def answer(request: abc.LMRequest) -> str:
    demos = sum(message.role == "assistant" for message in request.messages)
    word = request.messages[-1].content.split()[-1]
    return f"a: {word if demos or int(word[1:]) % 2 else 'wrong'}"


@attrs.frozen
class Two:
    """Compares the start with a candidate of one demo."""

    replay_version = 1

    def plan(self, problem: abc.Problem) -> Plan:
        return Plan(rollouts=2 * len(problem.val), candidates=1, minimum=2)

    async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
        start = engine.register(problem.start)
        first = toolkit.evaluation_of(await engine.evaluate_many([(start, problem.val)]))[start].mean()
        best = problem.start.set_demos("predict", [problem.row(problem.train[0])])
        index = engine.register(best)
        second = toolkit.evaluation_of(await engine.evaluate_many([(index, problem.val)], traces=True))[index].mean()
        return Report(strategy="two", best=best, baseline_score=first, best_score=second)


def run(place: Path, *, resume: bool = True, **options: Any) -> tuple[b.Result, int]:
    model = ScriptedModel(answer)
    result = b.optimize(
        Predict("q -> a"),
        trainset=ROWS[:4],
        valset=ROWS[4:9],
        testset=ROWS[9:],
        metric="exact_match",
        strategy=Two(),
        budget=b.Budget(max_metric_calls=100),
        models=model,
        run_dir=place / "run",
        cache=b.Use("sqlite", path=str(place / "cache.db")),
        resume=resume,
        **options,
    )
    return result, model.calls


def told(result: b.Result) -> Any:
    assert result.test is not None
    scores = result.test.baseline_scores, result.test.winner_scores
    return result.candidate, result.baseline, result.best, scores, result.stop_reason


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A finished run, all in its main file, and what it told."""
    place = tmp_path_factory.mktemp("whole")
    result, _ = run(place, resume=False)
    with sqlite3.connect(place / "run" / "run.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return place, told(result)


@pytest.fixture(scope="module")
def killed(whole: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run as a kill leaves it: all of its events in the write-ahead log."""
    place = tmp_path_factory.mktemp("killed")
    source = sqlite3.connect(whole[0] / "run" / "run.db", isolation_level=None)
    (place / "run").mkdir()
    live = sqlite3.connect(place / "run" / "live.db")
    source.backup(live)
    source.close()
    live.execute("PRAGMA journal_mode=WAL")
    live.execute("PRAGMA wal_autocheckpoint=0")
    rows = {table: live.execute(f"SELECT * FROM {table} ORDER BY n").fetchall() for table in ("events", "traces")}
    for table in rows:
        live.execute(f"DELETE FROM {table}")
    live.commit()
    live.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for event in rows["events"]:
        live.execute(f"INSERT INTO events VALUES ({', '.join('?' * len(event))})", event)
        mine = [trace for trace in rows["traces"] if trace[0] == event[0]]
        live.executemany("INSERT INTO traces VALUES (?, ?)", mine)
        live.commit()
    for ending in ("", "-wal"):
        shutil.copy(place / "run" / f"live.db{ending}", place / "run" / f"run.db{ending}")
    live.close()
    shutil.copy(whole[0] / "cache.db", place)
    return place


def goes_on_or_says_so(place: Path, expected: Any) -> str:
    """Resume: the same result, or a `StoreError` that names the file and what to do; gives which."""
    try:
        result, _ = run(place)
    except StoreError as error:
        said = str(error)
        assert ("run.db" in said) or ("cache.db" in said), said
        assert ";" in said, said
        return "refused"
    assert expected == told(result)
    state = fold(read_events(place / "run" / "run.db"))
    assert [1.0] * 5 == list(state.matrix.row(1)[:5])
    return "same"


def copied(source: Path, place: Path) -> Path:
    shutil.copytree(source, place)
    return place


def test_a_store_that_was_cut_goes_on_or_is_refused(whole: tuple[Path, Any], tmp_path: Path) -> None:
    """Cut within its last page or at any page's end, a store is refused by name; a whole one goes on."""
    source, expected = whole
    size = (source / "run" / "run.db").stat().st_size
    rng = random.Random(3)
    places = [*range(0, size, PAGE), *rng.sample(range(size - PAGE, size), 24), size - 1, 1, 99]
    found = []
    for number, length in enumerate(places):
        place = copied(source, tmp_path / str(number))
        with open(place / "run" / "run.db", "r+b") as file:
            file.truncate(length)
        found.append(goes_on_or_says_so(place, expected))
    assert {"refused"} == set(found)
    assert "same" == goes_on_or_says_so(copied(source, tmp_path / "as it was"), expected)


def test_bytes_that_changed_are_no_scores(whole: tuple[Path, Any], tmp_path: Path) -> None:
    """A run store or cache with a few bytes changed at any of 100 places gives the same result, or is refused."""
    source, expected = whole
    rng = random.Random(4)
    found = []
    for number in range(100):
        place = copied(source, tmp_path / str(number))
        file = place / ("cache.db" if number % 5 == 0 else "run/run.db")
        spoil(file, rng)
        found.append(goes_on_or_says_so(place, expected))
    assert {"refused", "same"} == set(found)


def test_damaged_answers_are_none(whole: tuple[Path, Any], tmp_path: Path) -> None:
    """A new run on the answers of a store that was spoiled comes to the same scores, or is refused."""
    source, expected = whole
    rng = random.Random(6)
    for number in range(30):
        place = copied(source, tmp_path / str(number))
        (place / "cache.db").unlink()
        shutil.move(place / "run", place / "old")
        spoil(place / "old" / "run.db", rng)
        refused: StoreError | None = None
        try:
            result, _ = run(place, resume=False, answers=place / "old")
        except StoreError as error:
            refused = error
        assert "run.db" in str(refused) if refused is not None else expected == told(result)


def test_a_log_that_changed_loses_no_more_than_its_end(killed: Path, whole: tuple[Path, Any], tmp_path: Path) -> None:
    """A spoiled or cut write-ahead log: SQLite drops what follows the damage, and the run goes on from there."""
    rng, (_, expected) = random.Random(5), whole
    assert "same" == goes_on_or_says_so(copied(killed, tmp_path / "as it was"), expected)
    for number in range(50):
        place = copied(killed, tmp_path / str(number))
        log = place / "run" / "run.db-wal"
        if number % 2:
            spoil(log, rng)
        else:
            with open(log, "r+b") as file:
                file.truncate(rng.randrange(log.stat().st_size))
        goes_on_or_says_so(place, expected)


def spoil(file: Path, rng: random.Random) -> None:
    """Change up to eight bytes at one place."""
    with open(file, "r+b") as opened:
        at = rng.randrange(file.stat().st_size)
        opened.seek(at)
        before = opened.read(rng.randrange(1, 8))
        opened.seek(at)
        opened.write(bytes((byte + rng.randrange(1, 256)) % 256 for byte in before))
