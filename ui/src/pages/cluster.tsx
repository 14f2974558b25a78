// Cluster: every node in the order of the network, coloured by what one wants to know.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Cycles, State, Tree } from "../api";
import { amount, number, percent, plural, resourceWord } from "../format";
import { NodeMap } from "../NodeMap";
import { NodePanel } from "../NodePanel";
import type { Mode, Paint } from "../paint";
import { Overview } from "../Overview";
import { Chip, Commands, Dot, JobLink, Link, Missing, Panel, PutAside, QueueLink, Scroll, Segments, useKubectl, useSource } from "../parts";
import { address, go, linkTo, status, useAt, useData, useField, useValue, withQuery } from "../store";

const MODES: { value: Mode; label: string; title: string }[] = [
  { value: "use", label: "Use", title: "How much of the resource is used" },
  { value: "free", label: "Free", title: "How much of the resource is free" },
  { value: "job", label: "Job", title: "Which job holds most" },
  { value: "queue", label: "Queue", title: "Which queue holds most" },
  { value: "state", label: "Faults", title: "Nodes that take no pods" },
];

/** Tree and state that belong together: the tree is asked for again only when nodes or domains have changed. */
export function useMap(): { tree: Tree | null; state: State | null; missing: ReturnType<typeof useData<State>> } {
  const missing = useData<State>("/api/cluster/state");
  // Asked for beside the first state, and again when that is of another revision.
  const [revision, setRevision] = useState("");
  const trees = useData<Tree>(`/api/cluster/tree?revision=${revision}`, false);
  useEffect(() => {
    if (missing.data && !trees.loading && missing.data.revision !== trees.data?.revision) setRevision(missing.data.revision);
  }, [missing.data, trees]);
  const held = useRef<{ tree: Tree | null; state: State | null }>({ tree: null, state: null });
  if (trees.data && missing.data && trees.data.revision === missing.data.revision) held.current = { tree: trees.data, state: missing.data };
  return { ...held.current, missing };
}

function useHeight(): number {
  const measure = (): number => Math.max(260, window.innerHeight - 270);
  const [height, setHeight] = useState(measure());
  useEffect(() => {
    const again = (): void => setHeight(measure());
    window.addEventListener("resize", again);
    return () => window.removeEventListener("resize", again);
  }, []);
  return height;
}

export function ClusterPage() {
  const { query } = useValue(address);
  const { tree, state, missing } = useMap();
  const feed = useValue(status);
  const source = useSource();
  const kubectl = useKubectl();
  const [painted, setPainted] = useState<Paint | null>(null);
  const height = useHeight();
  const asTable = query.get("view") === "table";
  const foldTier = query.get("fold");
  const opened = query.get("open") ?? "";
  const folded = useMemo(() => {
    const found = new Set<number>();
    if (!tree) return found;
    const names = new Map(tree.domains.name.map((name, index) => [name, index]));
    if (foldTier) tree.domains.tier.forEach((tier, domain) => domain > 0 && tier === Number(foldTier) && found.add(domain));
    for (const name of opened.split(",").filter(Boolean)) {
      const domain = names.get(name);
      if (domain === undefined) continue;
      if (found.has(domain)) found.delete(domain);
      else found.add(domain);
    }
    return found;
  }, [tree, foldTier, opened]);
  const job = query.get("job");
  const queue = query.get("queue");
  const domain = query.get("domain");
  const lit = useMemo(() => (tree && state ? litNodes(tree, state, job, queue, domain) : null), [tree, state, job, queue, domain]);
  if (!tree || !state) return <Missing of={missing} what="the cluster" />;
  if (tree.nodes.length === 0) return <NoNodes tree={tree} />;

  const mode = (query.get("by") as Mode | null) ?? (tree.nodes.length <= 64 ? "job" : "use");
  const resource = query.get("of") ?? tree.scarce;
  const selected = query.get("node");
  function fold(index: number): void {
    const name = tree?.domains.name[index] as string;
    const names = new Set(opened.split(",").filter(Boolean));
    if (names.has(name)) names.delete(name);
    else names.add(name);
    go(withQuery({ open: [...names].join(","), zoom: null }));
  }
  return (
    <div class="cluster">
      <Totals tree={tree} state={state} resource={resource} />
      <PutAside />
      <div class={selected ? "split" : ""}>
        <Panel
          title={`${plural(tree.nodes.length, "node")}${tree.domains.name.length > 1 ? `, ${plural(tree.domains.name.length - 1, "domain")}` : ""}`}
          aside={
            <>
              {!asTable && <Segments label="Colours by" value={mode} options={MODES} onChange={(by) => go(withQuery({ by }))} />}
              {(asTable || mode === "use" || mode === "free") && (
                <label>
                  <span class="unseen">Resource</span>
                  <select value={resource} onChange={(event) => go(withQuery({ of: event.currentTarget.value }))}>
                    {tree.resources.map((known) => (
                      <option key={known.name} value={known.name}>{resourceWord(known.name)}</option>
                    ))}
                  </select>
                </label>
              )}
              {tree.tiers.length > 0 && (
                <label>
                  <span class="unseen">Fold</span>
                  <select value={foldTier ?? ""} onChange={(event) => go(withQuery({ fold: event.currentTarget.value, open: null, zoom: null }))}>
                    <option value="">all nodes</option>
                    {tree.tiers.map((tier) => (
                      <option key={tier.tier} value={tier.tier}>
                        fold {tier.name || `tier ${tier.tier}`} ({tier.domains})
                      </option>
                    ))}
                  </select>
                </label>
              )}
              <Segments
                label="View"
                value={asTable ? "table" : "map"}
                options={[{ value: "map", label: "Map" }, { value: "table", label: "Table" }]}
                onChange={(view) => go(withQuery({ view: view === "map" ? null : view }))}
              />
            </>
          }
        >
          {(job || queue || domain) && (
            <p class="filter">
              Only nodes of {job ? <JobLink job={job} /> : queue ? <QueueLink queue={queue} /> : <b>{domain}</b>}{" "}
              stand out: {number(lit?.size ?? 0)}{" "}
              <button type="button" onClick={() => go(withQuery({ job: null, queue: null, domain: null }))}>show all</button>
            </p>
          )}
          {asTable ? (
            <NodeTable tree={tree} state={state} resource={resource} lit={lit} />
          ) : (
            <NodeMap
              tree={tree}
              state={state}
              mode={mode}
              resource={resource}
              folded={folded}
              lit={lit}
              sought={(mode === "queue" ? queue : job) ?? ""}
              selected={selected}
              height={height}
              label={summary(tree, state, resource)}
              onSelect={(node) => go(withQuery({ node }))}
              onFold={fold}
              onPaint={setPainted}
              zoom={query.get("zoom") ?? ""}
              onZoom={(zoom) => go(withQuery({ zoom }), true)}
            />
          )}
          {!asTable && painted && <Legend painted={painted} mode={mode} state={state} />}
          <Commands commands={[`muster nodes ${source}`, ...(feed?.live ? [`${kubectl} get nodes`] : [])]} api={["/api/cluster/tree", "/api/cluster/state"]} />
        </Panel>
        {selected && <NodePanel name={selected} />}
        {painted && <Overview />}
      </div>
      <Faults of={tree} />
    </div>
  );
}

