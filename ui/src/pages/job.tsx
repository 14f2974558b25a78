// One job: where it stands, why, what would let it start, what happened to it, and where its pods are.

import { useMemo } from "preact/hooks";
import type { Explanation, JobPage as Page, TimelineEntry } from "../api";
import { Flow, type Stream } from "../Flow";
import { amountsText, duration, plural, podStatus, resourceWord } from "../format";
import { NodeMap } from "../NodeMap";
import { Chip, Commands, Copy, Dot, JobLink, Link, Missing, NodeLink, Panel, QueueLink, quote, Reason, Scroll, When } from "../parts";
import { linkTo, status, useData, useValue } from "../store";
import { useMap } from "./cluster";
import { Pods } from "./jobs";
import { askAll } from "./whatif";

export function JobPage({ name }: { name: string }) {
  const page = useData<Page>(`/api/jobs/${name.split("/").map(encodeURIComponent).join("/")}`);
  const feed = useValue(status);
  const { data } = page;
  if (!data) return <Missing of={page} what={`job ${name}`} />;
  const { row, explanation: said } = data;
  const [space, short] = [name.split("/")[0] ?? "", name.split("/").at(-1) ?? ""];
  const waits = !["running", "finished"].includes(said.state);
  return (
    <div class="job">
      <header class="head">
        <h1><Dot name={row.job} /><span class="name">{row.job}</span></h1>
        <Chip state={row.state} />
        <dl>
          <div><dt>queue</dt><dd><QueueLink queue={row.queue} /></dd></div>
          <div><dt>pods</dt><dd><Pods row={row} /></dd></div>
          <div><dt>needed</dt><dd>{row.minimum}</dd></div>
          <div><dt>priority</dt><dd>{row.priority}</dd></div>
          <div><dt>{row.runningSeconds === null ? "waits for" : "runs for"}</dt><dd>{duration(row.runningSeconds ?? row.ageSeconds)}</dd></div>
          {row.line && <div><dt>in line</dt><dd>{row.line.overall}. <span class="muted">({row.line.why})</span></dd></div>}
          {Object.keys(row.asks).length > 0 && (
            <div><dt>asks for</dt><dd>{amountsText(row.asks)}</dd></div>
          )}
        </dl>
      </header>
      <p class="headline">{data.headline}</p>
      <div class="columns">
        <div>
          {waits && <Why said={said} text={data.text} />}
          {said.advice.length > 0 && (
            <Panel title={said.state === "growing" ? "What would let it grow" : "What would let it start"} class="good">
              <ol class="advice">
                {said.advice.map((line, i) => (
                  <li key={line}>
                    {line} {data.tries[i]?.length ? <Link href={askAll(data.tries[i] ?? [])} class="try">try it</Link> : null}
                  </li>
                ))}
              </ol>
            </Panel>
          )}
          {said.protected.length > 0 && (
            <Panel title="Protected">
              <ul class="plain">
                {said.protected.map((shield, i) => (
                  <li key={i}>
                    for {duration(shield.secondsLeft)} from {shield.ownQueue ? "jobs of its own queue" : shield.queues.length ? shield.queues.join(", ") : "jobs of other queues"}
                  </li>
                ))}
              </ul>
            </Panel>
          )}
          <Panel title="Timeline"><Timeline entries={data.timeline} job={row.job} /></Panel>
        </div>
        <div>
          <Exchanges entries={data.timeline} job={row.job} />
          <Where page={data} />
          <Panel title={plural(data.pods.length, "pod")}>
            <Scroll label="Pods" short>
              <table>
                <thead><tr><th>pod</th><th>status</th><th>node</th></tr></thead>
                <tbody>
                  {data.pods.map((pod) => (
                    <tr key={pod.pod}>
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
          {said.queues.length > 0 && <QueuePath said={said} />}
          <details class="panel">
            <summary>As text, to pass on</summary>
            <pre class="words">{data.text.join("\n")}</pre>
            <Copy text={data.text.join("\n")} label="copy" />
          </details>
          <Commands
            commands={[
              `muster explain ${quote(row.job)} ${feed?.live ? "--cluster" : (feed?.words ?? "")}`,
              `kubectl -n ${quote(space)} describe podgroup ${quote(short)}`,
              ...(data.pods[0] ? [`kubectl -n ${quote(space)} describe pod ${quote(data.pods[0].pod.split("/").at(-1) ?? "")}`] : []),
            ]}
          />
        </div>
      </div>
    </div>
  );
}

function Why({ said, text }: { said: Explanation; text: string[] }) {
  // Where room is not the trouble, the words say nothing about it.
  const isAboutRoom = text.some((line) => line.startsWith("  needs"));
  const nodes = Object.entries(said.nodes.byReason);
  const most = Math.max(1, ...nodes.map(([, count]) => count));
  return (
    <Panel title={said.state === "growing" ? "Why it does not grow" : "Why it waits"} class="warn">
      <p class="reason"><code class="code">{said.reason.code}</code> {said.reason.text}</p>
      {said.reason.detail && <p>{said.reason.detail}</p>}
      {isAboutRoom && said.needs.some((need) => need.missing !== "0") && (
        <table>
          <thead><tr><th>it lacks</th><th class="n">needed</th><th class="n">free where it may run</th><th class="n">missing</th></tr></thead>
          <tbody>
            {said.needs.filter((need) => need.missing !== "0").map((need) => (
              <tr key={need.resource}><td>{resourceWord(need.resource)}</td><td class="n">{need.needed}</td><td class="n">{need.free}</td><td class="n"><b>{need.missing}</b></td></tr>
            ))}
          </tbody>
        </table>
      )}
      {nodes.length > 0 && (
        <>
          <h3>What {plural(said.nodes.total, "node")} say{said.nodes.total === 1 ? "s" : ""}</h3>
          <ul class="bars">
            {nodes.map(([code, count]) => {
              const group = said.nodes.groups.find((known) => known.reason === code);
              return (
                <li key={code}>
                  <span class="count">{count}</span>
                  <span class="track" aria-hidden="true"><i style={{ width: `${(100 * count) / most}%` }} /></span>
                  <span>{group ? group.text : code}{group && <span class="muted"> ({group.examples.slice(0, 3).join(", ")}{count > 3 ? ", …" : ""})</span>}</span>
                </li>
              );
            })}
          </ul>
          {said.nodes.closest && (
            <p>
              Closest: <NodeLink node={said.nodes.closest.name} />, which lacks{" "}
              {amountsText(said.nodes.closest.lacks)}
            </p>
          )}
        </>
      )}
      {said.holders.length > 0 && (
        <>
          <h3>Who holds what it lacks</h3>
          <ul class="plain">
            {said.holders.map((holder) => (
              <li key={holder.job + holder.resource}><JobLink job={holder.job} /> holds {holder.amount} {resourceWord(holder.resource, holder.amount === "1")}</li>
            ))}
          </ul>
        </>
      )}
      {Object.keys(said.heldByOthers).length > 0 && (
        <p>Pods of other schedulers hold {amountsText(said.heldByOthers)}.</p>
      )}
      {said.noEvictions && (
        <>
          <h3>Nobody is evicted for it</h3>
          <ul class="plain">{said.noEvictions.split("; ").map((line) => <li key={line}><Reason text={line} /></li>)}</ul>
        </>
      )}
    </Panel>
  );
}

const KINDS: Record<TimelineEntry["kind"], string> = {
  created: "created",
  bind: "bound",
  evict: "evicted",
  nominate: "promised",
  cleared: "room made",
  waits: "waits",
  phase: "",
};

/** What the phases of a PodGroup mean to whoever waits for it. */
const PHASES: Record<string, string> = {
  Pending: "not let in yet",
  Inqueue: "let in: it may ask for nodes",
  Running: "has its minimum",
  Unknown: "fell below its minimum",
  Completed: "finished",
};

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
      <span class="muted">{plural(total, "pod")}{name ? "" : ": its gang was broken"}</span>
    </>
  );
  return (
    <Panel title="Who left for whom">
      <Flow streams={[...streams.values()]} heads={["left", "for whom"]} giver={say} taker={say} />
    </Panel>
  );
}

function Timeline({ entries, job }: { entries: TimelineEntry[]; job: string }) {
  return (
    <ol class="timeline">
      {entries.map((entry, i) => (
        <li key={i} class={`is-${entry.kind}`}>
          <span class="at">
            {entry.cycle === null ? <When time={entry.time} /> : (
              <Link href={linkTo("/decisions", { cycle: String(entry.cycle) })} title={`cycle ${entry.cycle}`}><When time={entry.time} /></Link>
            )}
          </span>
          <div>
            <b>{KINDS[entry.kind] || (PHASES[entry.text] ?? entry.text)}</b>
            {entry.kind === "cleared" && entry.job && <> by evicting <JobLink job={entry.job} /></>}
            {entry.kind === "evict" && entry.beneficiary && entry.beneficiary !== job && <> for <JobLink job={entry.beneficiary} /></>}
            {entry.pods.length > 0 && (
              <span class="muted"> {plural(entry.pods.length, "pod")} {entry.kind === "evict" || entry.kind === "cleared" ? "from" : "on"} {nodesOf(entry)}</span>
            )}
            {entry.kind !== "created" && entry.kind !== "phase" && <Told text={entry.text} />}
            {entry.record && <Record record={entry.record} />}
          </div>
        </li>
      ))}
    </ol>
  );
}

/** The first clause says it; the rest is for those who ask. */
function Told({ text }: { text: string }) {
  const cut = text.indexOf("; ");
  if (cut < 0 || text.length < 140) return <p><Reason text={text} /></p>;
  return (
    <>
      <p><Reason text={text.slice(0, cut)} /></p>
      <details><summary>more</summary>{text.slice(cut + 2)}</details>
    </>
  );
}

function nodesOf(entry: TimelineEntry): string {
  const nodes = [...new Set(entry.pods.map((pod) => pod.node))].filter(Boolean);
  return nodes.slice(0, 4).join(", ") + (nodes.length > 4 ? ` and ${nodes.length - 4} more` : "");
}

/** The record of a decision as it was kept. */
export function Record({ record }: { record: Record<string, unknown> }) {
  const entries = Object.entries(record).filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && value.length === 0));
  return (
    <details class="record">
      <summary>Record of the decision</summary>
      <dl>
        {entries.map(([key, value]) => (
          <div key={key}><dt>{key}</dt><dd>{typeof value === "object" ? JSON.stringify(value) : String(value)}</dd></div>
        ))}
      </dl>
    </details>
  );
}

