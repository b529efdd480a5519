/* Moving part "power-cycle": gradient descent on |x|^(1 + p) / (1 + p), whose slope is sign(x) |x|^p:
       x <- x - eta sign(x) |x|^p.
   For p < 1 every step size has the two-cycle +-r, r = (eta / 2)^(1 / (1 - p)); close to it a step multiplies the distance
   by |1 - 2p|. The flow from 1 is at 0 at the time 1 / (1 - p). For p = 1 a step multiplies x by 1 - eta.
   Markup: <div class="ld-widget" data-widget="power-cycle"></div>; whatever stands inside is replaced.
   Optional: data-power="0.33", data-step="0.5". Pure formulas: window.learningDynamics.powerCycle. */
(function () {
  "use strict";
  const { add, set, number, power, scientific, clamp, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const STEPS = 200;
  const START = 1.3;
  const THIRD = 1 / 3;
  const move = (x, p, eta) => x - eta * Math.sign(x) * Math.abs(x) ** p;
  function run(p, eta, steps = STEPS, start = START) {
    const path = [start];
    for (let k = 0; k < steps; k += 1) path.push(move(path[k], p, eta));
    return path;
  }
  const height = (p, eta) => (p < 1 ? (eta / 2) ** (1 / (1 - p)) : 0);
  const multiplier = (p, eta) => Math.abs(p < 1 ? 1 - 2 * p : 1 - eta);
  const arrival = (p) => (p < 1 ? 1 / (1 - p) : Infinity);

  window.learningDynamics.powerCycle = { move, run, height, multiplier, arrival };

  // ---------------------------------------------------------------- picture
  const RANGE = { power: [0.1, 1], step: [0.02, 1.5] };
  const FLOOR = 1e-12;
  const HTML = `
    <p class="ld-widget-title">How sharp is the minimum? Gradient descent on |x|<sup>1+p</sup>/(1+p), start 1.3.</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="web"></div><div data-part="sizes"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>power p of the slope <data data-quantity="power"></data></span>
          <input type="range" name="power" min="10" max="100" step="1"></label>
        <label class="ld-slider"><span>step size η <data data-quantity="step"></data></span>
          <input type="range" name="step" min="0.02" max="1.5" step="0.02"></label>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="end"></p>
          <dl class="ld-numbers">
            <dt>height of the cycle</dt><dd data-quantity="height"></dd>
            <dt>factor per step close to it</dt><dd data-quantity="multiplier"></dd>
            <dt>the flow from 1 arrives at time</dt><dd data-quantity="arrival"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Top: the map from one iterate to the next and the run as a staircase. Below: distance from the minimum;
      dashed: the parabola, p = 1, with the same step size.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const state = { power: given(host, "power", THIRD, ...RANGE.power), step: given(host, "step", 0.5, ...RANGE.step) };
    const side = [-1, 0, 1].map((v) => [v, number(v, 0)]);
    const web = panel(find('[data-part="web"]'), {
      label: "The map of one step, the diagonal, and the run as a staircase.", tall: 250, square: true,
      x: { low: -1.4, high: 1.4, ticks: side, title: "xₖ" }, y: { low: -1.4, high: 1.4, ticks: side, title: "xₖ₊₁" },
    });
    const sizes = panel(find('[data-part="sizes"]'), {
      label: "Distance from the minimum against the step number.", tall: 210,
      x: { low: 0, high: 40, ticks: [0, 10, 20, 30, 40].map((v) => [v, String(v)]), title: "step k" },
      y: { low: FLOOR, high: 3, log: true, ticks: [-12, -9, -6, -3, 0].map((k) => [10 ** k, k ? power(k) : "1"]), title: "|xₖ|" },
    });
    const diagonal = add(web.area, "path", { class: "curve muted thin" });
    const map = add(web.area, "path", { class: "curve blue" });
    const stairs = add(web.area, "path", { class: "curve orange thin", "data-part": "stairs" });
    const level = add(sizes.area, "line", { class: "axis" });
    const dashed = add(sizes.area, "path", { class: "curve control" });
    const curve = add(sizes.area, "path", { class: "curve orange", "data-part": "run" });

    function sentence(path) {
      const { power: p, step: eta } = state;
      const last = Math.abs(path[STEPS]);
      if (p === 1) return last < 1e-9 ? "A parabola: the run arrives." : "A parabola: the run is on its way.";
      if (path.some((x) => x === 0)) return "One iterate is exactly 0, by luck: the run stays there.";
      const near = Math.abs(last / height(p, eta) - 1) < 0.01;
      return near ? "The run never arrives: it jumps from side to side for ever." : "The run is on its way to the cycle.";
    }

    function draw() {
      const { power: p, step: eta } = state;
      const path = run(p, eta);
      set(diagonal, { d: web.path([[-1.4, -1.4], [1.4, 1.4]]) });
      set(map, { d: web.path(Array.from({ length: 1121 }, (_, k) => {
        const x = -1.4 + k / 400;
        return [x, clamp(move(x, p, eta), -4, 4)];
      })) });
      set(stairs, { d: web.path(path.slice(0, 60).flatMap((x, k) => [[x, k ? x : 0], [x, path[k + 1]]])) });
      const distances = (values) => sizes.path(values.slice(0, 41).map((x, k) => [k, clamp(Math.abs(x), FLOOR / 100, 1e3)]));
      set(curve, { d: distances(path) });
      set(dashed, { d: distances(run(1, eta)) });
      const r = height(p, eta);
      const y = sizes.y(Math.max(r, FLOOR / 100));
      set(level, { x1: sizes.x(0), x2: sizes.x(40), y1: y, y2: y });

      shown.power.textContent = p === THIRD ? "1/3" : number(p, 2);
      shown.step.textContent = number(eta, 2);
      shown.height.textContent = p === 1 ? "no cycle" : r < 1e-300 ? "below 10⁻³⁰⁰" : scientific(r);
      shown.multiplier.textContent = number(multiplier(p, eta), 3);
      shown.arrival.textContent = p === 1 ? "never" : number(arrival(p), 3);
      shown.end.textContent = `p = ${shown.power.textContent}, η = ${shown.step.textContent}. ${sentence(path)}`;
      find('[name="power"]').value = Math.round(100 * p);
      find('[name="step"]').value = eta;
      for (const name of ["power", "step"]) find(`[name="${name}"]`).setAttribute("aria-valuetext", shown[name].textContent);
    }
    find('[name="power"]').addEventListener("input", (event) => {
      state.power = clamp(Number(event.target.value) / 100, ...RANGE.power);
      draw();
    });
    find('[name="step"]').addEventListener("input", (event) => {
      state.step = clamp(Number(event.target.value), ...RANGE.step);
      draw();
    });
    host.replaceChildren(node);
    follow(find('[data-part="web"]'), () => {
      web.layout();
      sizes.layout();
      draw();
    });
  }

  mount("power-cycle", build);
})();
