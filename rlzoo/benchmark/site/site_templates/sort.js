"use strict";
// Sort a table by the heading that is selected, and show only the rows that contain what is typed.

const number = (text) => Number.parseFloat(text.replaceAll(",", ""));

const magnitude = { k: 1e3, M: 1e6 };

function value(cell) {
  const text = cell.textContent.trim();
  if (!cell.classList.contains("number")) return text.toLowerCase();
  const found = number(text);
  return Number.isNaN(found) ? -Infinity : found * (magnitude[text.slice(-1)] ?? 1);
}

function sortBy(table, heading) {
  const headings = [...heading.parentElement.children];
  const index = headings.indexOf(heading);
  const isNumber = heading.classList.contains("number");
  const before = heading.getAttribute("aria-sort");
  // Numbers start with the largest, text with A.
  const direction = before ? (before === "ascending" ? "descending" : "ascending") : isNumber ? "descending" : "ascending";
  for (const other of headings) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", direction);
  const sign = direction === "ascending" ? 1 : -1;
  const body = table.tBodies[0];
  const keyed = [...body.rows].map((row) => [value(row.cells[index]), row]);
  keyed.sort(([a], [b]) => sign * (a < b ? -1 : a > b ? 1 : 0));
  body.append(...keyed.map(([, row]) => row));
}

function show(table, wanted) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const row of table.tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    count += row.hidden ? 0 : 1;
  }
  document.getElementById("shown").textContent = `${count} of ${table.tBodies[0].rows.length} rows`;
}

for (const table of document.querySelectorAll("table.sortable")) {
  for (const heading of table.tHead.rows[0].cells) {
    heading.addEventListener("click", () => sortBy(table, heading));
  }
  const filter = document.getElementById("filter");
  filter.addEventListener("input", () => show(table, filter.value));
  show(table, filter.value);
}
