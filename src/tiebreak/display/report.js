"use strict";
// The curves of a page, drawn from the JSON that it holds. Text goes in as text, never as markup.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const MARGIN = { left: 64, right: 14, top: 12, bottom: 38 };
  // Six colours, five kinds of line and five marks: 150 methods before two look alike.
  const DASHES = ["", "9 4", "2 4", "10 3 2 3", "5 2"];
  const MARKS = ["circle", "square", "triangle", "diamond", "cross"];
  const DEPTH = 1e-17; // errors below this part of the largest are rounding
  const HUGE = 1e300; // beyond it sums leave the numbers, and ticks would have no end
  const FEW = 12; // points: each is drawn
  const PLACES = 200; // of the slider where several methods share it

  const read = (id) => document.getElementById(id);
  const data = JSON.parse(read("data").textContent);
  const numeric = (v) => (v === null ? NaN : Number(v));
  const groups = data.groups.map((group, index) => ({
    name: group.name,
    index,
    columns: Object.fromEntries(
      Object.entries(group.columns).map(([name, column]) => [name, column.map(numeric)]),
    ),
  }));
  const isRace = groups.length > 1;

  // -- theme --------------------------------------------------------------------------------------

  const THEMES = ["automatic", "light", "dark"];
  let theme = 0;
  read("theme").addEventListener("click", () => {
    theme = (theme + 1) % THEMES.length;
    read("theme").textContent = `theme: ${THEMES[theme]}`;
    if (theme) document.documentElement.dataset.theme = THEMES[theme];
    else delete document.documentElement.dataset.theme;
  });
  if (!groups.length) return;

  // -- numbers ------------------------------------------------------------------------------------

  // As Python's format(value, f".{digits}g"), so that the page says what the report says.
  function general(value, digits) {
    if (Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    if (value === 0) return "0";
    const [mantissa, power] = value.toExponential(digits - 1).split("e");
    const exponent = Number(power);
    const trim = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
    if (exponent < -4 || exponent >= digits) {
      const size = String(Math.abs(exponent)).padStart(2, "0");
      return `${trim(mantissa)}e${exponent < 0 ? "-" : "+"}${size}`;
    }
    return trim(value.toFixed(Math.max(digits - 1 - exponent, 0)));
  }
  const hasPlace = (v) => Math.abs(v) < HUGE;
  const whole = (value) => Number.isInteger(value) && Math.abs(value) < 2 ** 53;
  const said = (value) => (whole(value) ? value.toLocaleString("en") : general(value, 9));

  // -- scales -------------------------------------------------------------------------------------

  function niceStep(span, count) {
    const raw = span / count;
    const unit = 10 ** Math.floor(Math.log10(raw));
    return unit * [1, 2, 5, 10].find((factor) => factor * unit >= raw * 0.999);
  }

  // A multiple of a step, with the digits that it needs.
  function rounded(value, step) {
    if (Math.abs(value) < 1e-9 * step) return "0";
    if (step >= 1e-4 && Math.abs(value) < 1e7) {
      const places = Math.max(-Math.floor(Math.log10(step) + 1e-9), 0);
      const digits = { minimumFractionDigits: places, maximumFractionDigits: places };
      return value.toLocaleString("en", digits);
    }
    return general(value, Math.min(Math.max(Math.ceil(Math.log10(Math.abs(value) / step)) + 1, 2), 15));
  }

  const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  function power(value) {
    const exponent = Math.round(Math.log10(value));
    const isPower = Math.abs(value / 10 ** exponent - 1) < 1e-9;
    if (Math.abs(exponent) <= 3 || !isPower) return amount(value);
    return `10${[...String(exponent)].map((digit) => RAISED[digit]).join("")}`;
  }
  const amount = (value) => (whole(value) ? value.toLocaleString("en") : general(value, 3));

  function linear(low, high) {
    if (!(high > low)) {
      const pad = Math.abs(low) * 0.1 || 1;
      [low, high] = [low - pad, high + pad];
    }
    const step = niceStep(high - low, 5);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(i * step);
    const at = (v) => (v - low) / (high - low);
    return { at, ticks: ticks.map((v) => [v, rounded(v, step)]) };
  }

  function logarithmic(low, high) {
    let [first, last] = [Math.log10(low), Math.log10(high)];
    if (last - first < 0.2) [first, last] = [first - 0.5, last + 0.5];
    const every = Math.max(1, Math.ceil((last - first) / 6));
    const ticks = [];
    for (let k = Math.ceil(first / every) * every; k <= last + 1e-9; k += every) ticks.push(10 ** k);
    if (ticks.length < 2) {
      for (const factor of [2, 5]) {
        for (let k = Math.floor(first); k <= last; k++) {
          const v = factor * 10 ** k;
          if (v >= 10 ** first && v <= 10 ** last) ticks.push(v);
        }
      }
    }
    const at = (v) => (Math.log10(v) - first) / (last - first);
    return { at, ticks: ticks.map((v) => [v, power(v)]) };
  }

  // The horizontal axis begins at 0, on a logarithmic scale too: log(1 + v / first).
  function horizontal(values, isLog) {
    const finite = values.filter(Number.isFinite);
    const last = Math.max(...finite, 0) || 1;
    if (!isLog) return linear(0, last);
    const unit = finite.reduce((least, v) => (v > 0 && v < least ? v : least), last);
    const full = Math.log1p(last / unit);
    const at = (v) => Math.log1p(v / unit) / full;
    const from = Math.ceil(Math.log10(unit) - 1e-9);
    const to = Math.floor(Math.log10(last) + 1e-9);
    const every = Math.max(1, Math.ceil((to - from + 1) / 5));
    const ticks = [[0, "0"]];
    for (let k = from; k <= to; k += every) if (at(10 ** k) > 0.07) ticks.push([10 ** k, power(10 ** k)]);
    if (ticks.length < 3) ticks.push([last, amount(last)]);
    return { at, ticks };
  }

  // -- what is chosen -----------------------------------------------------------------------------

  const state = { axis: data.axes[0][0], isLogX: false, isLog: {}, hidden: new Set(), at: 0 };
  for (const panel of data.panels) state.isLog[panel.key] = panel.is_log;
  const visible = () => groups.filter((group) => !state.hidden.has(group.index));
  const column = (group, name) => group.columns[name];

  // -- drawing ------------------------------------------------------------------------------------

  function put(parent, name, attributes, text) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.appendChild(node);
    return node;
  }

  const MARK_PATHS = {
    circle: "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0",
    square: "M-3.6,-3.6h7.2v7.2h-7.2z",
    triangle: "M0,-4.6L4.4,3.4H-4.4z",
    diamond: "M0,-5L5,0L0,5L-5,0z",
    cross: "M-3.6,-3.6L3.6,3.6M-3.6,3.6L3.6,-3.6",
  };
  const mark = (parent, kind, x, y, classes) =>
    put(parent, "path", { d: MARK_PATHS[kind], transform: `translate(${x},${y})`, class: classes });

  function style(index) {
    // After thirty methods, colours and lines begin again, with other marks.
    const mark = MARKS[(index + Math.floor(index / 30)) % MARKS.length];
    return { color: `c${index % 6}`, dash: DASHES[index % DASHES.length], mark };
  }

  // The least and the largest that a panel shows. Bounds far below the values would flatten them.
  function range(panel, isLog) {
    let [low, high] = [Infinity, -Infinity];
    const take = (v) => {
      low = Math.min(low, v);
      high = Math.max(high, v);
    };
    const size = (v) => (isLog && panel.has_signs ? Math.abs(v) : v);
    const usable = (v) => hasPlace(v) && (!isLog || v > 0);
    for (const group of visible()) {
      for (const curve of panel.curves) {
        if (!curve.is_dashed) column(group, curve.column).map(size).filter(usable).forEach(take);
      }
    }
    if (panel.asked !== null && usable(panel.asked)) take(panel.asked);
    const span = isLog ? high * 1e-3 : high - low;
    for (const group of visible()) {
      for (const name of panel.band || []) {
        const near = (v) => usable(v) && v >= low - span && v <= high + span;
        column(group, name).filter(near).forEach(take);
      }
    }
    if (!(high >= low)) return null;
    if (isLog) return [Math.max(low, high * DEPTH) / 1.6, high * 1.6];
    const pad = Math.max((high - low) * 0.06, Math.abs(high) * 1e-9);
    return [low - pad, high + pad];
  }

  // Pieces of a line between values that cannot be drawn.
  function pieces(points) {
    const found = [[]];
    for (const point of points) {
      if (point) found[found.length - 1].push(point);
      else if (found[found.length - 1].length) found.push([]);
    }
    return found.filter((piece) => piece.length);
  }
  const path = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}`;
  const some = (items, most) => items.filter((_, i) => i % Math.ceil(items.length / most) === 0);

  function frame(panel, svg) {
    const width = svg.clientWidth || 480;
    const height = svg.clientHeight || 240;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    put(svg, "title", {}, panel.title);
    const isLog = state.isLog[panel.key];
    const ends = range(panel, isLog);
    const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
    if (!ends) {
      const place = { x: width / 2, y: height / 2, "text-anchor": "middle" };
      put(svg, "text", place, isLog ? "no positive values" : "nothing to draw");
      return null;
    }
    const xs = visible().flatMap((group) => column(group, state.axis));
    const across = horizontal(xs, state.isLogX);
    const up = isLog ? logarithmic(...ends) : linear(...ends);
    const x = (v) => MARGIN.left + inner.width * across.at(v);
    const y = (v) => MARGIN.top + inner.height * (1 - up.at(v));
    const bottom = MARGIN.top + inner.height;
    for (const [v, text] of up.ticks) {
      put(svg, "line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(v), y2: y(v) });
      put(svg, "text", { x: MARGIN.left - 7, y: y(v) + 4, "text-anchor": "end" }, text);
    }
    for (const [v, text] of across.ticks) {
      const where = x(v) > width - 40 ? "end" : "middle";
      put(svg, "line", { class: "axis", x1: x(v), x2: x(v), y1: bottom, y2: bottom + 4 });
      put(svg, "text", { x: x(v), y: bottom + 17, "text-anchor": where }, text);
    }
    put(svg, "line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: bottom, y2: bottom });
    const name = data.axes.find(([key]) => key === state.axis)[1];
    const middle = MARGIN.left + inner.width / 2;
    put(svg, "text", { x: middle, y: height - 4, "text-anchor": "middle" }, name);
    const id = `clip-${panel.key}`;
    const clip = put(put(svg, "defs", {}), "clipPath", { id });
    put(clip, "rect", { x: MARGIN.left, y: MARGIN.top - 6, width: inner.width + 8, height: inner.height + 10 });
    const body = put(svg, "g", { "clip-path": `url(#${id})` });
    return { x, y, bottom, isLog, body, svg, inner, width };
  }

  function drawBand(panel, group, place) {
    const [low, high] = panel.band.map((name) => column(group, name));
    const floor = place.bottom + 20;
    const edge = (v) => (hasPlace(v) && (!place.isLog || v > 0) ? Math.min(place.y(v), floor) : null);
    const points = column(group, state.axis).map((at, i) => {
      const top = edge(high[i]);
      // A bound that is not positive lies below every logarithmic scale, and the band reaches down.
      const under = place.isLog && low[i] <= 0 && low[i] > -Infinity ? floor : edge(low[i]);
      return top === null || under === null || low[i] > high[i] ? null : [place.x(at), top, under];
    });
    for (const piece of pieces(points)) {
      const upper = piece.map(([x, top]) => [x, top]);
      const lower = piece.map(([x, , under]) => [x, under]).reverse();
      put(place.body, "path", { class: "band", d: `${path([...upper, ...lower])}Z` });
    }
  }

  function drawCurve(panel, curve, group, place) {
    const look = style(group.index);
    const values = column(group, curve.column);
    const ats = column(group, state.axis);
    const color = curve.is_dashed ? "dashed" : look.color;
    const drawable = (v) => hasPlace(v) && (!place.isLog || v > 0);
    const floor = place.bottom;
    const points = values.map((v, i) => {
      if (drawable(v)) return [place.x(ats[i]), Math.min(place.y(v), floor + 30)];
      const isZero = place.isLog && (v === 0 || (v < 0 && !panel.has_signs && !curve.is_dashed));
      return isZero ? [place.x(ats[i]), floor] : null;
    });
    const dash = isRace && look.dash ? { "stroke-dasharray": look.dash } : {};
    for (const piece of pieces(points)) {
      const attributes = { class: `curve ${color}`, d: path(piece), ...dash };
      if (piece.length > 1) put(place.body, "path", attributes);
      else put(place.body, "circle", { class: `dot ${color}`, cx: piece[0][0], cy: piece[0][1], r: 4 });
    }
    const shown = points.filter(Boolean);
    if (isRace) some(shown, 7).forEach(([x, y]) => mark(place.body, look.mark, x, y, `mark ${look.color}`));
    else if (!curve.is_dashed && shown.length <= FEW) {
      shown.forEach(([x, y]) => put(place.body, "circle", { class: "dot", cx: x, cy: y, r: 4 }));
    }
    if (panel.has_signs && place.isLog) {
      const below = values.map((v, i) => (v < 0 && hasPlace(v) ? [place.x(ats[i]), place.y(-v)] : null));
      some(below.filter(Boolean), 40).forEach(([x, y]) => mark(place.body, "circle", x, y, "mark"));
    }
    if (panel.missing) {
      const unknown = values.map((v, i) => (v === Infinity || Number.isNaN(v) ? place.x(ats[i]) : null));
      some(unknown.filter((x) => x !== null), 40).forEach((x) => mark(place.svg, "cross", x, MARGIN.top, "mark cross"));
    }
  }

  function drawAsked(panel, place) {
    if (panel.asked === null || (place.isLog && !(panel.asked > 0))) return;
    const y = place.y(panel.asked);
    const x2 = place.width - MARGIN.right;
    put(place.body, "line", { class: "asked-line", x1: MARGIN.left, x2, y1: y, y2: y });
    // At the left, where a gap is still large, and above the line only where the curve is not.
    const above = y > MARGIN.top + 60 ? y - 6 : y + 16;
    const text = { class: "asked", x: MARGIN.left + 5, y: above };
    put(place.body, "text", text, `asked: ${general(panel.asked, 3)}`);
  }

  // -- legends ------------------------------------------------------------------------------------

  function key(draw) {
    const svg = document.createElementNS(SVG, "svg");
    for (const [name, value] of Object.entries({ width: 34, height: 12, "aria-hidden": "true" })) {
      svg.setAttribute(name, value);
    }
    draw(svg);
    return svg;
  }

  function legend(panel, node) {
    node.replaceChildren();
    if (isRace) return;
    const group = groups[0];
    const add = (text, draw) => {
      const item = document.createElement("span");
      item.append(key(draw), text);
      node.append(item);
    };
    for (const curve of panel.curves) {
      const values = column(group, curve.column);
      if (!values.some(Number.isFinite)) continue;
      const color = curve.is_dashed ? "dashed" : "c0";
      add(curve.name, (svg) => {
        if (curve.is_dashed && panel.band) put(svg, "rect", { class: "band", x: 0, y: 0, width: 34, height: 6 });
        put(svg, "path", { class: `curve ${color}`, d: "M1,6H33" });
      });
      if (panel.has_signs && values.some((v) => v < 0)) {
        add(panel.below, (svg) => mark(svg, "circle", 17, 6, "mark"));
      }
    }
    const isMissing = panel.missing && column(group, panel.curves[0].column).some((v) => !Number.isFinite(v));
    if (isMissing) add(panel.missing, (svg) => mark(svg, "cross", 17, 6, "mark cross"));
  }

  // -- reading off --------------------------------------------------------------------------------

  const slider = read("at");
  const places = new Map(); // panel key -> how it was drawn
  const last = (values) => values.reduce((most, v) => (Number.isFinite(v) && v > most ? v : most), 0);
  const ends = () => Math.max(...visible().map((group) => last(column(group, state.axis))), 0);
  slider.max = isRace ? PLACES : column(groups[0], data.readout[0][0]).length - 1;
  slider.value = slider.max;

  // Where the slider is, on the horizontal axis.
  function position() {
    if (!isRace) return column(groups[0], state.axis)[Number(slider.value)];
    const share = Number(slider.value) / PLACES;
    if (!state.isLogX) return share * ends();
    const unit = least();
    return unit * Math.expm1(share * Math.log1p(ends() / unit));
  }
  const least = () =>
    visible()
      .flatMap((group) => column(group, state.axis))
      .reduce((found, v) => (v > 0 && v < found ? v : found), ends() || 1);

  // The row of a group that holds at this place: the last one that is not beyond it.
  function rowAt(group, where) {
    if (!isRace) return Number(slider.value);
    const ats = column(group, state.axis);
    let row = 0;
    for (let i = 0; i < ats.length && ats[i] <= where * (1 + 1e-12); i++) row = i;
    return row;
  }

  function tell() {
    const where = position();
    const body = read("numbers").tBodies[0];
    body.replaceChildren();
    for (const group of visible()) {
      const row = body.insertRow();
      if (isRace) {
        const name = document.createElement("th");
        name.scope = "row";
        name.textContent = group.name;
        row.append(name);
      }
      for (const [name, label] of data.readout) {
        const cell = row.insertCell();
        cell.dataset.column = name;
        cell.dataset.label = label;
        cell.textContent = said(column(group, name)[rowAt(group, where)]);
      }
    }
    const name = data.axes.find(([key]) => key === state.axis)[1];
    slider.setAttribute("aria-valuetext", `${name}: ${general(where, 6)}`);
    for (const panel of data.panels) cursor(panel, where);
  }

  function cursor(panel, where) {
    const place = places.get(panel.key);
    if (!place) return;
    place.svg.querySelector(".reading")?.remove();
    const node = put(place.svg, "g", { class: "reading" });
    const x = place.x(where);
    put(node, "line", { class: "cursor", x1: x, x2: x, y1: MARGIN.top, y2: place.bottom });
    for (const group of visible()) {
      const row = rowAt(group, where);
      for (const curve of panel.curves) {
        const value = column(group, curve.column)[row];
        const size = panel.has_signs && place.isLog ? Math.abs(value) : value;
        if (!hasPlace(size) || (place.isLog && size <= 0)) continue;
        const cy = place.y(size);
        if (cy > place.bottom + 4 || cy < 0) continue;
        const cx = isRace ? place.x(column(group, state.axis)[row]) : x;
        put(node, "circle", { class: `dot c${group.index % 6}`, cx, cy, r: 4.5 });
      }
    }
  }

  function point(panel, event) {
    const place = places.get(panel.key);
    if (!place) return;
    const at = event.clientX - place.svg.getBoundingClientRect().left;
    if (isRace) {
      const share = (at - MARGIN.left) / place.inner.width;
      slider.value = Math.round(PLACES * Math.min(Math.max(share, 0), 1));
    } else {
      let [best, distance] = [0, Infinity];
      column(groups[0], state.axis).forEach((v, i) => {
        const away = Math.abs(place.x(v) - at);
        if (away < distance) [best, distance] = [i, away];
      });
      slider.value = best;
    }
    tell();
  }

  // -- all of it ----------------------------------------------------------------------------------

  function draw() {
    for (const panel of data.panels) {
      const figure = document.querySelector(`figure[data-panel="${panel.key}"]`);
      const place = frame(panel, figure.querySelector(":scope > svg"));
      places.set(panel.key, place);
      legend(panel, figure.querySelector(".legend"));
      if (!place) continue;
      for (const group of visible()) {
        if (panel.band) drawBand(panel, group, place);
        for (const curve of [...panel.curves].reverse()) drawCurve(panel, curve, group, place);
      }
      drawAsked(panel, place);
    }
    tell();
  }

  for (const node of document.querySelectorAll("svg.key")) {
    const look = style(Number(node.dataset.key));
    const dash = look.dash ? { "stroke-dasharray": look.dash } : {};
    put(node, "path", { class: `curve ${look.color}`, d: "M1,6H33", ...dash });
    mark(node, look.mark, 17, 6, `mark ${look.color}`);
  }
  read("axis")?.addEventListener("change", (event) => {
    state.axis = event.target.value;
    draw();
  });
  for (const input of document.querySelectorAll(".scale input")) {
    input.addEventListener("change", () => {
      const panel = input.name.replace("scale-", "");
      if (panel === "x") state.isLogX = input.value === "log";
      else state.isLog[panel] = input.value === "log";
      draw();
    });
  }
  for (const box of document.querySelectorAll("[data-group]")) {
    box.addEventListener("change", () => {
      const index = Number(box.dataset.group);
      if (box.checked) state.hidden.delete(index);
      else state.hidden.add(index);
      draw();
    });
  }
  for (const panel of data.panels) {
    const svg = document.querySelector(`figure[data-panel="${panel.key}"] > svg`);
    svg.addEventListener("pointermove", (event) => point(panel, event));
    svg.addEventListener("pointerdown", (event) => point(panel, event));
  }
  slider.addEventListener("input", tell);
  new ResizeObserver(draw).observe(document.querySelector(".panels"));
  if (data.shown < data.rows) {
    const counts = [data.shown, data.rows].map((count) => count.toLocaleString("en"));
    read("thinned").textContent =
      `Thinned: ${counts[0]} of ${counts[1]} recorded rows are in this page, ` +
      "the first, the last and the extremes among them.";
  }
  // Hundreds of steps, most of the fall in the first ten: a logarithmic axis shows them.
  if (last(column(groups[0], state.axis)) > 100) {
    state.isLogX = true;
    document.querySelector('input[name="scale-x"][value="log"]').checked = true;
  }
  draw();
})();
