// Where nodes and domains stand on the map: boxes in boxes, in the order of the topology tree, in pixels at scale 1.

import type { Tree } from "./api";

export interface Item {
  /** Row of the node, or of the folded domain. */
  index: number;
  isDomain: boolean;
}

export interface Box {
  domain: number;
  x: number;
  y: number;
  w: number;
  h: number;
  depth: number;
  header: number;
}

export interface Layout {
  width: number;
  height: number;
  tile: { w: number; h: number };
  items: Item[];
  x: Float32Array;
  y: Float32Array;
  w: Float32Array;
  h: Float32Array;
  boxes: Box[];
  /** Item of each node; -1: inside a folded domain. */
  itemOfNode: Int32Array;
}

interface Part {
  x: number;
  y: number;
  w: number;
  h: number;
  header: number;
  inner: { domain: number; part: Part }[];
  /** Own nodes: from, to, columns, and where they begin. */
  nodes: { from: number; to: number; columns: number; top: number } | null;
}

const TILES: { w: number; h: number }[] = [
  { w: 236, h: 72 },
  { w: 172, h: 54 },
  { w: 118, h: 46 },
  ...[34, 28, 24, 20, 17, 14, 12, 10, 8, 7, 6, 5, 4, 3].map((side) => ({ w: side, h: side })),
];

const LARGE = 60;
const LARGE_GAP = 6;

/** The children of each domain, in order. */
export function childrenOf(tree: Tree): number[][] {
  const inner: number[][] = tree.domains.name.map(() => []);
  tree.domains.parent.forEach((parent, domain) => {
    if (parent >= 0) inner[parent]?.push(domain);
  });
  return inner;
}

/** The largest tiles with which everything fits; the smallest where nothing does. */
export function arrange(tree: Tree, folded: ReadonlySet<number>, width: number, height: number, mini = false): Layout {
  const inner = childrenOf(tree);
  let last: Layout | null = null;
  for (const tile of mini ? TILES.slice(2) : TILES) {
    if (tile.w > width - 16) continue;
    const rough = (tree.nodes.length * (tile.w + 1) * (tile.h + 1)) / 1.05;
    if (folded.size === 0 && rough > width * height && tile.w > 3) continue;
    last = new Arranger(tree, inner, folded, tree.domains.name.length > 1 ? tile : stretched(tile, tree.nodes.length, width)).run(width);
    if (last.height <= height) return last;
  }
  return last ?? new Arranger(tree, inner, folded, { w: 3, h: 3 }).run(width);
}

/** Large tiles without domains around them take the whole width, within reason. */
function stretched(tile: { w: number; h: number }, count: number, width: number): { w: number; h: number } {
  if (tile.w < LARGE) return tile;
  const columns = Math.max(1, Math.min(count, Math.floor((width + LARGE_GAP) / (tile.w + LARGE_GAP))));
  return { w: Math.min(tile.w * 1.6, (width + LARGE_GAP) / columns - LARGE_GAP), h: tile.h };
}

class Arranger {
  private readonly gap: number;
  private readonly pad: number;
  private readonly items: Item[] = [];
  private readonly places: number[] = [];
  private readonly boxes: Box[] = [];

  constructor(
    private readonly tree: Tree,
    private readonly inner: number[][],
    private readonly folded: ReadonlySet<number>,
    private readonly tile: { w: number; h: number },
  ) {
    this.gap = tile.w >= LARGE ? LARGE_GAP : tile.w >= 10 ? 2 : 1;
    this.pad = tile.w >= LARGE ? 8 : tile.w >= 10 ? 4 : 2;
  }

  run(width: number): Layout {
    const whole = this.measure(0, width, 0);
    this.put(0, whole, 0, 0, 0);
    const itemOfNode = new Int32Array(this.tree.nodes.length).fill(-1);
    this.items.forEach((item, number) => {
      if (!item.isDomain) itemOfNode[item.index] = number;
    });
    const column = (offset: number): Float32Array =>
      Float32Array.from({ length: this.items.length }, (_, i) => this.places[4 * i + offset] as number);
    return {
      width: whole.w,
      height: whole.h,
      tile: this.tile,
      items: this.items,
      x: column(0),
      y: column(1),
      w: column(2),
      h: column(3),
      boxes: this.boxes,
      itemOfNode,
    };
  }

