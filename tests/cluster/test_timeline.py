from pathlib import Path

import pytest

from muster.api import Node, Pod, Queue, UserError
from muster.cluster import MemoryCluster, Timeline, load_timeline, parse_timeline
from muster.testing import node, pod, queue


def played(text: str, cluster: MemoryCluster, until: float = 1e6) -> MemoryCluster:
    parse_timeline(text, "t.yaml").schedule(cluster)
    cluster.advance_to(cluster.start + until)
    return cluster


def small() -> MemoryCluster:
    return MemoryCluster([node("n1"), pod("p"), queue("research")])


def node_in(cluster: MemoryCluster, name: str) -> Node:
    found = cluster.store.get(Node, name)
    assert found is not None
    return found


def test_times_are_durations_or_seconds() -> None:
    timeline = parse_timeline("[{at: 5m, cordon: n1}, {at: 1.5, uncordon: n1}, {at: 0, cordon: n1}]")
    assert [entry.at for entry in timeline.entries] == [300.0, 1.5, 0.0]


def test_an_empty_file_is_an_empty_timeline() -> None:
    assert parse_timeline("") == Timeline()


@pytest.mark.parametrize("text", ["", "# later\n", "[]", "---\n"])
def test_a_file_without_entries_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "later.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=r"later.yaml: expected at least one entry such as .*, got none"):
        load_timeline(file)


def test_nodes_are_cordoned_and_uncordoned() -> None:
    cluster = played("[{at: 1, cordon: [n1]}, {at: 3, uncordon: n1}]", small(), until=2)
    assert node_in(cluster, "n1").spec.unschedulable
    cluster.advance_to(cluster.start + 3)
    assert not node_in(cluster, "n1").spec.unschedulable


def test_nodes_become_not_ready_and_ready() -> None:
    cluster = played("[{at: 1, notReady: n1}, {at: 3, ready: n1}]", small(), until=2)
    assert not node_in(cluster, "n1").is_ready
    cluster.advance_to(cluster.start + 3)
    assert node_in(cluster, "n1").is_ready


def test_objects_are_added_and_deleted() -> None:
    text = """
    - at: 1
      add:
      - {apiVersion: v1, kind: Node, metadata: {name: n2}, status: {capacity: {cpu: 4}}}
    - at: 2
      delete: [Node/n1, Pod/p]
    """
    cluster = played(text, small())
    assert [left.name for left in cluster.store.all(Node)] == ["n2"]
    assert cluster.store.get(Pod, "default/p") is None


