// The arithmetic of scripts/decide/capacity.py for what a reader writes into the form; the address keeps it.
"use strict";
(() => {
  const form = document.getElementById("model-form");
  if (!form) return;
  const table = document.getElementById("hero");
  const headline = document.getElementById("headline");
  const [natural, delivered, items, target] = ["itemBytes", "deliveredBytes", "items", "target"].map((name) => Number(form.dataset[name]));
  const [low, high] = [Number(table.dataset.low), Number(table.dataset.high)];
  const names = JSON.parse(form.dataset.names); // of each result: what to use, in words
  const preference = JSON.parse(form.dataset.preference); // the cheapest first
  const rows = [...table.tBodies[0].rows].filter((row) => row.dataset.candidates);
  const ABLE = ["id", "item_ms", "slow_item_ms", "wait", "loss", "start_ms", "item_bytes", "keeps",
    "held_bytes", "cold_item_ms", "storage_item_ms", "tried"]; // as in scripts/report/hero.py
  const named = (values) => Object.fromEntries(values.map((value, at) => [ABLE[at], value]));
  const ofRow = new Map(rows.map((row) => [row, JSON.parse(row.dataset.candidates).map(named)]));
  const loaderOf = new Map(rows.flatMap((row) => ofRow.get(row).map((one) => [one.id, row.dataset.loader])));
  const measured = new FormData(form);

  // As number_text and bytes_text of scripts/common/text.py.
  const numberText = (value, digits = 3) => {
    if (value === 0 || !Number.isFinite(value)) return String(value);
    const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
    return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals, roundingMode: "halfEven" });
  };
  const bytesText = (value) => {
    for (const unit of ["B", "kB", "MB", "GB"]) {
      if (value < 1000) return unit === "B" ? `${value.toFixed(0)} B` : `${numberText(value)} ${unit}`;
      value /= 1000;
    }
    return `${numberText(value)} TB`;
  };
  const auText = (au) => au >= target || au < target - 0.5 ? `${numberText(au, 2)} %` : `${Math.min(au, target - 0.1).toFixed(1)} %`;
  const short = (value) => value.toLocaleString("en", { maximumSignificantDigits: 6 });

  const yoursOf = () => {
    const read = (name) => Number(form.elements[name].value) || null;
    return { batch: read("batch"), step: read("step"), gb: read("gb"), ram: read("ram"), mbps: read("mbps") };
  };

  // Able.answer: AU, its lower end, the most that it can be, and what it is from.
  const answer = (one, yours) => {
    const unknown = { au: null, low: null, most: 100, source: "unknown" };
    if (one.item_ms === null || yours.step === null) return unknown;
    const bytes = one.item_bytes || natural;
    const large = Boolean(yours.gb && yours.ram && yours.gb * bytes / natural > yours.ram - one.held_bytes / 1e9);
    if (large && one.keeps) return { au: null, low: null, most: 0, source: "does_not_fit" };
    if (one.tried && !large && !yours.gb && one.tried[0] === yours.batch && one.tried[1] === yours.step) {
      return { au: one.tried[2], low: one.tried[2], most: one.tried[2], source: "tried" };
    }
    const epoch = yours.gb ? 1e9 * yours.gb / natural : items;
    const batches = Math.max(1, Math.ceil(epoch / yours.batch));
    const au = (item, waited, loss) => {
      const period = Math.max(yours.batch * item + loss * yours.step, yours.step + waited);
      return 100 * yours.step * batches / (period * batches + one.start_ms);
    };
    const storage = yours.mbps ? one.item_bytes && one.item_bytes / yours.mbps / 1000 : one.storage_item_ms;
    const fastest = Math.max(one.item_ms, large ? storage || 0 : 0, large ? one.cold_item_ms || 0 : 0);
    const most = au(fastest, 0, 0);
    if (one.wait === null || (large && (one.cold_item_ms === null || yours.mbps))) {
      return { au: null, low: null, most, source: large && storage ? "storage" : "unknown" };
    }
    const { short_ms, long_ms, short_step_ms, long_step_ms } = one.wait; // Wait.beside
    const along = Math.min(1, Math.max(0, (yours.step / yours.batch - short_step_ms) / (long_step_ms - short_step_ms)));
    const wait = yours.batch * (short_ms + along * (long_ms - short_ms)) * fastest / one.item_ms;
    const slow = fastest * one.slow_item_ms / one.item_ms;
    return { au: au(fastest, wait, one.loss), low: au(slow, wait, one.loss), most, source: large ? "cold" : "model" };
  };
  const keepsUp = ({ au, low, most, source }) => {
    if (source === "does_not_fit" || most < target) return false;
    if (au === null || low === null) return null;
    return low >= target ? true : au >= target ? null : false;
  };
  const keptText = (found) => {
    const kept = keepsUp(found);
    if (found.source === "does_not_fit") return "✗ does not fit";
    const mark = kept === true ? "✓" : kept === false ? "✗" : "?";
    if (found.au === null) return found.most < 100 ? `${mark} at most ${auText(found.most)}` : "?";
    return `${mark} ${auText(found.au)}`;
  };

  const write = (id, text) => { document.getElementById(id).textContent = text; };

  const show = () => {
    const asMeasured = [...measured].every(([name, value]) => form.elements[name].value === value);
    if (!form.checkValidity()) {
      write("model-needs", "These numbers describe no training: each must be above 0.");
      write("model-use", "");
      for (const cell of table.querySelectorAll(".fed")) cell.textContent = "?";
      return;
    }
    const yours = yoursOf();
    const answers = new Map([...ofRow.values()].flat().map((one) => [one.id, answer(one, yours)]));
    if (yours.step === null) {
      write("model-needs", "Write your training's step, and the chart says which loaders keep up with it.");
      table.style.removeProperty("--need");
    } else {
      const need = 1000 * yours.batch / yours.step;
      write("model-needs", `${yours.batch.toLocaleString("en")} items every ${short(yours.step)} ms are ${numberText(need)} items/s, ${bytesText(need * delivered)}/s as delivered.`);
      write("hero-need", `your training needs ${numberText(need)}`);
      table.style.setProperty("--need", 100 * Math.log(need / low) / Math.log(high / low));
    }
    for (const row of rows) {
      const found = answers.get(ofRow.get(row)[0].id); // that of the row comes first
      const mark = document.createElement("span");
      const kept = keepsUp(found);
      mark.className = kept === true ? "good" : kept === false ? "bad" : "soft";
      mark.textContent = keptText(found);
      row.querySelector(".fed").replaceChildren(mark);
    }
    if (!headline.dataset.measured) return;
    const keeping = preference.filter((id) => keepsUp(answers.get(id)) === true);
    const loaders = new Set(keeping.map((id) => loaderOf.get(id)));
    let text = headline.dataset.measured;
    if (!asMeasured && yours.step !== null) {
      const many = loaders.size === 1 ? "the only loader that keeps" : `the cheapest of ${loaders.size} loaders that keep`;
      text = loaders.size ? `Use ${names[keeping[0]]} It is ${many} up with your ${short(yours.step)} ms step.`
        : "No loader is known to keep up with these numbers.";
    }
    headline.textContent = text;
    for (const id of ["how-sure", "gain"]) {
      const line = document.getElementById(id);
      if (line) line.hidden = !asMeasured;
    }
  };

  const NAMES = ["batch", "step", "gb", "ram", "mbps"];
  const keep = () => {
    const parts = NAMES.map((name) => `${name}=${form.elements[name].value}`);
    history.replaceState(null, "", `#model,${parts.join(",")}`);
  };
  const restore = () => {
    if (!location.hash.startsWith("#model,")) return;
    for (const part of location.hash.slice(1).split(",").slice(1)) {
      const [name, value] = part.split("=");
      if (NAMES.includes(name) && (value === "" || Number(value) > 0)) form.elements[name].value = value;
    }
  };
  form.addEventListener("input", () => { show(); keep(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => {
    show();
    history.replaceState(null, "", location.pathname + location.search);
  }));
  addEventListener("hashchange", () => { restore(); show(); });
  form.hidden = false;
  restore();
  show();
})();
