/* Moving part "preconditioner": twelve states in two groups of six; S_ij = (1 - eps) / 6 inside a group, eps / 6 across.
   At weights 0 the reward chain puts P = A^-1 A^-T, A = I - gamma S, before the gradient. Its eigenvalues:
       1 / (1 - gamma)^2                    on the ones,
       1 / (1 - gamma (1 - 2 eps))^2        on the difference of the groups,
       1                                    on everything else.
   Markup: <div class="ld-widget" data-widget="preconditioner"></div>; whatever stands inside is replaced.
   Optional: data-discount="0.9", data-mixing="0.5" (start state). Pure formulas: window.learningDynamics.preconditioner. */
(function () {
  "use strict";
  const { add, set, number, power, scientific, clamp, given, box, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const STATES = 12;
  const MIXING = { low: 0.001, high: 0.5 };

  function eigenvalues(discount, mixing) {
    return [(1 - discount) ** -2, (1 - discount * (1 - 2 * mixing)) ** -2];
  }
  /** P, row by row. */
  function matrix(discount, mixing) {
    const [ones, groups] = eigenvalues(discount, mixing);
    const group = (i) => (i < STATES / 2 ? 1 : -1);
    return Array.from({ length: STATES }, (_, i) => Array.from({ length: STATES }, (__, j) =>
      (i === j ? 1 : 0) + (ones - 1) / STATES + (group(i) * group(j) * (groups - 1)) / STATES));
  }
  /** Share of the ones in the trace of P. */
  function share(discount, mixing) {
    const [ones, groups] = eigenvalues(discount, mixing);
    return ones / (ones + groups + STATES - 2);
  }
  const mixingAt = (t) => MIXING.low * (MIXING.high / MIXING.low) ** t; // slider 0 to 1
  const placeOf = (mixing) => Math.log(mixing / MIXING.low) / Math.log(MIXING.high / MIXING.low);

  window.learningDynamics.preconditioner = { eigenvalues, matrix, share, mixingAt };

  // ---------------------------------------------------------------- picture
  const VIRIDIS = ["440154", "482475", "414487", "355f8d", "2a788e", "21918c", "22a884", "44bf70", "7ad151", "bddf26", "fde725"]
    .map((hex) => [0, 2, 4].map((k) => parseInt(hex.slice(k, k + 2), 16)));
  /** Viridis, linear between eleven of its colours; share from 0 to 1. */
  function colour(part) {
    const place = clamp(part, 0, 1) * (VIRIDIS.length - 1);
    const k = Math.min(Math.floor(place), VIRIDIS.length - 2);
    return `rgb(${VIRIDIS[k].map((from, i) => Math.round(from + (place - k) * (VIRIDIS[k + 1][i] - from))).join(" ")})`;
  }

  const HTML = `
    <p class="ld-widget-title">The matrix before the gradient: one loud direction, or two.</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture" data-part="picture"></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>internal discount γ̂ <data data-quantity="discount"></data></span>
          <input type="range" name="discount" min="0" max="0.99" step="0.01"></label>
        <label class="ld-slider"><span>chance of changing the group <data data-quantity="mixing"></data></span>
          <input type="range" name="mixing" min="0" max="1" step="0.005"></label>
        <div class="ld-ends"><span>two halves</span><span>perfect mixing</span></div>
        <div data-part="line"></div>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="end"></p>
          <dl class="ld-numbers">
            <dt>ones, share of trace</dt><dd data-quantity="share"></dd>
            <dt>diagonal entry</dt><dd data-quantity="diagonal"></dd>
            <dt>inside a group</dt><dd data-quantity="inside"></dd>
            <dt>across</dt><dd data-quantity="across"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Colours: entries of P over the largest one, dark 0, bright 1. The line carries the eigenvalues
      of P: <span class="ld-key blue">the ones</span>, <span class="ld-key orange">the difference of the groups</span>,
      and the other ten at 1.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const state = { discount: given(host, "discount", 0.9, 0, 0.99), mixing: given(host, "mixing", 0.5, MIXING.low, MIXING.high) };
    const picture = find('[data-part="picture"]');
    const map = add(picture, "svg", { role: "img", class: "heat" });
    const cells = Array.from({ length: STATES ** 2 }, () => add(map, "rect"));
    const states = add(map, "g");
    const line = add(find('[data-part="line"]'), "svg", { viewBox: "0 0 240 74", height: 74, role: "img" });
    const at = (v) => 14 + (212 * Math.log10(v)) / 4;
    add(line, "line", { class: "axis", x1: at(1), x2: at(1e4), y1: 46, y2: 46 });
    for (let k = 0; k <= 4; k += 1) {
      add(line, "line", { class: "axis", x1: at(10 ** k), x2: at(10 ** k), y1: 42, y2: 50 });
      add(line, "text", { class: "small muted", x: at(10 ** k), y: 68, "text-anchor": "middle" }, k ? power(k) : "1");
    }
    const others = add(line, "circle", { class: "mark", cx: at(1), cy: 46, r: 4 });
    const groups = add(line, "circle", { class: "iterate", cy: 46, r: 6, "data-part": "groups" });
    const ones = add(line, "path", { class: "head", "data-part": "ones" });
    const groupsLabel = add(line, "text", { class: "small halo orange", y: 33 }, "groups");
    const onesLabel = add(line, "text", { class: "small halo blue", y: 15, "text-anchor": "middle" }, "ones");

    function layout() {
      const width = Math.max(250, picture.clientWidth || 400);
      const edge = { left: 34, top: 6, bottom: 34 };
      const side = Math.min(width - edge.left - 6, 380) / STATES;
      const left = (width - edge.left - STATES * side) / 2 + edge.left;
      const height = edge.top + STATES * side + edge.bottom;
      set(map, { viewBox: `0 0 ${width} ${height}`, height });
      cells.forEach((cell, n) => set(cell, { x: left + (n % STATES) * side, y: edge.top + Math.floor(n / STATES) * side,
        width: side + 0.4, height: side + 0.4 }));
      states.replaceChildren();
      for (const k of [0, 6, 11]) {
        add(states, "text", { class: "small muted", x: left + (k + 0.5) * side, y: height - 20, "text-anchor": "middle" }, String(k + 1));
        add(states, "text", { class: "small muted", x: left - 5, y: edge.top + (k + 0.5) * side + 4, "text-anchor": "end" }, String(k + 1));
      }
      add(states, "text", { class: "small muted", x: left + 6 * side, y: height - 5, "text-anchor": "middle" }, "state j");
      add(states, "text", { class: "small muted", "text-anchor": "middle",
        transform: `translate(${left - 24} ${edge.top + 6 * side}) rotate(-90)` }, "state i");
    }

    function draw() {
      const { discount, mixing } = state;
      const P = matrix(discount, mixing);
      const [first, second] = eigenvalues(discount, mixing);
      cells.forEach((cell, n) => set(cell, { fill: colour(P[Math.floor(n / STATES)][n % STATES] / P[0][0]) }));
      const x = at(first);
      set(ones, { d: `M${x} 39l7 -12h-14Z` });
      set(onesLabel, { x: clamp(x, 16, 224) });
      set(groups, { cx: at(second) });
      const near = Math.abs(at(second) - x) < 50;
      set(groupsLabel, { x: near ? Math.max(at(second), x) > 170 ? Math.min(at(second), x) - 12 : x + 14 : Math.max(at(second) - 14, 4),
        "text-anchor": near && Math.max(at(second), x) > 170 ? "end" : "start" });
      set(others, { cx: at(1) });

      shown.discount.textContent = number(discount, 2);
      shown.mixing.textContent = scientific(mixing);
      shown.end.textContent = `The direction of ones is multiplied by ${number(first, 2)}, the difference of the groups by `
        + `${number(second, 2)}, everything else by 1.`;
      shown.share.textContent = `${number(100 * share(discount, mixing), 1)} %`;
      shown.diagonal.textContent = number(P[0][0]);
      shown.inside.textContent = number(P[0][1]);
      shown.across.textContent = number(P[0][STATES / 2]);
      map.setAttribute("aria-label", "Heat map of the matrix P for twelve states in two groups of six. Over its largest entry, "
        + `an entry off the diagonal inside a group is ${number(P[0][1] / P[0][0], 2)}, across groups ${number(P[0][6] / P[0][0], 2)}.`);
      line.setAttribute("aria-label", `Eigenvalues of P on a logarithmic line: ${number(first, 2)}, ${number(second, 2)} and 1.`);
      find('[name="discount"]').value = discount;
      find('[name="mixing"]').value = placeOf(mixing);
      find('[name="mixing"]').setAttribute("aria-valuetext", `chance ${scientific(mixing)}`);
    }

    find('[name="discount"]').addEventListener("input", (event) => {
      state.discount = Number(event.target.value);
      draw();
    });
    find('[name="mixing"]').addEventListener("input", (event) => {
      state.mixing = mixingAt(Number(event.target.value));
      draw();
    });
    host.replaceChildren(node);
    draw();
    follow(picture, layout);
  }

  mount("preconditioner", build);
})();
