/* "Find a result": the search box and the three menus above the tables. Without this script the page is the full table.
   The filters can be given in the address: ?find=...&source=...&chapter=...&verdict=... */
(function () {
  "use strict";

  function start() {
    const form = document.querySelector("form.ld-filters");
    if (!form) return;
    const fields = ["find", "source", "chapter", "verdict"].map((name) => form.elements[name]);
    const [find, source, chapter, verdict] = fields;
    const output = form.querySelector("output");
    const groups = [...document.querySelectorAll("table.ld-board")].map((table) => ({
      table,
      section: table.closest("section"),
      rows: [...table.tBodies[0].rows].map((row) => ({ row, text: plain(row.textContent) })),
    }));
    const total = groups.reduce((sum, group) => sum + group.rows.length, 0);

    function plain(text) {
      return text.toLowerCase().normalize("NFKD").replace(/[\u0300-\u036f]/g, "").replace(/\s+/g, " ");
    }

    function accepts(row) {
      if (chapter.value && row.dataset.chapter !== chapter.value) return false;
      if (!verdict.value) return true;
      if (verdict.value === "checked") return "checked" in row.dataset;
      if (verdict.value === "redrawn") return "redrawn" in row.dataset;
      return row.dataset.verdict === verdict.value;
    }

    function apply() {
      const words = plain(find.value).split(" ").filter(Boolean);
      let shown = 0;
      for (const { table, section, rows } of groups) {
        let here = 0;
        for (const { row, text } of rows) {
          const keep =
            (!source.value || table.dataset.source === source.value) &&
            accepts(row) && words.every((word) => text.includes(word));
          row.hidden = !keep;
          here += keep;
        }
        section.hidden = here === 0;
        shown += here;
      }
      output.value = shown === total ? `${total} results` : `${shown} of ${total} results`;
    }

    function remember() {
      const query = new URLSearchParams();
      for (const field of fields) if (field.value) query.set(field.name, field.value);
      const text = query.toString();
      history.replaceState(null, "", (text ? `?${text}` : location.pathname) + location.hash);
    }

    function update() { apply(); remember(); }

    const asked = new URLSearchParams(location.search);
    for (const field of fields) {
      const value = asked.get(field.name);
      const known = field === find || [...(field.options || [])].some((option) => option.value === value);
      if (value && known) field.value = value;
    }
    form.hidden = false;
    form.addEventListener("input", update);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(update));
    for (const link of document.querySelectorAll(".ld-totals a[data-verdict]")) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        verdict.value = link.dataset.verdict;
        update();
        form.scrollIntoView({ block: "nearest" });
      });
    }
    apply();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
