from __future__ import annotations

from muster.cluster.kubernetes.verbs.job_reports import ReportDebounce
from muster.cluster.written_objects import AnyGroup
from muster.snapshot.messages import JobUpdate
from muster.testing import pod_group

GROUP = pod_group("g", minimum=8)
JOB = "default/g"


def update(reason: str | None = None, *, phase: str = "", n_pods: int = 3) -> JobUpdate:
    message = f"{reason}: {n_pods} of 8"
    return JobUpdate(
        JOB, phase, running=0, succeeded=0, failed=0, unschedulable=reason, message=message, pending=n_pods
    )


def group_of(job: str) -> AnyGroup | None:
    return GROUP if job == JOB else None


def test_a_gang_that_has_only_just_begun_to_wait_is_not_reported() -> None:
    debounce = ReportDebounce(hold_s=1.0)
    waits = update("too-few-pods")
    assert debounce.due([waits], group_of, 10.0) == []
    assert debounce.due([waits], group_of, 10.9) == []
    assert debounce.due([waits], group_of, 11.0) == [waits]


def test_one_that_stopped_waiting_in_between_begins_anew() -> None:
    debounce = ReportDebounce(hold_s=1.0)
    debounce.due([update("too-few-pods")], group_of, 10.0)
    assert debounce.due([], group_of, 10.5) == []
    assert debounce.due([update("too-few-pods")], group_of, 11.5) == []


def test_numbers_that_keep_changing_are_told_once_in_a_while() -> None:
    debounce = ReportDebounce(hold_s=1.0)
    told = [bool(debounce.due([update("too-few-pods")], group_of, 10.0 + step / 4)) for step in range(10)]
    assert told == [False] * 4 + [True] + [False] * 4 + [True]


def test_a_gang_whose_pods_keep_coming_is_not_reported_until_they_stop() -> None:
    debounce = ReportDebounce(hold_s=1.0)
    told = [debounce.due([update("too-few-pods", n_pods=n)], group_of, 10.0 + n / 2) for n in range(1, 6)]
    assert told == [[]] * 5
    assert debounce.due([update("too-few-pods", n_pods=5)], group_of, 13.5)


def test_thousands_of_pods_that_are_being_made_are_not_told_that_the_others_are_missing() -> None:
    debounce = ReportDebounce(hold_s=1.0)
    assert not any(debounce.due([update("too-few-pods", n_pods=n)], group_of, n / 100) for n in range(5000))


def test_not_even_one_whose_pods_never_stop_coming_is_held_back_for_ever() -> None:
    debounce = ReportDebounce(hold_s=1.0)
    assert any(debounce.due([update("too-few-pods", n_pods=n)], group_of, n / 2) for n in range(130))


def test_a_new_phase_is_told_at_once_and_alone() -> None:
    (told,) = ReportDebounce(hold_s=1.0).due([update("too-few-pods", phase="Inqueue")], group_of, 10.0)
    assert (told.phase, told.unschedulable, told.message) == ("Inqueue", None, "")


def test_jobs_that_do_not_wait_are_never_held_back() -> None:
    assert ReportDebounce(hold_s=1.0).due([update()], group_of, 10.0) == [update()]
