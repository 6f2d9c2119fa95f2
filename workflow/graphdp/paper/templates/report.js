// Sorts and filters the tables and enlarges the figures. Without it the page shows the same.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells], rows = [...body.rows];
  const text = (row, column) => row.cells[column].textContent.trim();
  // What a cell begins with: "+5.8", "82.1 ± 0.5", "81.9 [81.3, 82.6]", "1,354,934", "899 kB", "claimed ε = 8 (node level)".
  const number = (value) => {
    const found = value.match(/^(?:claimed )?(?:ε ?= ?)?[<>≤≥≈]? ?([-+−]?(?:∞|inf\b|\d[\d,]*\.?\d*(?:e[-+]?\d+)?|\.\d+))(?: ([kKMGTP])B\b)?/);
    if (!found) return NaN;
    const bare = found[1].replace(/,(?=\d{3})/g, "").replace("−", "-").replace(/∞|inf/, "Infinity");
    return parseFloat(bare) * (found[2] ? 1000 ** (1 + "KMGTP".indexOf(found[2].toUpperCase())) : 1);
  };
  const empty = (value) => value === "" || /^(–|none\b|missing\b)/.test(value);
  const sort = (column, down) => {
    const key = (row) => text(row, column);
    const numeric = rows.some((row) => !isNaN(number(key(row)))) &&
      rows.every((row) => empty(key(row)) || /^[^0-9]*$/.test(key(row)) || !isNaN(number(key(row))));
    const compare = (a, b) => {
      const x = key(a), y = key(b), m = number(x), n = number(y);
      if (empty(x) !== empty(y)) return empty(x) ? 1 : -1;  // whichever way: what is missing comes last,
      if (numeric && isNaN(m) !== isNaN(n)) return isNaN(m) ? 1 : -1;  // and what is no number
      const order = numeric && m !== n && !isNaN(m) ? m - n : x.localeCompare(y, "en", { numeric: true });
      return down ? -order : order;
    };
    body.append(...[...rows].sort(compare));
    heads.forEach((head, at) => at === column ? head.setAttribute("aria-sort", down ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
  };
  const toggle = (column) => sort(column, heads[column].getAttribute("aria-sort") === "ascending");
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => toggle(column));
  });
  if (rows.length < 4) continue;
  const tools = document.createElement("div");
  tools.className = "tools";
  tools.innerHTML = '<label>Filter <input type="search" placeholder="words of a row"></label>' +
    '<label class="by">Sort by <select><option value="">as it stands</option></select></label><span role="status"></span>';
  const [input, by, shown] = [tools.querySelector("input"), tools.querySelector("select"), tools.querySelector("span")];
  heads.forEach((head, column) => by.add(new Option(head.textContent, column)));
  by.addEventListener("change", () => by.value === "" ? body.append(...rows) : sort(Number(by.value), false));
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    const left = rows.filter((row) => !row.hidden).length;
    shown.textContent = words.length ? `${left} of ${rows.length} rows` : "";
  });
  table.parentElement.before(tools);
}
const dialog = document.createElement("dialog");
dialog.innerHTML = '<button type="button">Close</button>';
dialog.setAttribute("aria-label", "Figure, enlarged");
document.body.append(dialog);
dialog.firstChild.addEventListener("click", () => dialog.close());
for (const figure of document.querySelectorAll("figure")) {
  const drawing = figure.querySelector(".drawing"), zoom = document.createElement("button");
  zoom.type = "button";
  zoom.className = "zoom";
  zoom.textContent = "Enlarge";
  zoom.addEventListener("click", () => {
    dialog.append(drawing);
    drawing.tabIndex = 0;
    dialog.showModal();
    dialog.addEventListener("close", () => {
      drawing.removeAttribute("tabindex");
      figure.prepend(drawing);
      zoom.focus();
    }, { once: true });
  });
  drawing.after(zoom);
}
