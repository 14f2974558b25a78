// Lines over time.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { useLook } from "./NodeMap";
import { theme } from "./paint";

/** Steps of an axis of time that people count in. */
const SECONDS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800, 2592000];

/** So far apart times of day can be read. */
const TIME_PX = 80;

export interface Line {
  label: string;
  values: (number | null)[];
  colour: string;
  dashed?: boolean;
}

/** A piece of the line, for the legend. */
function swatch(line: Line | undefined): string {
  if (!line?.dashed) return line?.colour ?? "";
  return `repeating-linear-gradient(90deg, ${line.colour} 0 4px, transparent 4px 7px)`;
}

export function Chart(props: {
  x: number[];
  lines: Line[];
  height?: number;
  format: (value: number) => string;
  xFormat: (value: number) => string;
  label: string;
  stepped?: boolean;
}) {
  const place = useRef<HTMLDivElement>(null);
  const look = useLook();
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const colours = theme();
    const axis = { stroke: colours.muted, grid: { stroke: colours.line, width: 1 }, ticks: { stroke: colours.line, width: 1 } };
    const steps = props.stepped && uPlot.paths.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined;
    const chart = new uPlot(
      {
        width: element.clientWidth,
        height: props.height ?? 220,
        // From nothing on: a line that stands still is not to look like one that jumps.
        scales: { x: { time: false }, y: { range: (_, __, most) => [0, Math.max(1, most * 1.08)] } },
        legend: { live: true, markers: { width: 0, fill: (_, i) => swatch(props.lines[i - 1]) } },
        axes: [
          { ...axis, incrs: SECONDS, space: TIME_PX, values: (_, ticks) => ticks.map(props.xFormat) },
          { ...axis, size: 70, values: (_, ticks) => ticks.map(props.format) },
        ],
        series: [
          { label: "at", value: (_, value) => (value === null ? "" : props.xFormat(value)) },
          ...props.lines.map((line) => ({
            label: line.label,
            stroke: line.colour,
            width: line.dashed ? 1 : 2,
            ...(line.dashed ? { dash: [5, 4] } : {}),
            ...(steps ? { paths: steps } : {}),
            points: { show: false },
            value: (_: uPlot, value: number | null) => (value === null ? "" : props.format(value)),
          })),
        ],
      },
      [props.x, ...props.lines.map((line) => line.values)] as uPlot.AlignedData,
      element,
    );
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: props.height ?? 220 }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [props.x, props.lines, look]);
  return <div class="chart" ref={place} role="img" aria-label={props.label} />;
}
