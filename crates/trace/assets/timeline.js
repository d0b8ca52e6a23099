// All transactions over time, on one canvas: a bar from begin to end at the height of the latency. Of many that begin in the same
// small square the first is drawn, so 100,000 cost no more than the squares that there are.

const Timeline = (() => {
  const { columns, order } = Data;
  const COLOURS = 7;
  let shown = order; // numbers of transactions by begin
  let chart = null;
  let chosen = -1;
  let paint = "database";
  const listeners = [];
  const status = make("p", { class: "status", id: "timeline-status", "aria-live": "polite" });
  const legend = make("div");
  const element = make("div", { class: "chart", id: "timeline-chart", tabindex: "0", role: "application",
    "aria-label": "Timeline of transactions: plus and minus zoom, arrows move, 0 shows all" });

  let first = 0;
  let last = 1;
  for (let n = 0; n < Data.count; n++) last = Math.max(last, columns.begin[n] + columns.latency[n] / 1000);
  let least = Infinity;
  let most = 0;
  for (const ms of columns.latency) {
    if (ms > 0 && ms < least) least = ms;
    if (ms > most) most = ms;
  }
  if (Data.count > 0) first = columns.begin[order[0]];
  const margin = Math.max((last - first) * 0.01, 1e-6);
  const whole = { min: first - margin, max: last + margin };
  // What is looked at; the plot follows a moment later.
  const view = { ...whole };
  const low = 10 ** Math.floor(Math.log10(Math.min(least, 1)));
  const high = 10 ** Math.ceil(Math.log10(Math.max(most, low * 10) * 1.001));

  /** For each number of the painted column its colour: the most frequent have their own, the others share the last. */
  let colourOf = [];
  function choosePaint(what) {
    paint = what;
    const column = columns[what];
    const names = { database: columns.databases, mode: columns.modes, process: columns.processes, trace: Data.traces.map((trace) => trace.trace) }[what];
    const counts = new Uint32Array(names.length);
    for (const value of column) counts[value]++;
    const most = [...counts.keys()].filter((value) => counts[value] > 0).sort((a, b) => counts[b] - counts[a]);
    colourOf = new Uint8Array(names.length).fill(COLOURS - 1);
    const own = most.length <= COLOURS ? most : most.slice(0, COLOURS - 1);
    own.forEach((value, at) => (colourOf[value] = at));
    const items = own.map((value, at) => [`var(--c${at})`, Format.tail(names[value], 60)]);
    if (most.length > own.length) items.push([`var(--c${COLOURS - 1})`, `${Format.count(most.length - own.length)} others`]);
    legend.replaceChildren(key(items));
    if (chart && chart.plot) chart.plot.redraw(false);
  }

  function draw(plot) {
    const { left, top, width, height } = plot.bbox;
    const context = plot.ctx;
    const unit = devicePixelRatio || 1;
    const thick = Math.max(2, Math.round(2.5 * unit));
    const { min, max } = plot.scales.x;
    const column = columns[paint];
    const across = Math.floor(width / thick) + 1;
    const taken = new Uint8Array(across * (Math.floor(height / thick) + 1));
    const logLow = Math.log(low);
    const perLog = height / (Math.log(high) - logLow);
    const perSecond = width / (max - min);
    const palette = Array.from({ length: COLOURS }, (_, at) => Charts.colour(`--c${at}`));
    const paths = palette.map(() => new Path2D());
    for (const n of shown) {
      const begin = columns.begin[n];
      const end = begin + columns.latency[n] / 1000;
      if (begin > max) break;
      if (end < min) continue;
      const x = Math.max(0, Math.round((begin - min) * perSecond));
      const right = Math.min(width, Math.round((end - min) * perSecond));
      const y = Math.round(height - (Math.log(Math.max(columns.latency[n], low)) - logLow) * perLog);
      const at = Math.floor(Math.min(height, Math.max(0, y)) / thick) * across + Math.floor(Math.min(x, width) / thick);
      const length = Math.max(thick, right - x);
      if (taken[at] && length <= 2 * thick) continue;
      taken[at] = 1;
      paths[colourOf[column[n]]].rect(left + x, top + y - thick / 2, length, thick);
    }
    context.save();
    context.beginPath();
    context.rect(left, top - thick, width, height + 2 * thick);
    context.clip();
    context.globalAlpha = 0.85;
    paths.forEach((path, at) => {
      context.fillStyle = palette[at];
      context.fill(path);
    });
    if (chosen >= 0) {
      context.globalAlpha = 1;
      context.strokeStyle = Charts.colour("--ink");
      context.lineWidth = 2 * unit;
      const x = left + (columns.begin[chosen] - min) * perSecond;
      const y = top + height - (Math.log(Math.max(columns.latency[chosen], low)) - logLow) * perLog;
      context.beginPath();
      context.arc(x, y, 6 * unit, 0, 2 * Math.PI);
      context.stroke();
    }
    context.restore();
  }

  /** The transaction that is drawn nearest to a place, within some pixels. */
  function nearest(plot, x, y) {
    const reach = 12;
    let best = -1;
    let bestDistance = reach * reach;
    for (const n of shown) {
      const begin = plot.valToPos(columns.begin[n], "x");
      if (begin > x + reach) break;
      const end = plot.valToPos(columns.begin[n] + columns.latency[n] / 1000, "x");
      const across = x < begin ? begin - x : x > end ? x - end : 0;
      if (across > reach) continue;
      const down = plot.valToPos(Math.max(columns.latency[n], low), "y") - y;
      const distance = across * across + down * down;
      if (distance < bestDistance) [best, bestDistance] = [n, distance];
    }
    return best;
  }

  function tell() {
    const { min, max } = view;
    let within = 0;
    for (const n of shown) {
      if (columns.begin[n] > max) break;
      if (columns.begin[n] + columns.latency[n] / 1000 >= min) within++;
    }
    const all = min <= whole.min && max >= whole.max;
    status.textContent = `${Format.count(within)} transactions ${all ? "in the whole time" : `from ${min.toFixed(3)} s to ${max.toFixed(3)} s`}` +
      (shown.length < Data.count ? `, of ${Format.count(shown.length)} that pass the filter` : "");
    listeners.forEach((listener) => listener());
  }

  const options = (width) => ({
    width,
    height: 300,
    cursor: {
      points: { show: false },
      drag: { x: true, y: false, dist: 4 },
      bind: {
        click: (plot, target, handler) => (event) => {
          handler(event);
          const found = nearest(plot, plot.cursor.left, plot.cursor.top);
          if (found >= 0) Choice.choose(found);
        },
        dblclick: () => () => zoomTo(whole.min, whole.max),
      },
    },
    legend: { show: false },
    scales: { x: { time: false, range: (_, min, max) => [min, max] }, y: { distr: 3, range: [low, high] } },
    axes: [
      Charts.axis({ values: (_, ticks) => ticks.map((value) => `${Number(value.toFixed(6))} s`), size: 36 }),
      Charts.axis({ values: (_, ticks) => ticks.map((value) => (value === null ? "" : Format.ms(value))), size: 62 }),
    ],
    series: [{}, { paths: () => null, points: { show: false } }],
    hooks: { draw: [draw], setScale: [(plot, scale) => {
      if (scale !== "x") return;
      [view.min, view.max] = [plot.scales.x.min, plot.scales.x.max];
      tell();
    }] },
  });

  function zoomTo(min, max) {
    const widest = whole.max - whole.min;
    const width = Math.min(widest, Math.max(max - min, 1e-5));
    const from = Math.min(Math.max(min, whole.min), whole.max - width);
    [view.min, view.max] = [from, from + width];
    chart.plot.setScale("x", { ...view });
  }

  /** Makes the window so many times as wide, and moves it by so many of its widths. */
  function change(factor, by) {
    const { min, max } = view;
    const middle = (min + max) / 2 + by * (max - min);
    const half = ((max - min) * factor) / 2;
    zoomTo(middle - half, middle + half);
  }

  const moves = { "+": [0.5, 0], "=": [0.5, 0], "-": [2, 0], "−": [2, 0], ArrowLeft: [1, -0.25], ArrowRight: [1, 0.25] };

  function show() {
    const body = document.querySelector("#timeline .body");
    if (Data.count === 0) return body.append(make("p", { class: "lead" }, "No transactions."));
    const button = (text, label, act) => make("button", { type: "button", "aria-label": label, onclick: act }, text);
    const choices = ["database", "mode", "process", ...(Data.traces.length > 1 ? ["trace"] : [])];
    body.append(make("div", { class: "tools" },
      button("+", "Zoom in", () => change(0.5, 0)), button("−", "Zoom out", () => change(2, 0)),
      button("←", "Earlier", () => change(1, -0.25)), button("→", "Later", () => change(1, 0.25)),
      button("All", "Show all", () => zoomTo(whole.min, whole.max)),
      make("label", {}, "colour by", make("select", { id: "timeline-paint", onchange: (event) => choosePaint(event.target.value) },
        ...choices.map((choice) => make("option", { value: choice }, choice))))),
    element, legend, status);
    element.addEventListener("keydown", (event) => {
      const move = moves[event.key];
      if (event.key === "0") zoomTo(whole.min, whole.max);
      else if (move) change(...move);
      else return;
      event.preventDefault();
    });
    choosePaint("database");
    chart = Charts.keep(element, options, () => [[whole.min, whole.max], [low, high]]);
    zoomTo(whole.min, whole.max);
  }

  return {
    show,
    /** Shows these transactions; they must be in the order of their begins. */
    filter(numbers) {
      shown = numbers;
      if (!chart) return;
      chart.plot.redraw(false);
      tell();
    },
    choose(number) {
      chosen = number;
      if (!chart) return;
      const { min, max } = view;
      const begin = columns.begin[number];
      if (begin < min || begin > max) zoomTo(begin - (max - min) / 2, begin + (max - min) / 2);
      chart.plot.redraw(false);
    },
    window: () => view,
    onWindow: (listener) => listeners.push(listener),
  };
})();
