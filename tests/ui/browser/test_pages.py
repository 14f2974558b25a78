"""Each page, driven as a reader would, on the demo, on a network, on a broken cluster and on a large one."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from benchmarks.ui import FIRST_DRAWN, frames_ms, large_feed, served
from muster.api import load_files, load_text
from muster.framework import default_config
from muster.ui.app import Desk
from muster.ui.feeds import Feed, FileFeed, Label, Played
from muster.ui.runs import Runs
from tests.ui.browser.conftest import Open
from tests.ui.conftest import TRIALS, finished

expect.set_options(timeout=20_000)

#: As long as Kubernetes lets names be.
LONG = "a-name-of-many-words-with-no-place-to-break-" + 19 * "x"

PAGES = ("/cluster", "/jobs", "/jobs/research/evaluate", "/queues", "/decisions", "/whatif", "/lab", "/config")


@pytest.fixture(scope="module")
def long_names() -> FileFeed:
    node = f"{{kind: Node, apiVersion: v1, metadata: {{name: {LONG}}}, status: {{allocatable: {{cpu: 4, pods: 9}}}}}}"
    group = "apiVersion: scheduling.volcano.sh/v1beta1"
    queue = f"{{kind: Queue, {group}, metadata: {{name: {LONG}}}, spec: {{weight: 1}}}}"
    jobs = []
    for name in (LONG, f"{LONG}2"):
        of = f"namespace: {LONG}, annotations: {{scheduling.k8s.io/group-name: {name}}}"
        spec = "{schedulerName: volcano, containers: [{name: main, resources: {requests: {cpu: 3}}}]}"
        meta = f"{{name: {name}, namespace: {LONG}}}"
        jobs.append(f"{{kind: PodGroup, {group}, metadata: {meta}, spec: {{minMember: 1, queue: {LONG}}}}}")
        jobs.append(f"{{kind: Pod, apiVersion: v1, metadata: {{name: {name}-0, {of}}}, spec: {spec}}}")
    text = "\n---\n".join((node, queue, *jobs))
    return finished("long names", Played(load_text(text, "long names"), default_config()))


def drawn(page: Page) -> None:
    page.wait_for_function(FIRST_DRAWN)


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_page_fits_its_screen(show: Open, demo: FileFeed, path: str, width: int, scheme: str) -> None:
    page = show(Desk(demo), path, width=width, scheme=scheme)
    expect(page.locator("main .panel, main .empty").first).to_be_visible()
    overflow = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0, "the page can be moved sideways"


def test_why_a_job_waits_who_took_its_place_and_what_would_let_it_start(show: Open, demo: FileFeed) -> None:
    page = show(Desk(demo))
    drawn(page)
    page.get_by_role("link", name="1 job waits").click()
    expect(page).to_have_url(re.compile(r"/jobs\?state=waiting"))
    page.get_by_role("link", name="research/evaluate").click()
    expect(page.get_by_role("heading", name="Why does it wait?")).to_be_visible()
    expect(page.locator(".reason")).to_contain_text("lack a label that the pod's node selector asks for")
    expect(page.locator(".advice")).to_contain_text("label the nodes, or change the node selector")
    page.keyboard.press("/")
    page.keyboard.type("product/serve")
    expect(page.get_by_role("option").first).to_contain_text("product/serve")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("product/serve")
    expect(page.get_by_role("option").first).to_contain_text("product/serve")
    page.keyboard.press("Enter")
    expect(page.locator(".timeline .is-evict")).to_contain_text("research/pretrain")
    expect(page.locator(".timeline .is-evict")).to_contain_text(
        "Before it, product held 20 GPUs, its fair share was 7 GPUs"
    )
    page.go_back()
    expect(page.locator("h1")).to_contain_text("research/evaluate")


@pytest.mark.parametrize(
    ("trial", "job", "why", "taker", "remedies"),
    [
        ("quota-above-leaf-1", "ns/w2", "for 1 of 1 pod", "ns/asker", ["wait for ns/asker", "add 1 node like n1"]),
        ("surplus-first-1", "d/low", "for 2 of 2 pods", "d/hi", ["wait for d/hi or d/mid", "add 1 node like n1"]),
        ("nominations-1", "default/f-n1", "for 1 of 1 pod", "default/g", ["wait for default/g", "add 1 node like n3"]),
    ],
)
def test_the_three_questions_are_answered_on_clusters_of_others(
    show: Open, trial: str, job: str, why: str, taker: str, remedies: list[str]
) -> None:
    file = TRIALS / f"{trial}.yaml"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    page = show(Desk(finished(trial, Played(load_files([file]), default_config(), cycles=30))))
    waiting = page.locator(".panel", has=page.get_by_role("heading", name="Who waits"))
    waiting.get_by_role("link", name=job).click()

    def panel(title: str) -> Locator:
        return page.locator(".panel", has=page.get_by_role("heading", name=title))

    expect(panel("Why does it wait?")).to_contain_text(f"no node has room {why}")
    expect(panel("Who has its place?").locator(".lost")).to_contain_text(f"for {taker}")
    for remedy in remedies:
        expect(panel("What would let it start?").locator(".advice")).to_contain_text(remedy)
    expect(panel("What would let it start?")).to_contain_text("not known: nobody says when")


def test_long_names_stay_within_the_page(show: Open, long_names: FileFeed) -> None:
    for path in ("/cluster", "/jobs", f"/jobs/{LONG}/{LONG}", f"/queues?queue={LONG}", "/decisions"):
        page = show(Desk(long_names), path, width=390)
        expect(page.locator("main .panel").first).to_be_visible()
        page.wait_for_timeout(300)
        overflow = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0, f"{path} can be moved sideways"


def test_a_page_that_breaks_says_so_and_the_others_go_on(chromium: Browser, demo: FileFeed) -> None:
    with served(Desk(demo)) as address, chromium.new_context() as context:
        page = context.new_page()
        page.route("**/api/queues", lambda route: route.fulfill(json={"cycle": 12, "queues": None}))
        page.goto(f"{address}/queues")
        expect(page.get_by_role("alert")).to_contain_text("This page could not be shown")
        page.get_by_role("link", name="Jobs", exact=True).click()
        expect(page.get_by_role("link", name="research/evaluate")).to_be_visible()


def test_the_map_is_operated_by_keys_and_tells_what_it_shows(show: Open, demo: FileFeed) -> None:
    page = show(Desk(demo), "/cluster")
    drawn(page)
    canvas = page.get_by_role("application")
    canvas.focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    told = page.locator(".map [aria-live]")
    expect(told).to_contain_text("gpu-1: 0 of 8 GPUs free")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("node=gpu-1"))
    panel = page.locator(".detail")
    expect(panel).to_contain_text("research/pretrain")
    panel.get_by_role("link", name="Close").click()
    page.get_by_role("radio", name="Table").click()
    expect(page.get_by_role("row", name=re.compile("gpu-4"))).to_contain_text("1")
    page.get_by_role("radio", name="Map").click()
    page.get_by_role("radio", name="Faults").click()
    expect(page.locator(".legend")).to_contain_text("ready (5)")


def test_cycles_are_played_and_stand_in_the_address(show: Open, demo: FileFeed) -> None:
    page = show(Desk(demo), "/cluster?at=1")
    expect(page.locator(".player")).to_contain_text("17 pods bound")
    page.get_by_role("button", name="Next cycle").click()
    expect(page.locator(".player")).to_contain_text("6 evicted")
    expect(page).to_have_url(re.compile("at=4"))
    page.get_by_role("button", name="latest").click()
    expect(page).not_to_have_url(re.compile("at="))
    page.get_by_role("button", name="Play the cycles").click()
    expect(page.locator(".player")).to_contain_text("6 evicted")


def test_queues_say_who_took_from_whom(show: Open, demo: FileFeed) -> None:
    page = show(Desk(demo), "/queues")
    expect(page.locator(".flow")).to_contain_text("research")
    tree = page.get_by_role("region", name="Queues")
    expect(tree.get_by_role("row", name=re.compile("^product"))).to_contain_text("17")
    expect(page.get_by_role("link", name="+2m: 6 pods of product left for research")).to_be_visible()
    expect(page.locator(".chart canvas").first).to_be_visible()
    page.get_by_role("combobox", name="Resource").select_option("cpu")
    expect(page).to_have_url(re.compile("of=cpu"))


def test_decisions_show_who_left_for_whom(show: Open, demo: FileFeed) -> None:
    page = show(Desk(demo), "/decisions?kind=evict")
    picture = page.locator(".flow")
    expect(picture).to_have_count(1)
    left, right = picture.locator("ul").all()
    expect(left).to_contain_text("product/serve")
    expect(left).to_contain_text("6 pods, queue product")
    expect(right).to_contain_text("research/pretrain")
    expect(picture.locator("path")).to_have_count(1)
    page.get_by_text("Record of the decision").click()
    expect(page.locator(".record dl")).to_be_visible()


def test_the_first_page_is_of_the_cycle_that_is_looked_at(show: Open, demo: FileFeed) -> None:
    page = show(Desk(demo), "/cluster?at=4&node=gpu-1")
    drawn(page)
    expect(page.locator(".figures")).to_contain_text("2 jobs wait, 4 run")
    latest = page.locator(".panel", has=page.get_by_role("heading", name="Decided last"))
    expect(latest.locator("li").first).to_contain_text("evicted")
    waiting = page.locator(".panel", has=page.get_by_role("heading", name="Who waits"))
    expect(waiting.locator("li")).to_have_count(2)
    expect(page.locator(".detail")).to_contain_text("Promised to")


def test_a_remedy_is_tried_with_a_click(show: Open, demo: FileFeed) -> None:
    page = show(Desk(demo), "/jobs/product/serve")
    advice = page.locator(".advice li").filter(has_text="add 1 node like gpu-1")
    advice.get_by_role("link", name="try it, and see what else it changes").click()
    expect(page.get_by_role("heading", name=re.compile("With 1 more node like gpu-1"))).to_be_visible()
    mine = page.locator(".panel", has=page.get_by_role("heading", name="What it does to product/serve"))
    expect(mine).to_contain_text("+1 pod")
    expect(mine).to_contain_text("10 of 10 pods")
    mine.get_by_role("link", name="product/serve").click()
    expect(page.get_by_role("heading", name="product/serve")).to_be_visible()


def test_what_if_stands_beside_what_is(show: Open, demo: FileFeed) -> None:
    page = show(Desk(demo), "/whatif")
    page.get_by_role("combobox", name="Add nodes").fill("1 gpu-1")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("heading", name=re.compile("With 1 more node like gpu-1"))).to_be_visible()
    expect(page.locator(".sides div").filter(has_text="GPUs there are")).to_contain_text("40 +8 32 without")
    expect(page).to_have_url(re.compile("c=add-nodes"))
    page.reload()
    expect(page.get_by_role("heading", name=re.compile("With 1 more node like gpu-1"))).to_be_visible()
    page.goto(page.url.split("?")[0] + "?c=drain:gpu-9")
    expect(page.get_by_role("alert")).to_contain_text("there is no node")


def test_runs_are_compared(show: Open, demo: FileFeed, tmp_path: Path) -> None:
    for name, wait in (("one", 5.0), ("two", 7.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(
            f'{{"name": "{name}", "wait_s": {{"mean": {wait}}}, "finished": 3}}'
        )
    page = show(Desk(demo, Runs((tmp_path,))), "/lab")
    row = page.get_by_role("row", name=re.compile("wait, mean"))
    expect(row).to_contain_text("5")
    expect(row.locator(".best")).to_have_text("5s")


def test_of_a_comparison_the_runs_of_one_seed_can_be_looked_at(show: Open, demo: FileFeed, tmp_path: Path) -> None:
    waits = {"muster": [60.0, 240.0], "kai": [180.0, 120.0]}
    judged = {
        name: {"mean": sum(of) / 2, "low": 1.0, "high": 299.0, "values": of, "ratio": None, "verdict": None}
        for name, of in waits.items()
    }
    keys = {name: [f"{name}{seed}" for seed in (0, 1)] for name in waits}
    case = {"jobs": 3, "runs": keys, "figures": {"wait_s.mean": judged}}
    told = {"seeds": [0, 1], "vary": "none", "baseline": "muster", "cases": {"a trace": case}}
    (tmp_path / "runs").mkdir()
    (tmp_path / "compare.json").write_text(json.dumps(told))
    for name in waits:
        longest = [{"job": f"late-for-{name}", "queue": "q", "user": "ann", "gpus": 8, "wait_s": 7200.0}]
        series = {"time_s": [0, 60, 120], "held_gpus": [0, 8, 0], "waiting_gpus": [8, 0, 0]}
        run = {"name": name, "starving": longest, "series": series}
        (tmp_path / "runs" / f"{name}1.json").write_text(json.dumps(run))
    page = show(Desk(demo, Runs((tmp_path,))), "/lab")
    row = page.get_by_role("row", name=re.compile("wait, mean"))
    expect(row).to_contain_text("2m 30s")
    expect(page.locator("main")).not_to_contain_text("late-for")
    page.get_by_role("radio", name="seed 1").click()
    expect(row).to_contain_text("4m")
    expect(row).to_contain_text("2m×0.50")
    for name in waits:
        expect(page.locator("main")).to_contain_text(f"late-for-{name}")
    expect(page.get_by_role("heading", name="GPUs held, over time")).to_be_visible()
    page.reload()
    expect(page.get_by_role("radio", name="seed 1")).to_have_attribute("aria-checked", "true")
    is_whole(page)


def test_commands_lead_to_the_cluster_that_is_shown(show: Open) -> None:
    feed = large_feed(4, 8)
    feed.label = Label("cluster", "prod", "--cluster --kubeconfig '/home/ann b/config' --context prod --config kai")
    page = show(Desk(feed), "/cluster")
    page.get_by_text("As a command, as JSON, or as a link").click()
    expect(page.locator(".commands")).to_contain_text("muster nodes --cluster --kubeconfig '/home/ann b/config'")
    expect(page.locator(".commands")).to_contain_text(
        "kubectl --kubeconfig '/home/ann b/config' --context prod get nodes"
    )


def test_the_theme_can_be_chosen_and_stays(show: Open, demo: FileFeed) -> None:
    page = show(Desk(demo), "/jobs")
    page.get_by_role("button", name="Change to the dark theme").click()
    page.reload()
    expect(page.get_by_role("button", name="Change to the light theme")).to_be_visible()
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(14, 19, 26)"


def test_tiers_fold(show: Open, network: FileFeed) -> None:
    page = show(Desk(network), "/cluster")
    drawn(page)
    expect(page.locator("h2").first).to_contain_text("8 nodes, 6 domains")
    page.get_by_role("combobox", name="Fold").select_option("1")
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".map [aria-live]")).to_contain_text("2 nodes, folded")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("open="))


BROKEN = """
{"apiVersion": "muster.sh/v1alpha1", "kind": "ClusterSnapshot", "metadata": {"name": "s"}, "spec": {"takenAt": "2026-01-01T00:00:00Z"}}
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "good"}, "status": {"allocatable": {"cpu": "8", "pods": "9"}}}
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "huge"}, "status": {"allocatable": {"cpu": "10E", "pods": "9"}}}
{"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "rack-1"}, "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "good"}}}]}}
{"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "rack-2"}, "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "good"}}}]}}
{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {"weight": 1}}
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}, "status": {"phase": "Pending"}}
"""  # noqa: E501


@pytest.fixture(scope="module")
def broken() -> FileFeed:
    objects = load_text("---\n".join(BROKEN.strip().splitlines(keepends=True)), "broken")
    return finished("broken", Played(objects, default_config()))


def test_a_broken_cluster_says_what_is_wrong_and_shows_the_rest(show: Open, broken: FileFeed) -> None:
    page = show(Desk(broken), "/config")
    expect(page.locator(".panel.bad").first).to_contain_text("huge")
    expect(page.locator("main")).to_contain_text("rack-1")
    page.get_by_role("link", name="Cluster", exact=True).click()
    drawn(page)
    expect(page.get_by_role("heading", name="Faults in the topology")).to_be_visible()
    expect(page.locator(".figures")).to_contain_text(re.compile("1 of [0-9]+ takes no pods"))
    expect(page.get_by_role("status").filter(has_text="put aside")).to_be_visible()


@pytest.mark.parametrize("path", [path if path.count("/") < 3 else "/jobs/default/pod/p" for path in PAGES])
def test_each_page_is_whole_on_a_broken_cluster(show: Open, broken: FileFeed, path: str) -> None:
    is_whole(show(Desk(broken), path))


@pytest.mark.parametrize("path", [path if path.count("/") < 3 else "/jobs/ns/waiting-007" for path in PAGES])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_each_page_is_whole_on_a_large_cluster(show: Open, vast: Feed, path: str, width: int, scheme: str) -> None:
    is_whole(show(Desk(vast), path, width=width, scheme=scheme))


def is_whole(page: Page) -> None:
    """The page has come to its end, says nothing of a fault, and fits the screen."""
    expect(page.locator("main .panel, main .empty").first).to_be_visible(timeout=60_000)
    expect(page.locator(".wait")).to_have_count(0, timeout=60_000)
    expect(page.get_by_text("Reading …")).to_have_count(0, timeout=60_000)
    expect(page.get_by_role("alert")).to_have_count(0)
    overflow = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0, "the page can be moved sideways"


@pytest.fixture(scope="module")
def vast() -> Feed:
    return large_feed(20_000, 100_000)


def test_a_large_cluster_is_drawn_and_stays_smooth(show: Open, vast: Feed) -> None:
    """U2; the bound is four times the goal, since this runs beside other tests."""
    page = show(Desk(vast), "/cluster")
    drawn(page)
    expect(page.locator("h2").first).to_contain_text("20,000 nodes")
    for act in ("zoom", "colours"):
        frames = sorted(frames_ms(page, act, steps=10))
        assert frames[len(frames) // 2] < 400, f"{act} takes {frames[len(frames) // 2]:.0f} ms a frame"
    page.get_by_role("link", name="Jobs", exact=True).click()
    expect(page.locator("h2").first).to_contain_text("jobs", timeout=60_000)
    expect(page.locator("tbody tr")).to_have_count(200)
    page.get_by_role("link", name="Queues", exact=True).click()
    expect(page.locator("h2").first).to_contain_text("queues", timeout=60_000)


SLOW_FRAMES = """
    const later = setTimeout;
    globalThis.setTimeout = (act, wait, ...given) => later(act, (wait ?? 0) + 1500, ...given);
    globalThis.requestAnimationFrame = (act) => later(() => act(performance.now()), 1500);
