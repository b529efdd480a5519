/* Moving part "tug-of-war": f1 = r (theta - 1)^2 / 2, f2 = (theta + 1)^2 / 2, one of the two drawn at each step.
   SPS, its factor decreasing:   theta <- theta - (theta - m_i) / (2 sqrt(k + 1)): the curvature has cancelled;
   DecSPS:                       theta <- theta - Q a_i (theta - m_i) / sqrt(k + 1), Q the least 1 / (2 a_i) so far.
   The minimizer of the mean is (r - 1) / (r + 1).
   Markup: <div class="ld-widget" data-widget="tug-of-war"></div>; whatever stands inside is replaced.
   Optional: data-ratio="2" (start state). Pure formulas: window.learningDynamics.tugOfWar. */
(function () {
  "use strict";
  const { add, set, number, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const STEPS = 400;
  const START = 2.5;
  const CENTERS = [1, -1];

  const minimizer = (ratio) => (ratio - 1) / (ratio + 1);
  const loss = (theta, ratio) => [(ratio * (theta - 1) ** 2) / 2, (theta + 1) ** 2 / 2];

  /** Draws of the start state, 0 for f1: low discrepancy, the same on every machine. */
  const fixedDraws = () => Array.from({ length: STEPS }, (_, k) => ((k * 0.6180339887498949 + 0.5) % 1 < 0.5 ? 0 : 1));
  const newDraws = () => Array.from({ length: STEPS }, () => (Math.random() < 0.5 ? 0 : 1));

  function sps(draws, start = START) {
    const path = [start];
    draws.forEach((i, k) => path.push(path[k] - (path[k] - CENTERS[i]) / (2 * Math.sqrt(k + 1))));
    return path;
  }
  function decsps(draws, ratio, start = START) {
    const path = [start];
    let least = Infinity;
    draws.forEach((i, k) => {
      const curvature = i === 0 ? ratio : 1;
      if (path[k] !== CENTERS[i]) least = Math.min(least, 1 / (2 * curvature));
      path.push(path[k] === CENTERS[i] ? path[k] : path[k] - (least / Math.sqrt(k + 1)) * curvature * (path[k] - CENTERS[i]));
    });
    return path;
  }

  window.learningDynamics.tugOfWar = { minimizer, fixedDraws, sps, decsps };

  // ---------------------------------------------------------------- picture
  const HTML = `
    <p class="ld-widget-title">Two parabolas pull; one run forgets how steep they are.</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="losses"></div><div data-part="paths"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>curvature ratio r <data data-quantity="ratio"></data></span>
          <input type="range" name="ratio" min="-0.7" max="1" step="0.01"></label>
        <div class="ld-ends"><span>flatter</span><span>steeper</span></div>
        <div class="ld-widget-controls"><button type="button" name="again">Draw again</button>
          <button type="button" name="reset">Reset</button></div>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="end"></p>
          <dl class="ld-numbers">
            <dt>minimizer θ*</dt><dd data-quantity="minimizer"></dd>
            <dt><span class="ld-key blue">DecSPS</span>, last</dt><dd data-quantity="decsps"></dd>
            <dt>SPS (dashed), last</dt><dd data-quantity="sps"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Top: <span class="ld-key orange">the parabola with minimum at 1</span>, whose curvature is r,
      <span class="ld-key green">the one at −1</span>, of curvature 1, and their mean. Below: 400 steps, the same draws for both runs.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const first = given(host, "ratio", 2, 0.2, 10);
    const state = { ratio: first, draws: fixedDraws() };
    const top = panel(find('[data-part="losses"]'), {
      label: "Two parabolas with minima at 1 and at minus 1, and their mean.", tall: 190,
      x: { low: -2.2, high: 2.2, ticks: [-2, -1, 0, 1, 2].map((v) => [v, number(v, 0)]), title: "θ" },
      y: { low: 0, high: 5, ticks: [0, 2, 4].map((v) => [v, String(v)]), title: "loss" },
    });
    const bottom = panel(find('[data-part="paths"]'), {
      label: "Two paths against the step number. One settles at the minimizer, the dashed one around zero.", tall: 240,
      x: { low: 0, high: STEPS, ticks: [0, 100, 200, 300, 400].map((v) => [v, String(v)]), title: "step k" },
      y: { low: -1.1, high: 1.4, ticks: [-1, -0.5, 0, 0.5, 1].map((v) => [v, number(v, 1)]), title: "θₖ" },
    });
    const steep = add(top.area, "path", { class: "curve orange" });
    const flat = add(top.area, "path", { class: "curve green" });
    const mean = add(top.area, "path", { class: "curve thick" });
    const lowest = add(top.area, "circle", { class: "mark", r: 4.5 });
    const middle = add(bottom.area, "line", { class: "axis" });
    const goal = add(bottom.area, "line", { class: "solutions thin", "data-part": "minimizer" });
    const dashed = add(bottom.area, "path", { class: "curve control" });
    const settled = add(bottom.area, "path", { class: "curve blue", "data-part": "decsps" });
    const goalLabel = add(bottom.labels, "text", { class: "small halo", "text-anchor": "end" }, "minimizer θ*");

    function draw() {
      const { ratio, draws } = state;
      const grid = Array.from({ length: 121 }, (_, k) => -2.2 + (4.4 * k) / 120);
      set(steep, { d: top.path(grid.map((t) => [t, loss(t, ratio)[0]])) });
      set(flat, { d: top.path(grid.map((t) => [t, loss(t, ratio)[1]])) });
      set(mean, { d: top.path(grid.map((t) => [t, (loss(t, ratio)[0] + loss(t, ratio)[1]) / 2])) });
      const best = minimizer(ratio);
      set(lowest, { cx: top.x(best), cy: top.y((loss(best, ratio)[0] + loss(best, ratio)[1]) / 2) });
      const ends = { x1: bottom.x(0), x2: bottom.x(STEPS) };
      set(middle, { ...ends, y1: bottom.y(0), y2: bottom.y(0) });
      set(goal, { ...ends, y1: bottom.y(best), y2: bottom.y(best) });
      const [plain, decreasing] = [sps(draws), decsps(draws, ratio)];
      set(dashed, { d: bottom.path(plain.map((t, k) => [k, t])) });
      set(settled, { d: bottom.path(decreasing.map((t, k) => [k, t])) });
      set(goalLabel, { x: bottom.x(STEPS) - 6, y: bottom.y(best) + (best < 0 ? 28 : -18) });

      const text = String(Number(ratio.toPrecision(3)));
      shown.ratio.textContent = text;
      shown.minimizer.textContent = number(best);
      shown.decsps.textContent = number(decreasing[STEPS]);
      shown.sps.textContent = number(plain[STEPS]);
      shown.end.textContent = ratio === 1 ? "r = 1: equal curvatures, no bias. Both runs are the same."
        : `r = ${text}: the minimizer is ${number(best)}. SPS stays around 0, DecSPS around ${number(best)}.`;
      find('[name="ratio"]').value = Math.log10(ratio);
      find('[name="ratio"]').setAttribute("aria-valuetext", `curvature ratio ${text}`);
    }

    find('[name="ratio"]').addEventListener("input", (event) => {
      state.ratio = Math.max(10 ** Number(event.target.value), 0.2);
      draw();
    });
    find('[name="again"]').addEventListener("click", () => {
      state.draws = newDraws();
      draw();
    });
    find('[name="reset"]').addEventListener("click", () => {
      Object.assign(state, { ratio: first, draws: fixedDraws() });
      draw();
    });
    host.replaceChildren(node);
    follow(find('[data-part="losses"]'), () => {
      top.layout();
      bottom.layout();
      draw();
    });
  }

  mount("tug-of-war", build);
})();
