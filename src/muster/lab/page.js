"use strict";
// Draws the pictures of a report: lines over time and bars by group, each with a zoom of its own.
(() => {
  const groups = JSON.parse(document.getElementById("data").textContent);
  const colours = ["#0969da", "#cf222e", "#1a7f37", "#9a6700", "#8250df", "#bc4c00", "#1b7c83", "#57606a", "#bf3989", "#4d2d00", "#0550ae", "#116329"];

  function number(value) {
    const size = Math.abs(value);
    if (size >= 1e6) return (value / 1e6).toFixed(size >= 1e7 ? 0 : 1) + "M";
    if (size >= 1e4) return (value / 1e3).toFixed(0) + "k";
    return size >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(size >= 1 ? 1 : 2);
  }

  // Round numbers between two others, about so many.
  function ticks(low, high, count) {
    const rough = (high - low) / count, size = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((times) => times * size).find((one) => one >= rough * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-9); k++) found.push(Number((k * step).toPrecision(12)));
    return found;
  }

  function picture(room, question, note, lines, options) {
    if (!lines.length) return;
    const part = document.createElement("div");
    const head = document.createElement("h3");
    head.textContent = question;
    const text = document.createElement("p");
    text.className = "note";
    text.textContent = note;
    const canvas = document.createElement("canvas");
    const legend = document.createElement("div");
    legend.className = "legend";
    lines.forEach((line) => {
      const entry = document.createElement("span");
      const mark = document.createElement("i");
      mark.style.background = line.colour;
      entry.append(mark, line.name);
      legend.append(entry);
    });
    part.append(head, text, canvas, legend);
    room.append(part);
    const all = options.span || span(lines.flatMap((line) => line.x));
    let shown = all;
    let drag = null;
    const draw = () => paint(canvas, lines, shown, drag, options);
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      const inside = Math.min(1, Math.max(0, (event.clientX - box.left - 60) / (box.width - 75)));
      return shown[0] + inside * (shown[1] - shown[0]);
    };
    canvas.addEventListener("mousedown", (event) => { drag = [at(event), at(event)]; });
    canvas.addEventListener("mousemove", (event) => { if (drag) { drag[1] = at(event); draw(); } });
    canvas.addEventListener("mouseup", () => {
      if (drag && Math.abs(drag[1] - drag[0]) > (shown[1] - shown[0]) / 100) shown = drag.slice().sort((a, b) => a - b);
      drag = null;
      draw();
    });
    canvas.addEventListener("dblclick", () => { shown = all; draw(); });
    window.addEventListener("resize", draw);
    draw();
  }

  function span(values) {
    let low = Infinity, high = -Infinity;
    for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
    return low < high ? [low, high] : [low - 0.5, low + 0.5];
  }

  function paint(canvas, lines, shown, drag, options) {
    const scale = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
    canvas.width = box.width * scale;
    canvas.height = box.height * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const width = box.width - 75, height = box.height - 45;
    let top = 0;
    for (const line of lines) line.x.forEach((x, k) => { if (x >= shown[0] && x <= shown[1] && line.y[k] > top) top = line.y[k]; });
    const levels = ticks(0, top || 1, 4);
    if (levels[levels.length - 1] < top) levels.push(levels[levels.length - 1] + levels[1]);
    top = levels[levels.length - 1];
    const x = (value) => 60 + (value - shown[0]) / (shown[1] - shown[0]) * width;
    const y = (value) => 12 + height - value / top * height;
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = "#57606a";
    pen.strokeStyle = "#eaeef2";
    for (const value of levels) {
      pen.beginPath(); pen.moveTo(60, y(value)); pen.lineTo(60 + width, y(value)); pen.stroke();
      pen.textAlign = "right"; pen.fillText(number(value), 54, y(value) + 4);
    }
    pen.textAlign = "center";
    if (options.names) options.names.forEach((name, k) => { if (k >= shown[0] && k <= shown[1]) pen.fillText(name, x(k), height + 28); });
    else for (const value of ticks(shown[0], shown[1], 8)) pen.fillText(number(value), x(value), height + 28);
    pen.fillText(options.unit, 60 + width / 2, height + 42);
    pen.save();
    pen.beginPath(); pen.rect(60, 8, width, height + 8); pen.clip();
    if (options.names) {
      const wide = Math.min(width / (shown[1] - shown[0]) * 0.8, 120) / lines.length;
      lines.forEach((line, at) => {
        pen.fillStyle = line.colour;
        line.x.forEach((value, k) => pen.fillRect(x(value) + (at - lines.length / 2) * wide, y(line.y[k]), wide - 1, y(0) - y(line.y[k])));
      });
    } else for (const line of lines) {
      pen.strokeStyle = line.colour;
      pen.lineWidth = 1.6;
      pen.setLineDash(line.dash || []);
      pen.beginPath();
      line.x.forEach((value, k) => { if (k) pen.lineTo(x(value), y(line.y[k])); else pen.moveTo(x(value), y(line.y[k])); });
      pen.stroke();
    }
    pen.restore();
    if (drag) {
      pen.fillStyle = "rgba(9,105,218,.12)";
      pen.fillRect(x(drag[0]), 12, x(drag[1]) - x(drag[0]), height);
    }
  }

  const colour = (k) => colours[k % colours.length];
  function draw(room, runs) {
    const longest = Math.max(...runs.map((run) => run.series.time_s[run.series.time_s.length - 1] || 0));
    const isLong = longest > 3 * 86400;
    const passed = (seconds) => seconds / (isLong ? 86400 : 3600);
    const time = { unit: (isLong ? "days" : "hours") + " of the trace", span: longest ? [0, passed(longest)] : null };
    const overTime = (key) => runs.map((run, k) => ({ name: run.name, colour: colour(k), x: run.series.time_s.map(passed), y: run.series[key] }));
    const sampled = (key) => runs.map((run, k) => ({ name: run.name, colour: colour(k), x: run.series.sampled.time_s.map(passed), y: run.series.sampled[key] }));
    picture(room, "How busy is the cluster?", "GPUs held by running jobs.", overTime("held_gpus"), time);
    picture(room, "How much waits?", "GPUs that jobs wait for.", overTime("waiting_gpus"), time);
    picture(room, "How many jobs wait?", "Sampled at cycles.", sampled("waiting_jobs"), time);
    picture(room, "What is free and of no use?", "Free GPUs on nodes where what waits does not fit.", sampled("unusable_gpus"), time);
    const sizes = [...new Set(runs.flatMap((run) => Object.keys(run.by_size)))];
    sizes.sort((a, b) => parseInt(a.replace(">", "1000"), 10) - parseInt(b.replace(">", "1000"), 10));
    for (const [key, note] of [["mean", "Mean wait by GPUs of the job, seconds."], ["p99", "The wait that one in a hundred exceeds, seconds."]]) {
      picture(room, key === "mean" ? "Who waits, by size?" : "Who starves, by size?", note, runs.map((run, k) => ({
        name: run.name, colour: colour(k), x: sizes.map((_, at) => at),
        y: sizes.map((size) => ((run.by_size[size] || {}).wait_s || {})[key] || 0),
      })), { unit: "GPUs", names: sizes, span: [-0.5, sizes.length - 0.5] });
    }
    runs.forEach((run) => {
      const names = Object.keys(run.series.queues);
      if (names.length > 1) {
        picture(room, "Who holds the cluster? (" + run.name + ")", "GPUs by queue, the busiest ones.", names.map((name, k) => ({
          name, colour: colour(k), x: run.series.time_s.map(passed), y: run.series.queues[name],
        })), time);
      }
    });
  }

  groups.forEach((runs, number) => draw(document.getElementById("pictures-" + number), runs));
})();