  private header(domain: number, depth: number): number {
    if (depth === 0) return 0;
    if ((this.inner[domain] as number[]).length > 0) return 18;
    return this.tile.w >= 10 ? 15 : 0;
  }

  private isFolded(domain: number): boolean {
    return domain > 0 && this.folded.has(domain);
  }

  private foldedSize(): { w: number; h: number } {
    if (this.tile.w >= LARGE) return this.tile;
    if (this.tile.w >= 20) return { w: 120, h: 40 };
    if (this.tile.w >= 10) return { w: 64, h: 26 };
    return { w: this.tile.w * 3, h: this.tile.w * 2 };
  }

  private measure(domain: number, most: number, depth: number): Part {
    const pad = depth === 0 ? 0 : this.pad;
    const header = this.header(domain, depth);
    const part: Part = { x: 0, y: 0, w: 0, h: 0, header, inner: [], nodes: null };
    if (this.isFolded(domain)) {
      const size = this.foldedSize();
      return { ...part, w: size.w, h: size.h };
    }
    const space = depth <= 1 ? this.gap * 2 + 2 : this.gap + 1;
    let x = pad;
    let y = pad + header;
    let row = 0;
    let widest = 0;
    for (const child of this.inner[domain] as number[]) {
      const measured = this.measure(child, most - 2 * pad, depth + 1);
      if (x > pad && x + measured.w > most - pad) {
        x = pad;
        y += row + space;
        row = 0;
      }
      measured.x = x;
      measured.y = y;
      part.inner.push({ domain: child, part: measured });
      x += measured.w + space;
      widest = Math.max(widest, x - space);
      row = Math.max(row, measured.h);
    }
    const { lo, hi } = this.tree.domains;
    const from = part.inner.length ? (hi[(part.inner.at(-1) as { domain: number }).domain] as number) : (lo[domain] as number);
    const to = hi[domain] as number;
    if (to > from) {
      if (part.inner.length) y += row + space;
      const columns = this.columns(to - from, most - 2 * pad, part.inner.length ? widest - pad : 0, depth);
      const lines = Math.ceil((to - from) / columns);
      part.nodes = { from, to, columns, top: y };
      widest = Math.max(widest, pad + columns * (this.tile.w + this.gap) - this.gap);
      row = lines * (this.tile.h + this.gap) - this.gap;
    }
    part.w = widest + pad;
    part.h = y + row + pad;
    return part;
  }

  /** Columns of a grid of nodes: about square, without a ragged last line where that can be had. */
  private columns(count: number, most: number, around: number, depth: number): number {
    const room = Math.max(1, Math.floor((most + this.gap) / (this.tile.w + this.gap)));
    if (depth === 0) return Math.min(room, count);
    if (around > 0) return Math.min(room, count, Math.max(1, Math.floor((around + this.gap) / (this.tile.w + this.gap))));
    const square = Math.sqrt((count * 1.8 * this.tile.h) / this.tile.w);
    const wanted = Math.max(1, Math.min(room, Math.round(square)));
    for (const columns of [wanted, wanted + 1, wanted - 1, wanted + 2]) {
      if (columns >= 1 && columns <= room && count % columns === 0) return columns;
    }
    return wanted;
  }

  private put(domain: number, part: Part, x: number, y: number, depth: number): void {
    if (this.isFolded(domain)) {
      this.items.push({ index: domain, isDomain: true });
      this.places.push(x, y, part.w, part.h);
      return;
    }
    if (depth > 0) this.boxes.push({ domain, x, y, w: part.w, h: part.h, depth, header: part.header });
    for (const child of part.inner) this.put(child.domain, child.part, x + child.part.x, y + child.part.y, depth + 1);
    if (part.nodes) {
      const { from, to, columns, top } = part.nodes;
      const left = depth === 0 ? x : x + this.pad;
      for (let node = from; node < to; node++) {
        const place = node - from;
        this.items.push({ index: node, isDomain: false });
        this.places.push(
          left + (place % columns) * (this.tile.w + this.gap),
          y + top + Math.floor(place / columns) * (this.tile.h + this.gap),
          this.tile.w,
          this.tile.h,
        );
      }
    }
  }
}
