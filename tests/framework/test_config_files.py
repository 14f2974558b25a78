"""Configurations as users have them: in ConfigMaps, in Helm values, and KAI's."""

from __future__ import annotations

import pytest
import yaml

from muster.api import UserError
from muster.framework import SchedulerConfig, parse_config, profile
from muster.scheduler import builtin_registry

PLAIN = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
"""
REGISTRY = builtin_registry(third_party=False)


def config_map(**data: str) -> str:
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "volcano-scheduler-configmap"}, "data": data}
    )


WRAPPED = {
    "configmap": config_map(**{"volcano-scheduler.conf": PLAIN}),
    "configmap with another key": config_map(**{"my.conf": PLAIN, "README": "x"}),
    "volcano's values": yaml.safe_dump(
        {"basic": {"image_pull_secret": ""}, "custom": {"scheduler_config_override": PLAIN}}
    ),
    "volcano's values with the file's name": yaml.safe_dump(
        {"custom": {"scheduler_config_override": yaml.safe_dump({"volcano-scheduler.conf": PLAIN})}}
    ),
    "our values": yaml.safe_dump({"image": {"tag": "x"}, "config": PLAIN}),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_what_is_wrapped_is_what_is_meant(name: str) -> None:
    assert parse_config(WRAPPED[name], "f.yaml") == parse_config(PLAIN, "f.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (config_map(other="x"), "f.yaml: data: expected a configuration under volcano-scheduler.conf, got other"),
        (config_map(**{"a.conf": PLAIN, "b.conf": PLAIN}), "expected one configuration, got a.conf, b.conf"),
        (yaml.safe_dump({"config": ""}), "config is empty: the chart uses its default then"),
        (config_map(**{"volcano-scheduler.conf": "actions: 3"}), "actions: expected names separated by commas"),
        ("kind: SchedulingShard\nspec: {placmentStrategy: {}}\n", "did you mean 'placementStrategy'?"),
        (
            "kind: SchedulingShard\nspec: {actions: {reclame: {}}}\n",
            "unknown action 'reclame'; did you mean",
        ),
        (
            "kind: SchedulingShard\nspec: {plugins: {elastik: {}}}\n",
            "unknown plugin 'elastik'; did you mean",
        ),
        ('actions: "allocate"\nteirs: []\n', "unknown field 'teirs'; did you mean 'tiers'?"),
        ('actions: "a"\ntiers: [{plugins: [{name: gang, enableJobOrdr: true}]}]\n', "did you mean 'enableJobOrder'?"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        parse_config(text, "f.yaml")
    assert str(error.value).startswith("f.yaml: ")
    assert words in str(error.value)


def arguments(config: SchedulerConfig, plugin: str) -> dict[str, object]:
    return dict(next(option.arguments for option in config.plugin_options() if option.name == plugin))


def test_a_shard_of_kai_changes_the_profile_and_says_what_has_no_meaning() -> None:
    shard = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: default}
spec:
  partitionLabelValue: pool-a
  placementStrategy: {gpu: spread, cpu: binpack}
  kValue: 1.5
  minRuntime: {preemptMinRuntime: 5m, reclaimMinRuntime: 10m}
  queueDepthPerAction: {reclaim: 7, allocate: 3}
  args: {verbosity: 4}
  plugins:
    elastic: {enabled: false}
    kubeflow: {enabled: true}
    proportion: {arguments: {kValue: "2"}}
    taskorder: {priority: 5}
  actions:
    preempt: {enabled: false}
    stalegangeviction: {priority: 900}
"""
    found = parse_config(shard, "shard.yaml")
    REGISTRY.check(found, "shard.yaml")
    assert found.actions == ("stalegangeviction", "allocate", "reclaim")
    assert arguments(found, "nodeplacement") == {"gpu": "spread", "cpu": "binpack"}
    assert arguments(found, "minruntime") == {"defaultPreemptMinRuntime": "5m", "defaultReclaimMinRuntime": "10m"}
    assert arguments(found, "fairshare") == {"chargeMovedVictims": False, "kValue": "2"}
    assert found.arguments_of("reclaim")["maxJobsPerQueue"] == 7
    assert "elastic" not in [option.name for option in found.plugin_options()]
    assert [note.removeprefix("shard.yaml: ").partition(":")[0] for note in found.notes] == [
        "spec.placementStrategy",
        "queueDepthPerAction.allocate has no meaning here",
        "spec.plugins",
        "spec.plugins.taskorder.priority has no meaning here",
        "spec.partitionLabelValue",
        "spec.args.verbosity has no meaning here",
    ]


def test_an_empty_shard_is_the_profile() -> None:
    found = parse_config("apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nspec: {}\n", "s")
    ready = profile("kai")
    assert (found.actions, found.tiers, found.notes) == (ready.actions, ready.tiers, ())
    assert found.configurations == ready.configurations


def test_flags_of_a_shard_that_mean_something_here_are_followed() -> None:
    shard = """
kind: SchedulingShard
spec:
  args:
    default-staleness-grace-period: 5s
    max-consolidation-preemptees: "4"
    allow-consolidating-reclaim: "false"
"""
    found = parse_config(shard, "shard.yaml")
    REGISTRY.check(found, "shard.yaml")
    assert found.arguments_of("stalegangeviction")["gracePeriod"] == "5s"
    assert found.arguments_of("consolidation")["maxConsolidationPreemptees"] == "4"
    assert arguments(found, "fairshare")["chargeMovedVictims"] is True
    assert found.notes == ()


