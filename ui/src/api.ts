// Asks the server, and hears of what is new. The types are those of /api/openapi.json.

export interface Status {
  version: string;
  source: "files" | "snapshot" | "cluster" | "replay";
  title: string;
  words: string;
  live: boolean;
  ended: boolean;
  trouble: string;
  start: number;
  cycles: number;
  cycle: number | null;
  time: number | null;
  firstWhole: number | null;
  running: number | null;
  waiting: number | null;
  quarantined: number;
  counts: Record<string, number>;
}

export interface Tree {
  revision: string;
  nodes: string[];
  domains: { name: string[]; tier: number[]; parent: number[]; lo: number[]; hi: number[] };
  tiers: { tier: number; name: string; domains: number }[];
  faults: { domain: string; fault: string }[];
  resources: { name: string; unit: Unit }[];
  scarce: string;
}

export type Unit = "milli" | "bytes" | "count";

export interface State {
  cycle: number;
  time: number;
  revision: string;
  scarce: string;
  resources: Record<string, { total: number[]; used: number[] }>;
  pods: number[];
  states: string[];
  state: number[];
  leaving: number[];
  promised: number[];
  jobs: string[];
  queues: string[];
  jobQueue: number[];
  holders: { start: number[]; job: number[]; amount: number[] };
}

export interface PodRow {
  pod: string;
  job: string;
  queue: string;
  status: string;
  asks: Record<string, string>;
}

export interface NodePage {
  name: string;
  state: string;
  allocatable: Record<string, string>;
  used: Record<string, string>;
  free: Record<string, string>;
  pods: number;
  jobs: string[];
  taints: string[];
  row: number;
  domains: { name: string; tier: number }[];
  labels: Record<string, string>;
  running: PodRow[];
  promisedTo: PodRow[];
}

export interface JobRow {
  job: string;
  queue: string;
  state: string;
  placed: number;
  pending: number;
  minimum: number;
  priority: number;
  ageSeconds: number;
  runningSeconds: number | null;
  /** Since it was made, or last lost pods. */
  waitsSeconds: number | null;
  line: { overall: number; inQueue: number; why: string } | null;
  reason: string;
  startsInSeconds: number | null;
  nodes: string[];
  asks: Record<string, string>;
  /** What made its pods. */
  owner: { kind: string; name: string } | null;
}

export interface Jobs {
  cycle: number;
  time: number;
  total: number;
  found: number;
  offset: number;
  states: Record<string, number>;
  queues: string[];
  namespaces: string[];
  jobs: JobRow[];
}

export interface TimelineEntry {
  time: number;
  cycle: number | null;
  kind: "created" | "bind" | "evict" | "nominate" | "cleared" | "waits" | "phase";
  text: string;
  pods: { pod: string; node: string }[];
  code?: string;
  phase?: string;
  job?: string;
  beneficiary?: string;
  record?: Record<string, unknown> | null;
  /** How the two queues stood, or in one queue the two priorities. */
  balance?: string;
}

export interface Explanation {
  job: string;
  queue: string;
  state: string;
  phase: string;
  minimum: number;
  tasks: Record<string, number>;
  roles: { name: string; minimum: number; ready: number }[];
  reason: { code: string; text: string; detail: string; remedy: string };
  stillNeeded: number;
  placed: number;
  task: string;
  request: Record<string, string>;
  nodeSelector: Record<string, string>;
  needs: { resource: string; needed: string; free: string; missing: string }[];
  queues: {
    name: string;
    weight: number;
    allocated: Record<string, string>;
    deserved: Record<string, string>;
    fairShare: Record<string, string>;
    limit: Record<string, string>;
    guarantee: Record<string, string>;
  }[];
  nodes: {
    total: number;
    byReason: Record<string, number>;
    shortOf: Record<string, number>;
    groups: { reason: string; text: string; nodes: number; allocatable: Record<string, string>; examples: string[] }[];
    closest: { name: string; free: Record<string, string>; lacks: Record<string, string> } | null;
  };
  holders: { job: string; resource: string; amount: string }[];
  heldByOthers: Record<string, string>;
  noEvictions: string;
  placements: { pod: string; node: string; status: string; runningSeconds: number | null }[];
  protected: { ownQueue: boolean; queues: string[]; secondsLeft: number }[];
  advice: string[];
}

