// Drawing of the map on a canvas. Everything is read from columns: a frame of twenty thousand nodes is a loop.

import type { State, Tree, Unit } from "./api";
import { amount, resourceWord } from "./format";
import type { Layout } from "./layout";
import { hue, STEPS, type Mode, type Paint, type Theme } from "./paint";

export interface View {
  scale: number;
  dx: number;
  dy: number;
}

export interface Scene {
  tree: Tree;
  state: State;
  layout: Layout;
  paint: Paint;
  look: Theme;
  mode: Mode;
  resource: string;
  unit: Unit;
  /** Nodes to be seen; the others step back. Null: all. */
  lit: Uint8Array | null;
  selected: number;
  hovered: number;
  faulty: ReadonlySet<number>;
  leaving: Uint8Array;
  promised: Uint8Array;
}

const FONT = "ui-sans-serif, system-ui, sans-serif";

export function draw(context: CanvasRenderingContext2D, width: number, height: number, view: View, scene: Scene): void {
  const { layout, look } = scene;
  const ratio = window.devicePixelRatio || 1;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  drawBoxes(context, width, height, view, scene);
  const details = layout.tile.w * view.scale >= 88;
  drawTiles(context, width, height, view, scene);
  if (details) drawDetails(context, width, height, view, scene);
  for (const [item, colour, thick] of [
    [scene.hovered, look.ink, 1.5],
    [scene.selected, look.accent, 2.5],
  ] as const) {
    if (item < 0 || item >= layout.items.length) continue;
    context.strokeStyle = colour;
    context.lineWidth = thick;
    const [x, y, w, h] = place(layout, view, item);
    context.strokeRect(x - 1.5, y - 1.5, Math.max(4, w) + 3, Math.max(4, h) + 3);
  }
}

function place(layout: Layout, view: View, item: number): [number, number, number, number] {
  return [
    (layout.x[item] as number) * view.scale + view.dx,
    (layout.y[item] as number) * view.scale + view.dy,
    (layout.w[item] as number) * view.scale,
    (layout.h[item] as number) * view.scale,
  ];
}

function drawBoxes(context: CanvasRenderingContext2D, width: number, height: number, view: View, scene: Scene): void {
  const { layout, look, tree, faulty } = scene;
  context.textBaseline = "middle";
  for (const box of layout.boxes) {
    const x = box.x * view.scale + view.dx;
    const y = box.y * view.scale + view.dy;
    const w = box.w * view.scale;
    const h = box.h * view.scale;
    if (x > width || y > height || x + w < 0 || y + h < 0 || w < 2) continue;
    context.fillStyle = box.depth % 2 ? look.sunken : look.panel;
    context.fillRect(x, y, w, h);
    context.strokeStyle = faulty.has(box.domain) ? look.bad : look.line;
    context.lineWidth = faulty.has(box.domain) ? 2 : 1;
    if (w > 8) context.strokeRect(Math.round(x) + 0.5, Math.round(y) + 0.5, Math.round(w) - 1, Math.round(h) - 1);
    const header = box.header * view.scale;
    if (header >= 11 && w > 34) {
      context.font = `${box.depth === 1 ? 600 : 400} ${Math.min(13, header * 0.72)}px ${FONT}`;
      context.fillStyle = look.muted;
      context.fillText(clipped(context, tree.domains.name[box.domain] as string, w - 8), x + 5, y + header / 2 + 2);
    }
  }
}

function clipped(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return `${text.slice(0, end)}…`;
}

function clippedFront(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let from = 0;
  while (from < text.length - 1 && context.measureText(`…${text.slice(from)}`).width > width) from += 1;
  return `…${text.slice(from)}`;
}

