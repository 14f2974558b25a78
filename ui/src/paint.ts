// Colours of names, and of the nodes of the map.

import type { State, Tree, Unit } from "./api";
import { amount, hashOf, resourceWord } from "./format";

export type Mode = "use" | "free" | "job" | "queue" | "state";

export interface Theme {
  dark: boolean;
  ink: string;
  muted: string;
  panel: string;
  line: string;
  sunken: string;
  accent: string;
  bad: string;
  warn: string;
  good: string;
  promised: string;
  hues: string[];
}

/** The first eight differ at a glance; the others are near to one of them. */
const HUES = 12;

export function theme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string): string => style.getPropertyValue(name).trim();
  return {
    dark: document.documentElement.dataset.theme === "dark",
    ink: of("--ink"),
    muted: of("--muted"),
    panel: of("--panel"),
    line: of("--line"),
    sunken: of("--sunken"),
    accent: of("--accent"),
    bad: of("--bad"),
    warn: of("--warn"),
    good: of("--good"),
    promised: of("--promised"),
    hues: Array.from({ length: HUES }, (_, i) => of(`--hue-${i}`)),
  };
}

/** Places of names in the order in which they came, which is the same for everybody. */
const places = new Map<string, number>();

/** Take the order of names; whether there was something new in it. */
export function learn(names: string[]): boolean {
  const before = places.size;
  names.forEach((name, place) => places.set(name, place));
  return places.size > before;
}

/** The colour of a name: those who came one after the other differ, on every page, in every cycle and for every reader. */
export function hue(name: string): number {
  return (places.get(name) ?? hashOf(name)) % HUES;
}

function mix(from: string, to: string, part: number): string {
  const parse = (text: string): number[] => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  const [a, b] = [parse(from), parse(to)];
  return `#${a.map((value, i) => Math.round(value + ((b[i] as number) - value) * part).toString(16).padStart(2, "0")).join("")}`;
}

export const STEPS = 16;

export interface Paint {
  /** Colour of each node, as a place in the palette. */
  colour: Uint8Array;
  palette: string[];
  legend: { label: string; colour: string; name?: string }[];
  scale: { from: string; to: string; colours: string[] } | null;
}

/** What colour each node has. By job, nodes of the one that is `sought` have its colour, whoever else holds more of them. */
export function paint(tree: Tree, state: State, mode: Mode, resource: string, look: Theme, sought = ""): Paint {
  const n = tree.nodes.length;
  const colour = new Uint8Array(n);
  const unit = tree.resources.find((known) => known.name === resource)?.unit ?? "count";
  if (mode === "use" || mode === "free") return ramp(state, resource, unit, mode, look, colour);
  if (mode === "state") {
    const colours = [look.dark ? "#3b4a5c" : "#c3ccd8", look.warn, look.bad, look.promised];
    for (let row = 0; row < n; row++) colour[row] = state.state[row] as number;
    const counts = state.states.map((_, code) => state.state.reduce((sum, known) => sum + (known === code ? 1 : 0), 0));
    const legend = state.states.map((label, code) => ({ label: `${label} (${counts[code]})`, colour: colours[code] as string }));
    return { colour, palette: colours, legend, scale: null };
  }
  return byHolder(state, mode, look, colour, sought);
}

function ramp(state: State, resource: string, unit: Unit, mode: Mode, look: Theme, colour: Uint8Array): Paint {
  const empty = look.dark ? "#243040" : "#e3e9f1";
  const full = mode === "use" ? (look.dark ? "#6ea0ff" : "#1c4fc4") : look.dark ? "#58d197" : "#16794a";
  const none = look.dark ? "#1a222d" : "#f2f4f7";
  const palette = [none, ...Array.from({ length: STEPS + 1 }, (_, i) => mix(empty, full, i / STEPS))];
  const column = state.resources[resource];
  let most = 0;
  if (column) for (const total of column.total) most = Math.max(most, total);
  for (let row = 0; row < colour.length; row++) {
    const total = column?.total[row] ?? 0;
    const used = column?.used[row] ?? 0;
    const part = total <= 0 ? -1 : mode === "use" ? used / total : Math.max(0, total - used) / most;
    colour[row] = part < 0 ? 0 : 1 + Math.round(Math.min(1, part) * STEPS);
  }
  const word = resourceWord(resource);
  const scale =
    mode === "use"
      ? { from: "nothing used", to: `all ${word} used`, colours: palette.slice(1) }
      : { from: `no ${word} free`, to: `${amount(most, unit)} free`, colours: palette.slice(1) };
  return { colour, palette, legend: [{ label: `has no ${word}`, colour: none }], scale };
}

/** So many names the legend of the map has. */
const MOST_NAMED = 24;

function byHolder(state: State, mode: Mode, look: Theme, colour: Uint8Array, sought: string): Paint {
  const none = look.dark ? "#243040" : "#e3e9f1";
  const palette = [none, ...look.hues];
  const names = mode === "job" ? state.jobs : state.queues;
  const held = new Float64Array(names.length);
  const here = new Float64Array(names.length);
  const owners = mode === "job" ? Uint32Array.from(names, (_, i) => i) : Uint32Array.from(state.jobQueue);
  const hues = Uint8Array.from(names, (name) => 1 + hue(name));
  const { start, job, amount: amounts } = state.holders;
  const first = sought ? names.indexOf(sought) : -1;
  for (let row = 0; row < colour.length; row++) {
    const from = start[row] as number;
    const to = start[row + 1] as number;
    let best = -1;
    let bestAmount = 0;
    for (let at = from; at < to; at++) {
      const owner = owners[job[at] as number] as number;
      const sum = (here[owner] as number) + (amounts[at] as number);
      here[owner] = sum;
      if (sum > bestAmount || owner === first) {
        best = owner;
        bestAmount = owner === first ? Infinity : sum;
      }
    }
    for (let at = from; at < to; at++) {
      const owner = owners[job[at] as number] as number;
      held[owner] = (held[owner] as number) + (here[owner] as number);
      here[owner] = 0;
    }
    colour[row] = best < 0 ? 0 : (hues[best] as number);
  }
  const order = names.map((_, i) => i).sort((a, b) => (held[b] as number) - (held[a] as number));
  const legend: Paint["legend"] = order.slice(0, MOST_NAMED).map((i) => ({
    label: names[i] as string,
    name: names[i] as string,
    colour: look.hues[hue(names[i] as string)] as string,
  }));
  if (names.length > MOST_NAMED) legend.push({ label: `and ${names.length - MOST_NAMED} more`, colour: "transparent" });
  return { colour, palette, legend: [...legend, { label: "nobody", colour: none }], scale: null };
}
