// Events over time in lanes: one line for each pair, a dot for each event, as large as what it was about.

import { moment, plural } from "./format";
import { Dot, Link } from "./parts";
import { linkTo, status, useValue } from "./store";

export interface Happening {
  time: number;
  cycle: number;
  from: string;
  to: string;
  pods: number;
}

export function Lanes({ happenings, first, last }: { happenings: Happening[]; first: number; last: number }) {
  const feed = useValue(status);
  const pairs = new Map<string, Happening[]>();
  for (const one of happenings) {
    const key = `${one.from}\0${one.to}`;
    pairs.set(key, [...(pairs.get(key) ?? []), one]);
  }
  const most = Math.max(1, ...happenings.map((one) => one.pods));
  const at = (time: number): string => (feed ? moment(time, feed.start, feed.live) : "");
  const place = (time: number): string => `${last > first ? (100 * (time - first)) / (last - first) : 50}%`;
  return (
    <div class="lanes">
      {[...pairs].map(([key, ones]) => {
        const [from, to] = key.split("\0") as [string, string];
        return (
          <div key={key} class="lane">
            <span>
              <span class="name"><Dot name={from} />{from || "no queue"}</span> <span class="arrow is-evict" aria-label="gave to">→</span>{" "}
              <span class="name"><Dot name={to} />{to || "no queue"}</span>
            </span>
            <span class="rail">
              {ones.map((one) => {
                const size = 10 + 14 * Math.sqrt(one.pods / most);
                const said = `${at(one.time)}: ${plural(one.pods, "pod")} of ${from || "no queue"} left for ${to || "no queue"}`;
                return (
                  <Link
                    key={one.cycle}
                    href={linkTo("/decisions", { cycle: String(one.cycle) })}
                    class="event"
                    aria-label={said}
                    title={said}
                    style={{ left: place(one.time), width: `${size}px`, height: `${size}px` }}
                  >
                    {null}
                  </Link>
                );
              })}
            </span>
          </div>
        );
      })}
      <div class="lane axis" aria-hidden="true"><span /><span class="rail"><span>{at(first)}</span><span>{at(last)}</span></span></div>
    </div>
  );
}
