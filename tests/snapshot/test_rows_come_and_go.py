"""Rows that come, go and move: a mirror that has seen much shows the same picture as one that was filled just now."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from msgspec.structs import replace

from muster.api import LabelSelector, Pod, PodGroup, SubGroupPolicy
from muster.snapshot import NO_ROW, Mirror, Snapshot, TaskStatus
from muster.snapshot.growing import Columns, FreeRows, Names
from tests.snapshot.objects import amounts, group, node, pod, queue

Picture = dict[str, object]


def picture(snapshot: Snapshot) -> Picture:
    """All that a snapshot says, by names instead of rows."""
    tasks, jobs, axis = snapshot.tasks, snapshot.jobs, snapshot.axis
    live = [row for row in range(len(tasks)) if tasks.status[row] != TaskStatus.GONE]

    def name(names: list[str], row: int) -> str:
        return names[row] if row != NO_ROW else ""

    return {
        "resources": axis.names,
        "tasks": {
            tasks.ids[row]: (
                jobs.records[tasks.job[row]].id if tasks.job[row] != NO_ROW else "",
                name(snapshot.roles.names, int(tasks.role[row])),
                name(snapshot.subgroups.names, int(tasks.subgroup[row])),
                int(tasks.status[row]),
                name(snapshot.nodes.names, int(tasks.node[row])),
                name(snapshot.nodes.names, int(tasks.nominated[row])),
                int((tasks.rank[snapshot.tasks_of(int(tasks.job[row]))] < tasks.rank[row]).sum()),
                int(tasks.flags[row]),
                axis.amounts(snapshot.classes.requests[tasks.cls[row], 0]),
                axis.amounts(snapshot.classes.requests[tasks.cls[row], 1]),
                snapshot.classes.keys[tasks.cls[row]],
            )
            for row in live
        },
        "jobs": {
            jobs.records[row].id: (
                jobs.counts[row].tolist(),
                axis.amounts(jobs.allocated[row]),
                axis.amounts(jobs.pending[row]),
                int(jobs.min_member[row]),
                # The queue of a gang that has lost its PodGroup is remembered, and nowhere written.
                jobs.has_group[row] and name([known.name for known in snapshot.queues.records], int(jobs.queue[row])),
                sorted(snapshot.roles.names[role] for role in jobs.roles[row]),
                sorted(
                    (snapshot.subgroups.names[sub], snapshot.subgroups.counts[sub].tolist())
                    for sub in jobs.subgroups[row]
                ),
            )
            for row in np.flatnonzero(jobs.live).tolist()
        },
        "nodes": {
            known: [axis.amounts(snapshot.nodes.state[plane, row]) for plane in range(len(snapshot.nodes.state))]
            for row, known in enumerate(snapshot.nodes.names)
        },
    }


class Play:
    """A mirror, and all that is in it, changed at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.mirror = Mirror(["", "volcano"], keeps_finished=False)
        self.objects: dict[tuple[str, str], object] = {}
        self.serial = 0
        for name in ("n1", "n2", "n3"):
            self.set(node(name, gpu="8"))
        self.set(queue("default"))

    def set(self, thing: object) -> None:
        self.mirror.upsert(thing)  # type: ignore[arg-type]  # whatever the tests put in
        self.objects[thing.kind, thing.key] = thing  # type: ignore[attr-defined]

    def delete(self, thing: object) -> None:
        self.mirror.delete(thing)  # type: ignore[arg-type]
        del self.objects[thing.kind, thing.key]  # type: ignore[attr-defined]

    def of(self, kind: type) -> list[object]:
        return [thing for thing in self.objects.values() if isinstance(thing, kind)]

    def step(self, *, growing: bool) -> None:
        pods = self.of(Pod)
        choice = self.random.random()
        if choice < (0.5 if growing else 0.15) or not pods:
            self.set(self._new_pod())
        elif choice < 0.6 and growing:
            self.set(self._new_group())
        elif choice < 0.75:
            found = self.random.choice(pods)
            assert isinstance(found, Pod)
            self.set(self._changed(found))
        else:
            found = self.random.choice([*pods, *self.of(PodGroup)])
            self.delete(found)
        if self.random.random() < 0.2:
            self.mirror.put_away(list(self._finished()))

    def _finished(self) -> Iterator[str]:
        for known in self.of(PodGroup):
            assert isinstance(known, PodGroup)
            yield known.key

    def _new_pod(self) -> Pod:
        self.serial += 1
        groups = [known.metadata.name for known in self.of(PodGroup) if isinstance(known, PodGroup)]
        made = pod(
            f"p{self.serial}",
            self.random.choice([None, f"missing-{self.serial % 5}", *groups]),
            on=self.random.choice(["", "", "n1", "n2", f"gone-{self.serial}"]),
            role=self.random.choice(["", "worker", f"role-{self.serial}"]),
            labels={"part": str(self.serial % 4)},
            cpu=str(self.random.randint(1, 3)),
        )
        if self.random.random() < 0.3:
            made.spec.containers[0].resources.requests.update(amounts(**{f"example.com/r{self.serial}": "1"}))
        if self.random.random() < 0.2:
            made = replace(made, spec=replace(made.spec, scheduler_name="another"))
        return made

    def _new_group(self) -> PodGroup:
        self.serial += 1
        parts = SubGroupPolicy(name="part", label_selector=LabelSelector(), match_label_keys=["part"], sub_group_size=2)
        more = {"sub_group_policy": [parts]} if self.random.random() < 0.5 else {"min_task_member": {"worker": 1}}
        where = self.random.choice(["default", f"nowhere-{self.serial}"])
        return group(f"g{self.serial}", self.random.randint(1, 3), where, **more)

    def _changed(self, found: Pod) -> Pod:
        phase = self.random.choice(["Running", "Succeeded", "Failed", "Pending"])
        on = found.spec.node_name or self.random.choice(["n1", "n3"])
        status = replace(found.status, phase=phase, nominated_node_name=self.random.choice(["", "n2"]))
        return replace(found, spec=replace(found.spec, node_name=on if phase != "Pending" else ""), status=status)

    def fresh(self) -> Snapshot:
        """A picture of the same objects by a mirror that has seen nothing else, gangs that were put away aside."""
        mirror = Mirror(["", "volcano"], keeps_finished=False)
        for thing in sorted(self.objects.values(), key=lambda thing: isinstance(thing, Pod)):
            mirror.upsert(thing)  # type: ignore[arg-type]
        mirror.put_away(list(self.mirror._book.finished))
        return mirror.snapshot()


