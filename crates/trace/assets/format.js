"use strict";
// Numbers, sizes and times as text, and elements made of text: nothing of the data is ever read as markup.

const Format = {
  /** 1,234,567 */
  count: (number) => Math.round(number).toLocaleString("en-US"),

  /** Three digits or so, without an exponent. Null is what nobody knows. */
  short(number) {
    if (number === null) return "–";
    const size = Math.abs(number);
    if (size === 0) return "0";
    if (size >= 1000) return Format.count(number);
    if (size >= 100) return number.toFixed(0);
    if (size >= 10) return number.toFixed(1);
    if (size >= 1) return number.toFixed(2);
    return String(Number(number.toPrecision(2)));
  },

  bytes(bytes) {
    if (bytes < 1024 ** 2) return `${Format.short(bytes / 1024)} KB`;
    if (bytes < 1024 ** 3) return `${Format.short(bytes / 1024 ** 2)} MB`;
    return `${Format.short(bytes / 1024 ** 3)} GB`;
  },

  /** A tick of an axis in KB. */
  kbTick: (kb) => Format.bytes(kb * 1024).replace(/\.0+ /, " "),

  ms(ms) {
    return ms < 1000 ? `${Format.short(ms)} ms` : `${Format.short(ms / 1000)} s`;
  },

  percent(share) {
    const percent = share * 100;
    return `${percent === 0 || percent >= 10 ? percent.toFixed(0) : percent.toFixed(percent >= 1 ? 1 : 2)} %`;
  },

  /** The end of a path, which is what tells it from others. */
  tail: (text, length) => (text.length <= length ? text : `…${text.slice(text.length - length + 1)}`),
};

/** An element: `make("td", {class: "word"}, "text", another)`. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") element.style.cssText = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** A table of figures. Columns: `{head, word, tail}`, where `tail` is how much of a long text is shown; a row is a list of texts. */
function figures(caption, columns, rows) {
  const cell = (tag, text, { word, tail }, scope) =>
    make(tag, { class: word ? "word" : null, scope, title: word ? text : null }, tail ? Format.tail(text, tail) : text);
  const head = make("tr", {}, ...columns.map((column) => cell("th", column.head, column, "col")));
  const body = rows.map((row) =>
    make("tr", {}, ...row.map((text, at) => cell(at === 0 ? "th" : "td", text, columns[at], at === 0 ? "row" : null))));
  return make("div", { class: "scroll" }, make("table", { class: "figures" },
    make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...body)));
}

/** What a colour means. Items: `[colour, text]`. */
function key(items) {
  return make("ul", { class: "key" }, ...items.map(([colour, text]) =>
    make("li", {}, make("span", { class: "swatch", style: `background:${colour}` }), text)));
}
