// Habits of every page: a line whose formula is wider than the line scrolls; folds of the left column have names; a theorem
// has a link to itself and a citation to copy; on paper everything is open and light.
(() => {
  const lineOf = (node) => {
    let line = node.parentElement;
    while (getComputedStyle(line).display.startsWith("inline")) line = line.parentElement;
    return line;
  };
  const fit = (scope) => {
    const formulas = [...scope.querySelectorAll("span.math > mjx-container")].filter((node) => node.checkVisibility());
    const lines = new Map();
    for (const node of formulas) {
      const line = lineOf(node);
      const edge = line.getBoundingClientRect().right - parseFloat(getComputedStyle(line).paddingRight);
      const wide = (node.closest(".ld-bound") || node).getBoundingClientRect().right > edge + 0.5 + line.scrollLeft;
      lines.set(line, lines.get(line) || wide);
    }
    for (const [line, wide] of lines) line.classList.toggle("ld-wide", wide);
  };
  const citable = (box) => {
    const title = box.querySelector(":scope > .admonition-title");
    if (!title) return;
    const words = title.textContent.trim().replace(/\s+/g, " ");
    const page = document.querySelector("link[rel=canonical]")?.href || location.href.split("#")[0];
    const release = document.querySelector("meta[name=release]")?.content;
    const link = document.createElement("a");
    Object.assign(link, { className: "headerlink", href: `#${box.id}`, textContent: "#", title: "Link to this place" });
    const button = document.createElement("button");
    Object.assign(button, { className: "ld-cite", type: "button", textContent: "Cite", title: "Copy a citation" });
    button.setAttribute("aria-label", `Copy a citation of ${words}`);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(`${words}. In: Learning Dynamics, release ${release}. ${page}#${box.id}`);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Cite"; }, 1500);
    });
    title.append(link, button);
  };
  const article = () => document.querySelector("article") || document.body;
  addEventListener("load", () => {
    for (const fold of document.querySelectorAll(".bd-sidebar-primary summary")) {
      const title = fold.closest("li")?.querySelector("a")?.textContent.trim();
      fold.setAttribute("aria-label", `Chapters of ${title}`);
    }
    for (const box of document.querySelectorAll("article div.proof[id]")) citable(box);
    const jax = window.MathJax?.startup?.promise;
    if (!jax) return;
    jax.then(() => {
      fit(article());
      article().addEventListener("toggle", (event) => { if (event.target.open) fit(event.target); }, true);
      let wait = 0;
      addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(() => fit(article()), 50); });
    });
  });

  const root = document.documentElement;
  let shut = [], theme = null;
  addEventListener("beforeprint", () => {
    shut = [...document.querySelectorAll("details:not([open])")];
    shut.forEach((node) => { node.open = true; });
    theme = root.dataset.theme;
    root.dataset.theme = "light";
  });
  addEventListener("afterprint", () => {
    shut.forEach((node) => { node.open = false; });
    if (theme) root.dataset.theme = theme;
  });
})();
