// What if: changes that one thinks of, and what they would do, beside what happens without them.

import { useEffect, useState } from "preact/hooks";
import { send, type Jobs, type Queues, type Tree } from "../api";
import { duration, number, plural } from "../format";
import { Chip, Commands, JobLink, Link, Panel, quote, Reason, Scroll } from "../parts";
import { address, go, status, useAt, useData, useValue } from "../store";

type Kind = "add-nodes" | "drain" | "submit" | "queue" | "priority" | "delete" | "config";

interface Change {
  kind: Kind;
  text: string;
}

interface Totals {
  started: number;
  waiting: number;
  evicted: number;
  evictedPods: number;
  movedPods: number;
  lostGpuSeconds: number;
  gpusHeld: number;
  gpus: number;
  seconds: number;
  settled: boolean;
}

interface Fate {
  queue: string;
  outcome: string;
  startsInSeconds: number | null;
  placed: number;
  pending: number;
  minimum: number;
  reason: string;
  nodes: string[];
  evictions: { beneficiary: string; action: string; pods: unknown[] }[];
}

interface Comparison {
  cycle: number;
  changes: string[];
  notes: string[];
  without: Totals;
  with: Totals;
  jobs: { job: string; difference: string; without: Fate | null; with: Fate | null }[];
}

const KINDS: { value: Kind; label: string; hint: string; lists?: "nodes" | "jobs" | "queues" }[] = [
  { value: "add-nodes", label: "Add nodes", hint: "how many, and like which node that is there: 8xgpu-1 would be eight nodes like one that is called gpu-1", lists: "nodes" },
  { value: "drain", label: "Drain a node", hint: "the name of a node: its pods have to find another place", lists: "nodes" },
  { value: "submit", label: "Submit YAML", hint: "a job as you would apply it with kubectl" },
  { value: "queue", label: "Change a queue", hint: "queue.what=amount: research.quota=40, product.weight=2, research.limit.cpu=100", lists: "queues" },
  { value: "priority", label: "Change a priority", hint: "job=priority: the name of a priority class, or a number", lists: "jobs" },
  { value: "delete", label: "Delete a job", hint: "the name of a job", lists: "jobs" },
  { value: "config", label: "Another profile", hint: "decide as another scheduler would: muster, volcano or kai" },
];

/** What names the files in other commands: here a configuration is a change, and the files are taken as they begin. */
function asBase(words: string): string {
  return words.replace(/ --(timeline|until|cycles) ('[^']*'|\S)+/g, "").replace(/ --config /, " --base-config ");
}

/** Changes stand in the address, so that a question can be shared. */
function changesOf(query: URLSearchParams): Change[] {
  return query.getAll("c").flatMap((text) => {
    const cut = text.indexOf(":");
    const kind = text.slice(0, cut) as Kind;
    return KINDS.some((known) => known.value === kind) ? [{ kind, text: text.slice(cut + 1) }] : [];
  });
}

function addressOf(changes: Change[]): string {
  const query = new URLSearchParams(location.search);
  query.delete("c");
  for (const change of changes) query.append("c", `${change.kind}:${change.text}`);
  const text = query.toString();
  return `/whatif${text ? `?${text}` : ""}`;
}

export function WhatIfPage() {
  const { query } = useValue(address);
  const at = useAt();
  const feed = useValue(status);
  const asked = changesOf(query);
  const key = `${at}|${asked.map((change) => `${change.kind}:${change.text}`).join("|")}`;
  const [answer, setAnswer] = useState<{ key: string; data: Comparison | null; error: string }>({ key: "", data: null, error: "" });
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    if (!asked.length || answer.key === key) return;
    const control = new AbortController();
    setBusy(true);
    send<Comparison>("/api/whatif", { changes: asked, at }, control.signal)
      .then((data) => setAnswer({ key, data, error: "" }))
      .catch((fault: Error) => {
        if (fault.name !== "AbortError") setAnswer({ key, data: null, error: fault.message });
      })
      .finally(() => setBusy(false));
    return () => control.abort();
  }, [key]);
  const shown = answer.key === key ? answer : null;
  const words = feed?.live ? "--cluster" : asBase(feed?.words ?? "");
  return (
    <div class="whatif">
      <Panel title="What if …" aside={<span class="muted">asked of {at === null ? "the latest cycle" : `cycle ${at}`}; nothing is changed</span>}>
        <ul class="changes">
          {asked.map((change, i) => (
            <li key={i}>
              <b>{KINDS.find((known) => known.value === change.kind)?.label}</b>
              {change.kind === "submit" ? <details><summary>{firstName(change.text)}</summary><pre class="words">{change.text}</pre></details> : <code>{change.text}</code>}
              <button type="button" aria-label={`Take back ${change.kind} ${change.text.slice(0, 40)}`} onClick={() => go(addressOf(asked.filter((_, j) => j !== i)))}>✕</button>
            </li>
          ))}
        </ul>
        <Form add={(change) => go(addressOf([...asked, change]))} />
        {asked.length > 0 && (
          <Commands
            commands={[`muster whatif ${words} ${asked.filter((change) => change.kind !== "submit").map((change) => `--${change.kind} ${quote(change.text)}`).join(" ")}${asked.some((change) => change.kind === "submit") ? " --submit job.yaml" : ""}`, `curl -s ${location.origin}/api/whatif -H 'Content-Type: application/json' -d ${quote(JSON.stringify({ changes: asked, ...(at === null ? {} : { at }) }))}`]}
          />
        )}
      </Panel>
      {!asked.length && <Suggestions />}
      {busy && <p class="muted" role="status">Running it twice, without the changes and with them …</p>}
      {shown?.error && <Panel title="That cannot be asked" class="bad"><p role="alert">{shown.error.replace(/^--/, "")}</p></Panel>}
      {shown?.data && <Answer data={shown.data} asker={query.get("job")} />}
    </div>
  );
}

