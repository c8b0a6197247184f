// A table that sorts, filters, pages and exports. A column: {label, numeric, value(row), cell(row)?, note?};
// with `size`, numbers are sorted by absolute value.
class DataTable {
  constructor(root, { caption, columns, rows, file, sort = null, size = 25 }) {
    Object.assign(this, { root, caption, columns, rows, file, size, sort, page: 0, words: "" });
    this.id = `table-${DataTable.made++}`;
    DataTable.all.add(this);
    this.build();
    this.refresh();
  }

  build() {
    this.search = element("input", { type: "search", id: `${this.id}-search`, autocomplete: "off", oninput: () => this.filter(this.search.value) });
    const csv = element("button", { type: "button", class: "export", onclick: () => this.save() }, "Save as CSV");
    this.head = element("tr");
    this.body = element("tbody");
    this.status = element("span", { class: "count", role: "status", "aria-live": "polite" });
    this.before = element("button", { type: "button", class: "before", onclick: () => this.turn(-1) }, "Previous");
    this.after = element("button", { type: "button", class: "after", onclick: () => this.turn(1) }, "Next");
    this.columns.forEach((column, k) => {
      const button = element("button", { type: "button", title: column.note, onclick: () => this.order(k) }, column.label);
      this.head.append(element("th", { scope: "col", class: column.numeric ? "number" : null }, button));
    });
    const table = element("table", { class: "data-table", id: this.id }, element("caption", { class: "unseen" }, this.caption), element("thead", {}, this.head), this.body);
    this.root.replaceChildren(
      element("div", { class: "tools" }, element("label", { for: `${this.id}-search` }, "Search", this.search), element("span", { class: "grow" }), csv),
      element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": this.caption }, table),
      element("div", { class: "pager" }, this.before, this.after, this.status)
    );
  }

  filter(words) {
    this.words = words;
    this.page = 0;
    this.refresh();
  }

  order(k) {
    const numeric = this.columns[k].numeric;
    const same = this.sort && this.sort[0] === k;
    this.sort = [k, same ? !this.sort[1] : !numeric]; // numbers descending first, words ascending
    this.page = 0;
    this.refresh();
  }

  turn(step) {
    this.page += step;
    this.draw();
  }

  refresh() {
    const words = this.words.toLowerCase().split(/\s+/).filter(Boolean);
    const texts = this.columns.filter((column) => !column.numeric);
    this.shown = words.length
      ? this.rows.filter((row) => {
          const text = texts.map((column) => column.value(row)).join(" ").toLowerCase();
          return words.every((word) => text.includes(word));
        })
      : this.rows.slice();
    if (this.sort) {
      const [k, rising] = this.sort;
      const { value, numeric, size } = this.columns[k];
      const sign = rising ? 1 : -1;
      const keyed = this.shown.map((row) => [size ? Math.abs(value(row)) : value(row), row]);
      keyed.sort(([a], [b]) => (numeric ? DataTable.byNumber(a, b, sign) : sign * String(a).localeCompare(String(b), undefined, { numeric: true })));
      this.shown = keyed.map((pair) => pair[1]);
    }
    [...this.head.children].forEach((th, k) => {
      if (this.sort && this.sort[0] === k) th.setAttribute("aria-sort", this.sort[1] ? "ascending" : "descending");
      else th.removeAttribute("aria-sort");
    });
    this.draw();
  }

  static byNumber(a, b, sign) {
    const [x, y] = [Number.isFinite(a), Number.isFinite(b)];
    return x && y ? sign * (a - b) : y - x; // missing numbers come last in both directions
  }

  draw(size = this.size) {
    const pages = Math.max(1, Math.ceil(this.shown.length / size));
    this.page = Math.min(Math.max(0, this.page), pages - 1);
    const start = this.page * size;
    const here = this.shown.slice(start, start + size);
    this.body.replaceChildren(...here.map((row) => this.row(row)));
    if (!here.length) this.body.append(element("tr", {}, element("td", { class: "empty", colspan: this.columns.length }, "Nothing found.")));
    this.status.textContent = here.length ? `${start + 1} to ${start + here.length} of ${this.shown.length}${this.shown.length < this.rows.length ? ` (${this.rows.length} in all)` : ""}` : `0 of ${this.rows.length}`;
    this.root.dataset.shown = this.shown.length;
    this.before.disabled = this.page === 0;
    this.after.disabled = this.page >= pages - 1;
  }

  row(row) {
    const cells = this.columns.map((column) => {
      const value = column.value(row);
      const content = column.cell ? column.cell(row) : column.numeric ? number(value, column.digits ?? 2) : breakable(value);
      return element("td", { class: column.numeric ? "number" : null }, content);
    });
    return element("tr", {}, ...cells);
  }

  csv() {
    const lines = [this.columns.map((column) => quoted(column.label))];
    for (const row of this.shown) lines.push(this.columns.map((column) => (column.numeric ? plain(column.value(row)) : quoted(column.value(row)))));
    return lines.map((line) => line.join(",")).join("\r\n") + "\r\n";
  }

  save() {
    const blob = new Blob(["\ufeff", this.csv()], { type: "text/csv;charset=utf-8" });
    const link = element("a", { href: URL.createObjectURL(blob), download: this.file });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
}
DataTable.made = 0;
DataTable.all = new Set();

const plain = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(6))) : "");
function quoted(value) {
  const text = String(value);
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text; // a spreadsheet must not read a name as a formula
  return `"${safe.replaceAll('"', '""')}"`;
}
