import pytest

from muster.api import UserError
from muster.explain import find_job
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