@pytest.mark.parametrize("seed", range(12))
def test_a_mirror_that_has_seen_much_shows_what_a_fresh_one_shows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FreeRows, "is_scattered", lambda rows: len(rows._free) > 3)  # so that rows are moved often
    play = Play(seed)
    for phase in range(8):
        for _ in range(60):
            play.step(growing=phase % 2 == 0)
        assert picture(play.mirror.snapshot()) == picture(play.fresh())
    assert play.mirror._book.generation > 0, "rows have moved"
    for thing in [*play.of(Pod), *play.of(PodGroup)]:
        play.delete(thing)
    empty = play.mirror.snapshot()
    assert (len(empty.tasks), len(empty.jobs), len(empty.roles), len(empty.subgroups), len(empty.classes)) == (0,) * 5
    assert empty.axis.names == ("cpu", "memory", "pods")
    book = play.mirror._book
    assert (len(book.nodes), len(book.jobs.queues), len(book.finished), len(book.holds)) == (0, 0, 0, 0)


def test_two_thousand_foreign_pods_with_resources_of_their_own_leave_no_trace() -> None:
    mirror = Mirror(["volcano"])
    mirror.upsert(node("n1"))
    before = mirror.snapshot()
    strangers = [pod(f"p{number}", on="n1") for number in range(2000)]
    for number, stranger in enumerate(strangers):
        stranger.spec.containers[0].resources.requests.update(amounts(**{f"example.com/r{number}": "1"}))
        stranger.spec.scheduler_name = "another"
        mirror.upsert(stranger)
    assert len(mirror.snapshot().axis) == 2003
    for stranger in strangers:
        mirror.delete(stranger)
    after = mirror.snapshot()
    for table in ("tasks", "classes", "axis", "jobs"):
        assert len(getattr(after, table)) == len(getattr(before, table)), table
    assert len(mirror._book.columns._columns["job"]) == 256, "the arrays have shrunk too"


def test_one_that_stays_at_the_end_does_not_keep_the_rows_of_all_before_it() -> None:
    mirror = Mirror()
    crowd = [pod(f"p{number}") for number in range(3000)]
    for each in [*crowd, pod("last", gpu="1")]:
        mirror.upsert(each)
    for each in crowd:
        mirror.delete(each)
    after = mirror.snapshot()
    assert (after.tasks.ids, len(after.jobs)) == (["ns/last"], 1)
    assert after.axis.amounts(after.request(0)) == {"nvidia.com/gpu": 1000, "pods": 1}


