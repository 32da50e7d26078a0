// Latency by command: a distribution for each, work apart from waiting, and percentiles over time of the one that is chosen.
function distribution(row) {
  const all = [...row.work.steps, ...row.waits.steps].map(([low]) => Math.max(low, 1));
  const [low, top] = [Math.log2(Math.min(...all)), Math.log2(Math.max(...all)) + 0.25];
  const high = Math.max(top, low + 6);
  const width = 300, height = 54, slots = Math.max(1, Math.round((high - low) * 4));
  const bars = (steps, name) => {
    const most = Math.max(1, ...row.work.steps.map((s) => s[1]), ...row.waits.steps.map((s) => s[1]));
    return steps.map(([from, count]) => {
      const x = ((Math.log2(Math.max(from, 1)) - low) / (high - low || 1)) * width;
      const tall = Math.max(2, (Math.sqrt(count) / Math.sqrt(most)) * (height - 16));
      return svg("rect", { x, y: height - 14 - tall, width: Math.max(1.5, width / slots - 0.5), height: tall, class: name }, svg("title", {}, `${name === "work" ? "worked" : "waited"} ${durationText(from)} and more: ${countText(count)}`));
    });
  };
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "distribution", role: "img", "aria-label": `${row.name}: ${countText(row.work.count)} worked, half of them up to ${durationText(row.work.quantiles[0])}; ${countText(row.waits.count)} waited` },
    bars(row.waits.steps, "waits"), bars(row.work.steps, "work"),
    svg("text", { x: 0, y: height - 2 }, durationText(2 ** low)), svg("text", { x: width, y: height - 2, "text-anchor": "end" }, durationText(2 ** high)));
}
function latencySection() {
  const rows = doc.latency.filter((row) => row.work.count + row.waits.count);
  if (!rows.length) return;
  let shown = rows[0];
  const box = section("latency", "Latency by command", note("How long brokers worked on a request. What a broker held on purpose, until there was data or a member (long polls), is apart: waited. Bars: how many took that long, on a logarithmic axis from left to right; heights are square roots, so that rare ones show."));
  const cards = el("div", { class: "cards", role: "radiogroup", "aria-label": "Command of the chart" });
  const title = el("h3");
  rows.forEach((row, i) => {
    const [p50, p95, p99, most] = row.work.quantiles;
    cards.append(el("label", { class: "card" },
      el("input", { type: "radio", name: "latency", checked: i === 0, onchange: () => { shown = row; draw(); name(); } }),
      el("span", { class: "head" }, el("strong", { text: row.name }), el("small", { text: row.protocol })), distribution(row),
      el("span", { class: "figures" }, row.work.count ? el("span", { class: "worked", text: `worked ${countText(row.work.count)}: p50 ${durationText(p50)}, p95 ${durationText(p95)}, p99 ${durationText(p99)}, max ${durationText(most)}` }) : null,
        row.waits.count ? el("span", { class: "waited", text: `waited ${countText(row.waits.count)}: p50 ${durationText(row.waits.quantiles[0])}, max ${durationText(row.waits.quantiles[2])}` }) : null)));
  });
  const name = () => { title.textContent = `${shown.name} over time`; };
  box.append(cards, title);
  name();
  const draw = timeChart(box, "Latency over time", () => ({ log: true, format: durationText, series: [
    { label: "p50", values: shown.p50, colour: 0, points: true }, { label: "p95", values: shown.p95, colour: 1, points: true },
    { label: "p99", values: shown.p99, colour: 3, points: true }, { label: "max", values: shown.most, colour: 8, points: true },
    { label: "waited p50", values: shown.waited, colour: 2, dash: [5, 4], points: true },
  ].filter((one) => one.values.some((v) => v !== null)) }));
}