def test_a_shard_may_stand_beside_other_objects_but_not_beside_another() -> None:
    shard, monitor = "kind: SchedulingShard\nspec: {kValue: 3}\n", "kind: ServiceMonitor\nspec: {}\n"
    assert arguments(parse_config(f"{monitor}---\n{shard}---\n{monitor}", "s"), "fairshare")["kValue"] == 3
    for text in (f"{shard}---\n{shard}", f"{monitor}---\n{monitor}"):
        with pytest.raises(UserError, match="expected one document, got 2"):
            parse_config(text, "s")


def test_the_shard_of_an_installation_is_read_with_notes() -> None:
    shard = "kind: SchedulingShard\nspec: {goMemLimitRatio: 0.9, scenarioSearchBudgets: {}, plugins: {numa: {}}}\n"
    found = parse_config(shard, "s")
    assert [note.partition(" has no meaning here: ")[0] for note in found.notes] == [
        "s: spec.plugins: plugin numa",
        "s: spec.goMemLimitRatio",
        "s: spec.scenarioSearchBudgets",
    ]
    assert found.tiers == profile("kai").tiers


@pytest.mark.parametrize(
    ("given", "window", "half_life"),
    [
        ({"clientType": "prometheus"}, 7 * 86400, 0),
        ({"usageParams": {"windowSize": "168h", "halfLifePeriod": "2h", "windowType": "sliding"}}, 7 * 86400, 7200),
        ({"usageParams": {"windowSize": "1d"}}, 86400, 0),
    ],
)
def test_shares_depend_on_the_past_where_a_shard_has_a_database_of_it(
    given: dict[str, object], window: float, half_life: float
) -> None:
    shard = {"kind": "SchedulingShard", "spec": {"usageDBConfig": given, "kValue": 2}}
    found = parse_config(yaml.safe_dump(shard), "s")
    REGISTRY.check(found, "s")
    fairshare = arguments(found, "fairshare")
    assert (fairshare["windowSeconds"], fairshare["halfLifeSeconds"], fairshare["kValue"]) == (window, half_life, 2)
    assert [note.partition(":")[0] for note in found.notes] == ["s"]


def test_a_window_of_another_type_is_noted_and_one_that_cannot_be_read_is_refused() -> None:
    shard = "kind: SchedulingShard\nspec: {{usageDBConfig: {{usageParams: {{{}}}}}}}\n"
    found = parse_config(shard.format("windowSize: 1h, windowType: tumbling"), "s")
    assert "windowType: the window is the last 1h at any moment" in found.notes[0]
    with pytest.raises(UserError, match=r"s: spec\.usageDBConfig\.usageParams: expected a duration"):
        parse_config(shard.format("windowSize: a week"), "s")


def test_the_scheduler_configuration_of_kai_is_read() -> None:
    names = [
        "predicates",
        "proportion",
        "priority",
        "nodeavailability",
        "resourcetype",
        "podaffinity",
        "elastic",
        "gpupack",
    ]
    text = yaml.safe_dump(
        {
            "actions": "allocate, reclaim",
            "tiers": [
                {
                    "plugins": [
                        *({"name": name} for name in names),
                        {"name": "nodeplacement", "arguments": {"gpu": "spread"}},
                    ]
                }
            ],
            "queueDepthPerAction": {"reclaim": 5},
        }
    )
    found = parse_config(config_map(**{"config.yaml": text}), "c")
    REGISTRY.check(found, "c")
    used = [option.name for option in found.plugin_options()]
    assert found.actions == ("allocate", "reclaim")
    assert {"fairshare", "gang", "elastic", "nodeorder"} <= set(used)
    assert not {"minruntime", "taskorder", "proportion"} & set(used)
    assert arguments(found, "nodeplacement")["gpu"] == "spread"
    assert found.arguments_of("reclaim")["maxJobsPerQueue"] == 5
    assert len(found.notes) == 2


@pytest.mark.parametrize(
    ("plugin", "given", "words"),
    [
        ("binpack", {"binpack.wieght": 3}, "there is no argument 'binpack.wieght'; did you mean 'binpack.weight'?"),
        ("binpack", {"binpack.weight": "heavy"}, 'binpack.weight: expected an integer, got "heavy"'),
        ("binpack", {"binpack.weight": -1}, "binpack.weight: expected an integer of at least 0, got -1"),
        ("nodeplacement", {"gpu": "pack"}, 'gpu: expected "binpack" or "spread", got "pack"'),
        ("fairshare", {"kValue": [1]}, "kValue: expected a number, got a list"),
    ],
)
def test_wrong_arguments_are_told_in_our_words(plugin: str, given: dict[str, object], words: str) -> None:
    config = parse_config(
        yaml.safe_dump({"actions": "allocate", "tiers": [{"plugins": [{"name": plugin, "arguments": given}]}]}), "f"
    )
    with pytest.raises(UserError) as error:
        REGISTRY.check(config, "f")
    assert str(error.value) == f"f: plugin {plugin}: arguments: {words}"


def test_unknown_names_are_told_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"unknown plugin 'gagn'; did you mean 'gang'\?"):
        REGISTRY.check(parse_config('actions: "allocate"\ntiers: [{plugins: [{name: gagn}]}]\n', "f"))
    with pytest.raises(UserError, match=r"unknown action 'alocate'; did you mean 'allocate'\?"):
        REGISTRY.check(parse_config('actions: "alocate"\ntiers: []\n', "f"))
