from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from muster.api import Pod, waits_for
from muster.cluster.kubernetes.sending.assumptions import (
    Assumptions,
    bound,
    leaving,
    nominated,
    with_annotations,
    with_status,
)
from muster.snapshot.messages import Event
from muster.testing import pod, pod_group

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def made(name: str, *, uid: str = "1", node: str = "", nominated_node: str = "") -> Pod:
    plain = pod(name)
    return replace(
        plain,
        metadata=replace(plain.metadata, uid=uid),
        spec=replace(plain.spec, node_name=node),
        status=replace(plain.status, nominated_node_name=nominated_node),
    )


def nodes(events: list[Event]) -> list[str]:
    return [event.object.spec.node_name for event in events if isinstance(event.object, Pod)]


def knowing(thing: Pod) -> Assumptions:
    known = Assumptions()
    known.observe(Event("ADDED", thing))
    return known


def test_an_assumed_binding_is_reported_at_once() -> None:
    known = knowing(made("p"))
    known.hold(bound(made("p"), "n1"))
    assert nodes(known.drain()) == ["n1"]
    assert known.drain() == []


def test_versions_that_do_not_show_the_change_yet_carry_it() -> None:
    known = knowing(made("p"))
    known.hold(bound(made("p"), "n1"))
    assert nodes([known.observe(Event("MODIFIED", made("p", nominated_node="n9")))]) == ["n1"]


def test_once_shown_it_is_no_longer_assumed() -> None:
    known = knowing(made("p"))
    binding = bound(made("p"), "n1")
    known.hold(binding)
    known.observe(Event("MODIFIED", made("p", node="n1")))
    assert not known.is_held(binding)
    assert not known.release(binding)


def test_the_cluster_has_the_last_word() -> None:
    known = knowing(made("p"))
    known.hold(bound(made("p"), "n1"))
    assert nodes([known.observe(Event("MODIFIED", made("p", node="n2")))]) == ["n2"]


def test_what_is_refused_is_reported_as_it_is() -> None:
    known = knowing(made("p"))
    binding = bound(made("p"), "n1")
    known.hold(binding)
    known.drain()
    assert known.release(binding)
    assert nodes(known.drain()) == [""]


def test_a_pod_made_anew_under_the_same_name_inherits_nothing() -> None:
    known = knowing(made("p"))
    known.hold(bound(made("p"), "n1"))
    assert nodes([known.observe(Event("MODIFIED", made("p", uid="2")))]) == [""]


def test_a_deleted_pod_takes_its_assumptions_along() -> None:
    known = knowing(made("p"))
    binding = bound(made("p"), "n1")
    known.hold(binding)
    known.observe(Event("DELETED", made("p")))
    assert not known.is_held(binding)
    assert known.find_assumed(Pod, "default/p") is None


def test_several_changes_of_one_pod_stand_together() -> None:
    known = knowing(made("p"))
    known.hold(nominated(made("p"), "n1", "", NOW))
    known.hold(leaving(made("p"), NOW))
    seen = known.find_assumed(Pod, "default/p")
    assert seen is not None
    assert (seen.status.nominated_node_name, seen.metadata.deletion_timestamp) == ("n1", NOW)


def test_a_promised_pod_says_what_it_waits_for_without_another_report() -> None:
    known = knowing(made("p"))
    known.hold(nominated(made("p"), "n1", "promised: soon", NOW))
    seen = known.find_assumed(Pod, "default/p")
    assert seen is not None
    assert waits_for(seen, "promised")


def test_a_newer_nomination_takes_the_place_of_an_older_one() -> None:
    known = knowing(made("p"))
    older, newer = nominated(made("p"), "n1", "", NOW), nominated(made("p"), "n2", "", NOW)
    known.hold(older)
    known.hold(newer)
    known.observe(Event("MODIFIED", made("p", nominated_node="n2")))
    seen = known.find_assumed(Pod, "default/p")
    assert seen is not None
    assert seen.status.nominated_node_name == "n2"
    assert not known.is_held(older)


def test_annotations_are_laid_over_others_and_outlive_a_newer_status() -> None:
    group = pod_group("g")
    known = Assumptions()
    known.observe(Event("ADDED", replace(group, metadata=replace(group.metadata, annotations={"a": "1", "b": "2"}))))
    known.hold(with_annotations(group, {"b": None, "c": "3"}))
    known.hold(with_status(replace(group, status=replace(group.status, phase="Inqueue"))))
    known.hold(with_status(replace(group, status=replace(group.status, phase="Running"))))
    seen = known.find_assumed(type(group), group.key)
    assert seen is not None
    assert (seen.metadata.annotations, seen.status.phase) == ({"a": "1", "c": "3"}, "Running")
