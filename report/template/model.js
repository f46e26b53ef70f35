// The arithmetic of scripts/report/model.py for what a reader writes into the form; the address keeps it.
"use strict";
(() => {
  const form = document.getElementById("model-form");
  if (!form) return;
  const table = document.getElementById("hero");
  const [items, target, least] = ["items", "target", "smallest"].map((name) => Number(form.dataset[name]));
  const [low, high] = [Number(table.dataset.low), Number(table.dataset.high)];
  const sizes = JSON.parse(form.dataset.sizes); // of an item: [type, bytes], the last one as it is stored
  const stored = sizes[sizes.length - 1][1];
  const MOST_NAMED = 6;

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
  const auText = (au, sustained) => sustained || au < target - 0.5 ? `${numberText(au, 2)} %` : `${Math.min(au, target - 0.1).toFixed(1)} %`;
  const short = (value) => value.toLocaleString("en", { maximumSignificantDigits: 6 });

  const modelOf = () => {
    const read = (name) => Number(form.elements[name].value) || null;
    return { batch: read("batch"), step: read("step"), gb: read("gb"), ram: read("ram"), mbps: read("mbps") };
  };

  const answer = (row, model) => {
    const data = row.dataset;
    if (!data.rate || !data.fed) return { au: null, source: "unknown" };
    const bytes = Number(data.bytes) || null;
    const keeps = data.keeps === "1";
    const size = (bytes || stored) / stored;
    const large = Boolean(model.gb && model.ram && model.gb * size > model.ram);
    if (large && (keeps || !model.mbps || !bytes)) return { au: null, source: keeps ? "does not fit" : "unknown" };
    const limit = large ? 1e6 * model.mbps / bytes : Infinity;
    const rate = Math.min(Number(data.rate), limit);
    if (data.measured && !large && !model.gb) {
      const [batch, step, au] = data.measured.split(" ").map(Number);
      if (batch === model.batch && step === model.step) return { au, source: "memory" };
    }
    const epoch = model.gb ? 1e9 * model.gb / stored : items;
    const batches = Math.max(1, Math.ceil(epoch / model.batch));
    const [each, wait, loss, , start] = data.fed.split(" ").map(Number);
    const times = model.batch / Number(data.batch);
    const full = Math.max(times * each, 1000 * model.batch / rate);
    const period = Math.max(full + loss * model.step, model.step + times * wait);
    const au = 100 * model.step / (period + 1000 * start / batches);
    return { au, source: limit < Number(data.rate) ? "storage" : "memory" };
  };

  const write = (id, text) => { document.getElementById(id).textContent = text; };

  const show = () => {
    const model = modelOf();
    if (!model.batch || !model.step) return;
    const need = 1000 * model.batch / model.step;
    const rates = sizes.map(([name, size]) => `${bytesText(need * size)}/s as ${name}`);
    write("model-needs", `${model.batch.toLocaleString("en")} items every ${short(model.step)} ms are ${numberText(need)} items/s: ${rates.join(", ")}.`);
    let fits = "The data is taken to fit into memory: after the first epoch its files are read from there.";
    if (model.gb && model.ram) {
      const data = `${short(model.gb)} GB of ${form.dataset.data}`;
      if (model.gb <= model.ram) fits = `${data} fit into ${short(model.ram)} GB: after the first epoch they are read from memory.`;
      else if (model.gb * least / stored <= model.ram) fits = `${data} do not fit into ${short(model.ram)} GB: storage is read in each epoch, unless they are encoded: the smallest format here has ${numberText(model.gb * least / stored)} GB of them.`;
      else if (!model.mbps) fits = `${data} do not fit into ${short(model.ram)} GB: storage is read in each epoch, and what it gives is not known.`;
      else fits = `${data} do not fit into ${short(model.ram)} GB: storage is read in each epoch, at ${numberText(model.mbps)} MB/s ${numberText(1e6 * model.mbps / least)} items/s at most.`;
    }
    write("model-fits", fits);
    write("hero-need", `your model needs ${numberText(need)}`);
    table.style.setProperty("--need", 100 * Math.log(need / low) / Math.log(high / low));
    const fed = [];
    let [all, unknown] = [0, 0];
    for (const row of table.tBodies[0].rows) {
      if (!row.dataset.loader) continue;
      const { au, source } = answer(row, model);
      const cell = row.querySelector(".fed");
      const mark = document.createElement("span");
      const sustained = au !== null && au >= target;
      all += 1;
      if (source === "unknown") {
        unknown += 1;
        cell.replaceChildren("unknown");
        continue;
      }
      if (sustained) fed.push(row.dataset.loader);
      mark.className = sustained ? "good" : "bad";
      mark.textContent = `${sustained ? "✓" : "✗"} ${au === null ? source : auText(au, sustained)}`;
      cell.replaceChildren(mark);
    }
    const named = fed.slice(0, MOST_NAMED).join(", ") + (fed.length > MOST_NAMED ? ` and ${fed.length - MOST_NAMED} more` : "");
    const said = `Sustained at ${short(target)} % AU by ${fed.length} of ${all}${fed.length ? `: ${named}.` : "."}`;
    write("model-feeds", unknown ? `${said} Of ${unknown} it is not known.` : said);
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