/** Questions that others ask first, about what is here. */
function Suggestions() {
  const tree = useData<Tree>("/api/cluster/tree", false);
  const waiting = useData<Jobs>("/api/jobs?state=waiting&limit=1", false);
  const job = waiting.data?.jobs[0]?.job;
  const node = tree.data?.nodes.at(-1);
  const questions: { text: string; change: Change }[] = [
    ...(node ? [{ text: `4 more nodes like ${node} came?`, change: { kind: "add-nodes" as const, text: `4x${node}` } }] : []),
    ...(node ? [{ text: `${node} were drained?`, change: { kind: "drain" as const, text: node } }] : []),
    ...(job ? [{ text: `${job} were more urgent?`, change: { kind: "priority" as const, text: `${job}=1000000` } }] : []),
    { text: "the scheduler decided as Volcano does?", change: { kind: "config", text: "volcano" } },
    { text: "the scheduler decided as KAI does?", change: { kind: "config", text: "kai" } },
  ];
  return (
    <Panel title="For example: what if …">
      <ul class="plain">{questions.map(({ text, change }) => <li key={text}><Link href={askAll([change])}>… {text}</Link></li>)}</ul>
      <p class="muted">The cluster is copied and scheduled twice, without the changes and with them, and the two are put side by side. Several changes can be asked about together.</p>
    </Panel>
  );
}

function firstName(yaml: string): string {
  const kind = /^kind:\s*(\S+)/m.exec(yaml)?.[1] ?? "objects";
  const name = /^\s+name:\s*(\S+)/m.exec(yaml)?.[1] ?? "";
  return `${kind} ${name}`;
}

/** "2 gpu-1" and "research quota 8" as the commands write them. */
function asMeant(kind: Kind, text: string): string {
  if (kind === "add-nodes") return text.replace(/^(\d+)\s*(?:x\s*|\s)(\S+)$/, "$1x$2");
  if (kind === "queue") return text.replace(/^(\S+)\s+(quota|limit|weight)\s*(?:=|\s)\s*(\S+)$/, "$1.$2=$3");
  if (kind === "priority") return text.replace(/^(\S+)\s+(\S+)$/, "$1=$2");
  return text;
}

