// Who gave to whom, as a picture: givers on the left, takers on the right, ribbons as thick as what went over.

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { plural } from "./format";
import { useLook } from "./NodeMap";
import { hue, theme } from "./paint";

export interface Stream {
  from: string;
  to: string;
  amount: number;
}

interface Side {
  name: string;
  total: number;
  y: number;
}

/** More than so many on one side nobody reads; those with least stand together. */
const SHOWN = 8;
/** Stands for those that are not shown one by one. */
const REST = "\0rest";
const GAP = 10;
/** On a small screen names and what is said of them take two lines each, as in the style sheet. */
const small = window.matchMedia("(max-width: 700px)");
const THICK = 30;
const THIN = 3;

/** How high each of them is. */
function block(): number {
  return small.matches ? 68 : 46;
}

/** Those of one side, in the order in which they come, with what went over in all. */
function sideOf(streams: Stream[], key: "from" | "to", most: number): Side[] {
  const totals = new Map<string, number>();
  for (const stream of streams) totals.set(stream[key], (totals.get(stream[key]) ?? 0) + stream.amount);
  const above = ((most - totals.size) * (block() + GAP)) / 2;
  return [...totals].map(([name, total], i) => ({ name, total, y: above + i * (block() + GAP) }));
}

/** The streams with all but the largest of one side as one, and how many these are. */
function gathered(streams: Stream[], key: "from" | "to"): { streams: Stream[]; rest: number } {
  const sides = sideOf(streams, key, 0);
  if (sides.length <= SHOWN) return { streams, rest: 0 };
  const order = [...sides].sort((a, b) => b.total - a.total);
  const shown = new Set(order.slice(0, SHOWN - 1).map((side) => side.name));
  const sums = new Map<string, Stream>();
  for (const stream of streams) {
    const named = shown.has(stream[key]) ? stream : { ...stream, [key]: REST };
    const id = `${named.from}\0${named.to}`;
    sums.set(id, { ...named, amount: (sums.get(id)?.amount ?? 0) + stream.amount });
  }
  // What stands for many comes last.
  const list = [...sums.values()];
  return { streams: [...list.filter((one) => one[key] !== REST), ...list.filter((one) => one[key] === REST)], rest: sides.length - shown.size };
}

export function Flow(props: {
  streams: Stream[];
  /** What stands on both sides: "job", "queue". */
  of: string;
  /** How much went over, in words. */
  amount: (total: number) => string;
  /** What stands at a name, and what is said about it. */
  giver: (name: string, total: number) => ComponentChildren;
  taker: (name: string, total: number) => ComponentChildren;
  heads: [string, string];
}) {
  const left = gathered(props.streams, "from");
  const { streams, rest } = gathered(left.streams, "to");
  const look = useLook();
  const colours = useMemo(() => theme(), [look]);
  const most = Math.max(new Set(streams.map((one) => one.from)).size, new Set(streams.map((one) => one.to)).size);
  const [givers, takers] = [sideOf(streams, "from", most), sideOf(streams, "to", most)];
  const height = most * (block() + GAP) - GAP;
  const largest = Math.max(1, ...givers.map((side) => side.total), ...takers.map((side) => side.total));
  const thickness = (amount: number): number => Math.max(THIN, (THICK * amount) / largest);
  const say = (one: (name: string, total: number) => ComponentChildren, others: number) => (name: string, total: number) =>
    name === REST ? <><b>{plural(others, `more ${props.of}`)}</b><span class="muted">{props.amount(total)}</span></> : one(name, total);
  return (
    <figure class="flow">
      <div class="flow-heads" aria-hidden="true"><span>{props.heads[0]}</span><span>{props.heads[1]}</span></div>
      <div class="flow-body" style={{ height: `${height}px` }}>
        <Column sides={givers} say={say(props.giver, left.rest)} />
        <svg viewBox={`0 0 100 ${height}`} preserveAspectRatio="none" aria-hidden="true">
          {ribbons(streams, givers, takers, thickness).map((ribbon) => (
            <path key={ribbon.key} d={ribbon.path} fill={colours.hues[hue(ribbon.from)]} opacity={colours.dark ? 0.6 : 0.45} />
          ))}
        </svg>
        <Column sides={takers} say={say(props.taker, rest)} />
      </div>
    </figure>
  );
}

function Column({ sides, say }: { sides: Side[]; say: (name: string, total: number) => ComponentChildren }) {
  return (
    <ul>
      {sides.map((side) => (
        <li key={side.name} style={{ top: `${side.y}px`, height: `${block()}px` }}>{say(side.name, side.total)}</li>
      ))}
    </ul>
  );
}

function ribbons(streams: Stream[], givers: Side[], takers: Side[], thickness: (amount: number) => number) {
  const begin = (sides: Side[]): Map<string, number> =>
    new Map(sides.map((side) => [side.name, side.y + (block() - thickness(side.total)) / 2]));
  const [left, right] = [begin(givers), begin(takers)];
  return streams.map((stream) => {
    const thick = thickness(stream.amount);
    const [a, b] = [left.get(stream.from) as number, right.get(stream.to) as number];
    left.set(stream.from, a + thick);
    right.set(stream.to, b + thick);
    const tip = b + thick / 2;
    // The end is a point: who gets is where it points to.
    const path = `M0 ${a} C45 ${a} 45 ${b} 90 ${b} L100 ${tip} L90 ${b + thick} C45 ${b + thick} 45 ${a + thick} 0 ${a + thick} Z`;
    return { key: `${stream.from} ${stream.to}`, from: stream.from, path };
  });
}