function drawTiles(context: CanvasRenderingContext2D, width: number, height: number, view: View, scene: Scene): void {
  const { layout, paint: painted, lit, leaving, promised, look, tree, state, resource } = scene;
  const n = layout.items.length;
  // One colour after the other: changing the colour costs more than a rectangle.
  const buckets: number[][] = Array.from({ length: painted.palette.length * 2 }, () => []);
  const small = layout.tile.w * view.scale < 5;
  const marked: number[] = [];
  for (let item = 0; item < n; item++) {
    const x = (layout.x[item] as number) * view.scale + view.dx;
    const y = (layout.y[item] as number) * view.scale + view.dy;
    if (x > width || y > height) continue;
    if (x + (layout.w[item] as number) * view.scale < 0 || y + (layout.h[item] as number) * view.scale < 0) continue;
    const { index, isDomain } = layout.items[item] as { index: number; isDomain: boolean };
    const colour = isDomain ? domainColour(scene, index) : (painted.colour[index] as number);
    const isLit = lit === null || (isDomain ? anyLit(tree, lit, index) : lit[index] === 1);
    (buckets[colour * 2 + (isLit ? 0 : 1)] as number[]).push(item);
    if (!isDomain && !small && ((leaving[index] as number) || (promised[index] as number))) marked.push(item);
  }
  buckets.forEach((items, bucket) => {
    if (!items.length) return;
    context.fillStyle = painted.palette[bucket >> 1] as string;
    context.globalAlpha = bucket & 1 ? 0.14 : 1;
    for (const item of items) {
      const [x, y, w, h] = place(layout, view, item);
      context.fillRect(x, y, Math.max(1, w), Math.max(1, h));
    }
  });
  context.globalAlpha = 1;
  for (const item of marked) {
    const { index } = layout.items[item] as { index: number };
    const [x, y, w, h] = place(layout, view, item);
    drawMarks(context, scene, index, [x, y, w, h], Math.max(3, Math.min(11, w * 0.45)));
  }
  const column = state.resources[resource];
  for (let item = 0; item < n; item++) {
    const { index, isDomain } = layout.items[item] as { index: number; isDomain: boolean };
    if (!isDomain) continue;
    const [x, y, w, h] = place(layout, view, item);
    if (x > width || y > height || x + w < 0 || y + h < 0 || w < 40) continue;
    const [lo, hi] = [tree.domains.lo[index] as number, tree.domains.hi[index] as number];
    let total = 0;
    let used = 0;
    for (let row = lo; row < hi; row++) {
      total += column?.total[row] ?? 0;
      used += column?.used[row] ?? 0;
    }
    const bar = h > 34 ? 6 : 3;
    context.fillStyle = look.panel;
    context.fillRect(x + 2, y + 2, w - 4, h - 4);
    context.fillStyle = painted.palette[domainColour(scene, index)] as string;
    context.fillRect(x + 2, y + h - 2 - bar, (w - 4) * (total ? Math.min(1, used / total) : 0), bar);
    context.fillStyle = look.ink;
    context.font = `600 11px ${FONT}`;
    context.fillText(clipped(context, tree.domains.name[index] as string, w - 14), x + 7, y + 13);
    context.fillStyle = look.muted;
    context.font = `10px ${FONT}`;
    const text = `${hi - lo} nodes, ${amount(total - used, scene.unit)} ${resourceWord(resource)} free`;
    if (h > 34) context.fillText(clipped(context, text, w - 14), x + 7, y + 25);
  }
}

/** Corners on the right of a node: above where pods are leaving, below where room is promised. */
function drawMarks(
  context: CanvasRenderingContext2D,
  { leaving, promised, look }: Scene,
  node: number,
  [x, y, w, h]: [number, number, number, number],
  side: number,
): void {
  for (const [isMarked, colour, from, by] of [
    [leaving[node], look.bad, y, side],
    [promised[node], look.promised, y + h, -side],
  ] as const) {
    if (!isMarked) continue;
    context.fillStyle = colour;
    context.beginPath();
    context.moveTo(x + w, from);
    context.lineTo(x + w, from + by);
    context.lineTo(x + w - side, from);
    context.fill();
  }
}

/** A folded domain has the colour of its nodes on average, or of most of them. */
function domainColour(scene: Scene, domain: number): number {
  const { tree, paint: painted, state, mode, resource } = scene;
  const [lo, hi] = [tree.domains.lo[domain] as number, tree.domains.hi[domain] as number];
  if (mode === "use") {
    const column = state.resources[resource];
    let total = 0;
    let used = 0;
    for (let row = lo; row < hi; row++) {
      total += column?.total[row] ?? 0;
      used += column?.used[row] ?? 0;
    }
    return total ? 1 + Math.round(Math.min(1, used / total) * STEPS) : 0;
  }
  const counts = new Map<number, number>();
  let best = painted.colour[lo] ?? 0;
  for (let row = lo; row < hi; row++) {
    const colour = painted.colour[row] as number;
    const count = (counts.get(colour) ?? 0) + 1;
    counts.set(colour, count);
    if (mode === "state" ? colour > best : count > (counts.get(best) ?? 0)) best = colour;
  }
  return best;
}

function anyLit(tree: Tree, lit: Uint8Array, domain: number): boolean {
  for (let row = tree.domains.lo[domain] as number; row < (tree.domains.hi[domain] as number); row++) {
    if (lit[row]) return true;
  }
  return false;
}

