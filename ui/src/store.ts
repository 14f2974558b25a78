// What all views share: the address, the state of the feed, the connection. Hooks that read them, and data by address.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError, ask, listen, type Connection, type Status } from "./api";
import { learn } from "./paint";

type Listener = () => void;

class Value<T> {
  private readonly listeners = new Set<Listener>();
  constructor(private held: T) {}
  get(): T {
    return this.held;
  }
  set(value: T): void {
    this.held = value;
    for (const listener of [...this.listeners]) listener();
  }
  hear(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export function useValue<T>(value: Value<T>): T {
  const [, again] = useState(0);
  // Heard from the moment at which it is drawn: what came before an effect that waits for a frame would be told to nobody.
  useLayoutEffect(() => value.hear(() => again((n) => n + 1)), [value]);
  return value.get();
}

// -- the address -----------------------------------------------------------------------------------------------------

export interface Address {
  path: string;
  query: URLSearchParams;
}

function present(): Address {
  return { path: decodeURI(location.pathname), query: new URLSearchParams(location.search) };
}

export const address = new Value<Address>(present());
window.addEventListener("popstate", () => address.set(present()));

export function go(to: string, replaces = false): void {
  if (to === location.pathname + location.search) return;
  history[replaces ? "replaceState" : "pushState"](null, "", to);
  const moved = address.get().path !== decodeURI(location.pathname);
  address.set(present());
  if (moved) {
    window.scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  }
}

/** The present address with some parameters changed; an empty one goes. */
export function withQuery(changes: Record<string, string | null>, path = location.pathname): string {
  const query = new URLSearchParams(path === location.pathname ? location.search : "");
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return path + (text ? `?${text}` : "");
}

/** The address of another view, at the same cycle. */
export function linkTo(path: string, changes: Record<string, string | null> = {}): string {
  const at = new URLSearchParams(location.search).get("at");
  const query = new URLSearchParams();
  if (at) query.set("at", at);
  for (const [name, value] of Object.entries(changes)) if (value) query.set(name, value);
  const text = query.toString();
  return path + (text ? `?${text}` : "");
}

export function jobPath(job: string): string {
  return `/jobs/${job.split("/").map(encodeURIComponent).join("/")}`;
}

// -- the feed --------------------------------------------------------------------------------------------------------

export const status = new Value<Status | null>(null);
export const connection = new Value<{ state: Connection; why: string }>({ state: "connecting", why: "" });

/** Goes up when names got their colours: what is drawn is drawn anew. */
export const coloured = new Value(0);

const [NAMES_SOON_MS, NAMES_LATE_MS] = [2_000, 20_000];
let nextNames = 0;

/** Learn the names that have come: again soon where there were new ones, else from time to time. */
async function name(): Promise<void> {
  const now = performance.now();
  if (now < nextNames) return;
  nextNames = now + NAMES_LATE_MS;
  try {
    const { jobs, queues } = await ask<{ jobs: string[]; queues: string[] }>("/api/names");
    if (![learn(jobs), learn(queues)].includes(true)) return;
    nextNames = now + NAMES_SOON_MS;
    coloured.set(coloured.get() + 1);
  } catch {
    // Names without a place have a colour of their own all the same.
  }
}

export function begin(): void {
  void name();
  listen(
    (news) => {
      if (news.source !== "replay") void name();
      status.set(news);
    },
    (state, why) => connection.set({ state, why }),
  );
}

/** The cycle that is looked at; null: the latest. */
export function useAt(): number | null {
  const at = useValue(address).query.get("at");
  return at && /^\d+$/.test(at) ? Number(at) : null;
}

const TYPED_MS = 250;

/** A field whose text stands in the address: what is typed goes there, and back and links change the field. */
export function useField(name: string, also: Record<string, null> = {}): [string, (text: string) => void] {
  const told = useValue(address).query.get(name) ?? "";
  const [text, setText] = useState(told);
  // What the address has of us: while it says so, somebody may go on typing.
  const sent = useRef(told);
  useEffect(() => {
    if (text === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = text;
      go(withQuery({ ...also, [name]: text }), true);
    }, TYPED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    if (told === sent.current) return;
    sent.current = told;
    setText(told);
  }, [told]);
  return [text, setText];
}

// -- data ------------------------------------------------------------------------------------------------------------

export interface Data<T> {
  data: T | null;
  error: ApiError | Error | null;
  loading: boolean;
}

/** Whether data is of the latest cycle already: the first answer often comes before the stream. */
function isLatest(data: unknown): boolean {
  const cycle = (data as { cycle?: number | number[] } | null)?.cycle;
  return cycle !== undefined && (Array.isArray(cycle) ? cycle.at(-1) : cycle) === status.get()?.cycle;
}

/**
 * What a path answers, asked again when the feed moves on (unless one cycle is looked at). Old data stays while new data
 * comes, one question at a time: a slow server is asked less often, not more.
 */
export function useData<T>(path: string | null, follows = true): Data<T> {
  const at = useAt();
  const now = useValue(status);
  const [held, hold] = useState<Data<T> & { path: string | null }>({ data: null, error: null, loading: true, path: null });
  const busy = useRef<AbortController | null>(null);
  const due = useRef(false);
  // What came last, known before it is drawn.
  const got = useRef<{ data: unknown; path: string | null }>({ data: null, path: null });
  const moment = follows && at === null ? `${now?.cycle}/${now?.cycles}/${now?.ended}` : "";
  const full = path === null ? null : at === null ? path : path + (path.includes("?") ? "&" : "?") + `at=${at}`;
  const current = useRef(full);

  useEffect(() => {
    if (full === null) return;
    if (moment && got.current.path === full && isLatest(got.current.data)) return;
    const isOther = current.current !== full;
    current.current = full;
    if (busy.current && !isOther) {
      due.current = true;
      return;
    }
    busy.current?.abort();
    const load = (): void => {
      const control = new AbortController();
      busy.current = control;
      due.current = false;
      ask<T>(full, control.signal)
        .then((data) => {
          if (control.signal.aborted) return;
          if (isLatest(data)) due.current = false;
          got.current = { data, path: full };
          hold({ data, error: null, loading: false, path: full });
        })
        .catch((error: Error) => {
          if (error.name !== "AbortError")
            hold((old) => ({ data: old.path === full ? old.data : null, error, loading: false, path: full }));
        })
        .finally(() => {
          if (busy.current !== control) return;
          busy.current = null;
          if (due.current && current.current === full) load();
        });
    };
    load();
  }, [full, moment]);
  useEffect(() => () => busy.current?.abort(), []);
  return held;
}
