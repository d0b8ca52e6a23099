// Head, findings, and the tables of the paper (numbers 2 to 6) with their curves.

const Summary = (() => {
  const traces = Data.traces;
  const quantileColumns = [{ head: "", word: true }, ...["median", "average", "75 %", "99 %", "99.9 %", "max"].map((head) => ({ head }))];
  const quantiles = (name, of) => [name, ...[of.median, of.average, of.q75, of.q99, of.q999, of.max].map(Format.short)];
  const body = (id) => document.querySelector(`#${id} .body`);

  function head() {
    const of = document.getElementById("traces");
    for (const trace of traces) {
      const count = (number, what) => `${Format.count(number)} ${what}${number === 1 ? "" : "s"}`;
      const text = `${trace.name}: ${count(trace.transactions, "transaction")} of ${count(trace.databases_count, "database")}, ` +
        `${Format.bytes(sum(trace.bytes))}, in ${Format.short(trace.seconds)} s`;
      of.append(make("p", {}, text));
      const cut = trace.cut_off > 0 ? [`${Format.count(trace.cut_off)} transactions are cut off and in no table`] : [];
      const rolled = trace.rolled_back > 0 ? [`${Format.count(trace.rolled_back)} were rolled back`] : [];
      const notes = [`${trace.format}, ${Format.count(trace.events)} events`, ...rolled, ...cut, ...trace.notes];
      of.append(make("p", { class: "note" }, notes.join("; ")));
    }
    document.getElementById("made-by").textContent = `Made by ${Data.program}. KB are 1,024 bytes.`;
  }

  const sum = (bytes) => Data.classKeys.reduce((total, name) => total + bytes[name], 0);

  /** A sentence in which commands stand between backticks, as in Markdown. */
  const sentence = (text) => text.split("`").map((part, at) => (at % 2 === 1 ? make("code", {}, part) : part));

  function findings() {
    const items = Data.findings.map((finding) => make("li", {},
      traces.length > 1 ? make("p", { class: "of" }, finding.trace) : null,
      make("p", {}, finding.text),
      make("p", { class: "basis" }, finding.basis),
      make("p", { class: "action" }, ...sentence(finding.action))));
    body("findings").append(items.length > 0
      ? make("ul", { class: "findings" }, ...items)
      : make("p", { class: "lead" }, "None: no trace has the 30 transactions that a finding needs, or nothing stands out."));
  }

  function curvesOf(section, title, label, curve, least, tick, caption, of) {
    const chart = Charts.cumulative(title, label, traces.map((trace, n) =>
      ({ name: trace.trace, colour: Charts.traceColour(n), curve: curve(trace) })), least, tick);
    body(section).append(chart.figure, figures(caption, quantileColumns, traces.map((trace) => quantiles(trace.trace, of(trace)))));
    chart.show();
  }

  function classes() {
    const section = body("classes");
    const written = Data.classKeys.map((name) => traces.some((trace) => trace.bytes[name] > 0));
    section.append(key(Data.classes.map((name, at) => [`var(${Data.classColours[at]})`, name]).filter((_, at) => written[at])));
    section.append(Bars.totals());
    const heads = [{ head: "", word: true }, ...Data.classes, "all"].map((head) => (head.head === undefined ? { head } : head));
    section.append(figures("All transactions", [...heads, { head: "db share" }], traces.map((trace) => {
      const all = sum(trace.bytes);
      return [trace.trace, ...Data.classKeys.map((name) => Format.bytes(trace.bytes[name])), Format.bytes(all),
        all > 0 ? Format.percent(trace.bytes.db / all) : "–"];
    })));
    const pair = make("div", { class: "pair" });
    section.append(pair);
    const charts = traces.map((trace) => Charts.cumulative(
      traces.length > 1 ? `Volume of a transaction by class, ${trace.trace}` : "Volume of a transaction by class",
      "KB", Data.classKeys.map((name, at) =>
        ({ name: Data.classes[at], colour: Data.classColours[at], curve: trace.kb_by_class_curves[name] })), 1, Format.kbTick));
    pair.append(...charts.map((chart) => chart.figure));
    if (traces.length === 1) pair.append(Bars.medians());
    else section.append(Bars.medians());
    charts.forEach((chart) => chart.show());
    for (const trace of traces) {
      const caption = `KB of a transaction by class${traces.length > 1 ? `, ${trace.trace}` : ""}`;
      section.append(figures(caption, quantileColumns, Data.classKeys.map((name, at) => quantiles(Data.classes[at], trace.kb_by_class[name]))));
    }
    section.append(make("p", { class: "note" }, "A transaction without bytes of a class counts with 0, which the curves draw at their left edge."));
  }

  function databases() {
    const section = body("databases");
    section.append(Bars.databases());
    const columns = [{ head: "", word: true, tail: 30 }, { head: "mode", word: true },
      ...["count", "share", "db", "journal", "fs journal", "flushes", "ms", "KB"].map((head) => ({ head }))];
    for (const trace of traces) {
      const rows = trace.databases.slice(0, 10).map((row) => [row.database, row.mode, Format.count(row.transactions),
        Format.percent(row.share_of_transactions), Format.bytes(row.bytes.db), Format.bytes(row.bytes.journal),
        Format.bytes(row.bytes.fs_journal), row.flushes === null ? "–" : (row.flushes / row.transactions).toFixed(2), Format.short(row.median_ms), Format.short(row.median_kb)]);
      const more = trace.databases_count > 10 ? `, the first 10 of ${Format.count(trace.databases_count)}` : "";
      section.append(figures(`Databases by transactions; flushes, and medians of ms and KB, are of one transaction${traces.length > 1 ? `, ${trace.trace}` : ""}${more}`, columns, rows));
    }
  }

  function show() {
    head();
    findings();
    curvesOf("latency", "Share of transactions within a latency", "latency", (trace) => trace.latency_curve, 0.001, Format.ms,
      "Latency in ms", (trace) => trace.latency_ms);
    curvesOf("volume", "Share of transactions within a volume", "volume", (trace) => trace.kb_curve, 1, Format.kbTick,
      "KB of a transaction", (trace) => trace.kb);
    classes();
    databases();
  }

  return { show, sum };
})();
