// The line of cycles at the foot of every page: what was decided when, and the cycle that is looked at.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Cycles } from "./api";
import { moment, number, plural } from "./format";
import { useLook } from "./NodeMap";
import { theme } from "./paint";
import { go, status, useAt, useData, useValue, withQuery } from "./store";

const STEP_MS = 1100;

export function Player() {
  const feed = useValue(status);
  const at = useAt();
  const { data } = useData<Cycles>("/api/cycles");
  const [playing, setPlaying] = useState(false);
  const cycles = data?.cycle ?? [];
  const place = at === null ? cycles.length - 1 : cycles.indexOf(at);

  function show(index: number): void {
    const last = cycles.length - 1;
    const cycle = cycles[Math.max(0, Math.min(last, index))];
    if (cycle !== undefined) go(withQuery({ at: index >= last ? null : String(cycle) }), true);
  }

  /** Quiet cycles are passed over; a reader wants to see what happens. */
  function next(from: number, by: 1 | -1): number {
    let index = from + by;
    while (data && index > 0 && index < cycles.length - 1 && !busy(data, index)) index += by;
    return index;
  }

  useEffect(() => {
    if (!playing || !data) return;
    const timer = setTimeout(() => {
      const following = next(place, 1);
      if (following >= cycles.length - 1) setPlaying(false);
      show(following);
    }, STEP_MS);
    return () => clearTimeout(timer);
  }, [playing, place, data]);

  useEffect(() => {
    const start = (): void => {
      setPlaying(true);
      show(0);
    };
    window.addEventListener("muster-play", start);
    return () => window.removeEventListener("muster-play", start);
  }, [data]);

  if (!feed || feed.source === "replay" || cycles.length === 0) return null;
  const cycle = cycles[place];
  const time = data?.time[place];
  const counts = data ? [data.bind[place] ?? 0, data.evict[place] ?? 0, data.nominate[place] ?? 0] : [0, 0, 0];
  const [bound = 0, evicted = 0, promised = 0] = counts;
  return (
    <footer class="player" aria-label="Cycles" title="A bar for each cycle: green above the line pods bound, violet on top promised, red below it evicted">
      <div class="buttons">
        <button type="button" onClick={() => show(next(place, -1))} disabled={place <= 0} aria-label="Cycle before in which something was decided" title="The cycle before in which something was decided">‹</button>
        <button
          type="button"
          class="play"
          onClick={() => {
            if (!playing && place >= cycles.length - 1) show(0);
            setPlaying(!playing);
          }}
          aria-label={playing ? "Pause" : "Play the cycles"}
          title={playing ? "Pause" : "Play the cycles"}
        >
          {playing ? "❚❚" : "▶"}
        </button>
        <button type="button" onClick={() => show(next(place, 1))} disabled={place >= cycles.length - 1} aria-label="Next cycle in which something was decided" title="The next cycle in which something was decided">›</button>
      </div>
      {data && <Line data={data} place={place} show={show} />}
      <div class="said" aria-live={feed.live ? "off" : "polite"}>
        <strong>{cycle === undefined ? `no cycle ${at}` : `cycle ${cycle}`}{cycles.length > 1 && <span class="muted"> of {cycles.at(-1)}</span>}</strong>
        {time !== undefined && <span>{moment(time, feed.start, feed.live)}</span>}
        {bound > 0 && <span class="is-bind">{plural(bound, "pod")} bound</span>}
        {evicted > 0 && <span class="is-evict">{number(evicted)} evicted</span>}
        {promised > 0 && <span class="is-nominate">{number(promised)} promised a node</span>}
        {cycle !== undefined && bound + evicted + promised === 0 && <span class="muted">nothing decided</span>}
        {at !== null && (
          <button type="button" onClick={() => show(cycles.length)}>{feed.live ? "live" : "latest"}</button>
        )}
      </div>
    </footer>
  );
}

function busy(data: Cycles, index: number): boolean {
  return Boolean(data.bind[index] || data.evict[index] || data.nominate[index] || data.failed[index]);
}

function Line({ data, place, show }: { data: Cycles; place: number; show: (index: number) => void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const look = useLook();
  const n = data.cycle.length;
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    const paint = (): void => {
      const ratio = window.devicePixelRatio || 1;
      const [w, h] = [element.clientWidth, element.clientHeight];
      element.width = w * ratio;
      element.height = h * ratio;
      context.scale(ratio, ratio);
      const colours = theme();
      const most = Math.max(1, ...data.bind.slice(-2000), ...data.evict.slice(-2000));
      const tall = (count: number): number => (count ? Math.max(2, (Math.log1p(count) / Math.log1p(most)) * (h / 2 - 2)) : 0);
      const width = w / n;
      context.fillStyle = colours.line;
      context.fillRect(0, h / 2, w, 1);
      for (let i = 0; i < n; i++) {
        const x = i * width;
        const bar = Math.max(1, Math.min(width - 1, 14));
        const left = x + (width - bar) / 2;
        context.fillStyle = colours.good;
        context.fillRect(left, h / 2 - tall(data.bind[i] as number), bar, tall(data.bind[i] as number));
        context.fillStyle = colours.bad;
        context.fillRect(left, h / 2 + 1, bar, tall(data.evict[i] as number));
        if (data.nominate[i]) {
          context.fillStyle = colours.promised;
          context.fillRect(left, h / 2 - tall(data.bind[i] as number) - 3, bar, 2);
        }
        if (!data.whole[i]) {
          context.fillStyle = colours.line;
          context.fillRect(x, h - 2, width, 2);
        }
      }
      context.strokeStyle = colours.accent;
      context.lineWidth = 2;
      context.strokeRect(place * width + 1, 1, Math.max(2, width - 2), h - 2);
    };
    paint();
    const observer = new ResizeObserver(paint);
    observer.observe(element);
    return () => observer.disconnect();
  }, [data, place, look]);

  function pick(event: PointerEvent): void {
    const box = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
    show(Math.floor(((event.clientX - box.left) / box.width) * n));
  }
  return (
    <canvas
      ref={canvas}
      class="line"
      role="slider"
      tabIndex={0}
      aria-label="Cycle; above the line pods bound, below it pods evicted"
      aria-valuemin={data.cycle[0]}
      aria-valuemax={data.cycle[n - 1]}
      aria-valuenow={data.cycle[place]}
      onPointerDown={(event) => {
        canvas.current?.setPointerCapture(event.pointerId);
        pick(event);
      }}
      onPointerMove={(event) => {
        if (event.buttons & 1) pick(event);
      }}
      onKeyDown={(event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1, ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
        if (by) show(place + by);
        else if (event.key === "Home") show(0);
        else if (event.key === "End") show(n - 1);
        else return;
        event.preventDefault();
      }}
    />
  );
}
