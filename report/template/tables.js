// Tables that a reader can sort by a column and filter by a form. They are whole without this script.
"use strict";
(() => {
  const say = (text) => { document.getElementById("announcer").textContent = text; };

  // A cell's number: what the template noted, else the first number in its text. NaN: none.
  const numberOf = (cell) => {
    if (!cell) return NaN;
    const noted = cell.dataset.value;
    if (noted !== undefined) return noted === "" ? NaN : Number(noted);
    const found = cell.textContent.replaceAll(",", "").match(/-?\d+(\.\d+)?/);
    return found ? Number(found[0]) : NaN;
  };

  // The cell of a row below a column of the head, where cells may span several.
  const cellAt = (row, column) => {
    let at = 0;
    for (const cell of row.cells) {
      at += cell.colSpan;
      if (at > column) return cell;
    }
    return null;
  };

  const sort = (table, head, column) => {
    const descending = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const numeric = head.classList.contains("number");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => {
      const cell = cellAt(row, column);
      return { row, key: numeric ? numberOf(cell) : (cell ? cell.textContent.trim() : "") };
    });
    const sign = descending ? -1 : 1;
    rows.sort((one, other) => {
      if (!numeric) return sign * one.key.localeCompare(other.key, undefined, { numeric: true });
      if (Number.isNaN(one.key) || Number.isNaN(other.key)) return Number.isNaN(one.key) - Number.isNaN(other.key);
      return sign * (one.key - other.key);
    });
    body.append(...rows.map(({ row }) => row));
    say(`Sorted by ${head.firstElementChild.textContent.trim()}, ${descending ? "descending" : "ascending"}.`);
  };

  for (const table of document.querySelectorAll("table[data-sortable]")) {
    if (table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(table, head, column));
    });
  }

  for (const form of document.querySelectorAll("form[data-filters]")) {
    const table = document.getElementById(form.dataset.filters);
    const count = document.getElementById(`${form.dataset.filters}-count`);
    const rows = [...table.tBodies[0].rows];
    const texts = new Map(rows.map((row) => [row, row.textContent.replace(/\s+/g, " ").toLowerCase()]));
    const show = () => {
      // Machines are columns: those that are not asked for go, and the rows that have nothing in the others.
      const columns = [...form.querySelectorAll("input[name=machine]")].flatMap((box) => {
        const cells = [...table.querySelectorAll(`[data-machine="${box.value}"]`)];
        for (const cell of cells) cell.hidden = !box.checked;
        return box.checked ? cells : [];
      });
      const rest = new Set(columns.filter((cell) => cell.dataset.value !== undefined).map((cell) => cell.parentElement));
      const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
      const menus = [...form.querySelectorAll("select")].filter((menu) => menu.value);
      let shown = 0;
      for (const row of rows) {
        const fits = menus.every((menu) => row.dataset[menu.name] === menu.value)
          && (!form.elements.best?.checked || row.dataset.best === "1")
          && (!form.elements.machine || rest.has(row))
          && words.every((word) => texts.get(row).includes(word));
        row.hidden = !fits;
        shown += fits;
      }
      count.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows shown`;
    };
    form.addEventListener("input", show);
    form.addEventListener("reset", () => setTimeout(() => {
      if (form.elements.best) form.elements.best.checked = false;
      show();
    }));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = false;
    show();
  }

  // A table's rows as they are shown, every column of them, as CSV.
  const csvOf = (table) => {
    const quoted = (cell) => {
      const text = cell.innerText.replace(/^[↕↑↓]\s*/, "").replace(/\s+/g, " ").trim();
      return /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const rows = [...table.tHead.rows, ...[...table.tBodies[0].rows].filter((row) => !row.hidden)];
    return rows.map((row) => [...row.cells].filter((cell) => cell.offsetParent !== null).map(quoted).join(",")).join("\n");
  };
  for (const button of document.querySelectorAll("button.copy-table")) {
    button.addEventListener("click", async () => {
      const text = csvOf(document.getElementById(button.dataset.table));
      try {
        await navigator.clipboard.writeText(text);
        say("The rows were copied.");
      } catch {
        say("This browser does not let a page copy: download ranking.csv below.");
      }
    });
  }
})();
