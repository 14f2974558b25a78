"""CronJobs: times that can be told, and names that leave room for those of their Jobs."""

from __future__ import annotations

import pytest

from tests.admission.requests import Json, create, document, update


def cron(name: str = "nightly", **spec: object) -> Json:
    return document("CronJob", name, {"schedule": "0 3 * * *", "jobTemplate": {"spec": {}}, **spec})


@pytest.mark.parametrize("spec", [{}, {"timeZone": "Asia/Tokyo"}, {"schedule": "@every 1h"}, {"schedule": "@daily"}])
def test_times_that_can_be_told_are_admitted(spec: Json) -> None:
    assert create(cron(**spec)).is_allowed
    assert update(cron(), cron(**spec)).is_allowed


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"schedule": ""}, "spec.schedule", "schedule is required"),
        ({"schedule": "often"}, "spec.schedule", "schedule is not a valid cron expression"),
        ({"schedule": "61 * * * *"}, "spec.schedule", "schedule is not a valid cron expression"),
        ({"schedule": "TZ=UTC 0 3 * * *"}, "spec.schedule", "schedule should not contain TZ or CRON_TZ"),
        ({"timeZone": ""}, "spec.timeZone", "timeZone must be nil or non-empty string"),
        ({"timeZone": "Local"}, "spec.timeZone", "timeZone can't be Local"),
        ({"timeZone": "Atlantis/Centre"}, "spec.timeZone", "invalid timeZone"),
        ({"concurrencyPolicy": "Perhaps"}, "spec.concurrencyPolicy", 'expected "Allow", "Forbid" or "Replace"'),
        ({"failedJobsHistoryLimit": -1}, "spec.failedJobsHistoryLimit", "at least 0"),
    ],
)
def test_times_that_cannot_are_refused_in_words_that_scripts_know(spec: Json, field: str, words: str) -> None:
    for verdict in (create(cron(**spec)), update(cron(), cron(**spec))):
        [problem] = verdict.problems
        assert problem.field == field
        assert words in verdict.message


def test_jobs_can_be_named_after_it() -> None:
    assert create(cron("n" * 52)).is_allowed
    assert "cronJob name must be no more than 52 characters" in create(cron("n" * 53)).message
