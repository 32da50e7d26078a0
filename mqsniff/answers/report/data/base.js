"use strict";
// What all parts of the page share: the document, text of numbers, elements, colours, the time range, commands.
const doc = JSON.parse(document.getElementById("document").textContent);
const grid = doc.grid;
const startMs = grid.start_ms, endMs = grid.start_ms + grid.width_ms * Math.max(grid.count, 1);
const times = Array.from({ length: grid.count }, (_, i) => (startMs + i * grid.width_ms) / 1000);

// An element: attributes by name, "on…" are listeners. Text is always text, never markup.
function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "text") node.textContent = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
}
function svg(name, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.flat());
  return node;
}

const digits = (x) => (x >= 99.95 ? Math.round(x).toString() : Number(x.toPrecision(3)).toString());
const countText = (n) => (n === null || n === undefined ? "" : Math.round(n).toLocaleString("en-US"));
const countOf = (n, noun) => `${countText(n)} ${noun}${n === 1 ? "" : "s"}`;
function sizeText(n) {
  if (n === null || n === undefined) return "";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let power = 0;
  for (; n >= 999.5 && power < 4; power++) n /= 1000;
  return `${digits(n)} ${units[power]}`;
}
function durationText(ns) {
  if (ns === null || ns === undefined) return "";
  if (ns >= 12e10) return `${Math.floor(ns / 6e10)} min ${Math.round((ns % 6e10) / 1e9)} s`;
  for (const [unit, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) if (ns >= unit) return `${digits(ns / unit)} ${name}`;
  return ns ? `${digits(ns)} ns` : "0";
}
const shorter = (n) => (n >= 1e9 ? `${digits(n / 1e9)} G` : n >= 1e6 ? `${digits(n / 1e6)} M` : n >= 1e3 ? `${digits(n / 1e3)} k` : digits(n));
const isoTime = (ms) => new Date(ms).toISOString();
const clock = (ms, span) => isoTime(ms).slice(11, span < 60000 ? 23 : 19);

// Eight colours that colour-blind people tell apart, after Okabe and Ito; in dark they are lighter.
const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#b8458f", "#996f00", "#3d8fc0", "#5b5b5b", "#8e5bb5", "#a9a9a9"];
const DARK = ["#5db7f0", "#ff9a56", "#3fd0a4", "#f08cc8", "#e8c33c", "#9bd3f7", "#c8c8c8", "#c39bea", "#7d8590"];
let printing = false;
const chosen = { theme: null };
const isDark = () => !printing && (chosen.theme ? chosen.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
const colour = (i) => (isDark() ? DARK : LIGHT)[i % 9];
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// The time range that all charts show; who draws with it subscribes.
const range = { from: startMs, to: endMs };
const redraws = [];
function onRedraw(draw) { redraws.push(draw); }
let redrawing = false;
function redrawAll() {
  if (redrawing) return;
  redrawing = true;
  for (const draw of redraws) draw();
  redrawing = false;
}
function setRange(from, to) {
  const least = Math.max(grid.width_ms, 0.01);
  if (to - from < least) { const middle = (from + to) / 2; from = middle - least / 2; to = middle + least / 2; }
  const width = Math.min(to - from, endMs - startMs);
  from = Math.min(Math.max(from, startMs), endMs - width);
  if (from === range.from && from + width === range.to) return;
  range.from = from;
  range.to = from + width;
  showRange();
  redrawAll();
}
const isWhole = () => range.from <= startMs && range.to >= endMs;
const resetRange = () => setRange(startMs, endMs);
function zoom(factor, at) {
  const middle = at === undefined ? (range.from + range.to) / 2 : at;
  setRange(middle - (middle - range.from) * factor, middle + (range.to - middle) * factor);
}
const pan = (share) => setRange(range.from + (range.to - range.from) * share, range.to + (range.to - range.from) * share);
function showRange() {
  const bar = document.getElementById("range");
  bar.hidden = isWhole();
  const span = range.to - range.from;
  bar.replaceChildren(
    el("span", { text: `Charts show ${clock(range.from, span)} to ${clock(range.to, span)} (${durationText(span * 1e6)}); tables show everything` }),
    el("button", { type: "button", onclick: resetRange, text: "Whole capture (0)" }),
    el("button", { type: "button", text: "Its messages", onclick: () => showCommand(rangeCommand("messages"), "Messages of this time") }),
  );
}
// Keys of a chart that has the focus: arrows move, + and - zoom, 0 shows everything.
function chartKeys(event) {
  const act = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), 0: resetRange }[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  act();
}

// Commands. rowsbehind.command_for is the twin of commandOf.
const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) && word ? word : `'${word.replaceAll("'", `'"'"'`)}'`);
function commandOf(table, ...conditions) {
  const parts = [doc.run.where, ...conditions].filter(Boolean).map((part) => (part.includes(" or ") ? `(${part})` : part));
  const words = [...doc.run.prefix, "-o", "ndjson", "--table", table];
  if (parts.length) words.push("--where", parts.join(" and "));
  return words.map(quoted).join(" ");
}
function rangeCommand(table, ...conditions) {
  const time = { messages: "ts", exchanges: "coalesce(response_ts, request_ts)", records: "ts", problems: "ts", connections: "last_ts" }[table];
  const within = isWhole() ? [] : [`${time} >= '${isoTime(range.from)}' and ${time} < '${isoTime(range.to)}'`];
  return commandOf(table, ...conditions, ...within);
}
let cameFrom = null;
function showCommand(text, title) {
  const panel = document.getElementById("command");
  if (panel.hidden) cameFrom = document.activeElement;
  const code = el("code", { tabindex: 0, text });
  const told = el("span", { role: "status" });
  const copy = el("button", { type: "button", text: "Copy", onclick: async () => {
    try { await navigator.clipboard.writeText(text); } catch {
      const area = el("textarea", { class: "away" }, text);
      panel.append(area); area.select(); document.execCommand("copy"); area.remove();
    }
    told.textContent = "copied";
  } });
  panel.replaceChildren(
    el("div", {}, el("strong", { text: title }), copy, told, el("button", { type: "button", class: "close", "aria-label": "Close", text: "×", onclick: hideCommand })),
    el("pre", {}, code));
  panel.hidden = false;
  copy.focus();
}
function hideCommand() {
  document.getElementById("command").hidden = true;
  if (cameFrom && cameFrom.isConnected) cameFrom.focus();
}
// A section of the page; nothing where there is nothing to show.
function section(id, title, ...content) {
  const node = el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title`, text: title }), ...content);
  document.getElementById("main").append(node);
  document.getElementById("nav").append(el("a", { href: `#${id}`, text: title.split(/[:,]/)[0] }));
  return node;
}
const note = (text) => el("p", { class: "note", text });