function Form({ add }: { add: (change: Change) => void }) {
  const [kind, setKind] = useState<Kind>("add-nodes");
  const [text, setText] = useState("");
  const known = KINDS.find((one) => one.value === kind) as (typeof KINDS)[number];
  const tree = useData<Tree>(known.lists === "nodes" ? "/api/cluster/tree" : null, false);
  const jobs = useData<Jobs>(known.lists === "jobs" ? "/api/jobs?limit=200" : null, false);
  const queues = useData<Queues>(known.lists === "queues" ? "/api/queues" : null, false);
  const names: string[] =
    known.lists === "nodes" ? (tree.data?.nodes ?? []).slice(0, 300).map((name) => (kind === "add-nodes" ? `4x${name}` : name))
    : known.lists === "jobs" ? (jobs.data?.jobs ?? []).map((job) => (kind === "priority" ? `${job.job}=1000` : job.job))
    : known.lists === "queues" ? (queues.data?.queues ?? []).flatMap((queue) => [`${queue.name}.quota=8`, `${queue.name}.weight=2`])
    : kind === "config" ? ["muster", "volcano", "kai"]
    : [];
  return (
    <form
      class="ask"
      onSubmit={(event) => {
        event.preventDefault();
        if (!text.trim()) return;
        add({ kind, text: kind === "submit" ? text : asMeant(kind, text.trim()) });
        setText("");
      }}
    >
      <label>
        <span class="unseen">Change</span>
        <select value={kind} onChange={(event) => { setKind(event.currentTarget.value as Kind); setText(""); }}>
          {KINDS.map((one) => <option key={one.value} value={one.value}>{one.label}</option>)}
        </select>
      </label>
      {kind === "submit" ? (
        <textarea rows={10} placeholder={"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n…"} aria-label="YAML of a job" value={text} onInput={(event) => setText(event.currentTarget.value)} spellcheck={false} />
      ) : (
        <>
          <input list="whatif-names" placeholder={names[0] ?? ""} aria-label={`${known.label}: ${known.hint}`} value={text} onInput={(event) => setText(event.currentTarget.value)} autocomplete="off" />
          <datalist id="whatif-names">{names.map((name) => <option key={name} value={name} />)}</datalist>
        </>
      )}
      <button type="submit" class="primary">Ask</button>
      {known.hint && <p class="muted">{known.hint}</p>}
    </form>
  );
}

const GOOD = new Set(["starts", "earlier", "spared"]);
const BAD = new Set(["evicted", "waits", "later"]);

type Compared = Comparison["jobs"][number];

/** How many pods more it has than without; a gang may grow and be called the same. */
function grown(job: Compared): number {
  return (job.with?.placed ?? 0) - (job.without?.placed ?? 0);
}

/** Who is evicted with and without the changes loses more work with them, or less. */
function differenceWord({ difference, without, with: within }: Compared): string {
  if (difference === "evicted" && without?.evictions.length) return "loses more work";
  if (difference === "evicted" && within?.outcome === "restarts") return "evicted, comes back";
  if (difference === "spared" && within?.evictions.length) return "loses less work";
  return difference;
}

function Difference({ job }: { job: Compared }) {
  const more = grown(job);
  if (job.difference === "same") return <span class={`chip ${more > 0 ? "is-running" : "is-bad"}`}>{more > 0 ? "+" : "−"}{plural(Math.abs(more), "pod")}</span>;
  return <span class={`chip ${GOOD.has(job.difference) ? "is-running" : BAD.has(job.difference) ? "is-bad" : ""}`}>{differenceWord(job)}</span>;
}

