// Habits of every page: a line of code too long for the page goes on below, further in; a line whose formula is wider than the line scrolls, and the keyboard reaches what scrolls; folds of
// the left column have names; a wide figure keeps its words legible on a phone; a theorem has a link to itself and a citation
// to copy; on paper everything is open and light.
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
    reach(scope);
  };
  // What scrolls sideways and holds nothing that the tab key stops at is a stop itself and says what it is; nothing else is.
  const SCROLLS = {
    "div.math": "Wide formula", ".ld-wide": "Line with a wide formula", "pre": "Wide code or output", ".output": "Wide output",
    "table, .pst-scrollable-table-container": "Wide table", ".ld-frame": "Wide figure",
  };
  const reach = (scope) => {
    for (const [what, words] of Object.entries(SCROLLS)) for (const node of scope.querySelectorAll(what)) {
      const scrolls = node.scrollWidth > node.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
      const stop = scrolls && !node.querySelector("a[href], button, summary, input, [tabindex='0']");
      if (!stop && !("scrolls" in node.dataset)) continue;
      const named = ["DIV", "P", "PRE"].includes(node.tagName);  // an entry of a list or table keeps its own role
      const values = { "data-scrolls": "", tabindex: "0", ...(named && { role: "group", "aria-label": `${words}, scrolls sideways` }) };
      for (const [name, value] of Object.entries(values)) {
        if (stop) node.setAttribute(name, value);
        else node.removeAttribute(name);
      }
    }
  };
  // A line of code is a block of its own, so that what does not fit goes on below it, further in than it begins (book.css).
  const lines = (code) => {
    const indent = (line) => line.replace(/<[^>]*>/g, "").search(/[^ ]|$/);
    code.innerHTML = code.innerHTML.replace(/\n$/, "").split("\n")
      .map((line) => `<span class="ld-line" style="--ld-indent: ${indent(line)}">${line}\n</span>`).join("");
  };
  // Words on axes are 9.5 points at 130 dots an inch: at this share of a figure's size they have 7 pixels of the page.
  const LEAST = 0.41;
  const frame = (image) => {
    const within = Object.assign(document.createElement("div"), { className: "ld-frame" });
    image.replaceWith(within);
    within.append(image);
    image.style.minWidth = `${Math.ceil(LEAST * image.naturalWidth)}px`;
    reach(within.parentElement);
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
    for (const code of document.querySelectorAll("article .highlight pre")) if (!code.closest(".cell_output")) lines(code);
    for (const box of document.querySelectorAll("article div.proof[id]")) citable(box);
    for (const image of document.querySelectorAll("article .cell_output img[src$='.png']")) {
      if (image.complete) frame(image);
      else image.addEventListener("load", () => frame(image), { once: true });
    }
    const jax = window.MathJax?.startup?.promise || Promise.resolve();
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
