"""What the benchmarks on a real API server send."""

from __future__ import annotations

import msgspec

from benchmarks.kubernetes import documents
from muster.api import Pod, PodGroup
from muster.api.kinds import decode_as
from muster.api.objects.batch import Job
from muster.controllers.contract import Create
from muster.controllers.jobs.controller import JobController


def test_raw_pods_of_a_job_are_those_that_controllers_make() -> None:
    jobs = JobController()
    job = decode_as(msgspec.json.decode(documents.job("large", 3).body), Job)
    raw = [msgspec.json.decode(request.body) for request in documents.pods_of_job("large", 3)]
    job.metadata.namespace = raw[0]["metadata"]["namespace"]
    job.metadata.uid = raw[0]["metadata"]["ownerReferences"][0]["uid"]
    jobs.take("ADDED", job, 0.0)
    [step] = jobs.steps(0.0)
    jobs.settle(step.key, 0.0)
    [created] = [action for action in step.plan.actions if isinstance(action, Create)]
    group = decode_as({**created.document, "status": {"phase": "Inqueue"}}, PodGroup)
    jobs.take("ADDED", group, 1.0)
    [step] = jobs.steps(1.0)
    made = [action.document for action in step.plan.actions if isinstance(action, Create)]
    assert [each for each in made if each["kind"] == Pod.kind] == raw