def test_objects_may_stand_in_a_file_beside_the_timeline(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("{apiVersion: v1, kind: Node, metadata: {name: n2}}")
    (tmp_path / "timeline.yaml").write_text("[{at: 1, add: more.yaml}]")
    cluster = small()
    load_timeline(tmp_path / "timeline.yaml").schedule(cluster)
    cluster.advance_to(cluster.start + 1)
    assert node_in(cluster, "n2").name == "n2"


def test_a_patch_merges_fields() -> None:
    cluster = played("[{at: 1, patch: {target: Queue/research, merge: {spec: {weight: 4}}}}]", small())
    changed = cluster.store.get(Queue, "research")
    assert changed is not None
    assert changed.spec.weight == 4


def test_a_patch_with_null_removes_a_field() -> None:
    cluster = MemoryCluster([pod("p", labels={"a": "1", "b": "2"})])
    played("[{at: 1, patch: {target: Pod/p, merge: {metadata: {labels: {a: null}}}}}]", cluster)
    changed = cluster.store.get(Pod, "default/p")
    assert changed is not None
    assert changed.metadata.labels == {"b": "2"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{at: 1}", r"t.yaml: expected one list of entries"),
        ("[1]", r"t.yaml: entry 1: expected a mapping, got 1"),
        ("[{at: 1, cordon: n1}, {cordon: n1}]", r"entry 2: at: expected a time .* got nothing"),
        ("[{at: soon, cordon: n1}]", r'entry 1: at: expected a duration such as "90s"'),
        ("[{at: -5, cordon: n1}]", r"entry 1: at: expected a time from the start"),
        ("[{at: true, cordon: n1}]", r"entry 1: at: expected a time from the start .* got true"),
        ("[{at: 1, explode: n1}]", r"entry 1: explode: unknown field; known: at, add"),
        ("[{at: 1}]", r"entry 1: expected exactly one of add.* got none"),
        ("[{at: 1, cordon: n1, delete: Node/n1}]", r"exactly one of .* got cordon, delete"),
        ("[{at: 1, cordon: 7}]", r"entry 1: cordon: expected a name, got 7"),
        ("[{at: 1, delete: n1}]", r'entry 1: delete: expected an object such as .* got "n1"'),
        ("[{at: 1, delete: Car/n1}]", r'entry 1: delete: expected an object such as .* got "Car/n1"'),
        ("[{at: 1, patch: {target: Node/n1}}]", r'entry 1: patch: expected "target"'),
        ("[{at: 1, add: [3]}]", r"entry 1: add\[0\]: expected a mapping, got 3"),
        ("[{at: 1, add: {apiVersion: v1, kind: Node}}]", r"entry 1 \(Node\).*name"),
        (
            "[{at: 1, add: [{apiVersion: v1, kind: Node, metadata: {name: n2}, spec: {unschedulabel: true}}]}]",
            r"entry 1 \(Node n2\): add\[0\].spec.unschedulabel: unknown field; did you mean unschedulable\?",
        ),
        (
            "[{at: 1, patch: {target: Queue/research, merge: {spec: {wieght: 4}}}}]",
            r"entry 1 \(Queue/research\): patch.merge.spec.wieght: unknown field; did you mean weight\?",
        ),
        ("[{at: 1, add: nothing-here.yaml}]", r"nothing-here.yaml: cannot read the file"),
        ("[{at: 1, cordon: n1", r"t.yaml:\d+:\d+: not YAML"),
    ],
)
def test_mistakes_name_file_entry_and_field(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_timeline(text, "t.yaml")


def test_fields_that_nobody_knows_are_notes_if_they_may_be_there() -> None:
    text = "[{at: 1, add: {apiVersion: v1, kind: Node, metadata: {name: n2}, spec: {unschedulabel: true}}}]"
    timeline = parse_timeline(text, "t.yaml", allow_unknown=True)
    assert [thing.name for thing in timeline.added()] == ["n2"]
    [note] = timeline.notes
    assert note == "t.yaml: entry 1 (Node n2): add.spec.unschedulabel: unknown field; did you mean unschedulable?"


def test_files_of_a_timeline_are_not_said_to_lack_what_is_elsewhere(tmp_path: Path) -> None:
    group = "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g}, spec: {queue: research}}"
    (tmp_path / "later.yaml").write_text(f"{group}\n---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c}}}}\n")
    [note] = parse_timeline("[{at: 1, add: later.yaml}]", "t.yaml", tmp_path).notes
    assert note.startswith("t.yaml: entry 1: ")
    assert "ConfigMap" in note


@pytest.mark.parametrize("field", ["spec: {deserved: {cpu: 1}}", "spec: {resources: {cpu: {quota: 1}}}"])
def test_a_patch_may_name_fields_of_either_kind_of_queue(field: str) -> None:
    assert parse_timeline(f"[{{at: 1, patch: {{target: Queue/q, merge: {{{field}}}}}}}]").entries


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("cordon: n9", "t.yaml: entry 1: there is no node n9 at that time"),
        ("delete: Pod/team/x", "t.yaml: entry 1: there is no Pod/team/x at that time"),
        ("add: {apiVersion: v1, kind: Node, metadata: {name: n1}}", r"t.yaml: entry 1 \(Node n1\): exists already"),
        ("patch: {target: Node/n1, merge: {metadata: {name: n5}}}", "a patch cannot change"),
        (
            "patch: {target: Queue/research, merge: {spec: {weight: many}}}",
            r"entry 1 .*spec.weight: expected an integer",
        ),
    ],
)
def test_mistakes_that_show_only_later_name_the_entry_too(entry: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        played(f"[{{at: 1, {entry}}}]", small())


def test_a_missing_timeline_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read the timeline"):
        load_timeline(tmp_path / "none.yaml")
