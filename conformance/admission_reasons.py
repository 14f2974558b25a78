"""What Volcano's webhooks say, and the words by which Muster's message is known to say the same.

A message of Volcano's in which a phrase of the first column stands must be answered by one with the words of the
second, and with the phrase itself: people's scripts look for it. Phrases that are not listed are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_SAME: tuple[tuple[str, str], ...] = (
    (r"regexMatch pattern is invalid", r"regexMatch\.pattern: expected a regular expression"),
    (r"unable to find (job )?queue", r"spec\.queue: .*does not exist"),
    (r"to queue with state `Open`", r"spec\.queue: expected an open queue"),
    (r"'highestTierAllowed' and 'highestTierName'", r"highestTierAllowed or highestTierName, got both"),
    (r"in subGroupPolicy", r"spec\.subGroupPolicy\[\d+\]\.networkTopology"),
    (r"duplicated task name", r"spec\.tasks\[\d+\]\.name: expected a name of its own"),
    (r"duplicate event", r"expected an event that no policy before has"),
    (r"duplicate exitCode", r"exitCode: expected a code that no policy before has"),
    (r"minAvailable' (should|must) not be greater than total", r"spec\.minAvailable: expected at most the replicas"),
    (r"unable to find job plugin", r"spec\.plugins\."),
    (r"No task specified", r"spec\.tasks: expected at least one task"),
    (r"event and exitCode simultaneously", r"expected events or an exitCode, got both"),
    (r"either event and exitCode", r"expected an event, events or an exitCode"),
    (r"invalid policy event", r"policies\[\d+\]\.event: "),
    (r"invalid policy action", r"policies\[\d+\]\.action: "),
    (r"0 is not a valid error code", r"exitCode: expected the exit code of a failure"),
    (r"if there's \* here", r"expected no other event beside"),
    (r"mountPath is required", r"mountPath: expected a path, got nothing"),
    (r"duplicated mountPath", r"mountPath: expected a path of its own"),
    (r"either VolumeClaim or VolumeClaimName", r"spec\.volumes\[\d+\]: expected volumeClaimName or volumeClaim"),
    (r"form a directed acyclic graph", r"dependsOn"),
    (r"'PartitionSize' must be greater", r"partitionSize: expected a number of at least 1"),
    (r"'TotalPartitions' must be greater", r"totalPartitions: expected a number of at least 1"),
    (r"'Replicas' are not equal", r"replicas: expected totalPartitions times partitionSize"),
    (r"'MinAvailable' is not equal", r"minAvailable: expected minPartitions times partitionSize"),
    (r"mpi master task was not found", r"spec\.plugins\.mpi: expected the name of a task"),
    (
        r"aggregate container requests of \d+",
        r"resources\.requests\.\S+: expected at least what the containers ask for",
    ),
    (r"must be less than or equal to \w+ limit of \d+", r"resources\.requests: expected at most the limit"),
    (r"submit job to root queue", r"spec\.queue: expected a queue below the root"),
    (r"submit job to leaf queue", r"spec\.queue: expected a queue without queues below it"),
    (r"may not add or remove tasks", r"spec\.tasks: expected the tasks that the job was made with"),
    (r"may not change fields other than", r"expected no change"),
    (r"the cpu request isn't an integer", r"needs a whole number of CPUs"),
    (r"queue state must be in", r"status\.state: expected"),
    (r"`\w+` queue can not be deleted", r"cannot be deleted"),
    (r"invalid operation", r"expected the operation"),
    (r"must be >= guarantee", r"spec\.deserved\S+: expected at least what is guaranteed"),
    (r"must be <= capability", r"spec\.deserved\S+: expected at most the capability"),
    (r"must have the same length", r"expected as many weights as names"),
    (r"must be larger than 0|is invalid number", r"expected numbers above 0"),
    (r"in the sub path of", r"expected a path of its own"),
    (r"cannot use itself as parent", r"spec\.parent: expected another queue"),
    (r"cannot be the parent queue .* allocated Pods", r"spec\.parent: expected a queue that holds no pods"),
    (r"can not be deleted because it has \d+ child", r"there are queues below it"),
    (r"cannot be deleted because it has allocated Pods", r"the queue holds \d+ pods"),
    (r"exceeds its ancestor's capability", r"spec\.capability\S+: expected at most"),
    (r"smaller than its descendants' max capability", r"spec\.capability\S+: expected at least"),
    (r"sum of children's guarantee", r"spec\.guarantee\.resource\S+: expected at most"),
    (r"sum of children's deserved", r"spec\.deserved\S+: expected at most"),
    (r"must be greater than or equal to 0", r"expected an amount of zero or more"),
    (r"exceeds the maximum allowed depth", r"spec\.parent: expected at most \d+ levels"),
)


def missing_reasons(theirs: Iterable[str], ours: str) -> Iterator[str]:
    """Yield the words and phrases that Muster's message lacks, given what Volcano's messages say."""
    said = " ".join(theirs)
    for phrase, words in _SAME:
        if re.search(phrase, said):
            yield from (each for each in (words, phrase) if not re.search(each, ours))