/** Without nodes there is no map; who waits, and what was put aside, is what one wants to know then. */
function NoNodes({ tree }: { tree: Tree }) {
  return (
    <div class="cluster">
      <PutAside />
      <Panel title="There is no node"><p class="muted">So nothing can start. Nodes are shown here as soon as there are some.</p></Panel>
      <Overview />
      <Faults of={tree} />
    </div>
  );
}

function Faults({ of: tree }: { of: Tree }) {
  if (tree.faults.length === 0) return null;
  return (
    <Panel title="Faults in the topology: what lies under them is out of use for jobs that ask for a domain" class="bad">
      <ul class="plain">
        {tree.faults.map((fault) => (
          <li key={fault.domain}><b>{fault.domain}</b>: {fault.fault}</li>
        ))}
      </ul>
    </Panel>
  );
}

function litNodes(tree: Tree, state: State, job: string | null, queue: string | null, domain: string | null): Set<string> | null {
  if (domain) {
    const index = tree.domains.name.indexOf(domain);
    return new Set(index < 0 ? [] : tree.nodes.slice(tree.domains.lo[index], tree.domains.hi[index]));
  }
  if (!job && !queue) return null;
  const wanted = new Set<number>();
  state.jobs.forEach((name, index) => {
    if (job ? name === job : state.queues[state.jobQueue[index] as number] === queue) wanted.add(index);
  });
  const found = new Set<string>();
  tree.nodes.forEach((name, row) => {
    for (let at = state.holders.start[row] as number; at < (state.holders.start[row + 1] as number); at++)
      if (wanted.has(state.holders.job[at] as number)) found.add(name);
  });
  return found;
}

function sums(state: State, resource: string): { total: number; used: number } {
  const column = state.resources[resource];
  const add = (list: number[]): number => list.reduce((sum, value) => sum + value, 0);
  return column ? { total: add(column.total), used: add(column.used) } : { total: 0, used: 0 };
}

function summary(tree: Tree, state: State, resource: string): string {
  const { total, used } = sums(state, resource);
  const wrong = state.state.filter((code) => code > 0).length;
  return `${plural(tree.nodes.length, "node")}, ${percent(used, total)} of ${resourceWord(resource)} used, ${wrong} nodes take no pods`;
}

/** From this part on it is shown how many of the pods that nodes take are there. */
const NEARLY_FULL = 0.8;

/** Jobs that run and wait, at the cycle that is looked at; -1: nobody counted them. */
function useCounts(): { running: number; waiting: number } {
  const feed = useValue(status);
  const at = useAt();
  const past = useData<Cycles>(at === null ? null : "/api/cycles");
  if (at === null) return { running: feed?.running ?? -1, waiting: feed?.waiting ?? 0 };
  const place = past.data?.cycle.indexOf(at) ?? -1;
  return { running: past.data?.running[place] ?? -1, waiting: past.data?.waiting[place] ?? 0 };
}

