// Numbers, amounts and times as people read them, in the reader's zone and language.

import type { Unit } from "./api";

const whole = new Intl.NumberFormat();
const few = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

export function number(value: number): string {
  return whole.format(value);
}

export function amount(value: number, unit: Unit): string {
  if (unit === "bytes") {
    const steps = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let step = 0;
    while (Math.abs(value) >= 1024 && step < steps.length - 1) {
      value /= 1024;
      step += 1;
    }
    return `${few.format(value)} ${steps[step]}`;
  }
  return unit === "milli" ? few.format(value / 1000) : whole.format(value);
}

/** "nvidia.com/gpu" is "GPUs", as the commands say it. */
export function resourceWord(name: string, isOne = false): string {
  const last = name.slice(name.lastIndexOf("/") + 1);
  if (last === "gpu" || name === "cpu") return last.toUpperCase() + (isOne ? "" : "s");
  return last;
}

/** Amounts as they came, with the names of what they are of; nothing is left out of but zeros and pods. */
export function amountsText(amounts: Record<string, string>, none = ""): string {
  const shown = Object.entries(amounts).filter(([name, value]) => name !== "pods" && value !== "0");
  return shown.map(([name, value]) => `${value} ${resourceWord(name, value === "1")}`).join(", ") || none;
}

/** What the scheduler calls the status of a pod, as people say it. */
export function podStatus(status: string): string {
  const word = status.toLowerCase();
  return { releasing: "leaving", pipelined: "promised" }[word] ?? word;
}

export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${s % 60 ? ` ${s % 60}s` : ""}`;
  if (s < 86400) return `${Math.floor(s / 3600)}h${Math.floor((s % 3600) / 60) ? ` ${Math.floor((s % 3600) / 60)}m` : ""}`;
  return `${Math.floor(s / 86400)}d${Math.floor((s % 86400) / 3600) ? ` ${Math.floor((s % 86400) / 3600)}h` : ""}`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/** A moment: of a live cluster the time of day, of a simulation what has passed on its virtual clock. */
export function moment(time: number, start: number, live: boolean): string {
  return live ? clock.format(new Date(time * 1000)) : time < start - 1 ? "before" : `+${duration(time - start)}`;
}

export function fullTime(time: number): string {
  return day.format(new Date(time * 1000));
}

export function percent(part: number, all: number): string {
  return all > 0 ? `${Math.round((100 * part) / all)} %` : "–";
}

export function plural(count: number, word: string): string {
  return `${number(count)} ${word}${count === 1 ? "" : "s"}`;
}

/** A colour number for a name, the same on every page. */
export function hueOf(name: string): number {
  let hash = 2166136261;
  for (let i = 0; i < name.length; i++) {
    hash ^= name.charCodeAt(i);
    hash = Math.imul(hash, 16777619);
  }
  return (hash >>> 0) % 12;
}
