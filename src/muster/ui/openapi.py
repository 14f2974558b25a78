"""What the answers under /api look like, as OpenAPI: for whoever writes a program against them, and for the tests."""

from __future__ import annotations

from muster import __version__
from muster.ui.history import Json

_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "number"}
_COUNT: Json = {"type": "integer"}
_TRUTH: Json = {"type": "boolean"}
_ANY: Json = {}


def _maybe(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(schema: Json) -> Json:
    return {"type": "array", "items": schema}


def _map(schema: Json) -> Json:
    return {"type": "object", "additionalProperties": schema}


def _thing(**fields: Json) -> Json:
    """An object with exactly these fields."""
    return {"type": "object", "properties": fields, "required": sorted(fields), "additionalProperties": False}


def _open(**fields: Json) -> Json:
    """An object with at least these fields; the rest is documented with the command that prints the same."""
    return {"type": "object", "properties": fields, "required": sorted(fields)}


_PLACED = _thing(pod=_TEXT, node=_TEXT)
_LINE = _maybe(_thing(overall=_COUNT, inQueue=_COUNT, why=_TEXT))
_FAULT = _thing(domain=_TEXT, fault=_TEXT)
_ASIDE = _thing(kind=_TEXT, namespace=_TEXT, name=_TEXT, reason=_TEXT)
_COUNTS = _thing(bind=_COUNT, evict=_COUNT, nominate=_COUNT)
_AMOUNTS = _map(_TEXT)

SCHEMAS: dict[str, Json] = {
    "Error": _thing(error=_TEXT),
    "Status": _thing(
        version=_TEXT,
        source={"enum": ["files", "snapshot", "cluster", "replay"]},
        title=_TEXT,
        words=_TEXT,
        live=_TRUTH,
        ended=_TRUTH,
        trouble=_TEXT,
        start=_NUMBER,
        cycles=_COUNT,
        cycle=_maybe(_COUNT),
        time=_maybe(_NUMBER),
        firstWhole=_maybe(_COUNT),
        running=_maybe(_COUNT),
        waiting=_maybe(_COUNT),
        quarantined=_COUNT,
        counts=_map(_COUNT),
    ),
    "Tree": _thing(
        revision=_TEXT,
        nodes=_list(_TEXT),
        domains=_thing(name=_list(_TEXT), tier=_list(_COUNT), parent=_list(_COUNT), lo=_list(_COUNT), hi=_list(_COUNT)),
        tiers=_list(_thing(tier=_COUNT, name=_TEXT, domains=_COUNT)),
        faults=_list(_FAULT),
        resources=_list(_thing(name=_TEXT, unit={"enum": ["milli", "bytes", "count"]})),
        scarce=_TEXT,
    ),
    "State": _thing(
        cycle=_COUNT,
        time=_NUMBER,
        revision=_TEXT,
        scarce=_TEXT,
        resources=_map(_thing(total=_list(_COUNT), used=_list(_COUNT))),
        pods=_list(_COUNT),
        states=_list(_TEXT),
        state=_list(_COUNT),
        leaving=_list(_COUNT),
        promised=_list(_COUNT),
        jobs=_list(_TEXT),
        queues=_list(_TEXT),
        jobQueue=_list(_COUNT),
        holders=_thing(start=_list(_COUNT), job=_list(_COUNT), amount=_list(_COUNT)),
    ),
    "PodRow": _thing(pod=_TEXT, job=_TEXT, queue=_TEXT, status=_TEXT, asks=_AMOUNTS),
    "Node": _thing(
        name=_TEXT,
        state=_TEXT,
        allocatable=_AMOUNTS,
        used=_AMOUNTS,
        free=_AMOUNTS,
        pods=_COUNT,
        jobs=_list(_TEXT),
        taints=_list(_TEXT),
        row=_COUNT,
        domains=_list(_thing(name=_TEXT, tier=_COUNT)),
        labels=_map(_TEXT),
        running=_list({"$ref": "#/components/schemas/PodRow"}),
        promisedTo=_list({"$ref": "#/components/schemas/PodRow"}),
    ),
    "JobRow": _thing(
        job=_TEXT,
        queue=_TEXT,
        state={"enum": ["running", "growing", "starting", "promised", "waiting", "finished"]},
        placed=_COUNT,
        pending=_COUNT,
        minimum=_COUNT,
        priority=_COUNT,
        ageSeconds=_NUMBER,
        runningSeconds=_maybe(_NUMBER),
        # Since it was made, or last lost pods; null: it does not wait.
        waitsSeconds=_maybe(_NUMBER),
        line=_LINE,
        reason=_TEXT,
        startsInSeconds=_maybe(_NUMBER),
        nodes=_list(_TEXT),
        asks=_AMOUNTS,
        owner=_maybe(_thing(kind=_TEXT, name=_TEXT)),
    ),
    "Jobs": _thing(
        cycle=_COUNT,
        time=_NUMBER,
        total=_COUNT,
        found=_COUNT,
        offset=_COUNT,
        states=_map(_COUNT),
        queues=_list(_TEXT),
        namespaces=_list(_TEXT),
        jobs=_list({"$ref": "#/components/schemas/JobRow"}),
    ),
    "Event": _open(
        time=_NUMBER,
        cycle=_maybe(_COUNT),
        kind={"enum": ["created", "bind", "evict", "nominate", "cleared", "waits", "phase"]},
        text=_TEXT,
        pods=_list(_PLACED),
    ),
    "Job": _thing(
        cycle=_COUNT,
        time=_NUMBER,
        row={"$ref": "#/components/schemas/JobRow"},
        headline=_TEXT,
        text=_list(_TEXT),
        # As `muster explain --output json`.
        explanation=_open(job=_TEXT, queue=_TEXT, state=_TEXT, reason=_ANY, advice=_list(_TEXT), holders=_list(_ANY)),
        # Whether any queue but its own and those above holds something.
        othersHold=_TRUTH,
        pods=_list(_thing(pod=_TEXT, node=_TEXT, promised=_TEXT, status=_TEXT)),
        # What keeps all evictions from it; "": nothing does.
        notPreemptible=_TEXT,
        timeline=_list({"$ref": "#/components/schemas/Event"}),
        # Who holds what it lacks, and got it while it waited.
        came=_list(_thing(job=_TEXT, time=_NUMBER, cycle=_COUNT)),
    ),
    "Remedies": _thing(
        cycle=_COUNT,
        # With what to ask /api/whatif to see what it does; of some nothing can be asked.
        advice=_list(_thing(text=_TEXT, changes=_list(_thing(kind=_TEXT, text=_TEXT)))),
        untried=_list(_TEXT),
        expectedStart=_maybe(_open(inSeconds=_maybe(_NUMBER), text=_TEXT)),
        text=_list(_TEXT),
    ),
    "Queue": _open(
        name=_TEXT,
        parent=_TEXT,
        priority=_COUNT,
        open=_TRUTH,
        fault=_TEXT,
        jobs=_thing(running=_COUNT, waiting=_COUNT, pendingPods=_COUNT),
        reasons=_list(_thing(code=_TEXT, text=_TEXT, jobs=_COUNT)),
        # In base units; -1: unlimited.
        amounts=_map(
            _thing(quota=_maybe(_COUNT), limit=_maybe(_COUNT), fairShare=_maybe(_COUNT), held=_COUNT, asked=_COUNT)
        ),
    ),
    "Queues": _thing(
        cycle=_COUNT,
        time=_NUMBER,
        total=_AMOUNTS,
        totals=_map(_COUNT),
        units=_map(_TEXT),
        heldByOthers=_AMOUNTS,
        behindTaints=_AMOUNTS,
        queues=_list({"$ref": "#/components/schemas/Queue"}),
        loans=_list(_thing(borrower=_TEXT, lender=_TEXT, resource=_TEXT, amount=_TEXT, base=_COUNT, unit=_TEXT)),
        missing=_list(_thing(queue=_TEXT, jobs=_COUNT)),
        takings=_list(_open(**{"from": _TEXT, "to": _TEXT, "pods": _COUNT, "jobs": _list(_TEXT), "for": _list(_TEXT)})),
    ),
    "Series": _thing(
        resource=_TEXT,
        unit=_TEXT,
        cycle=_list(_COUNT),
        time=_list(_NUMBER),
        queues=_map(_thing(held=_list(_COUNT), fairShare=_list(_maybe(_COUNT)))),
        loans=_list(_thing(lender=_TEXT, borrower=_TEXT, amount=_list(_COUNT))),
        takings=_list(_thing(time=_NUMBER, cycle=_COUNT, **{"from": _TEXT, "to": _TEXT}, pods=_COUNT)),
    ),
    "Cycles": _thing(
        cycle=_list(_COUNT),
        time=_list(_NUMBER),
        bind=_list(_COUNT),
        evict=_list(_COUNT),
        nominate=_list(_COUNT),
        running=_list(_COUNT),
        waiting=_list(_COUNT),
        whole=_list(_TRUTH),
        failed=_list(_TRUTH),
    ),
    "Group": _thing(
        kind=_TEXT,
        job=_TEXT,
        beneficiary=_TEXT,
        why=_TEXT,
        queue=_TEXT,
        beneficiaryQueue=_TEXT,
        n=_COUNT,
        pods=_list(_PLACED),
        record=_ANY,
        # How the two queues stood when one gave to the other, or in one queue the two priorities, as a sentence.
        balance=_TEXT,
    ),
    "Decisions": _thing(
        before=_maybe(_COUNT),
        cycles=_list(
            _thing(
                cycle=_COUNT,
                time=_NUMBER,
                counts=_COUNTS,
                groups=_list({"$ref": "#/components/schemas/Group"}),
                tried=_list(_thing(job=_TEXT, phase=_TEXT, code=_TEXT, message=_TEXT)),
                actions=_map(_thing(milliseconds=_NUMBER, attempts=_map(_COUNT), dryRuns=_COUNT, cutShort=_COUNT)),
                failures=_list(_thing(error=_TEXT, what=_TEXT)),
                error=_TEXT,
            )
        ),
    ),
    "Config": _thing(
        source=_TEXT,
        actions=_list(_thing(name=_TEXT, arguments=_map(_ANY))),
        tiers=_list(_list(_thing(name=_TEXT, flags=_map(_TRUTH), arguments=_map(_ANY)))),
        notes=_list(_TEXT),
        summaries=_map(_TEXT),
        unused=_list(_TEXT),
        pluginsLeftOut=_list(_TEXT),
        quarantined=_list(_ASIDE),
        faults=_list(_FAULT),
        shard=_maybe(_thing(mode=_TEXT, nodes=_COUNT)),
        # Null: nobody is elected, or nobody could tell; then `trouble` says why.
        surroundings=_thing(
            leaders=_maybe(
                _list(
                    _thing(
                        lease=_TEXT,
                        namespace=_TEXT,
                        holder=_TEXT,
                        since=_maybe(_NUMBER),
                        renewed=_maybe(_NUMBER),
                        lasts=_COUNT,
                        changes=_COUNT,
                    )
                )
            ),
            shards=_list(
                _thing(shard=_TEXT, scheduler=_TEXT, wanted=_COUNT, inUse=_COUNT, toAdd=_COUNT, toRemove=_COUNT)
            ),
            trouble=_TEXT,
        ),
        errors=_list(_thing(cycle=_COUNT, time=_NUMBER, error=_TEXT)),
    ),
    "Names": _thing(jobs=_list(_TEXT), queues=_list(_TEXT)),
    "Search": _thing(
        text=_TEXT,
        found=_list(_open(kind={"enum": ["job", "queue", "node", "domain", "pod"]}, name=_TEXT)),
    ),
    "Lab": _thing(
        runs=_list(_thing(name=_TEXT, called=_TEXT, trace=_TEXT, texts=_map(_TEXT), numbers=_map(_maybe(_NUMBER)))),
        figures=_list(_thing(path=_TEXT, what=_TEXT, better={"enum": [-1, 0, 1]})),
        # As `muster compare --output json`, each with the name of its folder.
        comparisons=_list(_open(name=_TEXT, baseline=_TEXT, cases=_map(_ANY))),
    ),
    "Question": _open(
        changes=_list(
            _thing(kind={"enum": ["add-nodes", "drain", "delete", "queue", "priority", "config", "submit"]}, text=_TEXT)
        )
    ),
    # As `muster whatif --output json`.
    "Comparison": _open(
        cycle=_COUNT,
        changes=_list(_TEXT),
        notes=_list(_TEXT),
        without=_open(started=_COUNT, waiting=_COUNT, evicted=_COUNT, gpusHeld=_NUMBER, gpus=_NUMBER),
        jobs=_list(_open(job=_TEXT, difference=_TEXT, without=_ANY)),
    ),
    # The report is as `muster replay` writes it.
    "Run": _thing(name=_TEXT, report=_map(_ANY)),
}

_AT = ("at", "number of the cycle to look at; the latest unless given", False)
#: Path, schema of its answer, what it is, and its parameters: name, meaning, whether it is part of the path.
PATHS: tuple[tuple[str, str, str, tuple[tuple[str, str, bool], ...]], ...] = (
    ("/api/status", "Status", "How the feed is.", ()),
    ("/api/cluster/tree", "Tree", "Nodes in the order of the topology tree, and the domains around them.", (_AT,)),
    ("/api/cluster/state", "State", "What nodes have, what is used and by whom, in columns.", (_AT,)),
    ("/api/nodes/{name}", "Node", "One node with its pods.", (("name", "of the node", True), _AT)),
    (
        "/api/jobs",
        "Jobs",
        "Jobs in line, then the others.",
        (
            ("q", "text in name or reason", False),
            ("queue", "of this queue", False),
            ("state", "in this state, or in one of several with commas in between", False),
            ("namespace", "in this namespace", False),
            ("offset", "leave out so many", False),
            ("limit", "at most so many", False),
            _AT,
        ),
    ),
    ("/api/jobs/{name}", "Job", "One job, explained, with its timeline.", (("name", "of the job", True), _AT)),
    (
        "/api/remedies/{name}",
        "Remedies",
        "What would let a job start, tried on a copy as by `muster explain`; this can take seconds.",
        (("name", "of the job", True), _AT),
    ),
    ("/api/queues", "Queues", "The tree of queues, loans, and who took from whom.", (_AT,)),
    ("/api/queues/series", "Series", "What queues held over time.", (("resource", "such as cpu", False),)),
    ("/api/cycles", "Cycles", "All cycles, a number each.", ()),
    (
        "/api/decisions",
        "Decisions",
        "Cycles with what they decided, the latest first.",
        (
            ("before", "cycles below this number", False),
            ("limit", "at most so many", False),
            ("job", "about this job", False),
            ("kind", "bind, evict or nominate", False),
            ("quiet", "true: also cycles without a decision", False),
        ),
    ),
    ("/api/names", "Names", "The first jobs and queues in the order in which they came: who has which colour.", ()),
    ("/api/config", "Config", "The configuration as understood, and what could not be used.", ()),
    ("/api/search", "Search", "Names that hold a text.", (("q", "the text", False), _AT)),
    ("/api/lab", "Lab", "Replays with the figures that are compared.", ()),
    ("/api/lab/{name}", "Run", "One replay.", (("name", "of the run", True),)),
    (
        "/api/lab/{name}/{key}",
        "Run",
        "One replay of a comparison.",
        (("name", "of the comparison", True), ("key", "of the run, as `runs` of its cases has it", True)),
    ),
)


def openapi_document() -> Json:
    """The description of the interface."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Muster dashboard",
            "version": __version__,
            "description": "Read-only. /api/events is a stream of server-sent events: `status` with a Status.",
        },
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"bearer": []}],
        "paths": {
            **{path: {"get": _operation(answer, what, given)} for path, answer, what, given in PATHS},
            "/api/whatif": {
                "post": {
                    **_operation("Comparison", "What changes would do; nothing is changed.", ()),
                    "requestBody": {"required": True, "content": _content("Question")},
                }
            },
        },
    }


def _content(name: str) -> Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _operation(answer: str, what: str, given: tuple[tuple[str, str, bool], ...]) -> Json:
    return {
        "summary": what,
        "parameters": [
            {
                "name": name,
                "in": "path" if is_path else "query",
                "required": is_path,
                "description": meaning,
                "schema": {"type": "string"},
            }
            for name, meaning, is_path in given
        ],
        "responses": {
            "200": {"description": what, "content": _content(answer)},
            "default": {"description": "What is wrong.", "content": _content("Error")},
        },
    }
