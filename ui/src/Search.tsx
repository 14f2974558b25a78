// Search by name, with the key "/".

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, type Found } from "./api";
import { go, jobPath, linkTo, useAt } from "./store";

export function addressOf(found: Found["found"][number]): string {
  if (found.kind === "job") return linkTo(jobPath(found.name));
  if (found.kind === "pod") return linkTo(jobPath(found.job || found.name), { pod: found.name });
  if (found.kind === "queue") return linkTo("/queues", { queue: found.name });
  if (found.kind === "node") return linkTo("/cluster", { node: found.name });
  return linkTo("/cluster", { domain: found.name });
}

export function Search() {
  const dialog = useRef<HTMLDialogElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [found, setFound] = useState<Found["found"]>([]);
  const [place, setPlace] = useState(0);
  const at = useAt();

  useEffect(() => {
    const open = (): void => {
      if (dialog.current?.open) return;
      setText("");
      setFound([]);
      dialog.current?.showModal();
      input.current?.focus();
    };
    const onKey = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      const typing = ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
      const isSlash = event.key === "/" && !typing;
      const isK = event.key === "k" && (event.ctrlKey || event.metaKey);
      if (!isSlash && !isK) return;
      event.preventDefault();
      open();
    };
    window.addEventListener("keydown", onKey);
    window.addEventListener("muster-search", open);
    return () => {
      window.removeEventListener("keydown", onKey);
      window.removeEventListener("muster-search", open);
    };
  }, []);

  useEffect(() => {
    if (!text.trim()) {
      setFound([]);
      return;
    }
    const control = new AbortController();
    const timer = setTimeout(() => {
      const query = new URLSearchParams({ q: text.trim(), ...(at === null ? {} : { at: String(at) }) });
      ask<Found>(`/api/search?${query}`, control.signal)
        .then((answer) => {
          setFound(answer.found);
          setPlace(0);
        })
        .catch(() => undefined);
    }, 120);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [text, at]);

  function take(index: number): void {
    const chosen = found[index];
    if (!chosen) return;
    dialog.current?.close();
    go(addressOf(chosen));
  }

  return (
    <dialog
      ref={dialog}
      class="search"
      aria-label="Search"
      onClick={(event) => {
        if (event.target === dialog.current) dialog.current?.close();
      }}
    >
      <input
        ref={input}
        type="search"
        placeholder="Job, pod, node, queue or domain …"
        aria-label="Name to search for"
        role="combobox"
        aria-expanded={found.length > 0}
        aria-controls="search-found"
        aria-activedescendant={found.length ? `found-${place}` : undefined}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setPlace((old) => Math.min(found.length - 1, old + 1));
          else if (event.key === "ArrowUp") setPlace((old) => Math.max(0, old - 1));
          else if (event.key === "Enter") take(place);
          else if (event.key === "Escape") dialog.current?.close();
          else return;
          event.preventDefault();
        }}
      />
      <ul id="search-found" role="listbox" aria-label="Found">
        {found.map((item, index) => (
          <li
            key={`${item.kind}/${item.name}`}
            id={`found-${index}`}
            role="option"
            aria-selected={index === place}
            onPointerMove={() => setPlace(index)}
            onClick={() => take(index)}
          >
            <span class="kind">{item.kind}</span>
            <span class="name">{item.name}</span>
          </li>
        ))}
        {text.trim() && !found.length && <li class="muted">nothing of that name</li>}
      </ul>
      <p class="hint">↑ ↓ choose, Enter opens, Esc closes</p>
    </dialog>
  );
}
