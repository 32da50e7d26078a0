// Tables that sort and filter; a number that has rows behind it is a button for their command.
const labelOf = (name) => name.replace(/_ns$/, "").replace(/_bytes$/, " bytes").replaceAll("_", " ");
function cellText(value, kind) {
  if (value === null || value === undefined || value === "") return "";
  switch (kind.replace("!", "")) {
    case "n": return value === 0 ? "0" : countText(value);
    case "b": return sizeText(value);
    case "t": return durationText(value);
    case "p": return value === 0 ? "0 %" : value < 0.01 ? "<1 %" : `${Math.round(value * 100)} %`;
    case "ts": return String(value).slice(0, 23).replace("T", " ");
    default: return String(value);
  }
}
const isNumber = (kind) => /^[nbtp](!|$)/.test(kind) && kind !== "ts";
function tableView(table) {
  const state = { by: -1, down: true, text: "", most: 25 };
  const body = el("tbody"), told = el("p", { class: "note", role: "status" }), more = el("div", { class: "pages" });
  const texts = table.rows.map((row) => row.map((value, i) => cellText(value, table.kinds[i])).join("\t").toLowerCase());
  const heads = table.columns.map((name, i) => el("th", { scope: "col", "aria-sort": "none", class: isNumber(table.kinds[i]) ? "right" : null },
    el("button", { type: "button", text: labelOf(name), onclick: () => { state.down = state.by === i ? !state.down : isNumber(table.kinds[i]); state.by = i; show(); } })));
  function order() {
    const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = table.rows.map((_, i) => i).filter((i) => words.every((word) => texts[i].includes(word)));
    if (state.by >= 0) {
      const sign = state.down ? -1 : 1;
      found.sort((a, b) => {
        const [one, two] = [table.rows[a][state.by], table.rows[b][state.by]];
        if (one === null || two === null) return (one === null) - (two === null);
        return sign * (typeof one === "number" && typeof two === "number" ? one - two : String(one).localeCompare(String(two)));
      });
    }
    return found;
  }
  function cell(row, i, place) {
    const kind = table.kinds[i], name = table.columns[i], value = row[i], text = cellText(value, kind);
    const bad = kind.endsWith("!") && value > 0 ? " bad" : "", node = el("td", { class: (isNumber(kind) ? "right" : "") + bad + (value === 0 ? " zero" : ""), tabindex: -1 });
    const behind = table.behind[name], condition = table.conditions[place];
    if (behind && condition && value) {
      node.append(el("button", { type: "button", class: "number", tabindex: -1, text, onclick: () => showCommand(commandOf(behind[0], condition, behind[1]), `${table.title}: ${labelOf(name)} ${text}`) }));
    } else if (name === "trust" ) node.append(el("span", { class: `verdict ${value}`, text }));
    else node.append(el("bdi", { text, title: text.length > 24 ? text : null }));
    return node;
  }
  function show() {
    const found = order();
    body.replaceChildren(...found.slice(0, state.most).map((place) => el("tr", {}, table.rows[place].map((_, i) => cell(table.rows[place], i, place)))));
    const first = body.querySelector("td");
    if (first) first.tabIndex = 0;
    heads.forEach((head, i) => head.setAttribute("aria-sort", state.by !== i ? "none" : state.down ? "descending" : "ascending"));
    const left = table.left_out ? `; ${countText(table.left_out)} more are not on this page (mqsniff stats --json has all)` : "";
    told.textContent = `${countText(found.length)} of ${countText(table.rows.length)} rows${left}`;
    more.replaceChildren(...(found.length > state.most ? [el("button", { type: "button", text: `Show ${countText(Math.min(found.length - state.most, 200))} more`, onclick: () => { state.most += 200; show(); } })] : []));
  }
  // One stop of the Tab key for a table: arrows go from cell to cell, Enter shows the command.
  function keys(event) {
    const at = event.target.closest("td");
    if (!at) return;
    if (event.key === "Enter" && event.target === at) { const button = at.querySelector("button"); if (button) { event.preventDefault(); button.click(); } return; }
    const row = at.parentNode, column = [...row.children].indexOf(at);
    const to = { ArrowLeft: at.previousSibling, ArrowRight: at.nextSibling, ArrowUp: row.previousSibling?.children[column], ArrowDown: row.nextSibling?.children[column], Home: row.firstChild, End: row.lastChild }[event.key];
    if (!to) return;
    event.preventDefault();
    for (const one of body.querySelectorAll("td[tabindex='0']")) one.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }
  body.addEventListener("keydown", keys);
  const wide = table.columns.length > 6 ? "wide" : null;
  const box = el("details", { class: "table", open: true, id: `table-${table.section}` }, el("summary", {}, el("h3", { text: table.title })),
    table.note ? note(table.note) : null,
    el("label", { class: "filter" }, el("span", { text: "Filter " }), el("input", { type: "search", "aria-label": `Filter ${table.title}`, oninput: (event) => { state.text = event.target.value; show(); } })),
    told, el("div", { class: "scroll", tabindex: -1 }, el("table", { class: wide }, el("thead", {}, el("tr", {}, heads)), body)), more);
  show();
  return box;
}
function tablesSection() {
  if (!doc.tables.length) return;
  section("tables", "Tables", note("All of the capture, whatever the charts are zoomed to. A heading sorts, words filter; an underlined number shows the command that lists its rows."), ...doc.tables.map(tableView));
}
