// Who talks to whom: clients, brokers, topics as three columns; a link is as wide as the logarithm of its bytes.
function graphSection() {
  const { clients, brokers, topics, links } = doc.graph;
  if (!links.length) return;
  const box = section("graph", "Who talks to whom", note("Clients, brokers, and the topics that their messages name. Choose one to see what belongs to it; a name with × stands for several that differ in numbers only."));
  const host = el("div", { class: "graph" }), about = el("div", { class: "about", role: "status" });
  box.append(host, about);
  const columns = [clients, brokers, topics];
  let pick = null;
  const touches = (link) => pick === null || link[pick[0]] === pick[1];
  function explain() {
    if (!pick) { about.textContent = ""; return; }
    const node = columns[pick[0]][pick[1]], mine = links.filter(touches);
    const reached = [0, 1, 2].filter((c) => c !== pick[0]).map((c) => `${new Set(mine.map((l) => l[c]).filter((n) => n >= 0)).size} ${["clients", "brokers", "topics"][c]}`);
    const condition = node.count > 1 || !isPlain(node.name) ? null : [/^[\d.]+$|:/.test(node.name) ? `starts_with(client, ${sqlText(node.name)})` : `client_id = ${sqlText(node.name)}`, `server = ${sqlText(node.name)}`, `list_contains(topics, ${sqlText(node.name)})`][pick[0]];
    about.replaceChildren(el("strong", {}, el("bdi", { text: node.name })), ` ${node.software || ""} ${countText(node.messages)} messages, ${sizeText(node.bytes)}, with ${reached.join(" and ")}. `,
      ...(condition ? [el("button", { type: "button", class: "number", text: "Its messages", onclick: () => showCommand(rangeCommand("messages", condition), node.name) })] : []),
      ...(node.count > 1 ? [el("span", { text: ` Stands for ${countText(node.count)}: ` }), el("bdi", { text: node.stands_for.join(", ") + (node.count > node.stands_for.length ? ", …" : "") })] : []));
  }
  const draw = () => {
    const width = Math.max(host.clientWidth || 640, 300), narrow = width < 560;
    const gap = narrow ? 34 : 30, height = 34 + Math.max(...columns.map((c) => c.length)) * gap;
    const box3 = narrow ? width * 0.29 : Math.min(230, width * 0.26), lefts = [0, (width - box3) / 2, width - box3];
    const y = (column, i) => 30 + ((i + 0.5) * (height - 34)) / columns[column].length;
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Clients, brokers and topics" });
    const most = Math.log2(2 + Math.max(...links.map((l) => l[4])));
    const sums = new Map();
    for (const link of links) for (const [c, from, to] of [[0, link[0], link[1]], [1, link[1], link[2]]]) {
      if (to < 0 || from < 0) continue;
      const key = `${c} ${from} ${to}`, sum = sums.get(key) || { c, from, to, bytes: 0, messages: 0, on: false };
      sum.messages += link[3]; sum.bytes += link[4]; sum.on = sum.on || (pick !== null && touches(link));
      sums.set(key, sum);
    }
    for (const one of [...sums.values()].sort((a, b) => a.on - b.on)) {
      const [x1, x2] = [lefts[one.c] + box3, lefts[one.c + 1]], [y1, y2] = [y(one.c, one.from), y(one.c + 1, one.to)], middle = (x1 + x2) / 2;
      const path = svg("path", { d: `M${x1},${y1}C${middle},${y1} ${middle},${y2} ${x2},${y2}`, "stroke-width": Math.max(1, (8 * Math.log2(2 + one.bytes)) / most - 2), class: pick === null ? "link" : one.on ? "link on" : "link off" });
      path.append(svg("title", {}, `${columns[one.c][one.from].name} – ${columns[one.c + 1][one.to].name}: ${countText(one.messages)} messages, ${sizeText(one.bytes)}`));
      root.append(path);
    }
    columns.forEach((nodes, c) => {
      root.append(svg("text", { x: lefts[c] + box3 / 2, y: 16, "text-anchor": "middle", class: "column" }, `${["Clients", "Brokers", "Topics"][c]} (${countText(nodes.reduce((n, node) => n + node.count, 0))})`));
      nodes.forEach((node, i) => {
        const on = pick === null || links.some((l) => touches(l) && l[c] === i);
        const act = (event) => { event.preventDefault(); pick = pick && pick[0] === c && pick[1] === i ? null : [c, i]; explain(); draw(); const again = host.querySelector(`[data-node="${c} ${i}"]`); if (again) again.focus(); };
        const group = svg("g", { class: `node${on ? "" : " off"}`, tabindex: c + i === 0 ? 0 : -1, role: "button", "aria-pressed": String(Boolean(pick && pick[0] === c && pick[1] === i)), "aria-label": `${node.name}, ${countText(node.messages)} messages`, "data-node": `${c} ${i}`, onclick: act,
          onkeydown: (event) => {
            if (event.key === "Enter" || event.key === " ") return act(event);
            const to = { ArrowUp: [c, i - 1], ArrowDown: [c, i + 1], ArrowLeft: [c - 1, 0], ArrowRight: [c + 1, 0] }[event.key];
            const next = to && host.querySelector(`[data-node="${to[0]} ${to[1]}"]`);
            if (next) { event.preventDefault(); next.focus(); }
          } },
          svg("rect", { x: lefts[c], y: y(c, i) - 12, width: box3, height: 24, rx: 4 }),
          svg("text", { x: lefts[c] + 7, y: y(c, i) + 4 }, cut(node.name, box3 / (narrow ? 6.6 : 6.8) - 1)), svg("title", {}, `${node.name}\n${countText(node.messages)} messages, ${sizeText(node.bytes)}`));
        root.append(group);
      });
    });
    host.replaceChildren(root);
  };
  onRedraw(draw);
}
