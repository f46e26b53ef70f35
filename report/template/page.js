// Copies programs, and opens what an address points into.
"use strict";
(() => {
  const say = (text) => { document.getElementById("announcer").textContent = text; };

  const copy = async (code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      return true;
    } catch { // a page from a file has no clipboard in some browsers
      getSelection().selectAllChildren(code);
      return document.execCommand("copy");
    }
  };

  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const done = await copy(document.getElementById(button.dataset.copy));
      button.textContent = done ? "Copied" : "Press Ctrl+C";
      say(done ? "It was copied." : "It is selected: press Ctrl+C.");
      setTimeout(() => { button.textContent = "Copy"; }, 2500);
    });
  }

  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  };
  addEventListener("hashchange", open);
  open();
})();
