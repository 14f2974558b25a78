import pytest

from muster.api import UserError
from muster.explain import find_job, has_job
from muster.snapshot import Snapshot
from tests.explain.clusters import gang, node, pod, run


def _snapshot() -> Snapshot:
    other = gang("train", 1, 1)
    elsewhere = [text.replace("namespace: team", "namespace: lab") for text in other]
    session = run(node("n1"), *gang("train", 1, 1), *elsewhere, *gang("serve", 1, 1), pod("shell")).last_session
    assert session is not None
    return session.snapshot


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("serve", "team/serve"),
        ("team/serve", "team/serve"),
        ("lab/train", "lab/train"),
        ("shell", "team/pod/shell"),
        ("team/shell", "team/pod/shell"),
        ("team/pod/shell", "team/pod/shell"),
    ],
)
def test_a_job_is_found_by_name_and_by_namespace(wanted: str, found: str) -> None:
    snapshot = _snapshot()
    assert snapshot.jobs.records[find_job(snapshot, wanted)].id == found


OWNED = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata:
  name: {name}
  namespace: team
  ownerReferences:
  - {{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: {owner}, uid: u, controller: true}}
spec: {{minMember: 1, queue: default}}
"""


@pytest.mark.parametrize("wanted", ["bert", "team/bert", "team/bert-0815", "bert-0815"])
def test_a_job_is_found_by_the_name_of_what_its_user_has_made(wanted: str) -> None:
    session = run(node("n1"), OWNED.format(name="bert-0815", owner="bert"), pod("a", group="bert-0815")).last_session
    assert session is not None
    assert session.snapshot.jobs.records[find_job(session.snapshot, wanted)].id == "team/bert-0815"
    assert has_job(session.snapshot, wanted)


def test_a_name_of_its_own_counts_before_that_of_an_owner() -> None:
    groups = [OWNED.format(name="bert-0815", owner="serve"), *gang("serve", 1, 1)]
    session = run(node("n1"), *groups, pod("a", group="bert-0815")).last_session
    assert session is not None
    assert session.snapshot.jobs.records[find_job(session.snapshot, "serve")].id == "team/serve"


def test_of_many_groups_of_one_owner_all_are_listed() -> None:
    groups = [OWNED.format(name=name, owner="web") for name in ("web-1", "web-2")]
    session = run(node("n1"), *groups, pod("a", group="web-1"), pod("b", group="web-2")).last_session
    assert session is not None
    with pytest.raises(UserError, match="ambiguous; say which one: team/web-1, team/web-2"):
        find_job(session.snapshot, "web")


def test_an_ambiguous_name_lists_the_candidates() -> None:
    with pytest.raises(UserError, match="ambiguous; say which one: lab/train, team/train"):
        find_job(_snapshot(), "train")


def test_an_unknown_name_suggests_what_is_close() -> None:
    with pytest.raises(UserError, match="no job 'serv'; did you mean team/serve"):
        find_job(_snapshot(), "serv")


def test_a_name_that_resembles_nothing_lists_the_jobs() -> None:
    with pytest.raises(UserError, match="jobs: lab/train, team/pod/shell, team/serve, team/train"):
        find_job(_snapshot(), "zzzzzz")


def test_an_empty_cluster_says_so() -> None:
    session = run(node("n1")).last_session
    assert session is not None
    with pytest.raises(UserError, match="the input holds no job"):
        find_job(session.snapshot, "train")
