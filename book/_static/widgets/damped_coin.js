/* Moving part "damped-coin": a fair coin with log-odds z, loss ln(2 cosh(z / 2)), natural gradient steps with damping:
       z <- z - eta s(z),   s(z) = (tanh(z / 2) / 2) / (1 / (4 cosh(z / 2)^2) + lambda).
   A step brings z closer to zero iff eta s(z) < 2 z, that is lambda > phi(z) = eta tanh(z / 2) / (4 z) - 1 / (4 cosh(z / 2)^2).
   Above the largest phi every start comes home; below it, every start before the first z with phi(z) = lambda does.
   Markup: <div class="ld-widget" data-widget="damped-coin"></div>; whatever stands inside is replaced.
   Optional: data-damping="0", data-step="1", data-start="2.3". Pure formulas: window.learningDynamics.dampedCoin. */
(function () {
  "use strict";
  const { add, set, number, power, clamp, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const STEPS = 60;
  const fisher = (z) => 1 / (4 * Math.cosh(z / 2) ** 2);
  /** z - sinh(z) in a form that does not cancel or overflow where the Fisher is tiny. */
  function move(z, damping, eta) {
    if (damping === 0) return z - eta * Math.sinh(z);
    return z - (eta * Math.tanh(z / 2)) / 2 / (fisher(z) + damping);
  }
  function run(damping, eta, start, steps = STEPS) {
    const path = [start];
    for (let k = 0; k < steps && Math.abs(path[k]) < 700; k += 1) path.push(move(path[k], damping, eta));
    return path;
  }
  const phi = (z, eta) => (eta * Math.tanh(z / 2)) / (4 * z) - fisher(z);
  /** The least damping above which every start comes home: the maximum of phi, by golden section. */
  function threshold(eta) {
    const ratio = (Math.sqrt(5) - 1) / 2;
    let [low, high] = [1e-3, 40];
    for (let k = 0; k < 200; k += 1) {
      const [a, b] = [high - ratio * (high - low), low + ratio * (high - low)];
      if (phi(a, eta) > phi(b, eta)) high = b;
      else low = a;
    }
    return { damping: Math.max(0, phi((low + high) / 2, eta)), z: (low + high) / 2 };
  }
  /** The first z > 0 with phi(z) = lambda; infinity above the threshold. */
  function edge(damping, eta) {
    const top = threshold(eta);
    if (damping > top.damping) return Infinity;
    let [low, high] = [1e-9, damping === 0 ? 60 : top.z];
    for (let k = 0; k < 200; k += 1) {
      const middle = (low + high) / 2;
      if (phi(middle, eta) > damping) high = middle;
      else low = middle;
    }
    return (low + high) / 2;
  }
  const factor = (damping, eta) => Math.abs(1 - eta / (1 + 4 * damping));

  window.learningDynamics.dampedCoin = { move, run, phi, threshold, edge, factor };

  // ---------------------------------------------------------------- picture
  const RANGE = { damping: [0, 0.5], step: [0.05, 1], start: [0.1, 12] };
  const FLOOR = 1e-16;
  const HTML = `
    <p class="ld-widget-title">A coin that thinks it is loaded. Does it find out that it is fair?</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="web"></div><div data-part="sizes"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>damping λ <data data-quantity="damping"></data></span>
          <input type="range" name="damping" min="0" max="0.5" step="0.005"></label>
        <label class="ld-slider"><span>step size η <data data-quantity="step"></data></span>
          <input type="range" name="step" min="0.05" max="1" step="0.05"></label>
        <label class="ld-slider"><span><bdi>start z<sub>0</sub></bdi> <data data-quantity="start"></data></span>
          <input type="range" name="start" min="0.1" max="12" step="0.1"></label>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="end"></p>
          <dl class="ld-numbers">
            <dt>comes home from |z| below</dt><dd data-quantity="edge"></dd>
            <dt>from everywhere if λ above</dt><dd data-quantity="threshold"></dd>
            <dt>factor per step at the end</dt><dd data-quantity="factor"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Top: the map from one log-odds to the next and the run as a staircase; grey band: where a step leads farther
      away. Below: the distance from the fair coin; dashed: the same start without damping, η = 1.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const state = {
      damping: given(host, "damping", 0, ...RANGE.damping),
      step: given(host, "step", 1, ...RANGE.step),
      start: given(host, "start", 2.3, ...RANGE.start),
    };
    const side = [-12, -6, 0, 6, 12].map((v) => [v, number(v, 0)]);
    const web = panel(find('[data-part="web"]'), {
      label: "The map of one step, the diagonal, and the run as a staircase.", tall: 270, square: true,
      x: { low: -13, high: 13, ticks: side, title: "zₖ" }, y: { low: -13, high: 13, ticks: side, title: "zₖ₊₁" },
    });
    const sizes = panel(find('[data-part="sizes"]'), {
      label: "Distance from the fair coin against the step number.", tall: 220,
      x: { low: 0, high: 30, ticks: [0, 10, 20, 30].map((v) => [v, String(v)]), title: "step k" },
      y: { low: FLOOR, high: 1e3, log: true, ticks: [-15, -10, -5, 0].map((k) => [10 ** k, k ? power(k) : "1"]), title: "|zₖ|" },
    });
    const bands = [-1, 1].map(() => add(web.area, "rect", { fill: "currentColor", opacity: 0.1 }));
    const diagonal = add(web.area, "path", { class: "curve muted thin" });
    const map = add(web.area, "path", { class: "curve blue" });
    const stairs = add(web.area, "path", { class: "curve orange thin", "data-part": "stairs" });
    const dashed = add(sizes.area, "path", { class: "curve control" });
    const curve = add(sizes.area, "path", { class: "curve orange", "data-part": "run" });

    function sentence(path, home) {
      const last = Math.abs(path[path.length - 1]);
      if (last >= 700) return `lost: beyond 700 after ${path.length - 1} steps.`;
      if (last < 1e-12) return `home: within 10⁻¹² after ${path.findIndex((z) => Math.abs(z) < 1e-12)} steps.`;
      return home ? "on its way home, slowly." : "does not come home in 60 steps.";
    }

    function draw() {
      const { damping, step, start } = state;
      const path = run(damping, step, start);
      const plain = run(0, 1, start, 30);
      const from = edge(damping, step);
      const top = threshold(step).damping;
      set(diagonal, { d: web.path([[-13, -13], [13, 13]]) });
      set(map, { d: web.path(Array.from({ length: 521 }, (_, k) => {
        const z = -13 + k / 20;
        return [z, clamp(move(z, damping, step), -60, 60)];
      })) });
      const corners = path.slice(0, -1).flatMap((z, k) => [[z, k ? z : 0], [z, clamp(path[k + 1], -60, 60)]]);
      set(stairs, { d: web.path(corners.map(([a, b]) => [clamp(a, -60, 60), b])) });
      let far = from;
      while (far < 13 && phi(far + 1e-6, step) >= damping) far += 0.02;
      bands.forEach((each, i) => {
        const [a, b] = i ? [from, far] : [-far, -from];
        const visible = from < 13;
        set(each, {
          x: visible ? web.x(Math.max(a, -13)) : 0, width: visible ? Math.max(0, web.x(Math.min(b, 13)) - web.x(Math.max(a, -13))) : 0,
          y: web.y(13), height: web.y(-13) - web.y(13),
        });
      });
      const distances = (values) => sizes.path(values.slice(0, 31).map((z, k) => [k, clamp(Math.abs(z), FLOOR / 10, 1e6)]));
      set(curve, { d: distances(path) });
      set(dashed, { d: distances(plain) });

      shown.damping.textContent = number(damping, 3);
      shown.step.textContent = number(step, 2);
      shown.start.textContent = number(start, 1);
      shown.edge.textContent = from === Infinity ? "everywhere" : number(from, 3);
      shown.threshold.textContent = number(top, 4);
      shown.factor.textContent = number(factor(damping, step), 3);
      shown.end.textContent = `From z = ${number(start, 1)} (p = ${number(1 / (1 + Math.exp(-start)), 3)}): ${sentence(path, start < from)}`;
      for (const name of ["damping", "step", "start"]) {
        find(`[name="${name}"]`).value = state[name];
        find(`[name="${name}"]`).setAttribute("aria-valuetext", shown[name].textContent);
      }
    }
    function layout() {
      web.layout();
      sizes.layout();
      draw();
    }
    for (const name of ["damping", "step", "start"]) {
      find(`[name="${name}"]`).addEventListener("input", (event) => {
        state[name] = clamp(Number(event.target.value), ...RANGE[name]);
        draw();
      });
    }
    host.replaceChildren(node);
    follow(find('[data-part="web"]'), layout);
  }

  mount("damped-coin", build);
})();