export interface JobPage {
  cycle: number;
  time: number;
  row: JobRow;
  headline: string;
  text: string[];
  explanation: Explanation;
  /** Whether any queue but its own and those above holds something. */
  othersHold: boolean;
  pods: { pod: string; node: string; promised: string; status: string }[];
  /** What keeps all evictions from it. */
  notPreemptible: string;
  timeline: TimelineEntry[];
  /** Who holds what it lacks, and got it while it waited. */
  came: { job: string; time: number; cycle: number }[];
}

/** What would let a job start: tried on a copy of the cluster. */
export interface Remedies {
  cycle: number;
  advice: { text: string; changes: { kind: string; text: string }[] }[];
  untried: string[];
  expectedStart: { inSeconds: number | null; text: string } | null;
  text: string[];
}

export interface QueueAmounts {
  quota: number | null;
  limit: number | null;
  fairShare: number | null;
  held: number;
  asked: number;
}

export interface QueueRow {
  name: string;
  parent: string;
  priority: number;
  open: boolean;
  reclaimable: boolean;
  preemptMinRuntime: number | null;
  reclaimMinRuntime: number | null;
  fault: string;
  jobs: { running: number; waiting: number; pendingPods: number };
  reasons: { code: string; text: string; jobs: number }[];
  resources: Record<string, { weight: number }>;
  amounts: Record<string, QueueAmounts>;
}

export interface Queues {
  cycle: number;
  time: number;
  total: Record<string, string>;
  totals: Record<string, number>;
  units: Record<string, Unit>;
  heldByOthers: Record<string, string>;
  queues: QueueRow[];
  loans: { borrower: string; lender: string; resource: string; amount: string; base: number; unit: Unit }[];
  missing: { queue: string; jobs: number }[];
  takings: {
    from: string;
    to: string;
    pods: number;
    jobs: string[];
    for: string[];
    time: number;
    cycle: number;
    why: string;
  }[];
}

export interface Series {
  resource: string;
  unit: Unit;
  cycle: number[];
  time: number[];
  queues: Record<string, { held: number[]; fairShare: (number | null)[] }>;
  loans: { lender: string; borrower: string; amount: number[] }[];
  takings: { time: number; cycle: number; from: string; to: string; pods: number }[];
}

export interface Cycles {
  cycle: number[];
  time: number[];
  bind: number[];
  evict: number[];
  nominate: number[];
  running: number[];
  waiting: number[];
  whole: boolean[];
  failed: boolean[];
}

export interface Group {
  kind: string;
  job: string;
  beneficiary: string;
  why: string;
  queue: string;
  beneficiaryQueue: string;
  n: number;
  pods: { pod: string; node: string }[];
  record: Record<string, unknown> | null;
  balance: string;
}

export interface CycleCard {
  cycle: number;
  time: number;
  counts: { bind: number; evict: number; nominate: number };
  groups: Group[];
  tried: { job: string; phase: string; code: string; message: string }[];
  actions: Record<string, { milliseconds: number; attempts: Record<string, number>; dryRuns: number; cutShort: number }>;
  failures: { error: string; what: string }[];
  error: string;
}

export interface Leader {
  lease: string;
  namespace: string;
  holder: string;
  since: number | null;
  renewed: number | null;
  /** Seconds for which it holds after it was renewed. */
  lasts: number;
  changes: number;
}

export interface Config {
  source: string;
  actions: { name: string; arguments: Record<string, unknown> }[];
  tiers: { name: string; flags: Record<string, boolean>; arguments: Record<string, unknown> }[][];
  notes: string[];
  summaries: Record<string, string>;
  unused: string[];
  pluginsLeftOut: string[];
  quarantined: { kind: string; namespace: string; name: string; reason: string }[];
  faults: { domain: string; fault: string }[];
  shard: { mode: string; nodes: number } | null;
  surroundings: {
    leaders: Leader[] | null;
    shards: { shard: string; scheduler: string; wanted: number; inUse: number; toAdd: number; toRemove: number }[];
    trouble: string;
  };
  errors: { cycle: number; time: number; error: string }[];
}