/** Large tiles: the name, and every device with the colour of who holds it. */
function drawDetails(context: CanvasRenderingContext2D, width: number, height: number, view: View, scene: Scene): void {
  const { layout, look, state, tree, lit, mode } = scene;
  const unitOf = (name: string): Unit => tree.resources.find((known) => known.name === name)?.unit ?? "count";
  for (let item = 0; item < layout.items.length; item++) {
    const { index, isDomain } = layout.items[item] as { index: number; isDomain: boolean };
    if (isDomain) continue;
    const [x, y, w, h] = place(layout, view, item);
    if (x > width || y > height || x + w < 0 || y + h < 0) continue;
    context.globalAlpha = lit === null || lit[index] ? 1 : 0.3;
    context.fillStyle = look.panel;
    context.fillRect(x, y, w, h);
    context.strokeStyle = state.state[index] ? look.warn : look.line;
    context.lineWidth = 1;
    context.strokeRect(Math.round(x) + 0.5, Math.round(y) + 0.5, Math.round(w) - 1, Math.round(h) - 1);
    context.fillStyle = scene.paint.palette[scene.paint.colour[index] as number] as string;
    context.fillRect(x, y, 4, h);
    // What the colours are about; who holds what is known of the scarce resource alone, and of nodes without it CPUs tell most.
    const about = mode === "use" || mode === "free" ? scene.resource : state.resources[state.scarce]?.total[index] ? state.scarce : "cpu";
    const unit = unitOf(about);
    const total = state.resources[about]?.total[index] ?? 0;
    const used = state.resources[about]?.used[index] ?? 0;
    const note = state.state[index] ? (state.states[state.state[index] as number] as string) : "";
    const mark = note || (total ? `${amount(total - used, unit)} of ${amount(total, unit)}${about === state.scarce ? "" : ` ${resourceWord(about)}`} free` : `no ${resourceWord(about)}`);
    drawCaption(context, look, tree.nodes[index] as string, mark, note !== "", [x, y, w, h]);
    const bar: [number, number, number, number] = [x + 11, y + h * 0.54, w - 19, h * 0.3];
    // As in the legend: only there jobs and queues have colours.
    const devices = about === state.scarce ? total / (unit === "milli" ? 1000 : 1) : 1;
    if (mode === "job" || mode === "queue") drawHolders(context, scene, index, bar, total);
    else drawUse(context, scene, bar, total ? used / total : 0);
    if (total > 0) drawCuts(context, look, bar, devices);
    drawMarks(context, scene, index, [x, y, w, h], 9);
  }
  context.globalAlpha = 1;
}

/** The name of a node, and beside it what is free where there is room for both; of long names the end, which tells them apart. */
function drawCaption(
  context: CanvasRenderingContext2D,
  look: Theme,
  name: string,
  mark: string,
  isFault: boolean,
  [x, y, w, h]: [number, number, number, number],
): void {
  const [large, small] = [`600 ${Math.min(13, h * 0.26)}px ${FONT}`, `${Math.min(11, h * 0.24)}px ${FONT}`];
  context.textBaseline = "middle";
  context.font = small;
  const room = context.measureText(mark).width;
  context.font = large;
  const isBoth = isFault || context.measureText(name).width + room + 28 <= w;
  context.fillStyle = look.ink;
  context.fillText(clippedFront(context, name, w - (isBoth ? room + 28 : 19)), x + 11, y + h * 0.3);
  if (!isBoth) return;
  context.font = small;
  context.fillStyle = isFault ? look.warn : look.muted;
  context.fillText(mark, x + w - room - 8, y + h * 0.3);
}

/** What is used of a node, or what is free of it, in the colour that the legend has for all of it. */
function drawUse(context: CanvasRenderingContext2D, scene: Scene, [x, y, w, h]: [number, number, number, number], part: number): void {
  const { look, mode, paint: painted } = scene;
  const used = w * Math.min(1, part);
  context.fillStyle = look.sunken;
  context.fillRect(x, y, w, h);
  context.fillStyle = painted.scale ? (painted.palette.at(-1) as string) : look.muted;
  if (mode === "free") context.fillRect(x + used, y, w - used, h);
  else context.fillRect(x, y, used, h);
}

/** Lines between so many devices. */
function drawCuts(context: CanvasRenderingContext2D, look: Theme, [x, y, w, h]: [number, number, number, number], devices: number): void {
  const count = Math.round(devices);
  if (count <= 1 || count > 16) return;
  context.fillStyle = look.panel;
  for (let line = 1; line < count; line++) context.fillRect(Math.round(x + (line * w) / count) - 1, y, 2, h);
}

function drawHolders(
  context: CanvasRenderingContext2D,
  scene: Scene,
  node: number,
  [x, y, w, h]: [number, number, number, number],
  total: number,
): void {
  const { state, look, mode } = scene;
  if (total <= 0) return;
  const { start, job, amount: amounts } = state.holders;
  const byQueue = mode === "queue";
  context.fillStyle = look.sunken;
  context.fillRect(x, y, w, h);
  let at = 0;
  for (let entry = start[node] as number; entry < (start[node + 1] as number); entry++) {
    const owner = job[entry] as number;
    const name = byQueue ? (state.queues[state.jobQueue[owner] as number] as string) : (state.jobs[owner] as string);
    const part = (amounts[entry] as number) / total;
    context.fillStyle = look.hues[hue(name)] as string;
    context.fillRect(x + at * w, y, part * w, h);
    at += part;
  }
}
