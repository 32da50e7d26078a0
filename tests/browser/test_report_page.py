"""The page of ``mqsniff report`` in a real browser: Debian's Chromium, driven by Playwright.

Without one of both the tests are skipped with the reason; where CI is set, they fail.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import shutil
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqsniff.answers.report import html_of
from mqsniff.answers.report.rowsbehind import RowsBehind, command_for
from mqsniff.cli import main

PCAPS = Path(__file__).parents[2] / "pcaps"
KAFKA = PCAPS / "kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng"
PULSAR = PCAPS / "pulsar/pulsar-4.2.4-py-nack-dlq-a.pcap"
NSQ = PCAPS / "nsq/nsq-1.3.0-raw-lifecycle.pcap"
DATA = re.compile(r'<script type="application/json" id="document">(.*?)</script>', re.DOTALL)
HOSTILE = [
    "<script>document.title='owned'</script>",
    "</script><img src=x onerror=\"document.title='owned'\">",
    "\"'`${document.title='owned'}",
    "\u202e\u0645\u0648\u0636\u0648\u0639 evil",
    "line\nbreak\x1b[31m",
    "x" * 10_000,
]


@pytest.fixture(scope="session")
def chromium():
    """A browser."""
    missing = None
    path = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing = "no Playwright (pip install 'mqsniff[dev]')"
    if path is None:
        missing = "no chromium (apt-get install chromium)"
    if missing is not None:
        if os.environ.get("CI"):
            pytest.fail(f"the page was not tested in a browser: {missing}")
        pytest.skip(f"the page is not tested in a browser: {missing}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


def report_of(folder, capture, *options):
    path = folder / f"{capture.name}.{len(options)}.html"
    if not path.exists():
        done = CliRunner().invoke(main, ["report", str(capture), "--out", str(path), *options])
        assert done.exit_code == 0, done.output
    return path


@pytest.fixture
def open_page(chromium):
    """Opens a page; at the end it must have said nothing, failed nowhere and asked for nothing but itself."""
    contexts, told, asked = [], [], []

    def open_(path, **options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: told.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_
    assert told == []
    assert len(asked) == len(contexts)
    assert all(url.startswith("file:") for url in asked)
    for context in contexts:
        context.close()


PIXELS = """canvas => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {willReadFrequently: true});
  copy.drawImage(canvas, 0, 0);
  const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Map();
  let drawn = 0, vivid = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] < 40) continue;
    const rgb = [data[i], data[i + 1], data[i + 2]];
    drawn++;
    colours.set(rgb.join(), true);
    if (Math.max(...rgb) - Math.min(...rgb) > 60) vivid++;
  }
  return {drawn, vivid, colours: colours.size};
}"""


@pytest.mark.parametrize("capture", [KAFKA, PULSAR, NSQ], ids=lambda path: path.name)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_drawn(open_page, folder, capture, scheme):
    page = open_page(report_of(folder, capture), color_scheme=scheme)
    charts = page.locator("canvas")
    assert charts.count() >= 2
    for index in range(charts.count()):
        seen = charts.nth(index).evaluate(PIXELS)
        assert seen["drawn"] > 300
        assert seen["colours"] > 2
    assert any(charts.nth(index).evaluate(PIXELS)["vivid"] for index in range(charts.count()))
    assert page.locator("#graph .node").count() >= 2
    assert page.locator("#connections .bar").count() >= 1
    assert page.locator("#latency .distribution rect").count() >= 1
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (back == "rgb(255, 255, 255)") == (scheme == "light")


def test_tables_filter_and_sort(open_page, folder):
    page = open_page(report_of(folder, KAFKA))
    rows = page.locator("#table-commands tbody tr")
    before = rows.count()
    page.get_by_label("Filter Commands").fill("fetch")
    assert 0 < rows.count() < before
    assert all("fetch" in text.lower() for text in rows.all_inner_texts())
    page.get_by_label("Filter Commands").fill("")
    head = page.locator("#table-commands th", has_text="count").locator("button")
    head.click()
    column = page.locator("#table-commands tbody td:nth-child(3)")
    numbers = [int(text.replace(",", "")) for text in column.all_inner_texts()]
    assert numbers == sorted(numbers, reverse=True)
    head.click()
    numbers = [int(text.replace(",", "")) for text in column.all_inner_texts()]
    assert numbers == sorted(numbers)
    connections = page.locator("#connections .filter input")
    connections.fill("no such client")
    assert page.locator("#connections .bar").count() == 0


def test_a_number_gives_a_command_that_lists_as_many_rows(open_page, folder):
    page = open_page(report_of(folder, PULSAR, "--protocol", "pulsar"))
    document = json.loads(page.locator("#document").text_content())
    asked = 0
    for table in document["tables"]:
        if table["section"] not in {"commands", "topics", "groups", "protocols", "network"}:
            continue
        buttons = page.locator(f"#table-{table['section']} tbody tr:first-child .number")
        for index in range(buttons.count()):
            button = buttons.nth(index)
            number = int(button.inner_text().replace(",", ""))
            button.evaluate("button => button.click()")
            words = shlex.split(page.locator("#command code").inner_text())
            assert words[:2] == ["mqsniff", "decode"]
            assert words[2:5] == [str(PULSAR), "--protocol", "pulsar"]
            done = CliRunner().invoke(main, words[1:])
            assert done.exit_code == 0, done.output
            assert len(done.stdout.splitlines()) == number, words
            asked += 1
    assert asked > 5


def test_the_page_makes_the_commands_that_python_makes(open_page, folder):
    page = open_page(report_of(folder, KAFKA, "--where", "size > 1 or size < 9"))
    document = json.loads(page.locator("#document").text_content())
    run = document["run"]
    for table in document["tables"]:
        for condition in filter(None, table["conditions"][:3]):
            for behind in table["behind"].values():
                said = page.evaluate("([t, ...c]) => commandOf(t, ...c)", [behind[0], condition, behind[1]])
                told = command_for(run["prefix"], RowsBehind(*behind), condition, run["where"])
                assert shlex.split(said) == shlex.split(told)


def test_hostile_names_stay_text(open_page, folder):
    source = report_of(folder, KAFKA).read_text()
    document = json.loads(DATA.search(source)[1])
    changed = copy.deepcopy(document)
    changed["files"] = [HOSTILE[0]]
    topics = next(table for table in changed["tables"] if table["section"] == "topics")
    place = topics["columns"].index("topic")
    row = topics["rows"][0]
    topics["rows"] = [[name if at == place else cell for at, cell in enumerate(row)] for name in HOSTILE]
    topics["conditions"] = [f"topic = '{name}'" for name in HOSTILE]
    for number, name in enumerate(HOSTILE):
        for series in (*changed["series"].values(), changed["errors"]):
            flat = {"counts": [number] * changed["grid"]["count"], "bytes": [9] * changed["grid"]["count"]}
            series.append({"name": name, "count": 1, "size": 1, **flat})
        changed["graph"]["topics"].append({"name": name, "stands_for": [name], "messages": 1, "bytes": 1, "count": 1})
        changed["graph"]["links"].append([0, 0, len(changed["graph"]["topics"]) - 1, 1, 1])
        changed["sentences"].append(name)
        changed["run"]["head"].append(["errors", name])
    path = folder / "hostile.html"
    path.write_text(html_of(changed))
    page = open_page(path)
    assert "owned" not in page.evaluate("document.title").replace(HOSTILE[0], "")
    assert page.locator("img, iframe, object, main script").count() == 0
    assert page.locator("h1").inner_text() == HOSTILE[0].rpartition("/")[2]
    texts = page.locator(f"#table-topics tbody td:nth-child({place + 1})").evaluate_all(
        "cells => cells.map(c => c.textContent)"
    )
    assert texts == HOSTILE
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#table-topics tbody .number").first.evaluate("button => button.click()")
    assert "<script>" in page.locator("#command code").inner_text()
    for kind in ("topic", "client"):
        page.locator(f"#traffic input[value={kind}]").check()


def test_nothing_else_runs_and_nothing_leaves_the_page(chromium, folder):
    # A test of its own: what breaks the policy is told on the console.
    page = chromium.new_page()
    page.goto(report_of(folder, NSQ).as_uri())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tried = page.evaluate(
            """async (port) => {
      const url = `http://127.0.0.1:${port}/`, main = document.body;
      const script = document.createElement("script"); script.textContent = "window.ran = 1"; main.append(script);
      const image = new Image(); image.src = `${url}x.png`; main.append(image);
      let sent = "sent"; try { await fetch(url); } catch { sent = "blocked"; }
      const node = document.createElement("p"); main.append(node);
      node.innerHTML = "<b onclick='window.ran = 2' style='position:fixed'>x</b>"; node.firstChild.click();
      return [window.ran === undefined, sent, getComputedStyle(node.firstChild).position];
    }""",
            listener.getsockname()[1],
        )
        listener.settimeout(0.3)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert tried == [True, "blocked", "static"]
    page.close()


def test_everything_is_reached_by_keyboard(open_page, folder):
    page = open_page(report_of(folder, KAFKA))
    chart = page.locator("#traffic .chart")
    chart.focus()
    page.keyboard.press("+")
    assert page.locator("#range").is_visible()
    first = page.locator("#range span").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator("#range span").inner_text() != first
    page.keyboard.press("0")
    assert page.locator("#range").is_hidden()
    cell = page.locator("#table-commands tbody td[tabindex='0']")
    cell.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#command").is_visible()
    assert "--table messages" in page.locator("#command code").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#command").is_hidden()
    page.locator("#graph .node").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#graph .node[aria-pressed=true]").count() == 1
    assert "messages" in page.locator("#graph .about").inner_text()
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    tabs = 0
    page.evaluate("document.activeElement.blur()")
    while tabs < 400 and not page.evaluate(
        "document.activeElement.closest && !!document.activeElement.closest('#table-connections td')"
    ):
        page.keyboard.press("Tab")
        tabs += 1
    assert tabs < 400


def test_dragging_over_a_chart_zooms_all_of_them(open_page, folder):
    page = open_page(report_of(folder, KAFKA))
    over = page.locator("#traffic .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60, steps=4)
    page.mouse.up()
    page.wait_for_selector("#range:not([hidden])")
    page.get_by_role("button", name="Its messages").click()
    assert " and ts < " in page.locator("#command code").inner_text()


def test_a_phone_needs_no_sideways_scrolling_and_a_printer_gets_light_pages(open_page, folder):
    page = open_page(report_of(folder, KAFKA), viewport={"width": 390, "height": 844}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    pdf = page.pdf(format="A4", print_background=True)
    assert pdf.startswith(b"%PDF")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_an_empty_capture_says_so(open_page, tmp_path):
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    page = open_page(report_of(tmp_path, empty))
    assert "no packets" in page.locator("main").inner_text()
