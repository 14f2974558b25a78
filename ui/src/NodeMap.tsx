// The map of nodes on a canvas: zoom, pan, hover, keys; what stands under the pointer is told to whoever asks.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { State, Tree } from "./api";
import { amount, resourceWord } from "./format";
import { arrange } from "./layout";
import { draw, type Scene, type View } from "./draw";
import { paint, theme, type Mode, type Paint } from "./paint";
import { coloured, useValue } from "./store";

export interface MapProps {
  tree: Tree;
  state: State;
  mode: Mode;
  resource: string;
  folded: ReadonlySet<number>;
  /** Nodes to be seen, by name; null: all. */
  lit?: ReadonlySet<string> | null;
  selected?: string | null;
  /** Whose nodes have its colour, whoever else holds more of them. */
  sought?: string;
  height: number;
  mini?: boolean;
  label: string;
  onSelect?: (node: string) => void;
  onFold?: (domain: number) => void;
  onPaint?: (paint: Paint) => void;
  /** What is looked at, as `onZoom` told it; "": everything. */
  zoom?: string;
  onZoom?: (zoom: string) => void;
}

const FIT: View = { scale: 1, dx: 0, dy: 0 };
const MAX_SCALE = 40;
const MAX_HEIGHT = 2600;
/** How long a view has to stand before it is told. */
const STANDS_MS = 300;
/** Tiles of which everything can be read as they are. */
const LARGE = 88;

/** A view as text: its scale, and which part of the map is in its middle, whatever the screen. */
function written({ scale, dx, dy }: View, width: number, height: number): string {
  if (scale === 1) return "";
  return [scale, (width / 2 - dx) / (width * scale), (height / 2 - dy) / (height * scale)].map((part) => +part.toFixed(4)).join(",");
}

function viewOf(text: string, width: number, height: number): View {
  const [scale = 1, x = 0.5, y = 0.5] = text.split(",").map(Number);
  if (!text || ![scale, x, y].every(Number.isFinite) || scale <= 1) return FIT;
  const within = Math.min(MAX_SCALE, scale);
  return { scale: within, dx: width / 2 - x * width * within, dy: height / 2 - y * height * within };
}

/** Changes when the colours of the page do. */
export function useLook(): number {
  const [look, again] = useState(0);
  const names = useValue(coloured);
  useEffect(() => {
    const turn = (): void => again((n) => n + 1);
    window.addEventListener("muster-theme", turn);
    return () => window.removeEventListener("muster-theme", turn);
  }, []);
  return look + names;
}

