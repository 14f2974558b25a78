from __future__ import annotations

from muster.api import KubeObject, ObjectMeta, PersistentVolumeClaim, PersistentVolumeClaimSpec
from muster.api.names import VOLUME_REFUSED_ON
from muster.cluster.kubernetes.verbs.mirror_only import VolumeRefusals
from muster.snapshot.messages import Event

KEY = "default/data"


def claim(volume: str = "") -> PersistentVolumeClaim:
    spec = PersistentVolumeClaimSpec(volume_name=volume)
    return PersistentVolumeClaim(metadata=ObjectMeta(name="data", namespace="default"), spec=spec)


def shown(refusals: VolumeRefusals, moment: float) -> list[str | None]:
    """The nodes that the events name, None where an event names none."""
    found: list[KubeObject] = [event.object for event in refusals.drain(lambda _: claim(), moment)]
    return [each.metadata.annotations.get(VOLUME_REFUSED_ON) for each in found]


def test_a_node_rests_for_a_while_and_is_tried_again() -> None:
    refusals = VolumeRefusals(60)
    refusals.note(KEY, "n2", waited_s=3, moment=100)
    refusals.note(KEY, "n1", waited_s=3, moment=110)
    assert shown(refusals, 110) == ["n1,n2"]
    assert shown(refusals, 159) == []
    assert shown(refusals, 160) == ["n1"]
    assert shown(refusals, 170) == [None]
    assert shown(refusals, 1000) == []


def test_a_node_rests_for_as_long_as_was_waited_in_vain() -> None:
    refusals = VolumeRefusals(60)
    refusals.note(KEY, "n1", waited_s=600, moment=1000)
    assert shown(refusals, 1599) == ["n1"]
    assert shown(refusals, 1600) == [None]


def test_news_of_the_claim_do_not_hide_the_refusal() -> None:
    refusals = VolumeRefusals(60)
    refusals.note(KEY, "n1", waited_s=0, moment=0)
    assert shown(refusals, 1) == ["n1"]
    refusals.observe(Event("MODIFIED", claim()))
    assert shown(refusals, 2) == ["n1"]


def test_a_claim_that_has_a_volume_after_all_is_shown_as_it_is() -> None:
    refusals = VolumeRefusals(60)
    refusals.note(KEY, "n1", waited_s=0, moment=0)
    refusals.observe(Event("MODIFIED", claim("v")))
    assert shown(refusals, 1) == []
