/* Moving part "added-constant": the loss lambda theta^2 / 2 + c, thirty steps from theta = 2, largest step sigma.
   NGN: theta <- theta - gamma lambda theta,   gamma = sigma / (1 + sigma (lambda theta)^2 / (2 loss)).
   With rho = sigma lambda > 2 and c > 0 it tends to the two-cycle of height c (rho - 2) / (rho + 2), where gamma = 2 / lambda.
   Markup: <div class="ld-widget" data-widget="added-constant"></div>; whatever stands inside is replaced.
   Optional: data-constant="0.5", data-sigma="4", data-curvature="1" (start state).
   Pure formulas: window.learningDynamics.addedConstant. */
(function () {
  "use strict";
  const { add, set, number, power, scientific, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const STEPS = 30;
  const START = 2;

  const gap = (theta, curvature) => (curvature * theta ** 2) / 2;

  function stepSize(theta, sigma, curvature, constant) {
    const value = gap(theta, curvature) + constant;
    return value === 0 ? sigma : sigma / (1 + (sigma * (curvature * theta) ** 2) / (2 * value));
  }
  function ngn(sigma, curvature, constant, steps = STEPS, start = START) {
    const path = [start];
    for (let k = 0; k < steps; k += 1) path.push(path[k] - stepSize(path[k], sigma, curvature, constant) * curvature * path[k]);
    return path;
  }
  function gradientDescent(sigma, curvature, steps = STEPS, start = START) {
    const path = [start];
    for (let k = 0; k < steps && gap(path[k], curvature) < 1e300; k += 1) path.push(path[k] - sigma * curvature * path[k]);
    return path;
  }
  /** Height over the minimum at which NGN ends. */
  function height(sigma, curvature, constant) {
    const rho = sigma * curvature;
    return rho > 2 ? (constant * (rho - 2)) / (rho + 2) : 0;
  }

  window.learningDynamics.addedConstant = { stepSize, ngn, gradientDescent, height };

  // ---------------------------------------------------------------- picture
  const RANGE = { constant: [0, 2], sigma: [0.1, 1000], curvature: [0.2, 5] };
  const FLOOR = 1e-8;
  const HTML = `
    <p class="ld-widget-title">Add a constant to the loss, and NGN stops at a height known in advance.</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="gaps"></div><div data-part="loss"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>constant c <data data-quantity="constant"></data></span>
          <input type="range" name="constant" min="0" max="2" step="0.05"></label>
        <label class="ld-slider"><span><bdi>largest step σ = η<sub>max</sub></bdi> <data data-quantity="sigma"></data></span>
          <input type="range" name="sigma" min="-1" max="3" step="0.01"></label>
        <label class="ld-slider"><span>curvature λ <data data-quantity="curvature"></data></span>
          <input type="range" name="curvature" min="-0.7" max="0.7" step="0.01"></label>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="end"></p>
          <dl class="ld-numbers">
            <dt>predicted height</dt><dd data-quantity="height"></dd>
            <dt><span class="ld-key blue">NGN, with c</span></dt><dd data-quantity="with"></dd>
            <dt><span class="ld-key green">NGN, c = 0</span></dt><dd data-quantity="without"></dd>
            <dt>GD (dashed), any c</dt><dd data-quantity="descent"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Top: height over the minimum in thirty steps from θ = 2, and the predicted height (thin line).
      Below: the loss with the last twelve points of NGN; <span class="ld-key orange">rings</span> are the predicted pair.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const state = {
      constant: given(host, "constant", 0.5, ...RANGE.constant),
      sigma: given(host, "sigma", 4, ...RANGE.sigma),
      curvature: given(host, "curvature", 1, ...RANGE.curvature),
    };
    const top = panel(find('[data-part="gaps"]'), {
      label: "Height over the minimum against the step number, for NGN with and without the constant and for gradient descent.",
      tall: 240,
      x: { low: 0, high: STEPS, ticks: [0, 10, 20, 30].map((v) => [v, String(v)]), title: "step k" },
      y: { low: FLOOR, high: 1e3, log: true, ticks: [-8, -5, -2, 0, 3].map((k) => [10 ** k, k ? power(k) : "1"]), title: "loss − minimum" },
    });
    const across = { low: -2.1, high: 2.1, ticks: [-2, -1, 0, 1, 2].map((v) => [v, number(v, 0)]), title: "θ" };
    const up = { low: 0, high: 2.8, ticks: [], title: "loss" };
    const bottom = panel(find('[data-part="loss"]'), {
      label: "The loss, a parabola, with the last twelve points of NGN and the predicted pair of points.", tall: 230, x: across, y: up,
    });
    const predicted = add(top.area, "line", { class: "solutions thin", "data-part": "predicted" });
    const dashed = add(top.area, "path", { class: "curve control" });
    const green = add(top.area, "path", { class: "curve green" });
    const blue = add(top.area, "path", { class: "curve blue", "data-part": "with" });
    const parabola = add(bottom.area, "path", { class: "curve muted" });
    const dots = add(bottom.area, "g");
    const rings = [-1, 1].map(() => add(bottom.area, "circle", { class: "ring orange", r: 8, "data-part": "ring" }));

    function layout() {
      const most = gap(START, state.curvature) + state.constant;
      up.high = Math.max(1, most * 1.12);
      const unit = [0.25, 0.5, 1, 2, 5].find((u) => up.high / u <= 5) || 5;
      up.ticks = Array.from({ length: Math.floor(up.high / unit) + 1 }, (_, k) => [k * unit, String(k * unit)]);
      top.layout();
      bottom.layout();
      draw();
    }

    function draw() {
      const { constant, sigma, curvature } = state;
      const rho = sigma * curvature;
      const end = height(sigma, curvature, constant);
      const run = ngn(sigma, curvature, constant);
      const free = ngn(sigma, curvature, 0);
      const descent = gradientDescent(sigma, curvature);
      const gaps = (path) => path.map((t, k) => [k, Math.max(gap(t, curvature), FLOOR / 100)]);
      set(blue, { d: top.path(gaps(run)) });
      set(green, { d: top.path(gaps(free)) });
      set(dashed, { d: top.path(gaps(descent)) });
      set(predicted, { x1: top.x(0), x2: top.x(STEPS), y1: top.y(end || FLOOR), y2: top.y(end || FLOOR), visibility: end > 0 ? "visible" : "hidden" });
      set(parabola, { d: bottom.path(Array.from({ length: 101 }, (_, k) => {
        const t = -2.1 + (4.2 * k) / 100;
        return [t, gap(t, curvature) + constant];
      })) });
      dots.replaceChildren();
      for (const t of run.slice(-12)) add(dots, "circle", { class: "point blue", r: 3.4, cx: bottom.x(t), cy: bottom.y(gap(t, curvature) + constant) });
      const cycle = Math.sqrt((2 * end) / curvature);
      rings.forEach((ring, i) => set(ring, { cx: bottom.x((2 * i - 1) * cycle), cy: bottom.y(end + constant), visibility: end > 0 ? "visible" : "hidden" }));

      const last = (path) => {
        const value = gap(path[path.length - 1], curvature);
        return value < 1e-15 ? "below 10⁻¹⁵" : scientific(value);
      };
      const start = `ρ = σλ = ${scientific(rho)}: `;
      shown.constant.textContent = number(constant, 2);
      shown.sigma.textContent = scientific(sigma);
      shown.curvature.textContent = scientific(curvature);
      shown.height.textContent = number(end);
      shown.with.textContent = run[STEPS] === 0 ? "0" : last(run);
      shown.without.textContent = last(free);
      shown.descent.textContent = rho > 2 ? "diverges" : rho === 2 ? "jumps for ever" : last(descent);
      shown.end.textContent = start + (end > 0
        ? `NGN tends to the height ${number(end)}; its step there is 2/λ = ${scientific(2 / curvature)}.`
          + (rho > 20 ? " It settles slowly: about ρ²/8 steps for a factor e." : "")
        : "NGN tends to the minimum.");
      find('[name="constant"]').value = constant;
      for (const name of ["sigma", "curvature"]) {
        find(`[name="${name}"]`).value = Math.log10(state[name]);
        find(`[name="${name}"]`).setAttribute("aria-valuetext", scientific(state[name]));
      }
    }

    for (const name of ["constant", "sigma", "curvature"]) {
      find(`[name="${name}"]`).addEventListener("input", (event) => {
        const value = Number(event.target.value);
        const [low, high] = RANGE[name];
        state[name] = name === "constant" ? value : Math.min(Math.max(10 ** value, low), high);
        layout();
      });
    }
    host.replaceChildren(node);
    follow(find('[data-part="gaps"]'), layout);
  }

  mount("added-constant", build);
})();
