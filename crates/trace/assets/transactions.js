// The list of transactions: filters, which also hold for the timeline; sorting by each column; pages.

const Transactions = (() => {
  const { columns, order } = Data;
  const PAGE = 25;
  const several = Data.traces.length > 1;
  let passing = order; // by begin
  let sorted = order;
  let page = 0;
  let by = "begin";
  let falling = false;
  let chosen = -1;
  const inputs = {};
  const status = make("p", { class: "status", id: "list-status", "aria-live": "polite" });
  const body = make("tbody");

  /** `value`: a column to sort by; `text`: what a cell says; `width`: a column of words has this part of the table. */
  const heads = [
    { name: "begin", title: "begin s", value: (n) => columns.begin[n], text: (n) => columns.begin[n].toFixed(3) },
    ...(several ? [{ name: "trace", title: "trace", word: true, width: "9%", value: (n) => columns.trace[n], text: (n) => Data.traces[columns.trace[n]].trace }] : []),
    { name: "database", title: "database", word: true, width: "15%", names: columns.databases, column: columns.database },
    { name: "mode", title: "mode", word: true, width: "9%", names: columns.modes, column: columns.mode },
    { name: "latency", title: "latency ms", value: (n) => columns.latency[n], text: (n) => Format.short(columns.latency[n]) },
    { name: "total", title: "KB", value: (n) => columns.total[n], text: (n) => Format.short(columns.total[n] / 1024) },
    ...Data.classes.map((name, at) => (
      { name: `class${at}`, title: name, value: (n) => columns.bytes[at][n], text: (n) => Format.short(columns.bytes[at][n] / 1024) })),
    { name: "flushes", title: "flushes", value: (n) => columns.flushes[n], text: (n) => String(columns.flushes[n]) },
    { name: "requests", title: "requests", value: (n) => columns.requests[n], text: (n) => String(columns.requests[n]) },
    { name: "process", title: "process", word: true, width: "11%", names: columns.processes, column: columns.process },
    { name: "outcome", title: "outcome", word: true, width: "8%", names: columns.outcomes, column: columns.outcome },
    { name: "confidence", title: "confidence", value: (n) => columns.confidence[n], text: (n) => (columns.confidence[n] / 100).toFixed(2) },
  ];
  for (const head of heads.filter((head) => head.names)) {
    const rank = new Uint32Array(head.names.length);
    [...head.names.keys()].sort((a, b) => (head.names[a] < head.names[b] ? -1 : 1)).forEach((name, at) => (rank[name] = at));
    head.value = (n) => rank[head.column[n]];
    head.text = (n) => head.names[head.column[n]];
  }

  /** For each name whether it holds the word. */
  const holding = (names, word) => names.map((name) => name.toLowerCase().includes(word));

  function filter() {
    const words = inputs.text.value.toLowerCase().split(/\s+/).filter((word) => word !== "").map((word) =>
      [[columns.database, holding(columns.databases, word)], [columns.mode, holding(columns.modes, word)],
        [columns.process, holding(columns.processes, word)], [columns.outcome, holding(columns.outcomes, word)]]);
    const least = Number(inputs.latency.value) || 0;
    const leastBytes = (Number(inputs.kb.value) || 0) * 1024;
    const mode = inputs.mode.value === "" ? -1 : Number(inputs.mode.value);
    const trace = several && inputs.trace.value !== "" ? Number(inputs.trace.value) : -1;
    passing = order.filter((n) =>
      columns.latency[n] >= least && columns.total[n] >= leastBytes && (mode < 0 || columns.mode[n] === mode) &&
      (trace < 0 || columns.trace[n] === trace) && (!inputs.pictured.checked || Data.pictures.has(n)) &&
      words.every((word) => word.some(([column, holds]) => holds[column[n]])));
    Timeline.filter(passing);
    list();
  }

  /** What is listed of those that pass: all, or those in the timeline's window. */
  function list() {
    const { min, max } = Timeline.window();
    const listed = !inputs.window.checked ? passing.slice()
      : passing.filter((n) => columns.begin[n] <= max && columns.begin[n] + columns.latency[n] / 1000 >= min);
    const head = heads.find((head) => head.name === by);
    if (by === "begin") sorted = falling ? listed.reverse() : listed;
    else {
      const values = new Float64Array(Data.count);
      for (const n of listed) values[n] = head.value(n);
      sorted = listed.sort(falling ? (a, b) => values[b] - values[a] || a - b : (a, b) => values[a] - values[b] || a - b);
    }
    page = 0;
    fill();
  }

  function fill() {
    const pages = Math.max(1, Math.ceil(sorted.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    const from = page * PAGE;
    const numbers = sorted.subarray(from, from + PAGE);
    body.replaceChildren(...Array.from(numbers, row));
    status.textContent = sorted.length === 0 ? "No transaction passes the filter."
      : `${Format.count(from + 1)} to ${Format.count(from + numbers.length)} of ${Format.count(sorted.length)} transactions` +
        (sorted.length < Data.count ? ` (all: ${Format.count(Data.count)})` : "");
    inputs.back.disabled = page === 0;
    inputs.on.disabled = page >= pages - 1;
  }

  function row(n) {
    const cells = heads.map((head, at) => {
      const text = head.text(n);
      if (at > 0) return make("td", { class: head.word ? "word" : null, title: head.word ? text : null }, head.word ? Format.tail(text, 22) : text);
      return make("td", {}, make("button", { type: "button", title: "Show this transaction" }, text));
    });
    const classes = n === chosen ? "chosen" : null;
    return make("tr", { class: classes, "data-number": n, onclick: () => Choice.choose(n) }, ...cells);
  }

  function sortBy(name, button) {
    falling = by === name ? !falling : !heads.find((head) => head.name === name).word && name !== "begin";
    by = name;
    for (const other of button.closest("tr").children) other.removeAttribute("aria-sort");
    button.closest("th").setAttribute("aria-sort", falling ? "descending" : "ascending");
    list();
  }

  function show() {
    const input = (name, label, attributes, grow) => {
      inputs[name] = make("input", { ...attributes, id: `filter-${name}`, oninput: filter });
      return make("label", { class: grow ? "grow" : null }, label, inputs[name]);
    };
    const check = (name, label, act) => {
      inputs[name] = make("input", { type: "checkbox", id: `filter-${name}`, onchange: act });
      return make("label", { class: "check" }, inputs[name], label);
    };
    const select = (name, label, all, names) => {
      inputs[name] = make("select", { id: `filter-${name}`, onchange: filter }, make("option", { value: "" }, all),
        ...names.map((text, at) => make("option", { value: at }, text)));
      return make("label", {}, label, inputs[name]);
    };
    const turn = (name, text, by) => (inputs[name] = make("button", { type: "button", id: `list-${name}`, onclick: () => { page += by; fill(); } }, text));
    const head = make("tr", {}, ...heads.map(({ name, title, word, width }) => {
      const button = make("button", { type: "button", "data-sort": name, onclick: () => sortBy(name, button) }, title);
      return make("th", { scope: "col", class: word ? "word" : null, "aria-sort": name === by ? "ascending" : null, style: width ? `width:${width}` : null }, button);
    }));
    document.querySelector("#transactions .body").append(
      make("div", { class: "tools" },
        input("text", "database, process, mode, outcome", { type: "search", placeholder: "words" }, true),
        several ? select("trace", "trace", "all", Data.traces.map((trace) => trace.trace)) : null,
        select("mode", "journal mode", "all", columns.modes),
        input("latency", "from ms", { type: "number", min: "0", step: "any" }),
        input("kb", "from KB", { type: "number", min: "0", step: "any" }),
        check("pictured", "with block accesses", filter),
        check("window", "in the timeline's window", list)),
      status,
      make("div", { class: "scroll" }, make("table", { class: "figures list", "aria-label": "Transactions" }, make("thead", {}, head), body)),
      make("div", { class: "tools" }, turn("back", "Previous", -1), turn("on", "Next", 1)));
    Timeline.onWindow(() => inputs.window.checked && list());
    list();
  }

  return {
    show,
    choose(number) {
      chosen = number;
      for (const row of body.children) row.classList.toggle("chosen", Number(row.dataset.number) === number);
    },
  };
})();
