from collections.abc import Callable

from muster.cluster.clock import Agenda, VirtualClock


def _do(happening: Callable[[], None]) -> None:
    happening()


def test_the_clock_never_goes_back() -> None:
    clock = VirtualClock(10.0)
    clock.move_to(5.0)
    assert clock.now() == 10.0
    clock.advance(2.5)
    assert clock.now() == 12.5


def test_things_of_one_moment_happen_in_the_order_they_were_put_down() -> None:
    agenda: Agenda[Callable[[], None]] = Agenda()
    clock = VirtualClock()
    seen: list[tuple[str, float]] = []

    def note(name: str) -> Callable[[], None]:
        return lambda: seen.append((name, clock.now()))

    for name in "cab":
        agenda.add(1.0, note(name))
    agenda.add(0.5, note("first"))
    agenda.play(clock, 2.0, _do)
    assert seen == [("first", 0.5), ("c", 1.0), ("a", 1.0), ("b", 1.0)]
    assert clock.now() == 2.0


def test_what_is_not_due_waits() -> None:
    agenda: Agenda[Callable[[], None]] = Agenda()
    clock, seen = VirtualClock(), []
    agenda.add(3.0, lambda: seen.append("late"))
    agenda.play(clock, 2.0, _do)
    assert (seen, agenda.next_at()) == ([], 3.0)
    agenda.play(clock, 3.0, _do)
    assert (seen, agenda.next_at()) == (["late"], None)


def test_a_happening_may_put_down_another_for_the_same_stretch() -> None:
    agenda: Agenda[Callable[[], None]] = Agenda()
    clock, seen = VirtualClock(), []
    agenda.add(1.0, lambda: agenda.add(1.5, lambda: seen.append(clock.now())))
    agenda.play(clock, 2.0, _do)
    assert seen == [1.5]
