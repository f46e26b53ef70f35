// Draws each figure's chart by Vega-Lite when it comes into view; until then, in print, and without this script there
// is its picture. Expressions are interpreted, not compiled, so that the page need not allow making code out of text.
"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const live = new Map(); // figure -> what vegaEmbed gave, or null while it is being drawn

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const config = (width) => {
    const [ink, soft, rule] = ["--ink", "--soft", "--rule"].map(colour);
    const font = getComputedStyle(document.body).fontFamily;
    const axis = { labelColor: ink, titleColor: ink, domainColor: rule, tickColor: rule, gridColor: rule };
    return {
      background: "transparent", font, aria: false,
      axis: { ...axis, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelLimit: width < 600 ? 125 : 300 },
      axisX: { labelOverlap: "greedy", tickCount: width < 600 ? 4 : 8 },
      legend: {
        orient: "top", direction: "horizontal", columns: Math.max(1, Math.floor(width / 190)),
        labelColor: ink, titleColor: ink, labelFontSize: 12, labelLimit: 170, symbolSize: 90,
      },
      view: { stroke: rule }, text: { color: ink, fontSize: 12 }, rule: { color: soft },
    };
  };

  // The menus above a chart, once; `chosen` keeps what they say when the chart is drawn again.
  const menusOf = (figure, filters, chosen) => {
    const line = document.createElement("p");
    line.className = "filters";
    for (const filter of filters) {
      const name = `show_${filter.field}`;
      chosen[name] = filter.values[0];
      if (filter.values.length < 2) continue;
      const both = document.createElement("span");
      const label = document.createElement("label");
      const menu = document.createElement("select");
      menu.id = label.htmlFor = `menu-${figure.dataset.chart}-${filter.field}`;
      for (const value of filter.values) menu.add(new Option(value, value));
      label.textContent = filter.title;
      both.append(label, menu);
      line.append(both);
      menu.addEventListener("change", () => {
        chosen[name] = menu.value;
        draw(figure);
      });
    }
    return line;
  };

  const save = async (figure, kind) => {
    const link = document.createElement("a");
    link.href = await live.get(figure).view.toImageURL(kind, 2);
    link.download = `${figure.dataset.chart}.${kind}`;
    link.click();
  };

  // The height of a chart with a track for each name that is left when the reader has chosen.
  const heightOf = ({ data, usermeta: { filters, tracks } }, chosen) => {
    const fits = (row) => filters.every(({ field }) => row[field] === chosen[`show_${field}`]);
    return tracks.step * Math.max(1, new Set(data.values.filter(fits).map((row) => row[tracks.field])).size);
  };

  // What a chart's tooltip says: a line for each field that has a value.
  const told = (value, clean) => {
    if (typeof value !== "object") return clean(String(value));
    const rows = Object.entries(value).filter(([, text]) => !["null", "undefined", "NaN", ""].includes(String(text)));
    return `<table>${rows.map(([name, text]) => `<tr><td class="key">${clean(name)}</td><td class="value">${clean(String(text))}</td></tr>`).join("")}</table>`;
  };

  const draw = async (figure) => {
    const { spec, chosen, place } = figure.report;
    live.get(figure)?.finalize();
    live.set(figure, null);
    const asked = { ...spec, params: spec.params.map((one) => ({ ...one, value: chosen[one.name] })) };
    if (spec.usermeta.tracks) asked.height = heightOf(spec, chosen);
    const width = place.parentElement.clientWidth;
    const made = await vegaEmbed(place, asked, {
      mode: "vega-lite", renderer: "svg", actions: false, ast: true, config: config(width),
      tooltip: { theme: dark.matches ? "dark" : "light", formatTooltip: told },
    });
    live.set(figure, made);
    place.querySelector("svg")?.setAttribute("aria-hidden", "true");
  };

  const show = async (figure) => {
    const spec = JSON.parse(document.getElementById(`data-${figure.dataset.chart}`).textContent);
    const chosen = {};
    const place = document.createElement("div");
    place.className = "chart";
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", figure.dataset.about);
    const menus = menusOf(figure, spec.usermeta.filters, chosen);
    const inner = document.createElement("div"); // Vega-Embed decides how this one is laid out
    place.append(inner);
    figure.prepend(menus, place);
    figure.report = { spec, chosen, place: inner };
    figure.classList.add("live"); // before it is drawn: the chart takes the width that it has
    try {
      await draw(figure);
    } catch (error) {
      figure.classList.remove("live"); // the picture stays
      menus.remove();
      place.remove();
      console.error(`${figure.dataset.chart}: ${error.message}`);
      return;
    }
    const files = figure.querySelector(".files");
    for (const kind of ["svg", "png"]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `${figure.dataset.chart}.${kind}`;
      button.addEventListener("click", () => save(figure, kind));
      files.append(" ", button);
    }
  };

  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      watcher.unobserve(entry.target);
      show(entry.target);
    }
  }, { rootMargin: "300px" });
  for (const figure of document.querySelectorAll("figure[data-chart]")) watcher.observe(figure);

  dark.addEventListener("change", () => { for (const figure of live.keys()) draw(figure); });
})();
