// One job: why it waits, who has its place, what would let it start; then what happened to it and where its pods are.

import { useMemo } from "preact/hooks";
import type { ComponentChildren } from "preact";
import type { Config, Explanation, JobPage as Page, Remedies, TimelineEntry, Tree } from "../api";
import { Flow, type Stream } from "../Flow";
import { actionWord, amountsText, duration, lacksText, neat, nodesSay, number, plainBounds, plural, podStatus, resourceWord, sentence } from "../format";
import { NodeMap } from "../NodeMap";
import { Chip, Commands, Copy, Dot, JobLink, Link, Missing, NodeLink, Panel, QueueLink, quote, Reason, Scroll, SinceBegin, useSource, When } from "../parts";
import { address, linkTo, status, useData, useValue, withQuery } from "../store";
import { useMap } from "./cluster";
import { howLong, Pods, sinceWhen } from "./jobs";
import { nodesOf, Timeline } from "../Timeline";
import { askAll } from "./whatif";

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

function shortPod(pod: string): string {
  return pod.slice(pod.indexOf("/") + 1);
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

// -- the three questions ---------------------------------------------------------------------------------------------

function Why({ page }: { page: Page }) {
  const { explanation: said, text } = page;
  const { reason } = page.row;
  // Where room is not the trouble, the words say nothing about it.
  const isAboutRoom = text.some((line) => line.startsWith("  needs"));
  const lacks = isAboutRoom ? said.needs.filter((need) => need.missing !== "0") : [];
  const nodes = Object.entries(said.nodes.byReason);
  // A queue that is below its share may be kept from taking back all the same: by how much one gang asks for.
  const share = page.othersHold && /reclaim: (its queue would have more than its fair share[^;]*)/.exec(said.noEvictions)?.[1];
  const isOneOfMany = said.task !== "" && Object.values(said.tasks).reduce((sum, count) => sum + count, 0) > 1;
  return (
    <Panel title={said.state === "growing" ? "Why does it not grow?" : "Why does it wait?"} class="warn">
      <p class="reason"><Reason text={reason || `${said.reason.code}: ${said.reason.text}`} /></p>
      {share && <p class="after">With this job, {plainBounds(share)}. So nobody of another queue is evicted for it.</p>}
      {said.roles.length > 0 && <p class="after">Roles that have a minimum: {said.roles.map((role) => `${role.name} ${role.ready} of ${role.minimum}`).join(", ")}</p>}
      {lacks.length > 0 && (
        <table class="after">
          <thead><tr><th>it lacks</th><th class="n">needed</th><th class="n">free where it may run</th><th class="n">missing</th></tr></thead>
          <tbody>
            {lacks.map((need) => (
              <tr key={need.resource}><td>{resourceWord(need.resource)}</td><td class="n">{neat(need.needed)}</td><td class="n">{neat(need.free)}</td><td class="n"><b>{neat(need.missing)}</b></td></tr>
            ))}
          </tbody>
        </table>
      )}
      {nodes.length > 0 && (
        <>
          <h3>What {said.nodes.total === 1 ? "the only node says" : `${plural(said.nodes.total, "node")} say`}{isOneOfMany && <> of {shortPod(said.task)}</>}</h3>
          {isOneOfMany && amountsText(said.request) && <p class="muted">It asks for {amountsText(said.request)}.</p>}
          <ul class="bars">
            {nodes.map(([code, count]) => {
              const groups = said.nodes.groups.filter((known) => known.reason === code);
              const named = groups.flatMap((group) => group.examples).sort().slice(0, 3);
              return (
                <li key={code}>
                  <span class="count">{number(count)}</span>
                  <span>{code === "fits" ? "could take one pod" : nodesSay(count, groups[0]?.text ?? code)}{code === SHORT && shortText(said.nodes.shortOf, count)} <span class="muted">({named.join(", ")}{count > named.length ? `, ${number(count - named.length)} more` : ""})</span></span>
                  <span class="track" aria-hidden="true"><i style={{ width: `${(100 * count) / said.nodes.total}%` }} /></span>
                </li>
              );
            })}
          </ul>
          {said.nodes.closest && (
            <p class="after">Closest: <NodeLink node={said.nodes.closest.name} />, which {lacksText(said.nodes.closest.lacks)}</p>
          )}
        </>
      )}
    </Panel>
  );
}

/** The code of nodes that only lack room. */
const SHORT = "insufficient-resources";

/** What so many nodes are short of: ": GPUs on 129, CPUs on 6", or of one thing only its name. */
function shortText(shortOf: Record<string, number>, count: number): string {
  const parts = Object.entries(shortOf).map(([resource, nodes]) => resourceWord(resource) + (nodes === count ? "" : ` on ${number(nodes)}`));
  return parts.length ? `: ${parts.join(", ")}` : "";
}

const SHOWN_EVICTIONS = 2;
const SHOWN_HOLDERS = 6;

/** For whom its pods left, who holds what it lacks, and why nobody leaves for it. */
function Place({ page }: { page: Page }) {
  const { explanation: said, row } = page;
  const evictions = page.timeline.filter((entry) => entry.kind === "evict");
  const lost = evictions.slice(-SHOWN_EVICTIONS).reverse();
  const came = new Map(page.came.map((each) => [each.job, each]));
  const ahead = row.line && row.line.overall > 1;
  const isNobody = !lost.length && !said.holders.length && !ahead && !said.noEvictions && !Object.keys(said.heldByOthers).length;
  return (
    <Panel title="Who has its place?">
      {lost.map((entry) => (
        <p key={entry.cycle} class="lost">
          {plural(entry.pods.length, "pod")} of it {entry.pods.length === 1 ? "was" : "were"} evicted from {nodesOf(entry)}{" "}
          {entry.beneficiary ? <>for <JobLink job={entry.beneficiary} /></> : "since its gang was broken"}{" "}
          <Link href={linkTo("/decisions", { cycle: String(entry.cycle) })}><When time={entry.time} /></Link>
          {entry.balance && <span class="muted own"> {sentence(entry.balance)}</span>}
        </p>
      ))}
      {evictions.length > lost.length && <p class="muted">These are the last {lost.length} of {evictions.length} times; the others stand below.</p>}
      <Holders title="Who got what it lacks while it waited" of={said.holders.filter((holder) => came.has(holder.job))} came={came} />
      <Holders title={came.size > 0 ? "Who held it before" : "Who holds what it lacks"} of={said.holders.filter((holder) => !came.has(holder.job))} came={came} />
      {Object.keys(said.heldByOthers).length > 0 && <p>Pods of other schedulers hold {amountsText(said.heldByOthers)}.</p>}
      {row.line && row.line.overall > 1 && <p class="after">{aheadText(row.line)}</p>}
      {isNobody && <p class="muted">Nobody: no other job holds what it lacks, and none of its pods was evicted<SinceBegin />.</p>}
      {said.noEvictions && (
        <>
          <h3>Why nobody is evicted for it</h3>
          <ul class="plain">
            {whyNobodyLeaves(page).map((line) => {
              const cut = /^([a-z]+): (.*)$/s.exec(line);
              return <li key={line}>{cut ? <><b>{actionWord(cut[1] ?? "")}</b> <code class="code">{cut[1]}</code>: {plainBounds(cut[2] ?? "")}</> : sentence(plainBounds(line))}</li>;
            })}
          </ul>
          <Keepers of={said.noEvictions} />
        </>
      )}
    </Panel>
  );
}

/** What each action ran into; of other queues nothing is said where they hold nothing. */
function whyNobodyLeaves({ explanation: said, othersHold }: Page): string[] {
  const lines = said.noEvictions.split("; ").filter((line) => othersHold || !/^[a-z]*reclaim: /.test(line));
  // Whoever is kept from leaving would be named.
  return lines.map((line) => line.replace(/^([a-z]*preempt): nobody may be evicted for it$/, "$1: nobody in its queue who holds nodes has a lower priority"));
}

/** What the rules are about that keep pods where they are. */
function Keepers({ of: text }: { of: string }) {
  const names = [...new Set([...text.matchAll(/kept by ([a-z-]+)/g)].map((found) => found[1] as string))];
  const { data } = useData<Config>(names.length ? "/api/config" : null, false);
  return (
    <>
      {names.filter((name) => data?.summaries[name]).map((name) => (
        <p key={name} class="after muted"><code class="code">{name}</code> is a rule of this scheduler: {data?.summaries[name]}</p>
      ))}
    </>
  );
}

/** Who waits before it in line, and why. */
function aheadText({ overall, inQueue, why }: { overall: number; inQueue: number; why: string }): string {
  const [before, verb] = [plural(overall - 1, "job"), overall === 2 ? "comes" : "come"];
  if (inQueue === 1) return `In its queue it is first in line; ${before} of other queues ${verb} before it.`;
  return `${before} that wait${overall === 2 ? "s" : ""} ${verb} before it in line (${why}).`;
}

function Holders({ title, of, came }: { title: string; of: Explanation["holders"]; came: Map<string, Page["came"][number]> }) {
  if (of.length === 0) return null;
  const list = (part: Explanation["holders"]) => (
    <ul class="amounts">
      {part.map((holder) => {
        const since = came.get(holder.job);
        return (
          <li key={holder.job + holder.resource}>
            <JobLink job={holder.job} />
            {since && <Link href={linkTo("/decisions", { cycle: String(since.cycle) })} class="quiet">since <When time={since.time} /></Link>}
            <span>{neat(holder.amount)} {resourceWord(holder.resource, holder.amount === "1")}</span>
          </li>
        );
      })}
    </ul>
  );
  return (
    <>
      <h3>{title}</h3>
      {list(of.slice(0, SHOWN_HOLDERS))}
      {of.length > SHOWN_HOLDERS && <details><summary>{of.length - SHOWN_HOLDERS} more</summary>{list(of.slice(SHOWN_HOLDERS))}</details>}
    </>
  );
}

function Help({ said, remedies, isLeaving }: { said: Explanation; remedies: { data: Remedies | null; error: Error | null }; isLeaving: boolean }) {
  const { data, error } = remedies;
  const start = data?.expectedStart;
  return (
    <Panel title={said.state === "growing" ? "What would let it grow?" : "What would let it start?"} class="good">
      {!data && !error && <p class="muted" role="status">Trying what could help, on a copy …</p>}
      {!data && error && <p class="muted">What could help was not tried: {error.message}</p>}
      <ol class="advice">
        {(data ? data.advice : error ? said.advice.map((text) => ({ text, changes: [] })) : []).map(({ text, changes }) => (
          <li key={text}>
            {text} {changes.length > 0 && <Link href={askAll(changes, said.job)} class="try">try it, and see what else it changes</Link>}
          </li>
        ))}
      </ol>
      {data && data.advice.length === 0 && <p>Nothing that was tried lets it {said.state === "growing" ? "grow" : "start"}.</p>}
      {isLeaving && <p>Its pods were told to leave and are still going. What it lacks shows once they are gone and made anew.</p>}
      {data && data.advice.length === 0 && data.untried.length === 0 && said.reason.remedy && !isLeaving && <p>What the reason asks for: {said.reason.remedy}.</p>}
      {data && data.advice.length > 0 && <p class="after muted">{data.advice.length > 1 ? "Any one of these is enough; each" : "It"} was tried on a copy of cycle {data.cycle}.</p>}
      {data && data.untried.length > 0 && (
        <>
          <h3>Could help, and was not tried</h3>
          <ul class="plain">{data.untried.map((text) => <li key={text}>{text}</li>)}</ul>
        </>
      )}
      {start && (
        <>
          <h3>When it starts by itself</h3>
          <p>{start.inSeconds === null ? `not known: ${start.text}` : `in about ${duration(start.inSeconds)}${start.text ? `: ${start.text}` : ""}`}</p>
        </>
      )}
    </Panel>
  );
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
          ...(isCluster ? [`kubectl -n ${quote(space)} describe podgroup ${quote(short)}`] : []),
          ...(isCluster && page.pods[0] ? [`kubectl -n ${quote(space)} describe pod ${quote(page.pods[0].pod.split("/").at(-1) ?? "")}`] : []),
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
