"""The page in a real browser: Debian's Chromium, driven by Playwright, without a network.

Skipped where one of them is missing; with CI or TIEBREAK_NEEDS_CHROMIUM=1 in the environment, as
in .ci/run, that is a failure.
"""

from __future__ import annotations

import os
import shutil

import pytest
import shown

IS_NEEDED = bool(os.environ.get("CI")) or os.environ.get("TIEBREAK_NEEDS_CHROMIUM") == "1"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
KINDS = {make.__name__: make for make in (*shown.ALL, shown.long_run, shown.diverged)}


def absent(reason):
    """A skip with its reason; a failure where the browser must be there."""
    if IS_NEEDED:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent("needs playwright: pip install '.[test]'")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        absent("needs Chromium: apt-get install chromium")
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0  # whose Chromium has no sandbox
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"] if is_root else []
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def window(browser):
    """One window for all tests, which is quicker, and what it has asked for and complained of."""
    page = browser.new_page()
    page.requests, page.errors = [], []
    page.on("request", lambda request: page.requests.append(request.url))
    page.on("console", lambda message: page.errors.append(message.text))
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("dialog", lambda dialog: (page.errors.append(dialog.message), dialog.dismiss()))
    return page


def page_of(name, folder):
    path = folder / f"{name}.html"
    return path if path.exists() else KINDS[name]().to_html(path)


@pytest.fixture
def opened(window, folder):
    """Opens the page of a result; at the end there was no other request, no error, no dialog."""
    own = set()

    def show(name, width=1200, color_scheme="light"):
        window.set_viewport_size({"width": width, "height": 800})
        window.emulate_media(color_scheme=color_scheme)
        own.add(page_of(name, folder).as_uri())
        window.goto(page_of(name, folder).as_uri())
        return window

    window.requests.clear()
    window.errors.clear()
    yield show
    assert set(window.requests) == own
    assert window.errors == []


def numbers(page):
    """The cells of the readout by their columns, for each row."""
    return page.eval_on_selector_all(
        "#numbers tbody tr",
        "rows => rows.map(row => Object.fromEntries("
        "[...row.querySelectorAll('td')].map(cell => [cell.dataset.column, cell.textContent])))",
    )


def moved(page, to):
    page.eval_on_selector(
        "#at", "(node, to) => { node.value = to; node.dispatchEvent(new Event('input')); }", to
    )


def said(value):
    """A number as the page says it."""
    if value is None:
        return "∞"
    return f"{value:,}" if float(value).is_integer() else f"{value:.9g}"


# --- what it shows -------------------------------------------------------------------------------


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_loaded_nothing_fails_and_nothing_overflows_on_a_phone(opened, name):
    for width in (1200, 320):
        page = opened(name, width)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for box in page.eval_on_selector_all(
            "button, select, input, fieldset, figure > svg, summary, .card",
            "nodes => nodes.map(node => node.getBoundingClientRect()).map(b => [b.left, b.right])",
        ):
            assert box[0] >= 0
            assert box[1] <= width
        assert page.locator("pre#report").text_content() in page.locator("body").text_content()


def test_the_numbers_are_those_of_to_dict(opened):
    report, page = shown.run().to_dict(), opened("run")
    rows = "tables => tables.map(t => [...t.rows].map(r => [...r.cells].map(c => c.textContent)))"
    (_, *cells), (_, *entries) = page.eval_on_selector_all(".table table", rows)
    assert entries == [[f"x[{i}]", f"{x:.9g}"] for i, x in enumerate(shown.run().x)]
    for level, (name, _, value, gap, _, asked, low, high) in zip(
        ("upper", "lower"), cells, strict=True
    ):
        known = report[level]
        assert name.startswith(level)
        assert [value, low, high] == [f"{v:.9g}" for v in (known["value"], *known["optimum"])]
        assert [gap, asked] == [f"{known['gap']:.3g}", f"{known['tolerance']:.3g}"]
    assert page.locator("#report").text_content() == shown.run().details()
    trace = report["trace"]
    for at in (0, 1, len(trace) // 2, len(trace) - 1):
        moved(page, at)
        (told,) = numbers(page)
        for column in ("iteration", "seconds", "upper_value", "lower_value", "upper_gap"):
            assert told[column] == said(trace[at][column])


def test_hover_tells_the_step_below_the_pointer(opened):
    page = opened("run")
    picture = page.locator("figure[data-panel=upper-gap] > svg")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    seen = []
    for share in (0.2, 0.5, 0.95):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 50)
        (told,) = numbers(page)
        seen.append(int(told["iteration"].replace(",", "")))
        cursor = page.locator("figure[data-panel=lower-value] .cursor").bounding_box()
        assert cursor["x"] > box["x"]
    assert seen == sorted(set(seen))


def test_a_race_tells_what_each_method_has_at_the_same_cost(opened):
    race, page = shown.race(), opened("race")
    for share in (60, 200):
        moved(page, share)
        told = numbers(page)
        assert len(told) == len(race.methods)
        for method, cells in zip(race.methods, told, strict=True):
            rows = [row for row in race.rows if row.method == method]
            (row,) = [row for row in rows if f"{row.iteration:,}" == cells["iteration"]]
            assert cells["upper_error"] == said(row.upper_error)
            assert cells["gradients"] == said(row.gradients)
            if share == 200:
                assert row == rows[-1]


def test_a_script_in_a_name_is_shown_as_text(opened):
    for name in ("levels", "race"):
        page = opened(name)
        assert shown.SCRIPT in page.locator("body").inner_text()
        assert page.locator("script").count() == 2


