"""Checks of workloads of others, for `validate`: what Kubernetes itself would refuse, and templates of no usable pods.

Without them a mistake would be told of a pod that nobody wrote, or of nothing at all: a Deployment without a template
makes no pods, and a PodGroup of Kubernetes without a minimum is no gang.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from muster.api.documents import without_nulls
from muster.api.errors import Problem, Problems, UserError, at_least, explain, one_of
from muster.api.fields import nearest
from muster.api.objects.meta import K8sModel, decode_hook
from muster.api.objects.pod import Pod
from muster.api.objects.workload_shapes import (
    MADE_OF,
    SHAPES,
    BatchCronJobSpec,
    BatchJobSpec,
    NativePodGroupSpec,
    PodTemplate,
    ReplicaSetSpec,
    templates_in,
)
from muster.api.objects.workloads import Fields, ForeignWorkload
from muster.api.validate_core import CORE_CHECKS, mark_problems

_Model = TypeVar("_Model", bound=K8sModel)
#: What CronJobs do when the last Job still runs.
CONCURRENCY: Final = ("Allow", "Forbid", "Replace")


def workload_problems(thing: ForeignWorkload) -> Problems:
    """Yield what is surely wrong with a workload of others."""
    shape = SHAPES.get((thing.api_version, thing.kind))
    if shape is not None:
        try:
            spec = _converted(thing.spec, shape)
        except UserError as error:
            yield Problem(f"spec.{error.field}", error.text)
            return
        yield from _of_shape(spec)
    yield from _made_of(thing)
    for path, template in templates_in(thing.spec):
        yield from template_problems(path, template)


def template_problems(path: str, template: Fields) -> Problems:
    """Yield what is wrong with the pods that would be made of a template."""
    try:
        made = _converted(template, PodTemplate)
    except UserError as error:
        yield Problem(f"{path}.{error.field}", error.text)
        return
    pod = Pod(metadata=made.metadata, spec=made.spec)
    for problem in (*mark_problems(pod), *CORE_CHECKS[Pod](pod)):
        yield problem._replace(field=f"{path}.{problem.field}")


def _converted(document: Fields, wanted: type[_Model]) -> _Model:
    """A document as a type. Raises UserError."""
    clean = without_nulls(document)
    try:
        return msgspec.convert(clean, wanted, dec_hook=decode_hook)
    except msgspec.ValidationError as error:
        raise explain(str(error), clean) from None


def _of_shape(spec: K8sModel) -> Problems:
    if isinstance(spec, ReplicaSetSpec | BatchJobSpec):
        yield from _template("spec.template", spec.template)
    elif isinstance(spec, BatchCronJobSpec):
        yield from one_of("spec.concurrencyPolicy", spec.concurrency_policy, CONCURRENCY)
        yield from at_least("spec.startingDeadlineSeconds", spec.starting_deadline_seconds, 0)
        if spec.job_template is None:
            yield Problem("spec.jobTemplate", "expected the Job to make, got nothing")
        else:
            yield from _template("spec.jobTemplate.spec.template", spec.job_template.spec.template)
    elif isinstance(spec, NativePodGroupSpec):
        yield from _policy(spec)


def _template(field: str, template: PodTemplate | None) -> Problems:
    if template is None:
        yield Problem(field, "expected a template of pods, got nothing; no pods would be made")
    elif not template.spec.containers:
        yield Problem(f"{field}.spec.containers", "expected at least one container, got none")


def _policy(spec: NativePodGroupSpec) -> Problems:
    here, policy = "spec.schedulingPolicy", spec.scheduling_policy
    if policy is None or (policy.basic is None) == (policy.gang is None):
        given = "nothing" if policy is None or policy.basic is None else "both"
        yield Problem(here, f'expected one of basic and gang, such as {{"gang": {{"minCount": 4}}}}, got {given}')
    elif policy.gang is not None and policy.gang.min_count is None:
        yield Problem(f"{here}.gang.minCount", "expected how many pods start together, got nothing")
    elif policy.gang is not None:
        yield from at_least(f"{here}.gang.minCount", policy.gang.min_count, 1)


def _made_of(thing: ForeignWorkload) -> Problems:
    """Kinds of operators that hold nothing that pods are made of."""
    wanted = MADE_OF.get((thing.kind, thing.api_version.rpartition("/")[0]))
    if wanted is None or thing.spec.get(wanted):
        return
    if meant := next((name for name in thing.spec if name != wanted and nearest(name, (wanted,))), ""):
        yield Problem(f"spec.{meant}", f"unknown field; did you mean {wanted}?")
    else:
        yield Problem(f"spec.{wanted}", "expected what pods are made of, got nothing; no pods would be made")
