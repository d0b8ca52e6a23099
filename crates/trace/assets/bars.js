// Bars of plain elements: bytes by class, stacked, for traces and databases; medians of the classes with their quartiles.

const Bars = (() => {
  const sumOf = (bytes) => Data.classKeys.reduce((total, name) => total + bytes[name], 0);

  /** Rows `{name, bytes}`, as long as their sums. */
  function stacked(title, rows) {
    const longest = Math.max(1, ...rows.map((row) => sumOf(row.bytes)));
    const cells = rows.flatMap(({ name, bytes }) => {
      const all = sumOf(bytes);
      const parts = Data.classKeys.map((of, at) => ({ part: bytes[of], at })).filter(({ part }) => part > 0);
      const said = `${name}: ${parts.map(({ part, at }) => `${Data.classes[at]} ${Format.bytes(part)}, ${Format.percent(part / all)}`).join("; ")}`;
      const spans = parts.map(({ part, at }) => make("span", {
        style: `flex:${part} 1 0;background:var(${Data.classColours[at]});color:${at === 1 ? "#2b1c02" : "#fff"}`,
        title: `${Data.classes[at]}: ${Format.bytes(part)}, ${Format.percent(part / all)}`,
      }, part / longest > 0.09 ? Format.percent(part / all) : ""));
      return [
        make("div", { class: "name", title: name }, make("bdi", {}, name)),
        make("div", {}, make("div", { class: "bar", role: "img", "aria-label": said, style: `width:${(100 * all) / longest}%` }, ...spans)),
        make("div", { class: "sum" }, Format.bytes(all)),
      ];
    });
    return make("figure", {}, make("figcaption", {}, title), make("div", { class: "bars" }, ...cells));
  }

  const totals = () => stacked("Bytes of all transactions", Data.traces.map((trace) => ({ name: trace.trace, bytes: trace.bytes })));

  /** The databases with most bytes, of all traces. */
  function databases() {
    const several = Data.traces.length > 1;
    const rows = Data.traces.flatMap((trace) =>
      trace.databases.map((row) => ({ name: several ? `${trace.trace}: ${row.database}` : row.database, bytes: row.bytes })));
    rows.sort((a, b) => sumOf(b.bytes) - sumOf(a.bytes));
    const more = rows.length > 10 ? `, the first 10 of ${Format.count(rows.length)}` : "";
    return stacked(`Databases by bytes${more}`, rows.slice(0, 10));
  }

  /** For each class a bar from the lower to the upper quartile, with the median in it. */
  function medians() {
    const widest = Math.max(1, ...Data.traces.flatMap((trace) => Data.classKeys.map((name) => trace.kb_by_class[name].q75)));
    const place = (kb) => `${(100 * kb) / widest}%`;
    const cells = Data.traces.flatMap((trace) => Data.classKeys.flatMap((of, at) => {
      const { q25, median, q75 } = trace.kb_by_class[of];
      if (median === null || trace.bytes[of] === 0) return [];
      const name = Data.traces.length > 1 ? `${trace.trace}: ${Data.classes[at]}` : Data.classes[at];
      const colour = `background:var(${Data.classColours[at]})`;
      const said = `${name}: median ${Format.short(median)} KB, quartiles ${Format.short(q25)} and ${Format.short(q75)} KB`;
      return [
        make("div", { class: "name", title: name }, make("bdi", {}, name)),
        make("div", { class: "range", role: "img", "aria-label": said, title: said },
          make("div", { class: "box", style: `${colour};left:${place(q25)};width:${place(q75 - q25)}` }),
          make("div", { class: "mid", style: `${colour};left:${place(median)}` })),
        make("div", { class: "sum" }, `${Format.short(median)} KB`),
      ];
    }));
    return make("figure", {}, make("figcaption", {}, "Median by class, between its quartiles"), make("div", { class: "bars" }, ...cells));
  }

  return { totals, databases, medians };
})();
