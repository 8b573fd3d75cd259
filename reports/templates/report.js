// Sorts and filters the tables of a page. Without it all rows are shown, in the order of the file.
//
// A table is a `figure.table`. `data-facet` of a header names what its column can be filtered by,
// such as "Learner". `data-of` of any element says in JSON what all of it is of, such as
// {"Task": "Retrieval"}.
"use strict";
(() => {
  const NUMBER = /^[<>≤≥]?\s*([+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)/i;
  const MISSING = new Set(["", "-", "n/a", "none"]);
  const collator = new Intl.Collator("en", { numeric: true });

  /** The text of a cell or header without its footnote marks. */
  const textOf = (cell) =>
    cell.dataset.text ?? (cell.firstChild ? cell.firstChild.textContent.trim() : "");

  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  const tables = [...document.querySelectorAll("figure.table")].map((figure) => {
    const headers = [...figure.querySelectorAll("thead th")];
    for (const header of headers) header.dataset.text = textOf(header);
    const body = figure.querySelector("tbody");
    return { figure, headers, body, rows: [...body.rows] };
  });

  // ---- sorting ------------------------------------------------------------------------------

  const byColumn = (table, column, descending) => {
    const numeric = table.headers[column].classList.contains("r");
    const keyed = table.rows.map((row) => {
      const text = textOf(row.cells[column]);
      const key = numeric ? Number(NUMBER.exec(text)?.[1].replaceAll(",", "")) : text;
      return { row, key, missing: MISSING.has(text) || Number.isNaN(key) };
    });
    const compare = (a, b) => {
      if (a.missing || b.missing) return a.missing - b.missing; // last, whatever the direction
      const order = numeric ? a.key - b.key : collator.compare(a.key, b.key);
      return descending ? -order : order;
    };
    return keyed.sort(compare).map(({ row }) => row);
  };

  /** Sort by a column: its useful direction first, then the other, then the order of the file. */
  const sort = (table, column) => {
    const header = table.headers[column];
    const first = header.classList.contains("r") ? "descending" : "ascending";
    const second = first === "ascending" ? "descending" : "ascending";
    const now = header.getAttribute("aria-sort");
    const next = now === null ? first : now === first ? second : null;
    table.headers.forEach((other) => other.removeAttribute("aria-sort"));
    if (next) header.setAttribute("aria-sort", next);
    table.body.append(...(next ? byColumn(table, column, next === "descending") : table.rows));
  };

  for (const table of tables) {
    if (table.rows.length < 2) continue;
    table.headers.forEach((header, column) => {
      const button = make("button", { type: "button", title: "Sort by this column" });
      button.append(...header.childNodes);
      button.addEventListener("click", () => sort(table, column));
      header.append(button);
    });
  }

  // ---- copying ------------------------------------------------------------------------------

  // A page that was loaded by plain HTTP has no clipboard.
  for (const text of navigator.clipboard ? document.querySelectorAll("pre") : []) {
    const button = make("button", { type: "button", className: "copy", textContent: "Copy" });
    const content = text.textContent;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(content);
      button.textContent = "Copied";
    });
    text.append(button);
  }

  // ---- filters ------------------------------------------------------------------------------

  const marked = [...document.querySelectorAll("[data-of]")].map((element) => ({
    element,
    of: Object.entries(JSON.parse(element.dataset.of)),
  }));
  const values = new Map(); // of each facet, in the order of the page
  const add = (facet, value) => {
    if (!values.has(facet)) values.set(facet, new Set());
    if (!MISSING.has(value)) values.get(facet).add(value);
  };
  marked.forEach(({ of }) => of.forEach(([facet, value]) => add(facet, value)));
  for (const table of tables) {
    table.headers.forEach((header, column) => {
      const facet = header.dataset.facet;
      if (facet) table.rows.forEach((row) => add(facet, textOf(row.cells[column])));
    });
  }

  const chosen = new Map(); // the ticked values of each facet; none ticked shows all
  const passes = (facet, value) =>
    !chosen.get(facet)?.size || chosen.get(facet).has(value) || MISSING.has(value);

  const status = make("output");
  const apply = () => {
    for (const { facet, boxes, count } of pickers) {
      const ticked = boxes.filter((box) => box.checked).map((box) => box.value);
      chosen.set(facet, new Set(ticked));
      count.textContent = ticked.length ? `${ticked.length} of ${boxes.length}` : "all";
    }
    for (const table of tables) {
      const facets = table.headers
        .map((header, column) => [header.dataset.facet, column])
        .filter(([facet]) => chosen.get(facet)?.size);
      let left = 0;
      table.rows.forEach((row) => {
        row.hidden = !facets.every(([facet, column]) => passes(facet, textOf(row.cells[column])));
        left += !row.hidden;
      });
      table.figure.hidden = table.rows.length > 0 && left === 0;
    }
    for (const { element, of } of marked) {
      const isTable = element.matches("figure.table");
      const hidden = !of.every(([facet, value]) => passes(facet, value));
      element.hidden = isTable ? element.hidden || hidden : hidden;
    }
    const rows = tables.flatMap((table) => table.rows);
    const shown = rows.filter((row) => !row.closest("[hidden]")).length;
    const all = rows.length;
    status.value = shown < all ? `${shown} of ${all} rows` : "";
  };

  const header = document.querySelector("header");
  const start = JSON.parse(header?.dataset.start ?? "{}"); // what is ticked at first

  /** A list of boxes to tick; none ticked shows all. */
  const picker = (facet) => {
    const count = make("span", { textContent: "all" });
    const boxes = [...values.get(facet)].map((value) => make("input", { type: "checkbox", value }));
    const labels = boxes.map((box) => make("label", {}, box, make("bdi", { textContent: box.value })));
    const legend = make("legend", { textContent: `Show only (${facet})` });
    for (const box of boxes) box.checked = start[facet] === box.value;
    const details = make(
      "details",
      { name: "filters" },
      make("summary", {}, `${facet}: `, count),
      make("fieldset", {}, legend, ...labels),
    );
    return { facet, boxes, count, details };
  };

  const pickers = [...values].filter(([, of]) => of.size > 1).map(([facet]) => picker(facet));
  if (pickers.length && header) {
    const reset = make("button", { type: "button", textContent: "Show all" });
    reset.addEventListener("click", () => {
      for (const box of pickers.flatMap(({ boxes }) => boxes)) box.checked = false;
      apply();
    });
    const form = make("form", { className: "filters" }, ...pickers.map((it) => it.details));
    form.setAttribute("aria-label", "Filter the tables of this page");
    form.append(reset, status);
    form.addEventListener("change", apply);
    header.after(form);
    apply();
    const close = () => pickers.forEach(({ details }) => details.removeAttribute("open"));
    document.addEventListener("click", (event) => {
      if (!form.contains(event.target)) close();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      const open = event.target.closest("details[open]");
      close();
      open?.querySelector("summary").focus();
    });
  }
})();