"""


def test_what_comes_before_the_first_frame_is_shown(chromium: Browser, demo: FileFeed) -> None:
    """Of a simulation that has ended there is one message; on a busy machine it comes before the page was drawn."""
    with served(Desk(demo)) as address, chromium.new_context() as context:
        context.add_init_script(SLOW_FRAMES)
        page = context.new_page()
        page.goto(f"{address}/jobs")
        expect(page.get_by_role("link", name="research/evaluate")).to_be_visible()
        expect(page.locator(".feed")).to_contain_text("simulated")


def test_what_is_typed_stands_in_the_address_and_goes_with_it(show: Open, demo: FileFeed) -> None:
    page = show(Desk(demo), "/jobs")
    field = page.get_by_role("searchbox", name="Name or reason")
    field.fill("serve")
    expect(page).to_have_url(re.compile("q=serve"))
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Jobs", exact=True).click()
    expect(field).to_have_value("")
    expect(page.locator("tbody tr")).to_have_count(6)
    page.go_back()
    expect(field).to_have_value("serve")
    page.goto(page.url.replace("/jobs?q=serve", "/cluster?view=table"))
    page.get_by_role("searchbox", name="Name of a node").fill("cpu")
    expect(page).to_have_url(re.compile("name=cpu"))
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)


def middle(page: Page) -> str:
    """What the map tells of the node under the middle of the canvas."""
    box = page.locator(".map canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 200)
    told: str = page.locator(".tip").inner_text()
    return told


def test_what_was_zoomed_to_can_be_shared(show: Open) -> None:
    page = show(Desk(large_feed(2_000, 8_000)), "/cluster?by=use")
    drawn(page)
    canvas = page.get_by_role("application")
    before = middle(page)
    canvas.focus()
    for _ in range(5):
        page.keyboard.press("+")
    expect(page).to_have_url(re.compile(r"zoom=7\.59"))
    near = middle(page)
    assert near != before
    page.reload()
    page.wait_for_function(FIRST_DRAWN)
    page.wait_for_timeout(500)
    assert middle(page) == near
    page.get_by_role("application").focus()
    page.keyboard.press("0")
    expect(page).not_to_have_url(re.compile("zoom="))
    assert middle(page) == before


def test_a_pod_that_was_searched_for_stands_out(show: Open, demo: FileFeed) -> None:
    page = show(Desk(demo), "/jobs")
    page.keyboard.press("/")
    page.keyboard.type("serve-7")
    expect(page.locator("#search-found")).to_contain_text("product/serve-7")
    page.keyboard.press("Enter")
    expect(page.locator("[aria-current=true]")).to_contain_text("serve-7")


def test_everything_on_a_page_is_json_at_addresses_that_it_names(show: Open, demo: FileFeed) -> None:
    paths = (
        "/cluster",
        "/cluster?at=4&node=gpu-1",
        "/jobs?state=waiting",
        "/jobs/product/serve",
        "/queues",
        "/decisions",
    )
    for path in (*paths, "/config"):
        page = show(Desk(demo), path)
        expect(page.locator(".commands").first).to_be_attached()
        asked = [line for line in page.locator(".commands code").all_text_contents() if line.startswith("curl")]
        assert asked, path
        for line in asked:
            address = line.removeprefix("curl -s ").strip("'")
            answer = page.request.get(address)
            assert answer.ok, f"{path} names {address}: {answer.status}"
            assert answer.json()


def test_of_a_live_cluster_times_are_in_the_zone_of_the_reader(show: Open, demo: FileFeed) -> None:
    """The browser of these tests is in Tokyo, nine hours ahead."""
    latest = demo.history.latest
    assert latest is not None
    feed = Feed(Label("cluster", "live"), demo.config)
    feed.start = 1_800_000_000.0
    feed.history.add(replace(latest, time=feed.start, answers={}))
    page = show(Desk(feed), "/cluster")
    expect(page.locator(".player")).to_contain_text("17:00:00")  # 08:00:00 in UTC
    # Nobody here knows what was decided before.
    page.goto(page.url.replace("/cluster", "/queues"))
    expect(page.locator("main")).to_contain_text("Nobody was evicted since 17:00:00, when the dashboard began to look.")
    page.goto(page.url.replace("/queues", "/jobs/product/serve"))
    expect(page.locator("main")).to_contain_text("What was decided before 17:00:00 is not known here")


def test_of_many_exchanges_those_of_most_pods_come_first(show: Open, demo: FileFeed) -> None:
    latest = demo.history.latest
    assert latest is not None
    left = tuple(
        {"kind": "evict", "job": f"a/j{i}", "beneficiary": f"b/j{i}", "pod": f"a/j{i}-{n}", "node": "n", "why": "so"}
        | {"queue": f"q{i:02}", "beneficiaryQueue": "research"}
        for i in range(11)
        for n in range(i + 1)
    )
    feed = Feed(Label("files", "exchanges"), demo.config)
    feed.history.add(replace(latest, cycle=1, decisions=left, answers={}))
    feed.history.add(replace(latest, cycle=2, answers={}))
    feed.has_ended = True
    page = show(Desk(feed), "/queues")
    taken = page.locator(".panel", has=page.get_by_role("heading", name="Who took from whom"))
    expect(taken.get_by_role("link", name="a/j10")).to_be_visible()
    expect(taken.get_by_role("link", name="a/j1", exact=True)).to_be_hidden()
    more = taken.get_by_text("3 more", exact=True)
    expect(more).to_have_count(2)
    for one in more.all():
        one.click()
    expect(taken.get_by_role("link", name="a/j1", exact=True)).to_be_visible()
    expect(taken.locator(".lane .event:visible")).to_have_count(11)


def test_a_name_has_one_colour_on_every_page_for_every_reader(show: Open, demo: FileFeed) -> None:
    def colours(path: str) -> dict[str, str]:
        page = show(Desk(demo), path)  # each with a storage of its own, as another reader has
        dots = page.locator("main a.name:has(.dot), main h1:has(.dot)")
        expect(dots.first).to_be_visible()
        page.wait_for_timeout(300)
        return {
            dot.inner_text(): dot.locator(".dot").evaluate("dot => getComputedStyle(dot).backgroundColor")
            for dot in dots.all()
        }

    listed = colours("/jobs")
    assert len(set(listed.values())) == len(listed) == 6, "so few can all be told apart"
    for path in ("/jobs?at=1", "/jobs/product/serve", "/cluster", "/decisions?kind=evict"):
        seen = colours(path)
        known = seen.keys() & listed.keys()
        assert known, path
        assert {name: seen[name] for name in known} == {name: listed[name] for name in known}, path
