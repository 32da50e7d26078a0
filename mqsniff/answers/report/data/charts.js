// Charts over time with uPlot: traffic, errors beside what the network did, lag.
const syncKey = uPlot.sync("time");
function axis(format, side) {
  return { stroke: ink("soft"), grid: { stroke: ink("line"), width: 1 }, ticks: { stroke: ink("line"), width: 1 }, size: side === 3 ? 64 : 30,
    font: "12px system-ui, sans-serif", values: format };
}
const spanTicks = (u, ticks) => ticks.map((t) => clock(t * 1000, ticks.length > 1 && ticks[1] - ticks[0] < 1 ? 1 : 1e9));

// A chart in a box. make() gives {series: [{label, values, …}], format, bars, log}; it is asked again when something changes.
function timeChart(box, label, make) {
  const host = el("div", { class: "chart", tabindex: 0, role: "img", "aria-label": `${label}. Arrow keys move, plus and minus zoom, 0 shows everything.`, onkeydown: chartKeys });
  box.append(host);
  let plot = null;
  const draw = () => {
    if (plot) plot.destroy();
    host.replaceChildren();
    const made = make();
    const width = host.clientWidth || 640;
    if (!times.length || !made.series.length) { host.append(note("Nothing of this was seen.")); plot = null; return; }
    plot = new uPlot({
      width, height: made.height || 240, legend: { live: true, isolate: true }, tzDate: (ts) => uPlot.tzDate(new Date(ts * 1e3), "Etc/UTC"),
      cursor: { sync: { key: "time", setSeries: false }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
      scales: { x: { time: true, min: range.from / 1000, max: range.to / 1000 }, y: { distr: made.log ? 3 : 1, range: made.log ? logRange : (u, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [{ ...axis(spanTicks, 2), space: 90 }, { ...axis((u, ticks) => ticks.map((t) => (t === null ? "" : made.format(t))), 3), ...(made.bars ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 1e7] } : {}) }],
      series: [{ value: (u, v) => (v === null ? "–" : clock(v * 1000, endMs - startMs)) }, ...made.series.map((one, i) => ({
        label: one.label, stroke: one.stroke || colour(one.colour ?? i), width: one.width || 1.8, dash: one.dash,
        fill: one.fill, points: { show: one.points || (made.log ? undefined : false), size: 5 }, spanGaps: one.spanGaps,
        paths: made.bars ? uPlot.paths.bars({ size: [0.9, 60], align: 1 }) : made.log ? undefined : uPlot.paths.stepped({ align: 1 }),
        value: (u, v) => (v === null || v === undefined ? "–" : made.format(v)),
      }))],
      hooks: {
        setSelect: [(u) => {
          if (u.select.width < 4) return;
          const [from, to] = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
          u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          setTimeout(() => setRange(from * 1000, to * 1000));
        }],
        draw: made.marks ? [made.marks] : [],
      },
    }, [times, ...made.series.map((one) => one.values)], host);
    if (plot.over) plot.over.addEventListener("dblclick", resetRange);
  };
  onRedraw(draw);
  return draw;
}
const logRange = (u, low, high) => (low === null || high === null ? [1e3, 1e9] : [10 ** Math.floor(Math.log10(Math.max(low, 1))), 10 ** Math.ceil(Math.log10(Math.max(high, 10)))]);
const perSecond = (values) => values.map((v) => (v * 1000) / grid.width_ms);

// Radio buttons: one choice of several, arrow keys go between them.
let choices = 0;
function choice(label, options, change) {
  const name = `choice${++choices}`;
  return el("fieldset", { class: "choice" }, el("legend", { text: label }), options.map(([value, text], i) =>
    el("label", {}, el("input", { type: "radio", name, value, checked: i === 0, onchange: () => change(value) }), el("span", { text }))));
}
// The series of a chart as a list with their totals: what the picture says, in words, and the command behind each.
function seriesList(rows, text, command) {
  return el("ul", { class: "series" }, rows.map((row, i) => el("li", {},
    el("span", { class: "swatch", style: null, "data-colour": row.others ? 8 : i }), el("bdi", { text: row.name }), " ",
    !row.others && command(row) ? el("button", { type: "button", class: "number", title: "Show the command", onclick: command(row), text: text(row) }) : el("span", { text: text(row) }))));
}
function paintSwatches() {
  for (const one of document.querySelectorAll("[data-colour]")) one.style.background = colour(Number(one.dataset.colour));
}
const sqlText = (value) => `'${value.replaceAll("'", "''")}'`;
const isPlain = (name) => !/[\p{C}]|… \([\d,]+ characters\)$/u.test(name) && !name.startsWith("(");

function trafficSection() {
  if (!grid.count) return;
  let by = "protocol", unit = "bytes";
  const lists = el("div");
  const rows = () => doc.series[by];
  const list = () => {
    const where = { protocol: (name) => ["messages", `protocol = ${sqlText(name)}`], topic: (name) => ["records", `coalesce(topic, topic_id) = ${sqlText(name)}`] }[by];
    lists.replaceChildren(seriesList(rows(), (row) => `${countText(row.count)} ${by === "topic" ? "records" : "messages"}, ${sizeText(row.size)}`,
      (row) => where && isPlain(row.name) ? () => showCommand(rangeCommand(...where(row.name)), row.name) : null));
    paintSwatches();
  };
  const box = section("traffic", "Traffic", note(`How much was said in each ${durationText(grid.width_ms * 1e6)}, per second. Drag to zoom; a click on a name below the chart shows that one alone.`));
  const drawn = el("div");
  box.append(el("div", { class: "choices" },
    choice("By", [["protocol", "protocol"], ["topic", "topic"], ["client", "client"]], (value) => { by = value; draw(); list(); }),
    choice("In", [["bytes", "bytes"], ["counts", "messages, records"]], (value) => { unit = value; draw(); })), drawn, lists);
  const draw = timeChart(drawn, "Traffic over time", () => ({
    series: rows().map((row, i) => ({ label: row.name, values: perSecond(row[unit]), colour: row.others ? 8 : i, fill: `${colour(row.others ? 8 : i)}22` })),
    format: unit === "bytes" ? (v) => `${sizeText(v)}/s` : (v) => `${shorter(v)}/s`,
  }));
  list();
}

function errorsSection() {
  const rebalances = doc.groups.flatMap((group) => group.rebalances.map((one) => ({ ...one, group: group.group })));
  if (!doc.errors.length && !doc.network.length && !rebalances.length) return;
  const box = section("errors", "Errors, network and rebalances on one axis", note("Above: answers with errors and requests without an answer. Below, on the same axis: segments that were sent again, resets, refused connections. Shaded: rebalances of groups."));
  const shade = (u) => {
    const context = u.ctx;
    context.save();
    context.fillStyle = isDark() ? "rgba(200,160,255,.28)" : "rgba(120,70,200,.2)";
    for (const one of rebalances) {
      const [from, to] = [Date.parse(one.started_ts) / 1000, Date.parse(one.ended_ts) / 1000].map((t) => u.valToPos(t, "x", true));
      const left = Math.max(from, u.bbox.left), right = Math.min(Math.max(to, from + 2), u.bbox.left + u.bbox.width);
      if (right > left) context.fillRect(left, u.bbox.top, right - left, u.bbox.height);
    }
    context.restore();
  };
  for (const [label, rows] of [["Errors and missing answers", doc.errors], ["Network", doc.network]]) {
    box.append(el("h3", { text: label }));
    timeChart(box, `${label} over time`, () => ({ height: 180, bars: true, marks: shade, format: (v) => countText(v),
      series: (rows.length ? rows : [{ name: "none", counts: times.map(() => 0) }]).map((row, i) => ({ label: row.name, values: row.counts.map((n) => n || null), colour: row.others ? 8 : i, fill: `${colour(row.others ? 8 : i)}aa`, width: 1 })) }));
    if (rows.length) box.append(seriesList(rows, (row) => countText(row.count), (row) => row.conditions ? () => showCommand(rangeCommand("exchanges", row.conditions), row.name) : null));
  }
  for (const row of doc.network) {
    const all = doc.network_totals[row.name];
    if (all > row.count) box.append(note(`${row.name}: ${countText(all)} in all; ${countText(row.count)} are on the axis, as a connection reports only its first ones with a time.`));
  }
  if (rebalances.length) box.append(note(`Shaded: ${countOf(rebalances.length, "rebalance")}.`));
}

function lagSection() {
  if (!doc.lags.length) return;
  const box = section("lag", "Lag over time", note("Records between the end of the partitions and where each group reads (line) or has committed (dashes), as far as the traffic tells; the value at the end of each step."));
  timeChart(box, "Lag over time", () => ({ format: (v) => shorter(v), series: doc.lags.flatMap((row, i) => [
    { label: row.group, values: row.lag, colour: i, spanGaps: true },
    ...(row.commit_lag.some((v) => v !== null) ? [{ label: `${row.group}, committed`, values: row.commit_lag, colour: i, dash: [6, 4], spanGaps: true }] : [])]) }));
}
