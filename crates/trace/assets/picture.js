// The block accesses of one transaction (Figure 2 of "WALDIO", Figure 19 of "On the IO characteristics"): sectors over time, size as
// height and in words, class as colour, flushes as lines.
//
// A database, its journal and the file system's journal lie far from each other, so the sectors are shown in bands, one for each range
// that is in use; what lies between is left out.

const Picture = (() => {
  const { columns } = Data;
  const BANDS_MAX = 6;
  const SPACE = 0.35; // between bands, in the unit of their heights
  const LABELS_MAX = 80;
  const about = make("dl", { class: "chosen-one" });
  const holder = make("div");
  const choice = make("select", { id: "picture-choice", onchange: () => Choice.choose(Number(choice.value)) });

  /** Ranges of sectors in use, lowest first, with their place on the y axis. */
  function bandsOf(picture) {
    const ranges = [];
    for (let at = 0; at < picture.bytes.length; at++) {
      if (picture.bytes[at] === 0 || picture.sector[at] === null) continue;
      const isCall = picture.devices[picture.device[at]] === "in the file";
      const of = isCall ? `${Data.classes[picture.class[at]]}, in the file` : picture.devices[picture.device[at]];
      ranges.push({ of, from: picture.sector[at], to: picture.sector[at] + Math.ceil(picture.bytes[at] / 512), at });
    }
    ranges.sort((a, b) => (a.of === b.of ? a.from - b.from : a.of < b.of ? -1 : 1));
    let bands = [];
    for (let gap = 4096; bands.length === 0 || (bands.length > BANDS_MAX && gap < 2 ** 40); gap *= 4) {
      bands = [];
      for (const range of ranges) {
        const last = bands[bands.length - 1];
        if (last && last.of === range.of && range.from - last.to <= gap) {
          last.to = Math.max(last.to, range.to);
          last.members.push(range.at);
        } else bands.push({ of: range.of, from: range.from, to: range.to, members: [range.at] });
      }
      if (ranges.length === 0) break;
    }
    let y = 0;
    for (const band of bands) {
      band.height = 1 + Math.log2(1 + (band.to - band.from) / 64) / 4;
      band.y = y;
      y += band.height + SPACE;
      const names = [...new Set(band.members.map((at) => Data.classes[picture.class[at]]))];
      band.name = `${band.of}  ${names.join(", ")}`;
    }
    return { bands, top: Math.max(y - SPACE, 1) };
  }

  function draw(plot, picture, { bands }) {
    const context = plot.ctx;
    const unit = devicePixelRatio || 1;
    const { left, top, width, height } = plot.bbox;
    const x = (ms) => plot.valToPos(ms, "x", true);
    const y = (place) => plot.valToPos(place, "y", true);
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.font = `${11 * unit}px system-ui, sans-serif`;
    context.textBaseline = "bottom";
    context.textAlign = "left";
    for (const band of bands) {
      const up = y(band.y + band.height + SPACE * 0.4);
      context.fillStyle = Charts.colour("--shade");
      context.fillRect(left, up, width, y(band.y - SPACE * 0.4) - up);
      context.fillStyle = Charts.colour("--soft");
      context.fillText(band.name, left + 6 * unit, up + 16 * unit);
    }
    context.strokeStyle = Charts.colour("--ink");
    context.globalAlpha = 0.55;
    context.lineWidth = unit;
    context.setLineDash([4 * unit, 4 * unit]);
    picture.flushes.forEach((flushes, at) => {
      if (flushes === 0) return;
      const done = x((picture.begin_us[at] + picture.length_us[at]) / 1000);
      context.beginPath();
      context.moveTo(done, top);
      context.lineTo(done, top + height);
      context.stroke();
    });
    context.setLineDash([]);
    context.globalAlpha = 1;
    const labelled = picture.bytes.length <= LABELS_MAX;
    for (const band of bands) {
      const place = (sector) => band.y + (0.8 * band.height * (sector - band.from)) / Math.max(band.to - band.from, 64);
      for (const at of band.members) {
        const from = x(picture.begin_us[at] / 1000);
        const long = Math.max(4 * unit, x((picture.begin_us[at] + picture.length_us[at]) / 1000) - from);
        const low = y(place(picture.sector[at]));
        const tall = Math.max(5 * unit, low - y(place(picture.sector[at] + picture.bytes[at] / 512)));
        context.fillStyle = Charts.colour(Data.classColours[picture.class[at]]);
        context.fillRect(from, low - tall, long, tall);
        if (!labelled) continue;
        const text = Format.short(picture.bytes[at] / 1024);
        const beside = from + long + 3 * unit;
        const fits = beside + context.measureText(text).width < left + width;
        context.fillStyle = Charts.colour("--ink");
        context.textAlign = fits ? "left" : "right";
        context.fillText(text, fits ? beside : from - 3 * unit, low + 2 * unit);
        context.textAlign = "left";
      }
    }
    context.restore();
  }

  function chartOf(picture, number) {
    const layout = bandsOf(picture);
    const ends = picture.begin_us.map((begin, at) => begin + picture.length_us[at]);
    const last = Math.max(columns.latency[number], ...ends.map((us) => us / 1000));
    const early = Math.min(0, ...picture.begin_us.map((us) => us / 1000));
    const margin = Math.max(0.05, (last - early) * 0.03);
    const low = -SPACE;
    const high = layout.top + SPACE;
    const options = (width) => ({
      width,
      height: Math.round(Math.min(520, 90 + 52 * (layout.top + SPACE))),
      legend: { show: false },
      cursor: { y: false, points: { show: false } },
      scales: { x: { time: false, range: (_, min, max) => [min, max] }, y: { range: [low, high] } },
      axes: [
        Charts.axis({ values: (_, ticks) => ticks.map((ms) => `${Number(ms.toFixed(4))} ms`), size: 36 }),
        Charts.axis({
          size: 96,
          grid: { show: false },
          splits: () => layout.bands.map((band) => band.y),
          values: () => layout.bands.map((band) => Format.count(band.from)),
        }),
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { draw: [(plot) => draw(plot, picture, layout)] },
    });
    const element = make("div", { class: "chart", id: "picture-chart", role: "img",
      "aria-label": "Block accesses; the same as a table below" });
    const show = () => Charts.keep(element, options, () => [[early - margin, last + margin], [low, high]]);
    return { element, show };
  }

  function tableOf(picture) {
    const heads = ["ms", "took ms", "class", "device", "sector", "KB", "flushes"].map((head, at) => ({ head, word: at === 2 || at === 3 }));
    const rows = picture.begin_us.map((begin, at) => [
      (begin / 1000).toFixed(3), (picture.length_us[at] / 1000).toFixed(3),
      picture.bytes[at] === 0 ? "flush" : Data.classes[picture.class[at]], picture.devices[picture.device[at]],
      picture.sector[at] === null ? "–" : Format.count(picture.sector[at]), Format.short(picture.bytes[at] / 1024),
      String(picture.flushes[at])]);
    return make("details", {}, make("summary", {}, `The ${Format.count(rows.length)} requests and flushes as a table`), figures("", heads, rows));
  }

  function choose(number) {
    const picture = Data.pictures.get(number);
    const say = (name, text, wide) => make("div", { class: wide ? "wide" : null }, make("dt", {}, name), make("dd", {}, text));
    about.replaceChildren(
      say("database", columns.databases[columns.database[number]], true),
      ...(Data.traces.length > 1 ? [say("trace", Data.traces[columns.trace[number]].trace)] : []),
      say("begin", `${columns.begin[number].toFixed(6)} s`),
      say("latency", Format.ms(columns.latency[number])),
      say("mode", columns.modes[columns.mode[number]]),
      say("process", columns.processes[columns.process[number]]),
      say("outcome", columns.outcomes[columns.outcome[number]]),
      say("bytes", Format.bytes(columns.total[number])),
      ...Data.classes.map((name, at) => say(name, Format.bytes(columns.bytes[at][number]))),
      say("flushes", String(columns.flushes[number])),
      say("requests", String(columns.requests[number])),
      say(`confidence ${(columns.confidence[number] / 100).toFixed(2)}`, columns.reasons[columns.reason[number]], true));
    choice.value = picture ? String(number) : "";
    if (!picture) {
      holder.replaceChildren(make("p", { class: "note" },
        "Of this transaction the requests were not kept. They are for the first, a median, the slowest and the largest of each database; the list above has them."));
      return;
    }
    const chart = chartOf(picture, number);
    const items = Data.classes.map((name, at) => [`var(${Data.classColours[at]})`, name]);
    holder.replaceChildren(chart.element, key([...items, ["var(--ink)", "dashed: flush done; numbers: KB; left: first sector of a band"]]), tableOf(picture));
    chart.show();
  }

  function show() {
    const body = document.querySelector("#picture .body");
    if (Data.pictures.size === 0) {
      body.append(make("p", { class: "note" }, Data.count === 0 ? "No transactions." : "No requests were kept."), about, holder);
      return;
    }
    const groups = new Map();
    for (const { transaction, why } of Data.pictures.values()) {
      const trace = Data.traces.length > 1 ? `${Data.traces[columns.trace[transaction]].trace}: ` : "";
      const name = trace + columns.databases[columns.database[transaction]];
      const text = `${why.join(", ")}: ${Format.ms(columns.latency[transaction])}, ${Format.bytes(columns.total[transaction])}`;
      if (!groups.has(name)) groups.set(name, make("optgroup", { label: Format.tail(name, 70) }));
      groups.get(name).append(make("option", { value: transaction }, text));
    }
    choice.append(make("option", { value: "", disabled: true }, "another"), ...groups.values());
    body.append(make("div", { class: "tools" }, make("label", {}, "transaction", choice)), about, holder);
    const first = [...Data.pictures.values()].find((picture) => picture.why.includes("median")) || [...Data.pictures.values()][0];
    Choice.choose(first.transaction, false);
  }

  return { show, choose };
})();