def test_a_long_trace_is_small_and_says_that_it_is_thinned(opened, folder):
    opened("long_run")
    assert (folder / "long_run.html").stat().st_size < 2_000_000
    page = opened("long_run")
    page.locator("figure path.curve").first.wait_for(state="attached")
    assert page.locator("#thinned").inner_text().startswith("Thinned: ")
    moved(page, 0)
    assert numbers(page)[0]["upper_gap"] == "∞"
    assert page.locator("figure[data-panel=upper-gap] .cross").count() > 0


def test_without_script_the_report_is_there(browser, folder):
    page = browser.new_page(java_script_enabled=False)
    page.goto(page_of("run", folder).as_uri())
    assert page.locator("noscript").first.inner_text().startswith("The curves need JavaScript")
    assert page.locator("#report").inner_text().startswith("tiebreak: ")
    page.close()


# --- controls ------------------------------------------------------------------------------------

STATE = "document.querySelector('main').innerHTML + document.documentElement.dataset.theme"


@pytest.mark.parametrize("name", ["run", "race", "curve"])
def test_every_control_changes_the_page(opened, name):
    page = opened(name)
    used = 0
    for control in page.locator("button, select, input, summary").all():
        before = page.evaluate(STATE)
        kind = control.evaluate("node => node.type || node.localName")
        if kind == "select-one":
            for value in control.evaluate("node => [...node.options].slice(1).map(o => o.value)"):
                control.select_option(value)
                assert page.evaluate(STATE) != before
                before = page.evaluate(STATE)
        elif kind == "range":
            control.focus()
            page.keyboard.press("Home")
        elif kind == "radio" and control.is_checked():
            continue  # the other one of the pair is tried
        else:
            control.click()
        assert page.evaluate(STATE) != before or kind == "select-one"
        if kind == "checkbox":
            control.click()  # without any method there is nothing to read off
        used += 1
    assert used >= {"run": 9, "race": 9, "curve": 5}[name]


OUTLINE = """(() => {
  const node = document.activeElement;
  return getComputedStyle(node.type === "radio" ? node.nextElementSibling : node).outlineStyle;
})()"""


def test_it_is_usable_by_keyboard_alone(opened):
    page = opened("run")
    reached = []
    for _ in range(20):
        page.keyboard.press("Tab")
        focused = "document.activeElement"
        if page.evaluate(f"{focused} === document.body"):
            break
        reached.append(page.evaluate(f"{focused}.id || {focused}.name || {focused}.localName"))
        outline = page.evaluate(OUTLINE)
        assert outline != "none", reached[-1]
    assert reached[:3] == ["theme", "axis", "scale-x"]
    scales = [f"scale-{key}" for key in ("upper-value", "lower-value", "upper-gap", "lower-gap")]
    assert [name for name in reached if name.startswith("scale-")][1:] == scales
    assert "at" in reached
    assert "summary" in reached
    page.locator("#at").focus()
    page.keyboard.press("Home")
    assert numbers(page)[0]["iteration"] == "0"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert numbers(page)[0]["iteration"] == said(shown.run().trace[2].iteration)
    assert page.locator("#at").get_attribute("aria-valuetext").startswith("steps: ")
    page.locator("#theme").focus()
    page.keyboard.press("Enter")
    assert page.locator("html").get_attribute("data-theme") == "light"


def test_a_method_can_be_left_out(opened):
    page = opened("race")
    lines = page.locator("figure[data-panel=upper] path.curve")
    before = lines.count()
    page.get_by_label("agm-bio").uncheck()
    assert lines.count() < before
    assert "agm-bio" not in page.locator("#numbers").inner_text()


# --- accessible ----------------------------------------------------------------------------------

NAMELESS = """() => [...document.querySelectorAll("button, select, input, figure > svg, table")]
  .filter(node => ![node.textContent.trim() && node.localName === "button",
                    [...(node.labels || [])].some(label => label.textContent.trim()),
                    node.getAttribute("aria-label"),
                    node.caption && node.caption.textContent].some(Boolean))
  .map(node => node.outerHTML.slice(0, 80))"""

# Contrast by the formula of WCAG 2, of every text with the first opaque background behind it.
FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => rgb(color).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (rgb(color)[3] === 255) return color;
    }
    return "white";
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || node.closest("script, style, title, noscript")) continue;
    const style = getComputedStyle(node);
    const front = node instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(front), light(behind(node))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), walker.currentNode.data.slice(0, 40)]);
  }
  return found;
}"""


@pytest.mark.parametrize("name", ["run", "direct", "levels", "race", "curve"])
def test_everything_has_a_name_and_every_text_its_contrast(opened, name):
    backgrounds = set()
    for scheme in ("light", "dark"):
        page = opened(name, color_scheme=scheme)
        assert page.evaluate(NAMELESS) == []
        found = page.evaluate(FAINT)
        assert len(found) > 20
        assert min(found)[0] >= 4.5, min(found)
        backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(backgrounds) == 2
    for theme in ("light", "dark"):  # by the switch, against the system's choice
        page.locator("#theme").click()
        assert page.locator("#theme").inner_text() == f"theme: {theme}"
        assert min(page.evaluate(FAINT))[0] >= 4.5
    assert page.locator("html").get_attribute("lang") == "en"


@pytest.mark.sample(2)
@pytest.mark.parametrize("colors", [("white", "#222"), ("#111", "#ddd")])
def test_the_output_of_a_notebook_is_readable_on_light_and_dark(browser, colors):
    page = browser.new_page()
    for make in shown.ALL:
        body = f'<body style="background:{colors[0]};color:{colors[1]}">{make()._repr_html_()}'
        page.set_content(body)
        assert min(page.evaluate(FAINT))[0] >= 4.5
        for picture in page.locator("img").all():
            assert picture.bounding_box()["width"] >= 300
    page.close()