export function NodeMap(props: MapProps) {
  const { tree, state, mode, resource, folded, lit = null, selected = null, sought = "", mini = false } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [view, setView] = useState<View>(FIT);
  const [hovered, setHovered] = useState(-1);
  const [cursor, setCursor] = useState(-1);
  const [pointer, setPointer] = useState<{ x: number; y: number }>({ x: 0, y: 0 });
  const look = useLook();

  useLayoutEffect(() => {
    const measure = (): void => setWidth(frame.current?.clientWidth ?? 0);
    measure();
    const observer = new ResizeObserver(measure);
    if (frame.current) observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);

  const layout = useMemo(
    () => (width > 0 ? arrange(tree, folded, width, props.height, mini) : null),
    [tree, folded, width, props.height, mini],
  );
  // What does not fit the screen makes the page longer, up to a point; the rest is a matter of zooming.
  const shownHeight = layout ? Math.min(mini ? props.height : MAX_HEIGHT, layout.height + 4) : 0;
  const zoomed = props.zoom ?? "";
  const told = useRef(zoomed);
  useEffect(() => setView(viewOf(zoomed, width, shownHeight)), [layout]);
  useEffect(() => {
    if (zoomed === told.current) return;
    told.current = zoomed;
    setView(viewOf(zoomed, width, shownHeight));
  }, [zoomed]);
  useEffect(() => {
    const timer = setTimeout(() => {
      const text = written(view, width, shownHeight);
      if (!layout || text === told.current) return;
      told.current = text;
      props.onZoom?.(text);
    }, STANDS_MS);
    return () => clearTimeout(timer);
  }, [view]);
  const colours = useMemo(() => theme(), [look]);
  const painted = useMemo(() => paint(tree, state, mode, resource, colours, sought), [tree, state, mode, resource, colours, sought]);
  useEffect(() => props.onPaint?.(painted), [painted]);
  const rows = useMemo(() => new Map(tree.nodes.map((name, row) => [name, row])), [tree]);
  const marks = useMemo(() => {
    const column = (list: number[]): Uint8Array => {
      const made = new Uint8Array(tree.nodes.length);
      for (const row of list) made[row] = 1;
      return made;
    };
    const names = new Map(tree.domains.name.map((name, domain) => [name, domain]));
    const faulty = new Set(tree.faults.map((fault) => names.get(fault.domain) ?? -1));
    return { leaving: column(state.leaving), promised: column(state.promised), faulty };
  }, [tree, state]);
  const litRows = useMemo(() => {
    if (lit === null) return null;
    const made = new Uint8Array(tree.nodes.length);
    for (const name of lit) {
      const row = rows.get(name);
      if (row !== undefined) made[row] = 1;
    }
    return made;
  }, [tree, lit]);

  const unit = tree.resources.find((known) => known.name === resource)?.unit ?? "count";
  const chosen = selected === null ? cursor : (layout?.itemOfNode[rows.get(selected) ?? -1] ?? -1);

  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || !layout) return;
    const began = performance.now();
    const ratio = window.devicePixelRatio || 1;
    const height = shownHeight;
    if (element.width !== Math.round(width * ratio) || element.height !== Math.round(height * ratio)) {
      element.width = Math.round(width * ratio);
      element.height = Math.round(height * ratio);
      element.style.width = `${width}px`;
      element.style.height = `${height}px`;
    }
    const scene: Scene = {
      tree, state, layout, paint: painted, look: colours, mode, resource, unit,
      lit: litRows, selected: chosen, hovered, ...marks,
    };
    draw(context, width, height, view, scene);
    performance.measure("muster-map", { start: began, end: performance.now() });
    if (!mini) performance.mark("muster-map-drawn", { detail: { nodes: tree.nodes.length, cycle: state.cycle } });
  });

  function itemAt(x: number, y: number): number {
    if (!layout) return -1;
    const [px, py] = [(x - view.dx) / view.scale, (y - view.dy) / view.scale];
    for (let item = 0; item < layout.items.length; item++) {
      const [left, top] = [layout.x[item] as number, layout.y[item] as number];
      if (px >= left && py >= top && px <= left + (layout.w[item] as number) + 1 && py <= top + (layout.h[item] as number) + 1)
        return item;
    }
    return -1;
  }

  function headerAt(x: number, y: number): number {
    if (!layout) return -1;
    const [px, py] = [(x - view.dx) / view.scale, (y - view.dy) / view.scale];
    for (let box = layout.boxes.length - 1; box >= 0; box--) {
      const known = layout.boxes[box] as { x: number; y: number; w: number; header: number; domain: number };
      if (px >= known.x && px <= known.x + known.w && py >= known.y && py <= known.y + known.header) return known.domain;
    }
    return -1;
  }

  function zoom(factor: number, x = width / 2, y = props.height / 2): void {
    setView((old) => {
      const scale = Math.min(MAX_SCALE, Math.max(1, old.scale * factor));
      if (scale === 1) return FIT;
      const part = scale / old.scale;
      return { scale, dx: x - (x - old.dx) * part, dy: y - (y - old.dy) * part };
    });
  }

  const pointers = useRef(new Map<number, { x: number; y: number }>());
  const dragged = useRef(0);

  function local(event: PointerEvent | WheelEvent | MouseEvent): { x: number; y: number } {
    const box = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  function onMove(event: PointerEvent): void {
    const here = local(event);
    const before = pointers.current.get(event.pointerId);
    if (before) {
      const others = [...pointers.current].filter(([id]) => id !== event.pointerId);
      const other = others[0]?.[1];
      if (other) {
        const wide = (p: { x: number; y: number }): number => Math.hypot(p.x - other.x, p.y - other.y);
        zoom(wide(here) / Math.max(1, wide(before)), (here.x + other.x) / 2, (here.y + other.y) / 2);
      } else if (view.scale > 1) {
        setView((old) => ({ ...old, dx: old.dx + here.x - before.x, dy: old.dy + here.y - before.y }));
      }
      dragged.current += Math.hypot(here.x - before.x, here.y - before.y);
      pointers.current.set(event.pointerId, here);
    }
    setPointer(here);
    setHovered(before && dragged.current > 4 ? -1 : itemAt(here.x, here.y));
  }

  function onClick(event: MouseEvent): void {
    if (dragged.current > 4 || !layout) return;
    const { x, y } = local(event);
    const item = itemAt(x, y);
    if (item >= 0) open(item);
    else {
      const domain = headerAt(x, y);
      if (domain > 0) props.onFold?.(domain);
    }
  }

  function open(item: number): void {
    const known = layout?.items[item];
    if (!known) return;
    if (known.isDomain) props.onFold?.(known.index);
    else props.onSelect?.(tree.nodes[known.index] as string);
    setCursor(item);
    setHovered(-1);
  }

  function onKey(event: KeyboardEvent): void {
    if (!layout) return;
    const moves: Record<string, [number, number]> = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    const move = moves[event.key];
    const at = cursor >= 0 ? cursor : chosen;
    if (move) {
      setCursor(at < 0 ? 0 : neighbour(at, move));
      setHovered(-1);
    } else if (event.key === "Enter" && at >= 0) open(at);
    else if (event.key === "+" || event.key === "=") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else if (event.key === "0") setView(FIT);
    else return;
    event.preventDefault();
  }

  /** The nearest item in a direction. */
  function neighbour(from: number, [dx, dy]: [number, number]): number {
    if (!layout) return from;
    const centre = (item: number): [number, number] => [
      (layout.x[item] as number) + (layout.w[item] as number) / 2,
      (layout.y[item] as number) + (layout.h[item] as number) / 2,
    ];
    const [x, y] = centre(from);
    let best = from;
    let least = Infinity;
    for (let item = 0; item < layout.items.length; item++) {
      const [ox, oy] = centre(item);
      const along = (ox - x) * dx + (oy - y) * dy;
      const across = Math.abs((ox - x) * dy) + Math.abs((oy - y) * dx);
      if (along > 0.5 && along + 3 * across < least) [best, least] = [item, along + 3 * across];
    }
    return best;
  }

  function sayItem(item: number): string {
    const known = layout?.items[item];
    if (!known) return "";
    const column = state.resources[resource];
    if (known.isDomain) {
      const [lo, hi] = [tree.domains.lo[known.index] as number, tree.domains.hi[known.index] as number];
      return `${tree.domains.name[known.index]}: ${hi - lo} nodes, folded`;
    }
    const row = known.index;
    const [total, used] = [column?.total[row] ?? 0, column?.used[row] ?? 0];
    const { start, job } = state.holders;
    const owners: string[] = [];
    const [from, to] = [start[row] as number, start[row + 1] as number];
    for (let at = from; at < to && owners.length < 3; at++) owners.push(state.jobs[job[at] as number] as string);
    if (to - from > owners.length) owners.push(`${to - from - owners.length} more`);
    const wrong = state.state[row] ? `, ${state.states[state.state[row] as number]}` : "";
    const free = total ? `${amount(total - used, unit)} of ${amount(total, unit)} ${resourceWord(resource)} free` : `no ${resourceWord(resource)}`;
    return `${tree.nodes[row]}: ${free}, ${state.pods[row]} pods${wrong}${owners.length ? `; ${owners.join(", ")}` : ""}`;
  }

  const shown = hovered >= 0 ? hovered : -1;
  return (
    <div class={mini ? "map mini" : "map"} ref={frame}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-roledescription="map of nodes"
        aria-label={`${props.label}. Arrow keys move, Enter opens, plus and minus zoom.`}
        class={view.scale > 1 ? "zoomed" : ""}
        onPointerDown={(event) => {
          dragged.current = 0;
          pointers.current.set(event.pointerId, local(event));
          if (view.scale > 1) canvas.current?.setPointerCapture(event.pointerId);
        }}
        onPointerUp={(event) => pointers.current.delete(event.pointerId)}
        onPointerCancel={(event) => pointers.current.delete(event.pointerId)}
        onPointerLeave={(event) => {
          pointers.current.delete(event.pointerId);
          setHovered(-1);
        }}
        onPointerMove={onMove}
        onClick={onClick}
        onDblClick={(event) => {
          const { x, y } = local(event);
          zoom(2.2, x, y);
        }}
        onWheel={(event) => {
          if (mini || !(event.ctrlKey || event.metaKey || view.scale > 1 || event.altKey)) return;
          event.preventDefault();
          const { x, y } = local(event);
          zoom(Math.exp(-event.deltaY / 300), x, y);
        }}
        onKeyDown={onKey}
      />
      {!mini && layout && (layout.tile.w < LARGE || view.scale > 1) && (
        <div class="zoom" role="group" aria-label="Zoom">
          <button type="button" onClick={() => zoom(1.6)} aria-label="Zoom in" title="Zoom in (+, or Ctrl and the wheel)">+</button>
          <button type="button" onClick={() => zoom(1 / 1.6)} aria-label="Zoom out" title="Zoom out (-)">−</button>
          <button type="button" onClick={() => setView(FIT)} aria-label="Show everything" title="Show everything (0)">⤢</button>
        </div>
      )}
      {shown >= 0 && (
        <div class="tip" style={{ left: `${Math.min(pointer.x + 14, Math.max(0, width - 260))}px`, top: `${pointer.y + 16}px` }}>
          {sayItem(shown)}
        </div>
      )}
      <div class="unseen" aria-live="polite">{cursor >= 0 ? sayItem(cursor) : ""}</div>
    </div>
  );
}
