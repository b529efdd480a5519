// The search page: places (statements, terms, names, pages ...) by how well number, name or title fit what was typed, then
// pages that hold the words. The lists are made by the book's extension; words are looked up in Sphinx's own index.
document.addEventListener("DOMContentLoaded", () => {
  const { pages, titles, places } = window.ldPlaces;
  const stemmer = new Stemmer();
  const stems = new Map();
  const stem = (word) => {
    if (!stems.has(word)) stems.set(word, stemmer.stemWord(word));
    return stems.get(word);
  };
  const LONG = {
    thm: "theorem", thms: "theorem", th: "theorem", theorems: "theorem", lem: "lemma", lemmas: "lemma", prop: "proposition",
    propositions: "proposition", cor: "corollary", coroll: "corollary", corollaries: "corollary", def: "definition",
    defn: "definition", definitions: "definition", rem: "remark", fig: "figure", figures: "figure", eq: "equation",
    eqn: "equation", eqs: "equation", equations: "equation", sec: "section", sect: "section", chapter: "section",
    ch: "section", ex: "exercise", exercises: "exercise", alg: "algorithm", tab: "table", assumptions: "assumption",
  };
  const KINDS = new Set([...Object.values(LONG), "remark", "example", "observation"]);
  const norm = (text) => text.toLowerCase().normalize("NFKD").replace(/[\u0300-\u036f]/g, "")
    .replace(/([a-z])\.?\s*\((\d[\d.]*)\)/g, "$1 $2").replace(/\b([a-z]{2,})\.(?=\s*\d)/g, "$1 ")
    .replace(/\b(theorem|thm|lemma|prop|cor|def|fig|eq|section|sec)(\d)/g, "$1 $2")
    .replace(/[^\p{L}\p{N}_.]+/gu, " ").replace(/\.(?=\s|$)/g, " ").trim().split(/\s+/).filter(Boolean);
  const words = (text) => norm(text).map((word) => LONG[word] || word);
  const inside = (part, whole) => ` ${whole} `.includes(` ${part} `);
  const WEIGHT = { page: 4, term: 3, theorem: 2.5, proposition: 2, lemma: 2, corollary: 2, definition: 2, algorithm: 2, section: 1.5, figure: 1 };

  const entries = places.map(([kind, page, anchor, number, title, label, second, text], order) => {
    const library = kind.startsWith("library");
    const path = library ? title.toLowerCase() : "";
    const last = path.split(".").pop();
    const source = words(label.split(" · ")[0]);
    const names = [words(number).join(" "), source.join(" ")].filter(Boolean);
    const heads = [title, second].filter(Boolean).map((each) => words(each.replace(/^[\d.]+ /, "")).join(" ").replace(/^(the|a|an) /, ""));
    const bag = library ? [...path.split("."), ...last.split("_"), ...title.split(".").pop().split(/_|(?<=[a-z])(?=[A-Z])/).map((each) => each.toLowerCase())]
      : words(`${number} ${title} ${second} ${label} ${titles[page]}`);
    return { kind, page, anchor, number, title, label, second, text, order, library, path, last, names, heads, bag: new Set(bag), stems: new Set(bag.map(stem)),
      own: new Set(words(`${title} ${second}`).map(stem)), depth: path.split(".").length };
  });

  const score = (entry, typed, query, list) => {
    const small = entry.library ? -1 : (WEIGHT[entry.kind] || 0);
    if (entry.library) {
      const name = entry.title.split(".").pop();
      const code = /[a-z][A-Z]|_|[A-Z]{2}/.test(name) && !entry.kind.endsWith("module");
      if (query === entry.path || query === entry.path.replace(/^learning_dynamics\./, "")) return /[._]/.test(query) ? 99.5 : 91;
      if (list.length === 1 && (entry.last === query || entry.last.replace(/_/g, "") === query)) return (code ? 98.5 : 86) + (name === typed ? 0.5 : 0) - entry.depth / 10;
      if (entry.path.endsWith(`.${query}`)) return 96;
      if (entry.last.replace(/_/g, "") === list.join("")) return 82 - entry.depth / 10;
      if (query.length > 3 && entry.last.includes(query.replace(/ /g, "_"))) return 50 - entry.depth / 10;
    }
    if (entry.names.length && entry.names[0] === query) return entry.number ? 100 : 98;
    if (entry.names.includes(query)) return /\d/.test(query) ? 98 : 92;
    if (entry.heads.includes(query) && !entry.library) return 90 + small;
    if (entry.heads.some((head) => head.split(" ").map(stem).join(" ") === list.map(stem).join(" "))) return 88 + small;
    if (entry.heads.some((head) => head.startsWith(`${query} `)) && list.length > 1) return 75 + small;
    if (entry.heads.some((head) => inside(query, head))) return 66 + small;
    let sum = 0;
    for (const word of list) {
      if (entry.bag.has(word)) sum += 1;
      else if (/\d/.test(word) || stopwords.includes(word)) { if (stopwords.includes(word)) { sum += 0.5; continue; } return 0; }
      else if (entry.stems.has(stem(word))) sum += 0.9;
      else if (word.length > 2 && [...entry.bag].some((each) => each.startsWith(word))) sum += 0.6;
      else return 0;
      if (entry.own.has(stem(word))) sum += 0.4;
    }
    return (entry.library ? 20 : 30) * sum / list.length + small;
  };

  const rank = (typed) => {
    const list = words(typed);
    if (!list.length) return [];
    const query = list.join(" ").replace(/^(the|a|an) (?=.)/, "");
    return entries.map((entry) => ({ entry, value: score(entry, typed.trim(), query, list) })).filter(({ value }) => value > 0)
      .sort((a, b) => b.value - a.value || a.entry.order - b.entry.order).map(({ entry }) => entry);
  };

  const make = (tag, className, text = "") => Object.assign(document.createElement(tag), { className, textContent: text });
  const mark = (text, list) => {
    const out = make("p", "context");
    const wanted = new Set(list.map(stem));
    for (const piece of text.split(/([\p{L}\p{N}_]+)/u)) {
      const hit = /[\p{L}\p{N}]/u.test(piece) && (wanted.has(stem(piece.toLowerCase())) || list.some((word) => word.length > 3 && piece.toLowerCase().startsWith(word)));
      out.append(hit ? make("mark", "", piece) : piece);
    }
    return out;
  };
  const item = (address, title, where, text, list) => {
    const line = document.createElement("li");
    line.append(Object.assign(make("a", "", title), { href: address }));
    if (where) line.append(make("span", "ld-where", where));
    if (text) line.append(mark(text, list));
    return line;
  };
  const placed = (entry, list) => {
    const headed = ["page", "section"].includes(entry.kind) || !entry.number;
    const title = headed ? entry.title : entry.kind === "figure" ? `${entry.number}. ${entry.title}`
      : entry.title ? `${entry.number} (${entry.title})` : entry.number;
    const kind = { term: "Glossary", page: "Page" }[entry.kind] || (entry.library ? entry.kind.replace("library", "Library,") : "");
    const where = [kind, entry.label, entry.kind === "page" || entry.kind === "term" ? "" : titles[entry.page]].filter(Boolean).join(" · ");
    const text = entry.text || (entry.second !== entry.title ? entry.second : "");
    return item(`${pages[entry.page]}.html${entry.anchor ? "#" : ""}${entry.anchor}`, title || entry.second, where, text, list);
  };

  // A name such as torch.func.vmap is found by what it begins with and by each of its parts.
  const parts = (word) => [word, ...(word.includes(".") ? word.split(".").flatMap((part, k, all) => [part, all.slice(0, k + 1).join(".")]) : [])];
  // How well a page's words fit: the typed phrase in one block, else as many of its words as one block holds.
  const fit = ({ blocks }, list, query) => {
    const wanted = list.map(stem);
    let best = { value: 0, anchor: "", text: "" };
    for (const [anchor, text] of blocks) {
      const held = norm(text);
      const known = new Set(held.flatMap(parts).map(stem));
      const value = wanted.filter((word) => known.has(word)).length + (list.length > 1 && inside(query, held.join(" ")) ? 10 : 0);
      if (value > best.value) best = { value, anchor, text };
    }
    return best;
  };
  const cut = (text, list) => {
    const places = list.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
    const start = Math.max(0, Math.min(...(places.length ? places : [0])) - 80);
    const from = start ? text.indexOf(" ", start) + 1 : 0;
    return (from ? "… " : "") + (text.length > from + 240 ? `${text.slice(from, from + 240).replace(/\s\S*$/, "")} …` : text.slice(from));
  };
  const read = (page) => fetch(`_static/search/text/${page}.json`).then((answer) => answer.json()).catch(() => ({ blocks: [] }));

  // Letters put in, left out, changed or swapped with the next to come from one word to another; more than `most` count as many.
  const apart = (one, other, most) => {
    if (Math.abs(one.length - other.length) > most) return Infinity;
    const rows = [[...Array(other.length + 1).keys()]];
    for (let i = 1; i <= one.length; i += 1) {
      rows[i] = [i];
      for (let j = 1; j <= other.length; j += 1) {
        const same = one[i - 1] === other[j - 1];
        rows[i][j] = Math.min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (same ? 0 : 1));
        const swapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
        if (swapped) rows[i][j] = Math.min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
    return rows[one.length][other.length] <= most ? rows[one.length][other.length] : Infinity;
  };
  // What a misspelt query may have meant: each word that the book does not know, by the nearest that titles and names hold.
  const corrected = (list) => {
    const uses = new Map();
    for (const { bag } of entries) for (const word of bag) uses.set(word, (uses.get(word) || 0) + 1);
    const known = (word) => word.length < 4 || /\d/.test(word) || uses.has(word) || stopwords.includes(word)
      || Object.hasOwn(Search._index.terms, stem(word)) || Object.hasOwn(Search._index.titleterms, stem(word));
    const nearest = (word) => {
      const most = word.length > 6 ? 2 : 1;
      const near = [...uses.keys()].map((each) => [apart(word, each, most), -uses.get(each), each]).filter(([far]) => far <= most);
      return near.sort((a, b) => a[0] - b[0] || a[1] - b[1])[0]?.[2] || word;
    };
    return list.map((word) => (known(word) ? word : nearest(word))).join(" ");
  };

  const MOST = 40;
  Search.query = async (typed, meant = "") => {
    const list = words(typed);
    const plain = list.filter((word) => !KINDS.has(word) && !/^([a-z]\.)?[\d.]+$/.test(word) && !stopwords.includes(word));
    const found = rank(typed);
    const shown = found.slice(0, MOST);
    const whole = new Set(shown.filter((entry) => entry.kind === "page").map((entry) => pages[entry.page]));
    const [, terms, excluded] = Search._parseQuery(typed);
    const held = plain.length ? Search.performTermsSearch(terms, excluded) : [];
    const others = held.map(([page]) => page).filter((page) => pages.includes(page) && !whole.has(page));
    const other = shown.length || others.length || meant ? "" : corrected(list);
    if (other && other !== list.join(" ")) {
      await Search.query(other, typed);
      return;
    }
    Search.stopPulse();
    Search.title.textContent = "Search results";
    Search.status.textContent = !shown.length && !others.length ? "Nothing found. Try fewer words, a number such as “Theorem 9.3”, or a name of the library."
      : `${found.length > MOST ? `The best ${MOST} of ${found.length} places` : `${found.length} ${found.length === 1 ? "place" : "places"}`}`
      + (others.length ? `, and ${others.length} ${others.length === 1 ? "page that holds" : "pages that hold"} the words.` : ".");
    if (meant && (shown.length || others.length)) {
      Search.status.textContent = `Nothing found for “${meant.trim()}”. For “${typed}”: ${Search.status.textContent}`;
    }
    Search.output.replaceChildren(...shown.map((entry) => placed(entry, plain)));
    const query = plain.join(" ");
    const fits = await Promise.all(others.map(async (page) => ({ page, ...fit(await read(page), plain, query) })));
    fits.sort((a, b) => b.value - a.value || pages.indexOf(a.page) - pages.indexOf(b.page));
    Search.output.append(...fits.map(({ page, anchor, text }) =>
      item(`${page}.html${anchor ? "#" : ""}${anchor}`, titles[pages.indexOf(page)], page.startsWith("book/api/") ? "Library · words of the page" : "Words of the page", cut(text, plain), plain)));
    Search.output.dataset.ready = "true";
  };
});
