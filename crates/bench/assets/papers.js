// The page of `oneflush bench --paper all`: claims that can be filtered, and each figure as bars of ours with marks of theirs.

const Papers = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const VERDICTS = [["holds", "holds"], ["in_part", "holds in part"], ["not_here", "does not hold here"], [null, "not measured"]];
  const words = (verdict) => VERDICTS.find(([key]) => key === (verdict ?? null))[1];
  const number = (value) => (value === null || value === undefined ? "–" : Format.short(value));
  const ratio = (claim) => (claim.theirs && claim.ours !== null ? claim.ours / claim.theirs : null);

  function summary() {
    const columns = [{ head: "paper", word: true }, { head: "claims" }, ...VERDICTS.map(([, head]) => ({ head }))];
    const rows = data.papers.map((paper) => {
      const count = (key) => String(paper.verdicts.filter((claim) => (claim.verdict ?? null) === key).length);
      return [paper.paper, String(paper.verdicts.length), ...VERDICTS.map(([key]) => count(key))];
    });
    const failed = data.failed.map(({ paper, why }) => make("p", { class: "note" }, `${paper}: could not be run: ${why}`));
    return [figures("Claims by verdict", columns, rows), ...failed];
  }

  function claims() {
    const all = data.papers.flatMap((paper) => paper.verdicts.map((claim) => ({ paper: paper.paper, ...claim })));
    const body = make("tbody");
    const status = make("p", { class: "status", id: "claims-status" });
    const paper = make("select", { id: "filter-paper" }, make("option", { value: "" }, "all"), ...data.papers.map((one) => make("option", {}, one.paper)));
    const verdict = make("select", { id: "filter-verdict" }, make("option", { value: "" }, "all"), ...VERDICTS.map(([, text]) => make("option", {}, text)));
    const search = make("input", { type: "search", id: "filter-text" });
    function show() {
      const text = search.value.toLowerCase();
      const chosen = all.filter((claim) =>
        (!paper.value || claim.paper === paper.value)
        && (!verdict.value || words(claim.verdict) === verdict.value)
        && (!text || `${claim.source} ${claim.claim} ${claim.why}`.toLowerCase().includes(text)));
      body.replaceChildren(...chosen.map((claim) => make("tr", {},
        make("th", { scope: "row" }, claim.paper),
        make("td", { class: "word" }, claim.source),
        make("td", { class: "word" }, claim.claim),
        make("td", { class: "number" }, number(claim.theirs)),
        make("td", { class: "number" }, number(claim.ours)),
        make("td", { class: "number" }, number(ratio(claim))),
        make("td", { class: `verdict ${claim.verdict ?? "none"}`, title: claim.rule }, words(claim.verdict)),
        make("td", { class: "word" }, claim.why))));
      status.textContent = `${chosen.length} of ${all.length} claims`;
    }
    [paper, verdict].forEach((input) => input.addEventListener("change", show));
    search.addEventListener("input", show);
    show();
    const heads = [["paper", true], ["source", true], ["claim", true], ["theirs"], ["ours"], ["ours/theirs"], ["verdict"], ["why", true]];
    return [
      make("div", { class: "tools" }, make("label", {}, "paper", paper), make("label", {}, "verdict", verdict), make("label", { class: "grow" }, "text", search)),
      status,
      make("div", { class: "scroll" }, make("table", { class: "figures claims" },
        make("thead", {}, make("tr", {}, ...heads.map(([head, word]) => make("th", { scope: "col", class: word ? "word" : null }, head)))), body)),
    ];
  }

  /** Bars of ours, and a mark for theirs. */
  function chart(sheet) {
    const { unit, rows } = sheet.chart;
    const widest = Math.max(...rows.flatMap((row) => [row.ours ?? 0, row.theirs ?? 0]), Number.MIN_VALUE);
    const place = (value) => `${(100 * value) / widest}%`;
    const cells = rows.flatMap((row) => {
      const said = `${row.label}: ours ${number(row.ours)}${unit}, theirs ${number(row.theirs)}${row.theirs === null ? "" : unit}`;
      return [
        make("div", { class: "name", title: row.label }, make("bdi", {}, row.label)),
        make("div", { class: "chart-row", role: "img", "aria-label": said, title: said },
          row.ours === null ? null : make("div", { class: "own", style: `width:${place(row.ours)}` }),
          row.theirs === null ? null : make("div", { class: "theirs", style: `left:${place(row.theirs)}` })),
        make("div", { class: "sum" }, `${number(row.ours)}${row.theirs === null ? "" : ` (${number(row.theirs)})`}${unit}`),
      ];
    });
    return make("figure", {}, make("figcaption", {}, `${sheet.source}: ${sheet.title} — ${sheet.chart.what}`), make("div", { class: "bars" }, ...cells));
  }

  function table(sheet) {
    const columns = [{ head: "", word: true }, ...sheet.heads.map((head) => ({ head }))];
    const rows = sheet.rows.map((row) => [row.label, ...row.values.map(number)]);
    return make("details", {}, make("summary", {}, "all its figures"), figures(`${sheet.source}: ${sheet.title}`, columns, rows));
  }

  function paper(report) {
    const shown = report.sheets.filter((sheet) => sheet.chart);
    const patterns = report.patterns.map((sheet) => make("figure", {}, make("figcaption", {}, `${sheet.source}: ${sheet.title}`),
      make("pre", {}, sheet.rows.map((row) => `${row.label}\n  theirs  ${row.theirs || "–"}\n  ours    ${row.ours ?? "–"}`).join("\n"))));
    const places = [report.environment, ...report.elsewhere, ...report.guests].filter((one) => one);
    return make("section", { id: report.paper, "aria-labelledby": `${report.paper}-title` },
      make("h2", { id: `${report.paper}-title` }, report.paper),
      make("p", { class: "lead" }, report.title),
      make("p", { class: "note" }, `Their device: ${report.device_of_theirs}. Ours: ${places.map((one) => one.place).join("; ")}.`),
      key([["var(--c0)", "ours"], ["var(--c1)", "theirs"]]),
      make("div", { class: "pair" }, ...shown.map((sheet) => make("div", {}, chart(sheet), table(sheet)))),
      ...patterns,
      make("h3", {}, "To compare the two"),
      make("ul", {}, ...report.notes.map((note) => make("li", { class: "lead" }, note))));
  }

  document.getElementById("papers").append(...data.papers.map((one) => make("a", { href: `#${one.paper}` }, one.paper)));
  document.getElementById("summary").append(...summary());
  document.getElementById("claims").append(...claims());
  document.getElementById("figures").append(...data.papers.map(paper));
  document.getElementById("made-by").textContent = `Made by ${data.program}: oneflush bench --paper all. Nothing measured on the emulated devices is a claim about a product.`;
  return { data };
})();
document.documentElement.dataset.ready = "yes";
