// The embedded data. Columns of transactions become typed arrays; `order` has their numbers by begin, over all traces.

const Data = (() => {
  const raw = JSON.parse(document.getElementById("data").textContent);
  const from = raw.transactions;
  const count = from.trace.length;
  const begin = new Float64Array(count);
  for (let n = 0, us = 0; n < count; n++) {
    us = n > 0 && from.trace[n] === from.trace[n - 1] ? us + from.begin_us[n] : from.begin_us[n];
    begin[n] = us / 1e6;
  }
  const floats = (column, unit) => Float64Array.from(column, (value) => value / unit);
  const total = new Float64Array(count);
  const bytes = from.bytes.map((column) => Float64Array.from(column));
  for (const column of bytes) column.forEach((value, n) => (total[n] += value));
  const order = Uint32Array.from({ length: count }, (_, n) => n);
  if (raw.traces.length > 1) order.sort((a, b) => begin[a] - begin[b]);
  const pictures = new Map(raw.pictures.map((picture) => [picture.transaction, picture]));
  return {
    ...raw,
    count,
    order,
    pictures,
    columns: {
      ...from,
      trace: Uint32Array.from(from.trace),
      begin, // seconds
      latency: floats(from.latency_us, 1000), // milliseconds
      total,
      bytes,
      database: Uint32Array.from(from.database),
      process: Uint32Array.from(from.process),
      mode: Uint8Array.from(from.mode),
      outcome: Uint8Array.from(from.outcome),
    },
    classKeys: ["db", "journal", "fs_journal", "metadata"],
    classColours: ["--db", "--journal", "--fs-journal", "--metadata"],
  };
})();
