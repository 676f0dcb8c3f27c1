"""Who goes next: pure."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from burnish_llamacpp._queue import AffinityQueue, shared_prefix


def drain(queue: AffinityQueue[str]) -> list[str]:
    """Take all that waits."""
    return [item for _ in range(len(queue)) if (item := queue.take()) is not None]


def filled(*items: str, patience: int = 100) -> AffinityQueue[str]:
    """Make a queue where each item is its own prompt."""
    queue: AffinityQueue[str] = AffinityQueue(patience=patience)
    for item in items:
        queue.add(item, item)
    return queue


def test_candidates_do_not_take_turns() -> None:
    """Prompts that share their demos go one after another, though they came in turn."""
    assert ["demos A: 1", "demos A: 2", "demos B: 1", "demos B: 2"] == drain(
        filled("demos A: 1", "demos B: 1", "demos A: 2", "demos B: 2")
    )


def test_equals_go_as_they_came() -> None:
    """Among prompts that share as much with the last one, the first to come goes first."""
    assert ["c", "a", "b"] == drain(filled("c", "a", "b"))


def test_nobody_starves() -> None:
    """After `patience` prompts in a row that went before the oldest, the oldest goes, whatever came later."""
    queue = filled("A0", "B", patience=3)
    taken = []
    for i in range(1, 6):
        taken.append(queue.take())
        queue.add(f"A{i}", f"A{i}")
    assert ["A0", "A1", "A2", "A3", "B"] == taken


def test_after_the_oldest_went_its_like_follow() -> None:
    """Who was passed over brings its own kind along: a switch is paid once, not for every prompt that waited long."""
    queue = filled("A0", "B0", "B1", "B2", patience=2)
    taken = []
    for i in range(1, 7):
        taken.append(queue.take())
        queue.add(f"A{i}", f"A{i}")
    assert ["A0", "A1", "A2", "B0", "B1", "B2"] == taken


def test_dropped_items_are_gone() -> None:
    """A discarded item is never taken; discarding an unknown one, or taking from an empty queue, changes nothing."""
    queue = filled("a", "b")
    queue.discard("a")
    queue.discard("other")
    assert (["b"], None, 0) == (drain(queue), queue.take(), len(queue))


@settings(max_examples=30)
@given(st.lists(st.text("ab", max_size=4), unique=True, min_size=1, max_size=12), st.integers(0, 3))
def test_everyone_goes_once(prompts: list[str], patience: int) -> None:
    """Whatever the order, each item is taken exactly once."""
    assert sorted(prompts) == sorted(drain(filled(*prompts, patience=patience)))


@given(st.text("ab", max_size=9), st.text("ab", max_size=9))
def test_shared_prefix_is_the_longest(left: str, right: str) -> None:
    """It is the longest start that both texts have."""
    count = shared_prefix(left, right)
    assert left[:count] == right[:count]
    assert left[count : count + 1] != right[count : count + 1] or count in (len(left), len(right))
