/* A list of any length, of which only the rows in view and few around them are elements.

`load(offset, limit)` resolves to { total, rows }; `render(row, index)` makes the content of a row. Rows are as high as
the style variable --row says. Up, Down, Page Up, Page Down, Home and End move the focus; one row is in the tab order. */
"use strict";
const PAGE_ROWS = 100;
const ROWS_AROUND = 8;

class VirtualList {
  constructor({ label, load, render, className = "" }) {
    this.load = load;
    this.render = render;
    this.total = 0;
    this.active = 0;
    this.pages = new Map();
    this.drawn = new Map();
    this.rows = element("div", { role: "list", "aria-label": label, class: "rows" });
    this.node = element("div", { class: `scroller ${className}` }, this.rows);
    this.node.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()));
    this.node.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => this.draw(true)).observe(this.node);
  }

  get rowHeight() { return parseFloat(getComputedStyle(this.node).getPropertyValue("--row")) || 40; }
  row(index) { return this.pages.get(Math.floor(index / PAGE_ROWS))?.[index % PAGE_ROWS]; }

  /* Ask for the pages in view again; what is shown stays until they are there, and if they are the same. */
  async refresh() {
    const before = new Map(this.pages), total = this.total, wanted = new Set(this.inView().map((index) => Math.floor(index / PAGE_ROWS)));
    if (!wanted.size) wanted.add(0);
    for (const page of [...this.pages.keys()]) if (!wanted.has(page)) this.pages.delete(page);
    await Promise.all([...wanted].map((page) => this.fetchPage(page)));
    if (total !== this.total || [...wanted].some((page) => before.get(page) !== this.pages.get(page))) this.draw(true);
  }

  async fetchPage(page) {
    if (!this.pages.has(page)) this.pages.set(page, []);
    const { total, rows } = await this.load(page * PAGE_ROWS, PAGE_ROWS);
    this.pages.set(page, rows);
    this.total = total;
    this.active = Math.max(0, Math.min(this.active, total - 1));
  }

  inView() {
    const height = this.rowHeight, first = Math.floor(this.node.scrollTop / height) - ROWS_AROUND;
    const last = Math.ceil((this.node.scrollTop + this.node.clientHeight) / height) + ROWS_AROUND;
    const indexes = [];
    for (let index = Math.max(0, first); index < Math.min(this.total, last); index += 1) indexes.push(index);
    return indexes;
  }

  draw(isAnew = false) {
    const height = this.rowHeight, indexes = this.inView(), focused = this.focusedControl();
    this.rows.style.height = `${this.total * height}px`;
    for (const [index, node] of this.drawn) if (isAnew || !indexes.includes(index)) { node.remove(); this.drawn.delete(index); }
    for (const index of indexes) {
      if (this.drawn.has(index)) continue;
      const row = this.row(index);
      if (row === undefined) this.missing(index);
      else this.put(index, row, height);
    }
    this.activate();
    if (focused >= 0 && this.focusedControl() < 0) this.focusRow(focused);
  }

  controls(index) { return [...(this.drawn.get(index)?.querySelectorAll("a, button, input") ?? [])]; }
  /* Which control of the active row has the focus; -1 if none has. */
  focusedControl() { return this.controls(this.active).indexOf(document.activeElement); }
  focusRow(control = -1) {
    const all = this.controls(this.active);
    (all[control] ?? all.find((each) => each.matches("a, button")))?.focus({ preventScroll: true });
  }

  put(index, row, height) {
    const node = element("div", { role: "listitem", "aria-setsize": this.total, "aria-posinset": index + 1, class: "row" }, ...[this.render(row, index)].flat());
    node.style.top = `${index * height}px`;
    node.addEventListener("focusin", () => { this.active = index; this.activate(); });
    const after = [...this.drawn.keys()].filter((each) => each > index).sort((one, other) => one - other)[0];
    this.rows.insertBefore(node, after === undefined ? null : this.drawn.get(after));
    this.drawn.set(index, node);
  }

  missing(index) {
    const page = Math.floor(index / PAGE_ROWS);
    if (this.pages.has(page)) return;
    this.fetchPage(page).then(() => this.draw(), () => this.pages.delete(page));
  }

  /* Only the active row is in the tab order. */
  activate() {
    for (const index of this.drawn.keys()) for (const control of this.controls(index)) control.tabIndex = index === this.active ? 0 : -1;
  }

  /* Bring a row into view, and into the tab order. */
  async go(index, takesFocus) {
    this.active = Math.max(0, Math.min(this.total - 1, index));
    const height = this.rowHeight, top = this.active * height, node = this.node;
    if (top < node.scrollTop) node.scrollTop = top;
    else if (top + height > node.scrollTop + node.clientHeight) node.scrollTop = top + height - node.clientHeight;
    const page = Math.floor(this.active / PAGE_ROWS);
    if (!this.pages.has(page)) await this.fetchPage(page);
    this.draw();
    if (takesFocus) this.focusRow();
  }

  onKey(event) {
    const page = Math.max(1, Math.floor(this.node.clientHeight / this.rowHeight) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.total, End: this.total };
    if (!(event.key in steps) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    this.go(this.active + steps[event.key], true);
  }
}
