// Small parts that pages are made of.

import { Component, type ComponentChildren, type JSX, type Ref } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, type JobRow, type Status } from "./api";
import { hue } from "./paint";
import { address, go, jobPath, linkTo, status, useAt, useValue, withQuery, type Data } from "./store";
import { actionWord, fullTime, moment, number, plainBounds } from "./format";

export function Link(props: JSX.HTMLAttributes<HTMLAnchorElement> & { href: string; class?: string }) {
  const { href, children, ...rest } = props;
  return (
    <a
      {...rest}
      href={href}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
        event.preventDefault();
        go(href);
      }}
    >
      {children}
    </a>
  );
}

/** A colour that belongs to a name, on every page. */
export function Dot({ name }: { name: string }) {
  return <i class={`dot hue-${hue(name)}`} aria-hidden="true" />;
}

export function JobLink({ job, dot = true }: { job: string; dot?: boolean }) {
  if (!job || job === "(hidden)") return <span class="name">{job || "nobody"}</span>;
  return (
    <Link href={linkTo(jobPath(job))} class="name" title={job}>
      {dot && <Dot name={job} />}
      {job}
    </Link>
  );
}

/** What made the pods of a job, where the job's own name does not say it. */
export function MadeBy({ row }: { row: JobRow }) {
  if (!row.owner || row.job.endsWith(`/${row.owner.name}`)) return null;
  return <span class="owner muted">{row.owner.kind} {row.owner.name}{" "}</span>;
}

export function NodeLink({ node }: { node: string }) {
  return <Link href={linkTo("/cluster", { node })} class="name">{node}</Link>;
}

export function QueueLink({ queue }: { queue: string }) {
  if (!queue) return <span class="muted">no queue</span>;
  return <Link href={linkTo("/queues", { queue })} class="name">{queue}</Link>;
}

const STATES: Record<string, string> = {
  waiting: "it has not the pods that it needs to start",
  promised: "nodes are promised to it, and pods have yet to leave them",
  starting: "its pods have nodes and are starting",
  growing: "it runs with what it needs at least, and more of its pods wait",
  running: "all of its pods run",
  finished: "all of its pods have ended",
};

export function Chip({ state }: { state: string }) {
  return <span class={`chip is-${state.replaceAll(" ", "-")}`} title={STATES[state]}>{state}</span>;
}

export function Panel(props: { title?: ComponentChildren; aside?: ComponentChildren; class?: string; place?: Ref<HTMLElement>; children: ComponentChildren }) {
  return (
    <section ref={props.place} class={`panel ${props.class ?? ""}`}>
      {(props.title || props.aside) && (
        <header>
          <h2>{props.title}</h2>
          {props.aside && <div class="aside">{props.aside}</div>}
        </header>
      )}
      {props.children}
    </section>
  );
}

/** So much of a panel has to be in view, above the line of cycles, to be noticed. */
const SEEN_PX = 200;

/** Of a panel that opens where nobody would see that it has come, below what was clicked on: it comes into view. */
export function useIntoView(name: string): Ref<HTMLElement> {
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    const top = place.current?.getBoundingClientRect().top ?? 0;
    if (top > window.innerHeight - SEEN_PX) place.current?.scrollIntoView({ block: "start" });
  }, [name]);
  return place;
}

/** Text with the names of nodes, jobs and amounts as it came; a reason's code apart. */
export function Reason({ text }: { text: string }) {
  const cut = /^([a-z][a-z-]*[a-z]): (.*)$/s.exec(text);
  if (!cut) return <span>{plainBounds(text)}</span>;
  const code = cut[1] as string;
  const meaning = actionWord(code);
  return (
    <span>
      <code class="code" title={meaning === code ? undefined : meaning}>{code}</code> {plainBounds(cut[2] ?? "")}
    </span>
  );
}

/** Objects that nobody schedules are on no list: that is said where one looks for them. */
export function PutAside() {
  const count = useValue(status)?.quarantined ?? 0;
  if (!count) return null;
  return (
    <p class="notice" role="status">
      {count === 1 ? "1 object cannot be used and was put aside" : `${count} objects cannot be used and were put aside`}; everything else goes on.{" "}
      <Link href={linkTo("/config")}>What is wrong</Link>
    </p>
  );
}

/** Of a live cluster nobody here knows what was decided before the server began to look. */
export function NothingYet() {
  const feed = useValue(status);
  if (feed?.live) return <>Nothing has been decided<SinceBegin />.</>;
  return <>{feed?.ended ? "Nothing was decided: nobody got a node, and nobody had to leave one." : "Nothing has been decided yet."}</>;
}

/** On a live cluster, since when it is known what was decided. */
export function SinceBegin({ or = "" }: { or?: string }) {
  const feed = useValue(status);
  return <>{feed?.live ? <> since <When time={feed.start} />, when the dashboard began to look</> : or}</>;
}

export function When({ time, of }: { time: number; of?: Status | null }) {
  const now = useValue(status);
  const feed = of ?? now;
  const title = feed?.live ? fullTime(time) : undefined;
  return (
    <time title={title} dateTime={new Date(time * 1000).toISOString()}>
      {feed ? moment(time, feed.start, feed.live) : ""}
    </time>
  );
}

export function Copy({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false);
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  }
  return (
    <button type="button" class="copy" onClick={() => void copy()} title={`Copy: ${text}`}>
      {done ? "copied" : label}
    </button>
  );
}

