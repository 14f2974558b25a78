// One job: why it waits, who has its place, what would let it start; then what happened to it and where its pods are.

import { useMemo } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { Help, Place, Why } from "../Answers";
import type { Explanation, JobPage as Page, Remedies, TimelineEntry, Tree } from "../api";
import { Flow, type Stream } from "../Flow";
import { amountsText, duration, plural, podStatus } from "../format";
import { NodeMap } from "../NodeMap";
import { Chip, Commands, Copy, Dot, JobLink, Link, Missing, NodeLink, Panel, QueueLink, quote, Scroll, useKubectl, useSource, When } from "../parts";
import { address, linkTo, status, useData, useValue, withQuery } from "../store";
import { useMap } from "./cluster";
import { howLong, Pods, sinceWhen } from "./jobs";
import { Timeline } from "../Timeline";

export function JobPage({ name }: { name: string }) {
  const path = name.split("/").map(encodeURIComponent).join("/");
  const page = useData<Page>(`/api/jobs/${path}`);
  const { data } = page;
  const feed = useValue(status);
  const waits = data !== null && !["running", "finished"].includes(data.explanation.state);
  // It is several runs of the scheduler: asked for once, not at every cycle.
  const remedies = useData<Remedies>(waits ? `/api/remedies/${path}` : null, false);
  if (!data) return <Missing of={page} what={`job ${name}`} />;
  const { row, explanation: said } = data;
  return (
    <div class="job">
      <header class="head">
        <h1><Dot name={row.job} /><span class="name">{row.job}</span></h1>
        <Chip state={row.state} />
        {row.state !== "waiting" && <p class="headline">{data.headline.replace(`${row.job} `, "")}</p>}
        <dl class="facts">
          {row.owner && <Fact name="made by">{row.owner.kind} <span class="name">{row.owner.name}</span></Fact>}
          <Fact name="queue"><QueueLink queue={row.queue} /></Fact>
          <Fact name="pods with a node"><Pods row={row} /></Fact>
          <Fact name="needed to start">{row.minimum}</Fact>
          <Fact name="priority">{row.priority}</Fact>
          {row.state !== "finished" && (
            <Fact name={sinceWhen(row)}>{howLong(row)}</Fact>
          )}
          {row.line && <Fact name="place in line">{row.line.overall}. <span class="muted">({row.line.why})</span></Fact>}
          {Object.keys(row.asks).length > 0 && <Fact name="asks for, in all">{amountsText(row.asks)}</Fact>}
          {data.notPreemptible && <Fact name="not preemptible">{data.notPreemptible}</Fact>}
          {Object.keys(said.nodeSelector).length > 0 && (
            <Fact name="only on nodes with"><span class="name">{Object.entries(said.nodeSelector).map(([key, value]) => `${key}=${value}`).join(", ")}</span></Fact>
          )}
        </dl>
      </header>
      {waits && (
        <div class="answers">
          <Why page={data} />
          <Place page={data} />
          <Help said={said} remedies={remedies} isLeaving={data.pods.some((pod) => podStatus(pod.status) === "leaving")} />
        </div>
      )}
      <div class="columns">
        <div>
          <Panel title="What happened to it">
            <Timeline entries={data.timeline} job={row.job} />
            {feed?.live && (data.timeline[0]?.time ?? 0) < feed.start && (
              <p class="after muted">What was decided before <When time={feed.start} /> is not known here: the dashboard began to look then.</p>
            )}
          </Panel>
          {said.protected.length > 0 && (
            <Panel title="Protected from eviction">
              <ul class="plain">
                {said.protected.map((shield, i) => (
                  <li key={i}>
                    for {duration(shield.secondsLeft)} from {shield.ownQueue ? "jobs of its own queue" : shield.queues.length ? shield.queues.join(", ") : "jobs of other queues"}
                  </li>
                ))}
              </ul>
            </Panel>
          )}
          <AsText page={data} remedies={remedies.data} />
        </div>
        <div>
          <Exchanges entries={data.timeline} job={row.job} />
          <Where page={data} />
          <PodTable page={data} />
          {said.queues.length > 0 && <QueuePath said={said} />}
        </div>
      </div>
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

// -- what happened ---------------------------------------------------------------------------------------------------

/** Who left for this job, and for whom its own pods left. */
function Exchanges({ entries, job }: { entries: TimelineEntry[]; job: string }) {
  const streams = new Map<string, Stream>();
  for (const entry of entries) {
    if (entry.kind !== "evict" && entry.kind !== "cleared") continue;
    const [from, to] = entry.kind === "evict" ? [job, entry.beneficiary ?? ""] : [entry.job ?? "", job];
    const known = streams.get(`${from}\0${to}`) ?? { from, to, amount: 0 };
    streams.set(`${from}\0${to}`, { ...known, amount: known.amount + entry.pods.length });
  }
  if (!streams.size) return null;
  const say = (name: string, total: number) => (
    <>
      {name === job ? <b class="name"><Dot name={name} />this job</b> : name ? <JobLink job={name} /> : <b>nobody</b>}
      <span class="muted">{plural(total, "pod")}</span>
    </>
  );
  const sayTaker = (name: string, total: number) => (
    <>
      {name === job ? <b class="name"><Dot name={name} />this job</b> : name ? <JobLink job={name} /> : <b>nobody</b>}
      <span class="muted">{plural(total, "pod")} left{name ? " for it" : ": its gang was broken"}</span>
    </>
  );
  return (
    <Panel title="Who was evicted for whom">
      <Flow streams={[...streams.values()]} heads={["evicted", "for whom"]} of="job" amount={(total) => plural(total, "pod")} giver={say} taker={sayTaker} />
    </Panel>
  );
}

// -- where it is -----------------------------------------------------------------------------------------------------

/** So many nodes a small map shows at once. */
const MOST_UNFOLDED = 200;

/** Domains that hold none of the nodes; of domains inside such ones it does not matter. */
function elsewhere(tree: Tree, nodes: ReadonlySet<string>): Set<number> {
  const rows: number[] = [];
  tree.nodes.forEach((name, row) => nodes.has(name) && rows.push(row));
  const found = new Set<number>();
  tree.domains.name.forEach((_, domain) => {
    const [lo, hi] = [tree.domains.lo[domain] as number, tree.domains.hi[domain] as number];
    if (domain > 0 && !rows.some((row) => row >= lo && row < hi)) found.add(domain);
  });
  return found;
}

function Where({ page }: { page: Page }) {
  const { tree, state } = useMap();
  const nodes = useMemo(() => new Set(page.pods.map((pod) => pod.node || pod.promised).filter(Boolean)), [page]);
  const folded = useMemo(() => (tree && tree.nodes.length > MOST_UNFOLDED ? elsewhere(tree, nodes) : new Set<number>()), [tree, nodes]);
  if (!tree || !state || nodes.size === 0) return null;
  // Thousands of nodes without domains are too many for a small picture; the pods' list names theirs.
  if (tree.nodes.length > MOST_UNFOLDED && tree.domains.name.length <= 1) return null;
  return (
    <Panel title="Where it is" aside={<Link href={linkTo("/cluster", { by: "job", job: page.row.job })}>on the map</Link>}>
      <NodeMap
        tree={tree}
        state={state}
        mode="job"
        resource={state.scarce}
        folded={folded}
        lit={nodes}
        sought={page.row.job}
        height={220}
        mini
        label={`Its pods are on ${[...nodes].slice(0, 8).join(", ")}`}
      />
    </Panel>
  );
}

/** A pod that was searched for comes into view, once. */
function show(row: HTMLElement | null): void {
  row?.scrollIntoView({ block: "nearest" });
}

function PodTable({ page }: { page: Page }) {
  const sought = useValue(address).query.get("pod");
  if (page.pods.length === 0) return null;
  return (
    <Panel title={plural(page.pods.length, "pod")}>
      <Scroll label="Pods" short>
        <table>
          <thead><tr><th>pod</th><th>status</th><th>node</th></tr></thead>
          <tbody>
            {page.pods.map((pod) => (
              <tr key={pod.pod} class={pod.pod === sought ? "chosen" : ""} aria-current={pod.pod === sought ? "true" : undefined} ref={pod.pod === sought ? show : null}>
                <td class="name">{pod.pod.split("/").at(-1)}</td>
                <td>{podStatus(pod.status)}</td>
                <td>
                  {pod.node ? <NodeLink node={pod.node} /> : pod.promised ? <span>promised <NodeLink node={pod.promised} /></span> : <span class="muted">none</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Panel>
  );
}

function QueuePath({ said }: { said: Explanation }) {
  return (
    <Panel title={said.queues.length > 1 ? "Its queue, and those above" : "Its queue"}>
      <Scroll label="Queues of the job">
        <table class="cards">
          <thead><tr><th>queue</th><th>holds</th><th>fair share</th><th>quota</th><th>limit</th></tr></thead>
          <tbody>
            {said.queues.map((queue) => (
              <tr key={queue.name}>
                <td class="wide"><QueueLink queue={queue.name} /></td>
                <td data-label="holds">{amountsText(queue.allocated, "–")}</td>
                <td data-label="fair share">{amountsText(queue.fairShare, "–")}</td>
                <td data-label="quota">{amountsText(queue.deserved, "–")}</td>
                <td data-label="limit">{amountsText(queue.limit, "–")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Panel>
  );
}

function AsText({ page, remedies }: { page: Page; remedies: Remedies | null }) {
  const source = useSource();
  const kubectl = useKubectl();
  const [space, short] = [page.row.job.split("/")[0] ?? "", page.row.job.split("/").at(-1) ?? ""];
  const text = (remedies?.text ?? page.text).join("\n");
  const feed = useValue(status);
  // Of files that are played no API server knows.
  const isCluster = feed?.source !== "files";
  // The latest cycle is another one tomorrow: what is passed on names the one that was looked at.
  const link = location.origin + withQuery({ at: String(page.cycle) });
  return (
    <Panel title="To pass on" aside={<Copy text={link} label="copy the link to this cycle" />}>
      <Commands
        commands={[
          `muster explain ${quote(page.row.job)} ${source}`,
          ...(isCluster ? [`${kubectl} -n ${quote(space)} describe podgroup ${quote(short)}`] : []),
          ...(isCluster && page.pods[0] ? [`${kubectl} -n ${quote(space)} describe pod ${quote(page.pods[0].pod.split("/").at(-1) ?? "")}`] : []),
        ]}
        api={["jobs", "remedies"].map((what) => `/api/${what}/${page.row.job.split("/").map(encodeURIComponent).join("/")}`)}
      />
      <details>
        <summary>As text</summary>
        <pre class="words">{text}</pre>
        <Copy text={text} label="copy" />
      </details>
    </Panel>
  );
}