# -- what has finished -----------------------------------------------------------------------------------------


def finished_gang(mirror: Mirror) -> list[Pod]:
    mirror.upsert(group("g", 2))
    pods = [pod(f"p{number}", "g", on="n1", phase="Succeeded") for number in range(2)]
    for each in pods:
        mirror.upsert(each)
    return pods


def test_finished_pods_without_a_gang_are_left_out_and_those_of_others_too() -> None:
    mirror = Mirror(["", "volcano"], keeps_finished=False)
    lone = pod("lone", on="n1")
    stranger = pod("stranger", on="n1")
    stranger = replace(stranger, spec=replace(stranger.spec, scheduler_name="another"))
    for running in (lone, stranger):
        mirror.upsert(running)
    assert len(mirror.snapshot().tasks) == 2
    for running in (lone, stranger):
        mirror.upsert(replace(running, status=replace(running.status, phase="Succeeded")))
    assert len(mirror.snapshot().tasks) == 0
    mirror.delete(lone)  # and nobody minds


def test_a_gang_that_was_put_away_comes_back_with_any_change() -> None:
    for change in ("pod", "group", "deletion", "newcomer", "group-deletion"):
        mirror = Mirror(keeps_finished=False)
        pods = finished_gang(mirror)
        mirror.put_away(["ns/g"])
        assert len(mirror.snapshot().tasks) == 0
        assert mirror.group("ns/g") is not None, "it is known all the same"
        match change:
            case "pod":
                mirror.upsert(replace(pods[0], status=replace(pods[0].status, phase="Failed")))
            case "group":
                mirror.upsert(group("g", 3))
            case "deletion":
                mirror.delete(pods[0])
            case "newcomer":
                mirror.upsert(pod("p2", "g"))
            case "group-deletion":
                mirror.delete(group("g", 2))
        now = mirror.snapshot()
        wanted = {"pod": 2, "group": 2, "deletion": 1, "newcomer": 3, "group-deletion": 2}[change]
        assert now.tasks.status.tolist().count(TaskStatus.GONE) == len(now.tasks) - wanted, change
        assert now.jobs.task_count(0) == wanted


def test_a_gang_with_a_pod_that_runs_is_not_put_away() -> None:
    mirror = Mirror(keeps_finished=False)
    finished_gang(mirror)
    mirror.upsert(pod("p3", "g", on="n1"))
    mirror.upsert(group("empty", 1))
    mirror.put_away(["ns/g", "ns/empty", "ns/unknown"])
    assert len(mirror.snapshot().tasks) == 3
    assert len(mirror.snapshot().jobs) == 2


# -- the parts -------------------------------------------------------------------------------------------------


def test_rows_are_handed_out_smallest_first_and_let_go_at_the_end() -> None:
    rows = FreeRows()
    assert [rows.take() for _ in range(5)] == [0, 1, 2, 3, 4]
    for row in (1, 3, 0):
        rows.give_back(row)
    assert (len(rows), rows.size) == (2, 5)
    assert [rows.take(), rows.take()] == [0, 1]
    rows.give_back(4)
    assert (len(rows), rows.size) == (3, 3), "3 went with 4"
    assert rows.take() == 3


def test_a_name_goes_with_its_last_use_and_its_number_is_given_to_another() -> None:
    names, index = Names(), {"a": 5, "b": 6, "c": 7}
    first, second = names.take("a"), names.take("b")
    assert names.take("a") == first
    names.give_back(first)
    assert names.rows(index)[first] == 5
    names.give_back(first)
    assert names.rows(index)[[second, -1]].tolist() == [6, -1]
    assert names.take("c") == first
    assert names.rows(index)[[first, second]].tolist() == [7, 6]
    assert names.take("") == -1
    names.give_back(-1)


def test_columns_hand_out_zeros_and_shrink() -> None:
    columns = Columns(value=np.intp)
    rows = [columns.add() for _ in range(2000)]
    for row in rows:
        columns.set(row, value=row + 1)
    for row in rows[1:]:
        columns.remove(row)
    assert columns["value"].tolist() == [1]
    assert len(columns._columns["value"]) == 256
    assert columns.add() == 1
    assert columns["value"].tolist() == [1, 0]
