// The page from top to bottom, and what is the same everywhere: theme, keys, printing, sizes.
function titles() {
  const names = doc.files.map((name) => name.split("/").pop());
  document.getElementById("title").textContent = names.length === 1 ? names[0] : `${names.length} captures`;
}
function summarySection() {
  const health = doc.tables.find((table) => table.section === "health");
  const trusts = health ? health.rows.map((row) => row[health.columns.indexOf("trust")]) : [];
  const worst = ["bad", "doubtful", "unknown"].find((trust) => trusts.includes(trust)) || "good";
  const span = doc.span;
  const facts = [[countText(span.messages), "messages"], [countText(span.connections), "connections"], [countText(span.packets), "packets"], [sizeText(span.wire_bytes), "in streams"], [durationText(span.duration_ns), "of traffic"]];
  section("summary", "Summary",
    el("ul", { class: "facts" }, facts.filter(([value]) => value).map(([value, name]) => el("li", {}, el("strong", { text: value }), el("span", { text: name }))),
      el("li", { class: `trust ${worst}` }, el("strong", { text: worst === "bad" ? "incomplete" : worst === "doubtful" ? "doubtful" : worst === "unknown" ? "nothing lost in sight" : "good" }), el("span", { text: "trust in the capture" }))),
    el("div", { class: "says" }, doc.sentences.map((sentence, i) => el("p", { class: i === 0 ? "lead" : null, text: sentence }))),
    el("details", { open: true }, el("summary", { text: "As mqsniff stats says it" }), el("dl", {}, doc.run.head.flatMap(([title, text]) => [el("dt", { text: title }), el("dd", { text })])),
      doc.files.length > 1 ? el("p", { class: "note", text: doc.files.join(", ") }) : null,
      doc.run.where ? el("p", { class: "note", text: `Only rows where ${doc.run.where}` }) : null));
}
function restyle() {
  if (chosen.theme) document.documentElement.dataset.theme = chosen.theme; else delete document.documentElement.dataset.theme;
  document.documentElement.classList.toggle("printing", printing);
  redrawAll();
  paintSwatches();
}
function keysText() {
  const panel = document.getElementById("command");
  const rows = [["Tab", "go on to the next chart, table or button"], ["← →", "in a chart: move in time; in a table or the graph: go to the next cell"], ["+ −", "in a chart: zoom"], ["0", "the whole capture"], ["Enter", "on a number: the command that shows its rows"], ["t", "light or dark"], ["/", "filter the first table"], ["Esc", "close"]];
  cameFrom = document.activeElement;
  panel.replaceChildren(el("div", {}, el("strong", { text: "Keys" }), el("button", { type: "button", class: "close", "aria-label": "Close", text: "×", onclick: hideCommand })), el("dl", {}, rows.flatMap(([key, text]) => [el("dt", { text: key }), el("dd", { text })])));
  panel.hidden = false;
  panel.querySelector("button").focus();
}
const swapTheme = () => { chosen.theme = isDark() ? "light" : "dark"; restyle(); };
document.getElementById("theme").addEventListener("click", swapTheme);
document.getElementById("keys").addEventListener("click", keysText);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { hideCommand(); return; }
  if (event.target.closest("input, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "t") swapTheme();
  else if (event.key === "?") keysText();
  else if (event.key === "0") resetRange();
  else if (event.key === "/") { const first = document.querySelector("#tables input"); if (first) { event.preventDefault(); first.focus(); } }
});
addEventListener("beforeprint", () => { printing = true; restyle(); });
addEventListener("afterprint", () => { printing = false; restyle(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
let width = innerWidth, timer = 0;
addEventListener("resize", () => { if (innerWidth === width) return; width = innerWidth; clearTimeout(timer); timer = setTimeout(redrawAll, 120); });

titles();
for (const show of [summarySection, errorsSection, trafficSection, latencySection, lagSection, groupsSection, graphSection, connectionsSection, tablesSection]) show();
if (!doc.span.packets) document.getElementById("main").append(note("There are no packets in this capture: nothing to draw."));
else if (!grid.count) document.getElementById("main").append(note("No message was decoded, so there is nothing to draw over time; the tables say why."));
restyle();
document.documentElement.dataset.ready = "yes";