/** How a command names what the page is of: the cluster, or files and how many cycles of them. */
export function useSource(): string {
  const feed = useValue(status);
  const at = useAt() ?? feed?.cycle;
  if (feed?.live) return feed.words;
  // So many cycles are as good as a time to end at, and both cannot be said.
  const files = (feed?.words ?? "").replace(/ --until ('[^']*'|\S)+/g, "");
  return `${files}${at ? ` --cycles ${at}` : ""}`;
}

/** How kubectl is told of the same cluster. */
export function useKubectl(): string {
  const words = useValue(status)?.words ?? "";
  return ["kubectl", ...(words.match(/--(kubeconfig|context) ('[^']*'|\S)+/g) ?? [])].join(" ");
}

/** The same on a terminal, as JSON at the addresses under /api that the page has it from, and as it stands at this cycle. */
export function Commands({ commands, api = [] }: { commands: string[]; api?: string[] }) {
  const feed = useValue(status);
  // What has ended stands still; the latest cycle of what goes on is another one soon.
  const at = useAt() ?? (feed?.ended ? feed.cycle : null);
  const cycle = at ?? feed?.cycle ?? null;
  const linkToNow = location.origin + withQuery(cycle === null ? {} : { at: String(cycle) });
  const shown = api.map((path) => path.replace(/\?$/, "")).map((path) => (at === null ? path : `${path}${path.includes("?") ? "&" : "?"}at=${at}`));
  return (
    <details class="commands">
      <summary>{commands.length > 0 ? "As a command, as JSON, or as a link" : "As JSON, or as a link"}</summary>
      {[...commands, ...shown.map((path) => `curl -s ${quote(location.origin + path)}`), linkToNow].map((command) => (
        <div key={command}>
          <code>{command}</code>
          <Copy text={command} label="copy" />
        </div>
      ))}
    </details>
  );
}

/** A page that breaks says so, and the others go on. */
export class Boundary extends Component<{ children: ComponentChildren }, { fault: string }> {
  override state = { fault: "" };
  override componentDidCatch(fault: unknown): void {
    this.setState({ fault: fault instanceof Error ? fault.message : String(fault) });
    console.error(fault);
  }
  override render() {
    if (!this.state.fault) return this.props.children;
    return (
      <div class="empty" role="alert">
        <p>This page could not be shown: {this.state.fault}</p>
        <button type="button" onClick={() => this.setState({ fault: "" })}>Try again</button>
      </div>
    );
  }
}

/** Before the first cycle. */
function NoCycle({ of: feed }: { of: Status }) {
  return <div class="empty" role="status"><p class="wait">{feed.ended ? "There is nothing to show: no cycle has been run." : "There is nothing to show: no cycle has been run yet. The page goes on by itself with the first one."}</p></div>;
}

/** What stands in the place of data that is not there. */
export function Missing<T>({ of, what }: { of: Data<T>; what: string }) {
  const feed = useValue(status);
  if (of.error instanceof ApiError && of.error.status === 410 && feed?.cycles === 0) return <NoCycle of={feed} />;
  if (of.error instanceof ApiError && of.error.status === 410)
    return (
      <div class="empty" role="status">
        <p>{of.error.message}</p>
        <Link href={location.pathname} class="button">Go to the latest cycle</Link>
      </div>
    );
  if (of.error)
    return (
      <div class="empty" role="alert">
        <p>{what} could not be read: {of.error.message}</p>
        {location.pathname.startsWith("/jobs/") && <GoneJob />}
      </div>
    );
  return (
    <div class="empty" role="status">
      <p class="wait">Reading {what} …</p>
    </div>
  );
}

/** Of a job that is not there any more it is still known what was decided about it. */
function GoneJob() {
  const job = address.get().path.slice("/jobs/".length);
  const at = useAt();
  return (
    <p>
      {at !== null && <>It may not have been made yet at cycle {at}. <Link href={location.pathname} class="button">Look at the latest cycle</Link>{" "}</>}
      <Link href={linkTo("/decisions", { job })} class="button">What was decided about it</Link>{" "}
      <Link href={linkTo("/jobs")} class="button">All jobs</Link>
    </p>
  );
}

/** The first ones, and the others for who asks. */
export function Few<T>({ of, shown, one }: { of: T[]; shown: number; one: (item: T) => ComponentChildren }) {
  const list = (part: T[]) => <ul class="plain">{part.map(one)}</ul>;
  return (
    <>
      {list(of.slice(0, shown))}
      {of.length > shown && <details><summary>{number(of.length - shown)} more</summary>{list(of.slice(shown))}</details>}
    </>
  );
}

/** What may be wider than the screen; it can be moved by keys too. */
export function Scroll({ label, short = false, children }: { label: string; short?: boolean; children: ComponentChildren }) {
  return <div class={short ? "scroll short" : "scroll"} role="region" aria-label={label} tabIndex={0}>{children}</div>;
}

/** One of several; arrow keys change it, as with any group of radio buttons. */
export function Segments<T extends string>(props: {
  label: string;
  value: T;
  options: { value: T; label: string; title?: string }[];
  onChange: (value: T) => void;
}) {
  function onKey(event: JSX.TargetedKeyboardEvent<HTMLDivElement>): void {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const n = props.options.length;
    const next = (props.options.findIndex((option) => option.value === props.value) + by + n) % n;
    props.onChange((props.options[next] as { value: T }).value);
    (event.currentTarget.children[next] as HTMLElement).focus();
  }
  return (
    <div class="segments" role="radiogroup" aria-label={props.label} onKeyDown={onKey}>
      {props.options.map((option) => (
        <button
          key={option.value}
          type="button"
          role="radio"
          aria-checked={option.value === props.value}
          tabIndex={option.value === props.value ? 0 : -1}
          title={option.title}
          onClick={() => props.onChange(option.value)}
        >
          {option.label}
        </button>
      ))}
    </div>
  );
}

export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
