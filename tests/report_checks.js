// Run inside a report by test_report_page.py: tells the page around it what a reader would find.
addEventListener("error", (event) => report({ error: event.message }));
const report = (found) => parent.postMessage(JSON.stringify(found), "*");
addEventListener("load", () => setTimeout(() => {
  const found = { width: innerWidth, wide: [], unfocused: [], dark: matchMedia("(prefers-color-scheme: dark)").matches };
  for (const details of document.querySelectorAll("details")) details.open = true;
  found.scroll = document.documentElement.scrollWidth;
  for (const one of document.querySelectorAll("body *")) {
    if (one.closest("svg") && one.tagName !== "svg") continue;
    const head = one.closest("thead");
    if (head && head.getBoundingClientRect().width <= 1) continue;
    if (one.getBoundingClientRect().right > innerWidth + 0.5) found.wide.push(one.tagName + "." + one.className);
  }
  for (const one of document.querySelectorAll(".wide, .zoom, summary, .tools input")) {
    one.focus();
    if (document.activeElement !== one) found.unfocused.push(one.className);
  }
  found.focusable = document.querySelectorAll(".wide").length + document.querySelectorAll(".zoom").length;
  const table = document.querySelector("table.sortable");
  const column = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === "accuracy, %");
  const button = table.tHead.rows[0].cells[column].querySelector("button");
  const values = () => [...table.tBodies[0].rows].map((row) => row.cells[column].textContent);
  found.before = values();
  button.click(); found.up = values();
  button.click(); found.down = values();
  found.sorted = table.tHead.rows[0].cells[column].getAttribute("aria-sort");
  const input = document.querySelector(".tools input");
  input.value = "gap node";
  input.dispatchEvent(new Event("input"));
  found.left = [...table.tBodies[0].rows].filter((row) => row.offsetHeight).map((row) => row.textContent);
  const figure = document.querySelector("figure"), svg = figure.querySelector("svg"), small = svg.getBoundingClientRect().width;
  figure.querySelector(".zoom").click();
  const dialog = document.querySelector("dialog");
  found.enlarged = [dialog.open, dialog.contains(svg), svg.getBoundingClientRect().width / small];
  dialog.addEventListener("close", () => setTimeout(() => {
    found.back = figure.contains(svg);
    report(found);
  }));
  dialog.close();
}));