function Where({ page }: { page: Page }) {
  const { tree, state } = useMap();
  const nodes = useMemo(() => new Set(page.pods.map((pod) => pod.node || pod.promised).filter(Boolean)), [page]);
  const none = useMemo(() => new Set<number>(), []);
  if (!tree || !state || nodes.size === 0) return null;
  return (
    <Panel title="Where it is" aside={<Link href={linkTo("/cluster", { by: "job", job: page.row.job })}>on the map</Link>}>
      <NodeMap
        tree={tree}
        state={state}
        mode="job"
        resource={state.scarce}
        folded={none}
        lit={nodes}
        height={220}
        mini
        label={`Its pods are on ${[...nodes].slice(0, 8).join(", ")}`}
      />
    </Panel>
  );
}

function QueuePath({ said }: { said: Explanation }) {
  return (
    <Panel title="Its queue, and those above">
      <table>
        <thead><tr><th>queue</th><th>holds</th><th>fair share</th><th>quota</th><th>limit</th></tr></thead>
        <tbody>
          {said.queues.map((queue) => (
            <tr key={queue.name}><td><QueueLink queue={queue.name} /></td><td>{amountsText(queue.allocated, "–")}</td><td>{amountsText(queue.fairShare, "–")}</td><td>{amountsText(queue.deserved, "–")}</td><td>{amountsText(queue.limit, "–")}</td></tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}
