// Numbers, amounts and times as people read them, in the reader's zone and language.

import type { Unit } from "./api";

const whole = new Intl.NumberFormat();
const few = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

export function number(value: number): string {
  return whole.format(value);
}

export function amount(value: number, unit: Unit): string {
  if (unit === "bytes") {
    const steps = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let step = 0;
    while (Math.abs(value) >= 1024 && step < steps.length - 1) {
      value /= 1024;
      step += 1;
    }
    return `${few.format(value)}${steps[step]}`;
  }
  return unit === "milli" ? few.format(value / 1000) : whole.format(value);
}

/** "nvidia.com/gpu" is "GPUs", as the commands say it. */
export function resourceWord(name: string, isOne = false): string {
  const last = name.slice(name.lastIndexOf("/") + 1);
  if (last === "gpu" || name === "cpu") return last.toUpperCase() + (isOne ? "" : "s");
  return name === "pods" && isOne ? "pod" : last;
}

/** An amount with the name of what it is of. */
export function amountOf(value: number, unit: Unit, resource: string): string {
  const text = amount(value, unit);
  return `${text} ${resourceWord(resource, text === "1")}`;
}

/** Amounts as they came, with the names of what they are of, devices first; but for zeros and pods all of them. */
export function amountsText(amounts: Record<string, string>, none = ""): string {
  const shown = Object.entries(amounts).filter(([name, value]) => name !== "pods" && value !== "0");
  shown.sort(([one], [other]) => Number(other.includes("/")) - Number(one.includes("/")));
  return shown.map(([name, value]) => `${neat(value)} ${resourceWord(name, value === "1")}`).join(", ") || none;
}

/** What a node lacks for one more pod; nodes take so many pods and no more, however much else is free. */
export function lacksText(lacks: Record<string, string>): string {
  const amounts = amountsText(lacks);
  const isFull = (lacks.pods ?? "0") !== "0";
  return [amounts ? `lacks ${amounts}` : "", isFull ? "holds as many pods as it may" : ""].filter(Boolean).join(", and ");
}

/** Where the first clause ends; what stands in brackets belongs to it. */
export function clauseEnd(text: string): number {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "(") depth += 1;
    else if (text[i] === ")") depth -= 1;
    else if (depth <= 0 && text.startsWith("; ", i)) return i;
  }
  return -1;
}

/** What the scheduler calls the status of a pod, as people say it. */
export function podStatus(status: string): string {
  const word = status.toLowerCase();
  return { releasing: "leaving", pipelined: "promised" }[word] ?? word;
}

/** What a queue holds against a bound, as reasons have it: "nvidia.com/gpu: 7 of 12 taken, 12 wanted". */
const BOUND = /(\S+): (\S+) of (\S+) taken, ([^\s,;)]+) wanted/g;

/** The same, such that nobody has to add up what is held and wanted, nor knows what devices are called. */
export function plainBounds(text: string): string {
  // Of jobs that are not preemptible only those are counted.
  const who = text.includes("not preemptible") ? "such jobs hold" : "holds";
  const said = text.replace(BOUND, (_, resource: string, held: string, bound: string, wanted: string) => {
    const word = resourceWord(resource, bound === "1");
    return `${who} ${neat(held)} of ${neat(bound)} ${word}, and ${neat(wanted)} more ${wanted === "1" ? "is" : "are"} wanted`;
  });
  return said.replace(/\b\d+m(?= free)/g, neat).replace(/\b(\d\S*) (nvidia\.com\/gpu|cpu)\b/g, (_, count: string, name: string) => `${neat(count)} ${resourceWord(name, count === "1")}`);
}

/** An amount as commands have it, without thousandths and with few digits: "63600m" is "63.6", "65336Mi" is "63.8Gi". */
export function neat(text: string): string {
  const milli = /^(\d+)m$/.exec(text);
  if (milli) return few.format(Number(milli[1]) / 1000);
  const bytes = /^(\d+)(Ki|Mi|Gi|Ti)$/.exec(text);
  if (!bytes) return text;
  return amount(Number(bytes[1]) * 1024 ** (["Ki", "Mi", "Gi", "Ti"].indexOf(bytes[2] as string) + 1), "bytes");
}

/** First words of reasons, which are written for several nodes. */
const SINGULAR: Record<string, string> = { are: "is", belong: "belongs", do: "does", have: "has", lack: "lacks", wait: "waits" };

/** What so many nodes say, without their number. */
export function nodesSay(count: number, reason: string): string {
  const [verb = "", ...rest] = reason.split(" ");
  return count === 1 ? [SINGULAR[verb] ?? verb, ...rest].join(" ") : reason;
}

/** The text of a reason, whether it is about a job or about nodes. */
export function reasonText(reason: string): string {
  return (reason.split(" ")[0] ?? "") in SINGULAR ? `nodes ${reason}` : reason;
}

/** What an action does, for those who do not know its name. */
export function actionWord(action: string): string {
  if (action.endsWith("reclaim")) return "Take back from other queues";
  if (action.endsWith("preempt")) return "Take from its own queue";
  return { consolidation: "Move others elsewhere" }[action] ?? action;
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

/** With a capital, as a sentence begins. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function plural(count: number, word: string): string {
  return `${number(count)} ${word}${count === 1 ? "" : "s"}`;
}

/** A number that belongs to a name, the same in every browser. */
export function hashOf(name: string): number {
  let hash = 2166136261;
  for (let i = 0; i < name.length; i++) {
    hash ^= name.charCodeAt(i);
    hash = Math.imul(hash, 16777619);
  }
  return hash >>> 0;
}