function Answer({ data, asker }: { data: Comparison; asker: string | null }) {
  const feed = useValue(status);
  const mine = data.jobs.find((job) => job.job === asker);
  const changed = data.jobs.filter((job) => job !== mine && (job.difference !== "same" || grown(job) !== 0));
  return (
    <>
      {mine && (
        <Panel title={<>What it does to <JobLink job={mine.job} /></>} aside={<Difference job={mine} />}>
          <dl class="two">
            <div><dt>without it</dt><dd><FateText fate={mine.without} /></dd></div>
            <div><dt>with it</dt><dd><FateText fate={mine.with} /></dd></div>
          </dl>
        </Panel>
      )}
      <Panel title={`With ${data.changes.join(", ")}`}>
        <Sides without={data.without} within={data.with} />
        <p class="after muted">Looked ahead {data.with.settled ? "until nothing would change any more" : "for so many cycles as there is time for"}{feed?.words.includes("--timeline") ? "; jobs that come later by the timeline are counted, too" : ""}.</p>
        {data.notes.map((note) => <p key={note} class="warn">{note}</p>)}
      </Panel>
      <Panel title={changed.length ? `${plural(changed.length, mine ? "other job" : "job")} for which it makes a difference` : `It makes no difference to any ${mine ? "other " : ""}job`}>
        {changed.length > 0 && (
          <Scroll label="Jobs, without and with">
            <table class="cards">
              <thead><tr><th>job</th><th>difference</th><th>without</th><th>with</th></tr></thead>
              <tbody>
                {changed.map((job) => (
                  <tr key={job.job}>
                    <td class="wide"><JobLink job={job.job} /></td>
                    <td><Difference job={job} /></td>
                    <td class="why" data-label="without"><FateText fate={job.without} /></td>
                    <td class="why" data-label="with"><FateText fate={job.with} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        )}
        {changed.length > 0 && <p class="after muted">All other jobs fare the same.</p>}
      </Panel>
    </>
  );
}

/** What is counted, how it is written, and whether more of it is better. */
const COUNTED: [string, (totals: Totals) => number, (value: number) => string, -1 | 1 | 0][] = [
  ["jobs that start", (totals) => totals.started, number, 1],
  ["jobs that still wait", (totals) => totals.waiting, number, -1],
  ["jobs that lose their place", (totals) => totals.evicted, number, -1],
  ["pods evicted", (totals) => totals.evictedPods, number, -1],
  ["pods moved", (totals) => totals.movedPods, number, 0],
  ["GPU-hours lost", (totals) => totals.lostGpuSeconds / 3600, (value) => value.toFixed(1), -1],
  ["GPUs held at the end", (totals) => totals.gpusHeld, number, 1],
  ["GPUs there are", (totals) => totals.gpus, number, 0],
];

/** Totals with the changes, beside those without; what is nothing in both is not shown. */
function Sides({ without, within }: { without: Totals; within: Totals }) {
  const shown = COUNTED.map(([what, of, write, better]) => ({ what, before: of(without), after: of(within), write, better }));
  return (
    <dl class="figures sides">
      {shown.filter(({ before, after }, i) => i < 2 || before !== 0 || after !== 0).map(({ what, before, after, write, better }) => {
        const change = after - before;
        const tone = change === 0 || better === 0 ? "" : change * better > 0 ? "is-better" : "is-worse";
        return (
          <div key={what} class={tone}>
            <dt>{what}</dt>
            <dd><b>{write(after)}</b> {change === 0 ? "the same without" : <><i>{change > 0 ? "+" : "−"}{write(Math.abs(change))}</i> {write(before)} without</>}</dd>
          </div>
        );
      })}
    </dl>
  );
}

function FateText({ fate }: { fate: Fate | null }) {
  if (!fate) return <span class="muted">goes on as it is</span>;
  return (
    <>
      <Chip state={fate.outcome} />{" "}
      {fate.startsInSeconds !== null && <span>{fate.evictions.length > 0 ? "has its minimum for good" : "has its minimum"} {fate.startsInSeconds > 0 ? `${duration(fate.startsInSeconds)} from then` : "at once"}: </span>}
      {fate.placed + fate.pending === 0 && <span class="muted">its pods have ended by then</span>}
      {fate.placed + fate.pending > 0 && <span class="muted">{fate.placed} of {plural(fate.placed + fate.pending, "pod")}{fate.nodes.length ? ` on ${fate.nodes.slice(0, 3).join(", ")}${fate.nodes.length > 3 ? ` and ${fate.nodes.length - 3} more` : ""}` : ""}</span>}
      {fate.reason && <p><Reason text={fate.reason} /></p>}
      {fate.evictions.map((eviction, i) => (
        <p key={i} class="warn">{plural(eviction.pods.length, "pod")} evicted {eviction.action === "stalegangeviction" ? "as its gang was broken" : `by ${eviction.action}`}{eviction.beneficiary ? <> for <JobLink job={eviction.beneficiary} /></> : ""}</p>
      ))}
    </>
  );
}

/** The address that asks about changes, on behalf of a job, at the cycle that is looked at. */
export function askAll(changes: { kind: string; text: string }[], job = ""): string {
  const query = new URLSearchParams();
  const at = new URLSearchParams(location.search).get("at");
  if (at) query.set("at", at);
  if (job) query.set("job", job);
  for (const change of changes) query.append("c", `${change.kind}:${change.text}`);
  return `/whatif?${query}`;
}