export interface Found {
  text: string;
  found: { kind: "job" | "queue" | "node" | "domain" | "pod"; name: string; job?: string }[];
}

// -- asking ----------------------------------------------------------------------------------------------------------

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const TOKEN = "muster-token";

/** The token comes in the fragment of the first address, which browsers do not send, and goes from there at once. */
export function takeToken(): void {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (found?.[1]) {
    setToken(decodeURIComponent(found[1]));
    history.replaceState(null, "", location.pathname + location.search);
  }
}

export function setToken(token: string): void {
  try {
    sessionStorage.setItem(TOKEN, token);
  } catch {
    kept = token;
  }
}

let kept = "";

function headers(): Record<string, string> {
  let token = kept;
  try {
    token = sessionStorage.getItem(TOKEN) ?? kept;
  } catch {
    // No storage: the token lives as long as the page.
  }
  return token ? { Authorization: `Bearer ${token}` } : {};
}

declare global {
  interface Window {
    /** Answers that `head.js` has asked for already, by path. */
    musterEarly?: Record<string, Promise<Response>>;
  }
}

export async function ask<T>(path: string, signal?: AbortSignal): Promise<T> {
  const early = window.musterEarly?.[path];
  if (early) {
    delete window.musterEarly?.[path];
    return answered<T>(await early);
  }
  return answered<T>(await fetch(path, { headers: headers(), signal: signal ?? null, cache: "no-store" }));
}

export async function send<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const given = { ...headers(), "Content-Type": "application/json" };
  return answered<T>(
    await fetch(path, { method: "POST", headers: given, body: JSON.stringify(body), signal: signal ?? null }),
  );
}

async function answered<T>(response: Response): Promise<T> {
  if (!response.ok) {
    let why = `${response.status} ${response.statusText}`;
    try {
      why = ((await response.json()) as { error?: string }).error ?? why;
    } catch {
      // Not ours: the status has to do.
    }
    throw new ApiError(response.status, why);
  }
  return (await response.json()) as T;
}

// -- the stream ------------------------------------------------------------------------------------------------------

export type Connection = "connecting" | "open" | "lost" | "refused";

/** Read the stream for as long as the page lives; begins anew, ever more slowly, when it is cut. */
export function listen(hear: (status: Status) => void, say: (state: Connection, why: string) => void): void {
  let wait = 500;
  const run = async (): Promise<void> => {
    for (;;) {
      try {
        const response = await fetch("/api/events", { headers: headers(), cache: "no-store" });
        if (response.status === 401 || response.status === 403) {
          const { error } = (await response.json()) as { error: string };
          say("refused", error);
          await new Promise<void>((done) => window.addEventListener("muster-token", () => done(), { once: true }));
          continue;
        }
        if (!response.ok || !response.body) throw new Error(`${response.status}`);
        say("open", "");
        wait = 500;
        await read(response.body, hear);
        say("lost", "the stream ended");
      } catch (fault) {
        say("lost", fault instanceof Error ? fault.message : String(fault));
      }
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(wait * 1.6, 5000);
    }
  };
  void run();
}

/** Hand every status on; silence for longer than three beats ends it. */
async function read(body: ReadableStream<Uint8Array>, hear: (status: Status) => void): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    let timer = 0;
    const silence = new Promise<never>((_, fail) => {
      timer = window.setTimeout(() => fail(new Error("no sign of life")), 35_000);
    });
    const { done, value } = await Promise.race([reader.read(), silence]).finally(() => clearTimeout(timer));
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const messages = text.split("\n\n");
    text = messages.pop() ?? "";
    for (const message of messages) {
      const event = /^event: (.*)$/m.exec(message)?.[1];
      const data = /^data: (.*)$/m.exec(message)?.[1];
      if (event === "status" && data) hear(JSON.parse(data) as Status);
      if (event === "refused") return;
    }
  }
}
