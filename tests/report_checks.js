// Run inside a report by test_report_page.py: tells the page around it what a reader would find.
addEventListener("error", (event) => report({ error: event.message }));
const report = (found) => parent.postMessage(JSON.stringify(found), "*");

// Words of at most so many letters never break at the end of a line; longer ones may have to.
const SHORT = 20;
const hidden = (one) => {
  const head = one.closest("thead");
  return head !== null && head.getBoundingClientRect().width <= 1;
};
function brokenWords() {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange(), broken = [];
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (text.parentElement.closest("svg, script, style, option") || hidden(text.parentElement)) continue;
    for (const word of text.data.matchAll(/[\p{L}\p{N}_.]+/gu)) {
      if (word[0].length < 2 || word[0].length > SHORT) continue;
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((part) => Math.round(part.top))).size > 1)
        broken.push(`${word[0]} in ${text.parentElement.tagName}: ${text.data.slice(0, 60)}`);
    }
  }
  return broken;
}

// Of every column of every table: its cells as they stand, and sorted upwards and downwards.
function sortings() {
  const found = [];
  for (const table of document.querySelectorAll("table.sortable")) {
    const rows = [...table.tBodies[0].rows], heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = head.querySelector("button"), cells = () => [...table.tBodies[0].rows].map((row) => row.cells[column].textContent);
      if (!button) return;
      const one = { table: table.parentElement.getAttribute("aria-label"), head: head.textContent, before: cells() };
      button.click(); one.up = cells(); one.rising = head.getAttribute("aria-sort");
      button.click(); one.down = cells(); one.falling = head.getAttribute("aria-sort");
      table.tBodies[0].append(...rows);
      found.push(one);
    });
  }
  return found;
}

// Of every table with a filter: how many rows it has, and those that stay for words of its first row.
function filterings() {
  return [...document.querySelectorAll(".tools input")].map((input) => {
    const rows = [...input.closest(".tools").nextElementSibling.querySelectorAll("tbody tr")];
    const words = rows[0].cells[1].textContent.toLowerCase().split(/\s+/).filter(Boolean);
    const type = (text) => { input.value = text; input.dispatchEvent(new Event("input")); };
    type(words.join(" "));
    const left = rows.filter((row) => row.offsetHeight).map((row) => row.textContent.toLowerCase());
    type("");
    return { words, left, all: rows.length, back: rows.filter((row) => row.offsetHeight).length };
  });
}

// Whether the keyboard gets there: the Tab key stops at it, and it takes the focus.
function unreachable(one) {
  one.focus();
  return one.tabIndex < 0 || document.activeElement !== one;
}

// One figure after the other, opened and closed as a reader does; the last is told of in full.
function enlarge(figures, then, wrong = []) {
  const [figure, ...others] = figures, svg = figure.querySelector("svg"), small = svg.getBoundingClientRect().width;
  figure.querySelector(".zoom").click();
  const dialog = document.querySelector("dialog"), close = dialog.querySelector("button");
  const opened = [dialog.open, dialog.contains(svg), svg.getBoundingClientRect().width / small];
  if (unreachable(close)) wrong.push("Close");
  dialog.addEventListener("close", () => setTimeout(() => {
    const back = figure.contains(svg);
    if (!opened[0] || !opened[1] || !back) wrong.push(figure.textContent.slice(0, 60));
    if (others.length) enlarge(others, then, wrong); else then(opened, back, wrong);
  }), { once: true });
  close.click();
}

addEventListener("load", () => setTimeout(() => {
  const loaded = performance.getEntriesByType("navigation")[0];
  const found = { width: innerWidth, wide: [], unfocused: [], dark: matchMedia("(prefers-color-scheme: dark)").matches, milliseconds: loaded.loadEventEnd };
  for (const details of document.querySelectorAll("details")) details.open = true;
  found.scroll = document.documentElement.scrollWidth;
  for (const one of document.querySelectorAll("body *")) {
    if (one.closest("svg") && one.tagName !== "svg") continue;
    if (!hidden(one) && one.getBoundingClientRect().right > innerWidth + 0.5) found.wide.push(one.tagName + "." + one.className);
  }
  found.broken = brokenWords();
  const reached = [...document.querySelectorAll(".wide, .zoom, summary, .tools input, th button, a[href]")].filter((one) => one.offsetParent !== null);
  for (const one of reached) if (unreachable(one)) found.unfocused.push(one.tagName + " " + one.textContent.slice(0, 40));
  found.kinds = [...new Set(reached.map((one) => one.tagName))].sort();
  found.focusable = document.querySelectorAll(".wide").length + document.querySelectorAll(".zoom").length;
  found.sorted = sortings();
  found.filtered = filterings();
  const figures = [...document.querySelectorAll("figure")];
  if (!figures.length) return report(found);
  enlarge(figures, (opened, back, wrong) => report(Object.assign(found, { enlarged: opened, back, wrong, figures: figures.length })));
}));
