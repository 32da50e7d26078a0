// Lives as bars on the time axis: members of groups with what they were assigned, and connections.
const x = (ms, width) => ((ms - range.from) / (range.to - range.from)) * width;
function timeTicks(width, height, left) {
  const span = range.to - range.from, many = Math.max(2, Math.floor(width / 130));
  return Array.from({ length: many }, (_, i) => {
    const ms = range.from + (span * i) / (many - 1);
    const at = left + (width * i) / (many - 1);
    return svg("g", { class: "tick" }, svg("line", { x1: at, x2: at, y1: 18, y2: height }),
      svg("text", { x: at, y: 12, "text-anchor": i === 0 ? "start" : i === many - 1 ? "end" : "middle" }, clock(ms, span)));
  });
}
// Rows of bars: rows are {name, bars: [{from, to, text, kind, act}]}; wheel with Ctrl and + zoom, dragging selects.
function barChart(host, label, rows, options = {}) {
  const draw = () => {
    const width = host.clientWidth || 640, narrow = width < 560, left = narrow ? 0 : Math.min(230, width * 0.3);
    const tall = narrow ? 32 : options.tall || 22, height = 24 + rows.length * tall, inner = width - left;
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    root.append(...timeTicks(inner, height, left));
    rows.forEach((row, i) => {
      const y = 24 + i * tall;
      const name = svg("text", { x: left ? left - 8 : 2, y: y + (left ? 14 : 10), "text-anchor": left ? "end" : "start", class: "name" }, cut(row.name, left ? left / 7 : inner / 7));
      name.append(svg("title", {}, row.title || row.name));
      root.append(name);
      for (const bar of row.bars) {
        const from = Math.max(0, x(bar.from, inner)), to = Math.min(inner, x(bar.to, inner));
        if (to < 0 || from > inner) continue;
        const wide = Math.max(to - from, 2), top = left ? y + 2 : y + 13;
        const body = svg("rect", { x: left + from, y: top, width: wide, height: left ? tall - 5 : 13, rx: 2, class: `bar ${bar.kind}`, "data-kind": bar.kind });
        if (bar.colour !== undefined) body.style.fill = colour(bar.colour);
        body.append(svg("title", {}, bar.text));
        if (bar.act) { body.addEventListener("click", bar.act); body.classList.add("acts"); }
        root.append(body);
        if (bar.label && wide > 40) root.append(svg("text", { x: left + from + 4, y: top + 12, class: "inside" }, cut(bar.label, wide / 6.6)));
      }
    });
    let start = null;
    const place = (event) => Math.max(0, Math.min(1, (event.clientX - root.getBoundingClientRect().left - left) / inner));
    root.addEventListener("pointerdown", (event) => { start = event.pointerType === "mouse" ? place(event) : null; });
    root.addEventListener("pointerup", (event) => {
      const end = place(event), span = range.to - range.from;
      if (start !== null && Math.abs(end - start) > 0.02) setRange(range.from + span * Math.min(start, end), range.from + span * Math.max(start, end));
      start = null;
    });
    root.addEventListener("dblclick", resetRange);
    root.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, range.from + (range.to - range.from) * place(event));
    }, { passive: false });
    host.replaceChildren(root);
  };
  host.classList.add("bars");
  host.tabIndex = 0;
  host.addEventListener("keydown", chartKeys);
  onRedraw(draw);
  return draw;
}
const cut = (text, most) => (text.length <= most ? text : `${text.slice(0, Math.max(1, Math.floor(most) - 1))}…`);