function Totals({ tree, state, resource }: { tree: Tree; state: State; resource: string }) {
  const jobs = useCounts();
  const wrong = state.state.filter((code) => code > 0).length;
  const shown = [resource, ...tree.resources.map((known) => known.name).filter((name) => name !== resource && name !== "pods")].slice(0, 3);
  const pods = sums(state, "pods");
  // Nodes take so many pods each, and nobody thinks of that as long as there are few.
  if (!shown.includes("pods") && pods.used >= NEARLY_FULL * pods.total && pods.total > 0) shown.push("pods");
  return (
    <div class="figures">
      {shown.map((name) => {
        const { total, used } = sums(state, name);
        const unit = tree.resources.find((known) => known.name === name)?.unit ?? "count";
        return (
          <div key={name}>
            <span>{name === "pods" ? "pods, of those that nodes take" : `${resourceWord(name)} used`}</span>
            <p><b>{percent(used, total)}</b> {amount(used, unit)} of {amount(total, unit)}</p>
            <meter class="bar" min={0} max={Math.max(1, total)} value={used} aria-label={`${resourceWord(name)} used`} />
          </div>
        );
      })}
      {jobs.running >= 0 && (
        <Link href={linkTo("/jobs", { state: "waiting,promised" })} class={jobs.waiting ? "warn" : ""}>
          <span>Jobs</span>
          <p><b>{number(jobs.waiting)}</b> {jobs.waiting === 1 ? "job waits" : "jobs wait"}, {number(jobs.running)} {jobs.running === 1 ? "runs" : "run"}</p>
        </Link>
      )}
      <Link href={withQuery({ by: "state" })} class={wrong ? "bad" : ""}>
        <span>Nodes</span>
        <p>{wrong ? <><b>{number(wrong)}</b> of {number(tree.nodes.length)} {wrong === 1 ? "takes" : "take"} no pods</> : <><b>{number(tree.nodes.length)}</b> {tree.nodes.length === 1 ? "takes pods" : "all take pods"}</>}</p>
      </Link>
    </div>
  );
}

function Legend({ painted, mode, state }: { painted: Paint; mode: Mode; state: State }) {
  return (
    <div class="legend" aria-label="Legend">
      {painted.scale && (
        <span class="scale">
          {painted.scale.from}
          <span class="ramp" aria-hidden="true">
            {painted.scale.colours.map((colour, i) => <i key={i} style={{ background: colour }} />)}
          </span>
          {painted.scale.to}
        </span>
      )}
      {painted.legend.map((entry) =>
        entry.name ? (
          <Link key={entry.label} href={withQuery({ [mode]: entry.name })}>
            <Dot name={entry.name} />
            {entry.label}
          </Link>
        ) : (
          <span key={entry.label}><i class="dot" style={{ background: entry.colour }} />{entry.label}</span>
        ),
      )}
      {state.promised.length > 0 && <span><i class="corner is-promised" />promised to a pod</span>}
      {state.leaving.length > 0 && <span><i class="corner is-leaving" />pods are leaving</span>}
    </div>
  );
}

const MOST_ROWS = 500;

function NodeTable({ tree, state, resource, lit }: { tree: Tree; state: State; resource: string; lit: Set<string> | null }) {
  const [text, setText] = useField("name");
  const unit = tree.resources.find((known) => known.name === resource)?.unit ?? "count";
  const column = state.resources[resource];
  const rows = useMemo(() => {
    const found: number[] = [];
    tree.nodes.forEach((name, row) => {
      if ((!lit || lit.has(name)) && name.includes(text)) found.push(row);
    });
    return found;
  }, [tree, text, lit]);
  return (
    <>
      <input class="narrow" type="search" placeholder="Name of a node" aria-label="Name of a node" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <Scroll label="Nodes">
        <table class="cards">
          <thead>
            <tr><th>node</th><th>state</th><th class="n">{resourceWord(resource)} free</th><th class="n">of</th><th class="n">pods</th><th>jobs</th></tr>
          </thead>
          <tbody>
            {rows.slice(0, MOST_ROWS).map((row) => {
              const [total, used] = [column?.total[row] ?? 0, column?.used[row] ?? 0];
              const [from, to] = [state.holders.start[row] as number, state.holders.start[row + 1] as number];
              const jobs = state.holders.job.slice(from, Math.min(to, from + 3)).map((index) => state.jobs[index] as string);
              return (
                <tr key={row}>
                  <td class="wide"><Link href={withQuery({ node: tree.nodes[row] as string })} class="name">{tree.nodes[row]}</Link></td>
                  <td><Chip state={state.states[state.state[row] as number] as string} /></td>
                  <td class="n" data-label="free">{amount(total - used, unit)}</td>
                  <td class="n" data-label="of">{amount(total, unit)}</td>
                  <td class="n" data-label="pods">{state.pods[row]}</td>
                  <td>{jobs.map((job) => <span key={job}><JobLink job={job} /> </span>)}{to - from > 3 && <span class="muted">and {to - from - 3} more</span>}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Scroll>
      {rows.length > MOST_ROWS && <p class="muted">The first {MOST_ROWS} of {number(rows.length)}; a name narrows them down.</p>}
    </>
  );
}
