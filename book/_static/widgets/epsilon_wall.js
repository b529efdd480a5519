/* Moving part "epsilon-wall": the chain of D equal weights w, loss (1 - w^D)^2 / 2 as a function of all D weights, so that each
   has the gradient g = w^(D-1) (w^D - 1). Steps to a loss of 0.01 by gradient descent (t_up / eta, with its step 0.1) and by
   RMSprop, v <- b v + (1 - b) g^2, w <- w - eta g / (sqrt(v) + eps), which is run. Wall: the depth where w0^(D-1) = eps.
   Markup: <div class="ld-widget" data-widget="epsilon-wall"></div>; whatever stands inside is replaced.
   Optional: data-depth="32", data-start="0.5", data-epsilon="-8" (its power of ten, 0 for none), data-step="0.01".
   Pure formulas: window.learningDynamics.epsilonWall. */
(function () {
  "use strict";
  const { add, set, number, power, scientific, clamp, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const MOST = 20000;
  const BETA2 = 0.9;
  const DESCENT = 0.1;
  const slope = (depth, start) => start ** (depth - 1) * (1 - start ** depth);
  /** Smallest eigenvalue of the Hessian at equal weights: diagonal w^(2D-2), off it w^(D-2) (2 w^D - 1). */
  const lowest = (depth, start) => start ** (2 * depth - 2) - (depth - 1) * start ** (depth - 2) * (1 - 2 * start ** depth);
  const waiting = (depth, start) => (start ** (2 - depth) - 1) / (depth - 2);
  const wall = (start, epsilon) => (epsilon > 0 ? 1 + Math.log(epsilon) / Math.log(start) : Infinity);
  /** Steps of RMSprop to a loss below 0.01; infinity after MOST of them. */
  function steps(depth, start, epsilon, eta, most = MOST) {
    let [w, v] = [start, 0];
    for (let k = 0; k < most; k += 1) {
      const output = w ** depth;
      if ((1 - output) ** 2 / 2 < 0.01) return k;
      const g = w ** (depth - 1) * (output - 1);
      v = BETA2 * v + (1 - BETA2) * g * g;
      w -= (eta * g) / (Math.sqrt(v) + epsilon);
      if (!Number.isFinite(w)) return Infinity;
    }
    return Infinity;
  }

  window.learningDynamics.epsilonWall = { slope, lowest, waiting, wall, steps };

  // ---------------------------------------------------------------- picture
  const RANGE = { depth: [4, 60], start: [0.3, 0.9], epsilon: [-20, -4], step: [0.002, 0.05] };
  const DEPTHS = Array.from({ length: 57 }, (_, k) => k + 4);
  const HTML = `
    <p class="ld-widget-title">How long does a chain of D weights stay on its plateau?</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="counts"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>depth D <data data-quantity="depth"></data></span>
          <input type="range" name="depth" min="4" max="60" step="1"></label>
        <label class="ld-slider"><span><bdi>start w<sub>0</sub></bdi> <data data-quantity="start"></data></span>
          <input type="range" name="start" min="0.3" max="0.9" step="0.05"></label>
        <label class="ld-slider"><span>epsilon <data data-quantity="epsilon"></data></span>
          <input type="range" name="epsilon" min="-20" max="-4" step="1"></label>
        <label class="ld-slider"><span>step η of RMSprop <data data-quantity="step"></data></span>
          <input type="range" name="step" min="0.002" max="0.05" step="0.001"></label>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="count"></p>
          <dl class="ld-numbers">
            <dt>size of the gradient, per weight</dt><dd data-quantity="slope"></dd>
            <dt>lowest eigenvalue of the Hessian</dt><dd data-quantity="lowest"></dd>
            <dt>gradient descent waits, steps</dt><dd data-quantity="waiting"></dd>
            <dt>wall at depth</dt><dd data-quantity="wall"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Steps to a loss of 0.01 against the depth. Blue: gradient descent with step 0.1 (the formula). Green: RMSprop without epsilon.
      Dashed: with epsilon. Vertical: the wall. Curves end at 20,000 steps.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const state = {
      depth: Math.round(given(host, "depth", 32, ...RANGE.depth)),
      start: given(host, "start", 0.5, ...RANGE.start),
      epsilon: Math.round(given(host, "epsilon", -8, ...RANGE.epsilon)),
      step: given(host, "step", 0.01, ...RANGE.step),
    };
    const counts = panel(find('[data-part="counts"]'), {
      label: "Steps to a loss of 0.01 against the depth, for gradient descent and RMSprop.", tall: 320,
      x: { low: 4, high: 60, ticks: [10, 20, 30, 40, 50, 60].map((v) => [v, String(v)]), title: "depth D" },
      y: { low: 1, high: 1e6, log: true, ticks: [0, 2, 4, 6].map((k) => [10 ** k, k ? power(k) : "1"]), title: "steps" },
    });
    const descent = add(counts.area, "path", { class: "curve blue" });
    const free = add(counts.area, "path", { class: "curve green" });
    const dashed = add(counts.area, "path", { class: "curve control", "data-part": "walled" });
    const upright = add(counts.area, "path", { class: "curve muted thin" });
    const here = add(counts.area, "circle", { r: 5, class: "iterate" });

    const signed = (x) => (x < 0 ? `−${scientific(-x)}` : scientific(x));

    function draw() {
      const { depth, start, step } = state;
      const epsilon = 10 ** state.epsilon;
      const many = (eps) => DEPTHS.map((d) => [d, steps(d, start, eps, step)]);
      set(descent, { d: counts.path(DEPTHS.map((d) => [d, Math.max(1, waiting(d, start) / DESCENT)])) });
      set(free, { d: counts.path(many(0)) });
      set(dashed, { d: counts.path(many(epsilon)) });
      const at = wall(start, epsilon);
      set(upright, { d: counts.path([[at, 1], [at, 1e6]]) });
      const count = steps(depth, start, epsilon, step);
      set(here, { cx: counts.x(depth), cy: counts.y(Number.isFinite(count) ? Math.max(1, count) : 1e6) });

      shown.depth.textContent = String(depth);
      shown.start.textContent = number(start, 2);
      shown.epsilon.textContent = power(state.epsilon);
      shown.step.textContent = number(step, 3);
      shown.slope.textContent = scientific(slope(depth, start));
      shown.lowest.textContent = signed(lowest(depth, start));
      shown.waiting.textContent = scientific(waiting(depth, start) / DESCENT);
      shown.wall.textContent = number(at, 1);
      const without = steps(depth, start, 0, step);
      const text = (n) => (Number.isFinite(n) ? `${n}` : "more than 20000");
      shown.count.textContent = `RMSprop: ${text(count)} steps; without epsilon ${text(without)}.`;
      for (const name of ["depth", "start", "epsilon", "step"]) {
        find(`[name="${name}"]`).value = state[name];
        find(`[name="${name}"]`).setAttribute("aria-valuetext", shown[name].textContent);
      }
    }
    function layout() {
      counts.layout();
      draw();
    }
    for (const name of ["depth", "start", "epsilon", "step"]) {
      find(`[name="${name}"]`).addEventListener("input", (event) => {
        state[name] = clamp(Number(event.target.value), ...RANGE[name]);
        draw();
      });
    }
    host.replaceChildren(node);
    follow(find('[data-part="counts"]'), layout);
  }

  mount("epsilon-wall", build);
})();
