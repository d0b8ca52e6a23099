// Colours by theme, what all charts share, and cumulative curves. A chart is drawn anew when the theme changes, and follows its width.

const Charts = (() => {
  const drawn = [];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /** Keeps a uPlot in an element: `options(width)` and `data()` are asked for again when the theme changes. */
  function keep(element, options, data) {
    let plot = null;
    const draw = () => {
      const scales = plot && plot.scales.x;
      const range = scales && { min: scales.min, max: scales.max };
      if (plot) plot.destroy();
      plot = new uPlot(options(Math.max(240, element.clientWidth)), data(), element);
      if (range && range.min !== null && range.min !== undefined) plot.setScale("x", range);
    };
    const chart = { get plot() { return plot; }, draw };
    draw();
    new ResizeObserver(() => {
      const width = Math.max(240, element.clientWidth);
      if (plot && plot.width !== width) plot.setSize({ width, height: plot.height });
    }).observe(element);
    drawn.push({ element, draw });
    return chart;
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    drawn.forEach(({ element, draw }) => element.isConnected && draw());
  });

  const axis = (more) => ({
    stroke: colour("--soft"),
    grid: { stroke: colour("--grid"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1, size: 5 },
    font: "12px system-ui, sans-serif",
    labelFont: "12px system-ui, sans-serif",
    ...more,
  });

  /** One step function a curve, over all values of all curves. All rise from nothing at `low`, the axis's left end. */
  function aligned(curves, least, low) {
    const at = (value) => Math.max(value, least);
    const values = [...new Set(curves.flatMap((curve) => curve.values.map(at)))].sort((a, b) => a - b);
    const shares = curves.map((curve) => {
      let next = 0;
      let share = 0;
      return values.map((value) => {
        while (next < curve.values.length && at(curve.values[next]) <= value) share = curve.shares[next++];
        return share;
      });
    });
    return [[low, ...values], ...shares.map((share) => [0, ...share])];
  }

  /** Cumulative curves on a logarithmic axis. `curves`: `{name, colour, curve}`; values below `least` are drawn there. */
  function cumulative(title, label, all, least, tick) {
    // A legend names what is drawn: not what is unknown, and no class without a byte.
    const curves = all.filter(({ curve }) => curve.values.some((value) => value > 0));
    const element = make("div", { class: "chart", role: "img", "aria-label": `${title}; the table of quantiles has the numbers` });
    const figure = make("figure", {}, make("figcaption", {}, title),
      curves.length > 0 ? element : make("p", { class: "note" }, "Not known of single transactions, or 0."));
    const ends = curves.flatMap(({ curve }) => (curve.values.length ? [curve.values[0], curve.values[curve.values.length - 1]] : []));
    if (ends.length === 0) return { figure, show() {} };
    const first = Math.max(Math.min(...ends), least);
    const last = Math.max(...ends, least);
    // Left of the first value, so that its step is seen.
    const decade = 10 ** Math.floor(Math.log10(first));
    const low = decade < first / 1.2 ? decade : first / 2;
    const high = Math.max(10 ** Math.ceil(Math.log10(last * 1.001)), decade * 10);
    const data = aligned(curves.map(({ curve }) => curve), least, low);
    const options = (width) => ({
      width,
      height: 250,
      // Half of the last tick's label.
      padding: [null, 34, null, null],
      cursor: { y: false, drag: { x: true, y: false } },
      scales: { x: { time: false, distr: 3, range: (_, min, max) => [Math.max(min, low), Math.min(max, high)] }, y: { range: [0, 1] } },
      axes: [
        axis({ values: (_, ticks) => ticks.map((value) => (value === null ? "" : tick(value))), label, labelSize: 20, size: 36 }),
        axis({ values: (_, ticks) => ticks.map((share) => `${Math.round(share * 100)} %`), size: 52 }),
      ],
      series: [
        { label, value: (_, value) => (value === null || value === undefined ? "–" : tick(value)) },
        ...curves.map(({ name, colour: variable }) => ({
          label: name,
          stroke: colour(variable),
          width: 2,
          paths: uPlot.paths.stepped({ align: 1 }),
          points: { show: false },
          value: (_, share) => (share === null || share === undefined ? "–" : Format.percent(share)),
        })),
      ],
      legend: { live: true },
    });
    return {
      figure,
      show: () => {
        const chart = keep(element, options, () => data);
        if (chart.plot) chart.plot.setScale("x", { min: low, max: high });
      },
    };
  }

  return { keep, colour, axis, cumulative, traceColour: (number) => `--c${number % 7}` };
})();
