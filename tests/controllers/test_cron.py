"""CronJobs: lines of cron, and what is made when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from muster.api import UserError, load_text
from muster.api.objects.batch import CronJob, Job, JobState
from muster.cluster import MemoryCluster
from muster.controllers.cron import CronController, parse_schedule
from muster.controllers.embedded import EmbeddedControllers


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("line", "after", "following"),
    [
        ("*/5 * * * *", "2026-01-01T00:00", "2026-01-01T00:05"),
        ("30 6-16/4 * * 1-5", "2026-01-02T14:31", "2026-01-05T06:30"),  # a Friday; then Monday
        ("0 0 29 2 *", "2026-03-01T00:00", "2028-02-29T00:00"),
        ("0 12 13 * FRI", "2026-01-01T00:00", "2026-01-02T12:00"),  # the 13th, or a Friday
        ("0 0 1 jan,jul *", "2026-01-01T00:00", "2026-07-01T00:00"),
        ("5 4 * * sun", "2026-01-01T00:00", "2026-01-04T04:05"),
        ("5 4 * * 7", "2026-01-01T00:00", "2026-01-04T04:05"),
        ("@hourly", "2026-01-01T00:59", "2026-01-01T01:00"),
        ("@monthly", "2026-01-01T00:00", "2026-02-01T00:00"),
        ("@every 90s", "2026-01-01T00:00:30", "2026-01-01T00:02"),
        ("TZ=Asia/Tokyo 0 9 * * *", "2026-01-01T00:00", "2026-01-02T00:00"),
    ],
)
def test_the_next_time(line: str, after: str, following: str) -> None:
    assert parse_schedule(line).after(at(after)) == at(following)


def test_a_time_that_never_comes() -> None:
    assert parse_schedule("0 0 31 2 *").after(at("2026-01-01T00:00")) is None


def test_an_hour_that_clocks_leave_out() -> None:
    schedule = parse_schedule("30 2 * * *", "Europe/Berlin")
    # On the 29th of March 2026 clocks go from two to three.
    assert schedule.after(at("2026-03-28T02:00")) == at("2026-03-30T00:30")


@pytest.mark.parametrize(
    "line", ["", "* * * *", "61 * * * *", "* * * * mon-", "*/0 * * * *", "@every never", "a b c d e"]
)
def test_lines_that_say_nothing_are_refused(line: str) -> None:
    with pytest.raises(UserError, match=r"spec\.schedule"):
        parse_schedule(line)


def test_a_zone_that_is_nowhere_is_refused() -> None:
    with pytest.raises(UserError, match=r"spec\.timeZone"):
        parse_schedule("* * * * *", "Europe/Nowhere")


CRON = """
apiVersion: batch.volcano.sh/v1alpha1
kind: CronJob
metadata: {name: tick, creationTimestamp: "2026-01-01T00:00:30Z"}
spec:
  schedule: "* * * * *"
  MORE
  jobTemplate:
    metadata: {labels: {team: a}}
    spec: {tasks: [{name: w, replicas: 1, template: {spec: {containers: [{name: c, image: x}]}}}]}
"""


class World:
    """CronJobs alone: the Jobs of tests do what tests say."""

    def __init__(self, more: str = "concurrencyPolicy: Allow") -> None:
        self.cluster = MemoryCluster(load_text(CRON.replace("MORE", more)).objects, start=at("2026-01-01T00:00:30"))
        self.cluster.attach(EmbeddedControllers(self.cluster, [CronController()]))
        self.cluster.poll()

    def go_to(self, text: str) -> None:
        self.cluster.advance_to(at(text))
        self.cluster.poll()

    def jobs(self) -> list[str]:
        return sorted(job.name for job in self.cluster.store.all(Job))

    def cron(self) -> CronJob:
        found = self.cluster.store.get(CronJob, "default/tick")
        assert found is not None
        return found

    def end(self, name: str, phase: str = "Completed") -> None:
        job = self.cluster.store.get(Job, f"default/{name}")
        assert job is not None
        state = JobState(phase=phase, last_transition_time=datetime.fromtimestamp(self.cluster.now(), UTC))
        self.cluster.replace_object(replace(job, status=replace(job.status, state=state)))
        self.cluster.poll()


def job_at(text: str) -> str:
    return f"tick-{int(at(text)) // 60}"


ONE, TWO, FIVE = (job_at(f"2026-01-01T00:0{minute}") for minute in (1, 2, 5))


def test_a_job_is_made_when_it_is_time() -> None:
    world = World()
    assert (world.jobs(), world.cluster.next_event_at()) == ([], at("2026-01-01T00:01"))
    world.go_to("2026-01-01T00:01")
    assert world.jobs() == [ONE]
    job = world.cluster.store.get(Job, f"default/{ONE}")
    assert job is not None
    assert job.metadata.labels == {"team": "a"}
    assert job.metadata.annotations == {"volcano.sh/cronjob-scheduled-timestamp": "2026-01-01T00:01:00Z"}
    status = world.cron().status
    assert status.last_schedule_time == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert [each.name for each in status.active] == [ONE]
    world.end(ONE)
    assert list(world.cron().status.active) == []
    assert world.cron().status.last_successful_time == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


def test_of_several_times_that_were_missed_the_last_counts() -> None:
    world = World()
    world.go_to("2026-01-01T00:05:30")
    assert world.jobs() == [FIVE]


def test_what_is_too_late_is_left_out() -> None:
    world = World("startingDeadlineSeconds: 10")
    world.go_to("2026-01-01T00:05:30")
    assert world.jobs() == []


@pytest.mark.parametrize(("policy", "left"), [("Allow", [ONE, TWO]), ("Forbid", [ONE]), ("Replace", [TWO])])
def test_what_happens_to_a_job_that_still_runs(policy: str, left: list[str]) -> None:
    world = World(f"concurrencyPolicy: {policy}")
    world.go_to("2026-01-01T00:01")
    world.go_to("2026-01-01T00:02")
    assert world.jobs() == left


def test_a_forbidden_time_is_made_up_for_when_the_job_before_has_ended() -> None:
    world = World("concurrencyPolicy: Forbid")
    world.go_to("2026-01-01T00:01")
    world.go_to("2026-01-01T00:02:20")
    world.end(ONE)
    assert world.jobs() == [ONE, TWO]


def test_a_suspended_one_makes_nothing() -> None:
    world = World("suspend: true")
    world.go_to("2026-01-01T00:05")
    assert (world.jobs(), world.cluster.next_event_at()) == ([], None)


def test_history_goes_back_as_far_as_it_says() -> None:
    world = World("{successfulJobsHistoryLimit: 1, failedJobsHistoryLimit: 0}".strip("{}").replace(", ", "\n  "))
    for minute, phase in ((1, "Completed"), (2, "Failed"), (3, "Completed")):
        world.go_to(f"2026-01-01T00:0{minute}")
        world.end(job_at(f"2026-01-01T00:0{minute}"), phase)
    assert world.jobs() == [job_at("2026-01-01T00:03")]