function groupsSection() {
  if (!doc.groups.length) return;
  const box = section("groups", "Groups: members and what they were assigned", note("A bar is a member with its partitions; a new shade is a new generation. Dashed: in the group and without partitions. Purple on the first line: the group rebalances."));
  if (doc.groups_left_out) box.append(note(`${countText(doc.groups_left_out)} later events of groups are not drawn.`));
  for (const group of doc.groups) {
    const rows = [];
    if (group.rebalances.length) rows.push({ name: "rebalances", bars: group.rebalances.map((one) => ({ from: Date.parse(one.started_ts), to: Date.parse(one.ended_ts), kind: "rebalance",
      text: `generation ${one.generation ?? "?"}: ${durationText(one.duration_ns)}${one.waited_for ? `, waited for ${one.waited_for}` : ""}` })) });
    for (const member of group.members) rows.push({ name: member.client_id || member.name, title: member.name, bars: member.spans.map(([from, to, generation, held]) => ({
      from, to: to ?? endMs, kind: held && held !== "nothing" ? "held" : "empty", colour: held && held !== "nothing" ? Math.max(0, generation ?? 0) : undefined, label: held,
      text: `${member.name}\n${held || "no partitions yet"}${generation === null ? "" : `\ngeneration ${generation}`}\n${isoTime(from)} to ${to === null ? "the end" : isoTime(to)}` })) });
    const host = el("div");
    box.append(el("h3", {}, el("bdi", { text: group.group }), el("small", { text: ` ${group.protocol}, ${countOf(group.members.length + group.members_left_out, "member")}, ${countOf(group.rebalance_count, "rebalance")}` })), host);
    if (group.members_left_out) box.append(note(`${countText(group.members_left_out)} more members are not drawn.`));
    barChart(host, `Members of ${group.group} over time`, rows);
  }
}

function connectionsSection() {
  const table = doc.tables.find((one) => one.section === "connections");
  if (!table) return;
  const at = Object.fromEntries(table.columns.map((name, i) => [name, i]));
  const all = table.rows.map((row, i) => ({ row, condition: table.conditions[i], get: (name) => row[at[name]] }));
  let text = "", page = 0;
  const most = 60, host = el("div"), told = note(""), pages = el("div", { class: "pages" });
  const box = section("connections", "Connections over time", note("A bar is a connection, from its first packet to its last. Red ends with a reset; grey was refused or had no answer. Click a bar for the command that shows its messages."));
  const kind = (c) => (c.get("outcome") === "refused" || c.get("outcome") === "no answer" ? "unmet" : c.get("close_reason") === "rst" ? "reset" : "open");
  const show = () => {
    const wanted = all.filter((c) => !text || [c.get("client"), c.get("server"), c.get("client_id"), c.get("protocol"), c.get("outcome"), c.get("close_reason"), `c${c.get("number")}`].some((v) => String(v ?? "").toLowerCase().includes(text)));
    page = Math.max(0, Math.min(page, Math.ceil(wanted.length / most) - 1));
    const part = wanted.slice(page * most, (page + 1) * most);
    told.textContent = `${countText(wanted.length)} of ${countText(doc.connections_seen)} connections${table.left_out ? `; those that said least are not on this page (${countText(table.left_out)})` : ""}${wanted.length > most ? `; ${page * most + 1} to ${page * most + part.length} are drawn` : ""}.`;
    pages.replaceChildren(...(wanted.length > most ? [["Earlier", -1], ["Later", 1]].map(([name, step]) => el("button", { type: "button", text: name, onclick: () => { page += step; show(); } })) : []));
    rows.length = 0;
    for (const c of part) {
      const from = Date.parse(c.get("first_ts")), size = (c.get("client_bytes") || 0) + (c.get("server_bytes") || 0);
      rows.push({ name: `c${c.get("number")} ${c.get("client_id") || c.get("client")} → ${c.get("server")}`, bars: [{ from, to: from + c.get("duration_ns") / 1e6, kind: kind(c), label: `${sizeText(size)} ${c.get("outcome") === "established" || c.get("outcome") === "mid-stream" ? "" : c.get("outcome")}`,
        text: `c${c.get("number")} ${c.get("protocol")} ${c.get("client")} → ${c.get("server")}\n${c.get("outcome")}, ${c.get("close_reason") || "no end seen"}\n${sizeText(size)} in ${durationText(c.get("duration_ns"))}`,
        act: () => showCommand(commandOf("messages", c.condition), `Messages of c${c.get("number")}`) }] });
    }
    draw();
  };
  const rows = [];
  box.append(el("label", { class: "filter" }, el("span", { text: "Filter " }), el("input", { type: "search", placeholder: "client, server, reset, c3 …", oninput: (event) => { text = event.target.value.toLowerCase(); page = 0; show(); } })), told, host, pages);
  const draw = barChart(host, "Connections over time", rows, { tall: 20 });
  show();
}
