/* Moving part "shaken-width": a two-layer linear net of width m that fits targets (1, -1, 0, ...) . x with S = I in ten
   dimensions, both layers of squared length sqrt 2, shaken by sigma on all weights, or by sqrt 2 sigma on one layer.
   Added to the mean loss: 11 sqrt(2) sigma^2 / 2, and for all layers 5 sigma^4 m. Traces of the covariance of the
   gradient: the exact laws of learning_dynamics.noise.two_layer_linear.
   Markup: <div class="ld-widget" data-widget="shaken-width"></div>; whatever stands inside is replaced.
   Optional: data-width="100", data-sigma="0.1", data-step="0.1" (start state).
   Pure formulas: window.learningDynamics.shakenWidth. */
(function () {
  "use strict";
  const { add, set, number, power, scientific, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const ROOT = Math.SQRT2; // squared length of either layer, of W S, and trace of W S W'
  const INPUTS = 10; // tr S = tr S^2
  const HESSIAN = 2 * ROOT * ROOT + INPUTS * ROOT * ROOT + 2; // squared Frobenius norm
  const MEAN = ROOT + INPUTS * INPUTS * ROOT; // squared mean gradient over sigma^4

  const penalty = (sigma) => ((sigma * sigma) / 2) * (ROOT + INPUTS * ROOT);
  const constant = (m, sigma) => (sigma ** 4 / 2) * m * INPUTS;
  function all(m, sigma) {
    const fourth =
      (3 * m + 4) * ROOT + 2 * INPUTS * ROOT + ROOT * ((2 * m + 4) * INPUTS + INPUTS * INPUTS + (m + 1) * INPUTS);
    const sixth = m * INPUTS * INPUTS + (2 * m * m + 3 * m) * INPUTS;
    return sigma ** 2 * HESSIAN + sigma ** 4 * (fourth - MEAN) + sigma ** 6 * sixth;
  }
  function one(m, sigma) {
    const fourth = 2 * (ROOT * (INPUTS * INPUTS + (m + 1) * INPUTS) + (m + 2) * ROOT);
    return sigma ** 2 * HESSIAN + sigma ** 4 * (fourth - MEAN);
  }
  const limit = (m, sigma, step) => step * sigma * sigma * (m + 2);

  window.learningDynamics.shakenWidth = { penalty, constant, all, one, limit };

  // ---------------------------------------------------------------- picture
  const RANGE = { width: [1, 10000], sigma: [0.01, 0.5], step: [0.0001, 1] };
  const HTML = `
    <p class="ld-widget-title">Widen the network: which noise takes over?</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="picture"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>width m <data data-quantity="width"></data></span>
          <input type="range" name="width" min="0" max="4" step="0.02"></label>
        <label class="ld-slider"><span>noise σ <data data-quantity="sigma"></data></span>
          <input type="range" name="sigma" min="-2" max="-0.3" step="0.01"></label>
        <label class="ld-slider"><span>step η <data data-quantity="step"></data></span>
          <input type="range" name="step" min="-4" max="0" step="0.02"></label>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="end"></p>
          <dl class="ld-numbers">
            <dt>penalty, both methods</dt><dd data-quantity="penalty"></dd>
            <dt>constant, all layers</dt><dd data-quantity="constant"></dd>
            <dt>scatter, all layers</dt><dd data-quantity="all"></dd>
            <dt>scatter, one layer</dt><dd data-quantity="one"></dd>
            <dt>σ²m (a layer has 1.41)</dt><dd data-quantity="length"></dd>
            <dt>ησ²(m + 2), limit 1</dt><dd data-quantity="limit"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Trace of the covariance of the shaken gradient against the width. <span class="ld-key blue">Blue</span>: one layer at a time.
      Dashed, what breaks it: all layers. Thin line: the constant in the mean loss. Upright line: your width.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const usual = { width: 100, sigma: 0.1, step: 0.1 };
    const state = {};
    for (const name of Object.keys(usual)) state[name] = given(host, name, usual[name], ...RANGE[name]);
    const view = panel(find('[data-part="picture"]'), {
      label: "Scatter of the gradient against the width for both ways of shaking, and the constant in the loss.",
      tall: 300,
      x: { low: 1, high: 10000, log: true, ticks: [0, 1, 2, 3, 4].map((k) => [10 ** k, k ? power(k) : "1"]), title: "width m" },
      y: { low: 1e-5, high: 1e6, log: true, ticks: [-4, -2, 0, 2, 4, 6].map((k) => [10 ** k, k ? power(k) : "1"]), title: "scatter" },
    });
    const dashed = add(view.area, "path", { class: "curve control", "data-part": "all" });
    const thin = add(view.area, "path", { class: "solutions thin", fill: "none", "data-part": "constant" });
    const blue = add(view.area, "path", { class: "curve blue", "data-part": "one" });
    const upright = add(view.area, "path", { class: "solutions thin", fill: "none", "data-part": "width" });
    const drawn = Array.from({ length: 81 }, (_, i) => 10 ** (i / 20));

    function layout() {
      view.layout();
      draw();
    }

    function draw() {
      const { sigma, step } = state;
      const m = Math.round(state.width);
      const curve = (law) => view.path(drawn.map((w) => [w, law(w, sigma)]));
      set(blue, { d: curve(one) });
      set(dashed, { d: curve(all) });
      set(thin, { d: curve(constant) });
      set(upright, { d: view.path([[m, 1e-5], [m, 1e6]]) });
      shown.width.textContent = String(m);
      for (const name of ["sigma", "step"]) shown[name].textContent = scientific(state[name]);
      shown.penalty.textContent = scientific(penalty(sigma));
      shown.constant.textContent = scientific(constant(m, sigma));
      shown.all.textContent = scientific(all(m, sigma));
      shown.one.textContent = scientific(one(m, sigma));
      shown.length.textContent = scientific(sigma * sigma * m);
      shown.limit.textContent = scientific(limit(m, sigma, step));
      const ratio = all(m, sigma) / one(m, sigma);
      shown.end.textContent =
        limit(m, sigma, step) > 1
          ? "Beyond the limit: lower the step, one layer at a time does not help."
          : `All layers scatter ${number(ratio, 2)} times as much as one.`;
      for (const name of Object.keys(RANGE)) {
        const input = find(`[name="${name}"]`);
        input.value = Math.log10(name === "width" ? m : state[name]);
        input.setAttribute("aria-valuetext", name === "width" ? String(m) : scientific(state[name]));
      }
    }

    for (const name of Object.keys(RANGE)) {
      find(`[name="${name}"]`).addEventListener("input", (event) => {
        const [low, high] = RANGE[name];
        state[name] = Math.min(Math.max(10 ** Number(event.target.value), low), high);
        draw();
      });
    }
    host.replaceChildren(node);
    follow(find('[data-part="picture"]'), layout);
  }

  mount("shaken-width", build);
})();
