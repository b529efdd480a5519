/* Moving part "memory-dial": a running mean theta_k of points z_k on h theta^2 / 2 with gradient noise of variance 1, started
   at the minimum; the gradient is asked at (1 - zeta) z_k + zeta theta_k. Second moments of (theta, z) in units of 1/h^2:
   z <- (1 - r (1 - zeta)) z - r zeta theta - r xi with r = step times h, theta <- theta + (z - theta) / (k + 2).
   The mean loss is E theta^2 / 2 in units of 1/h; late it is 1 / (2 k (1 - zeta^2)), and r / 6 for zeta = 1.
   Markup: <div class="ld-widget" data-widget="memory-dial"></div>; whatever stands inside is replaced.
   Optional: data-zeta="0.9", data-rate="0.2" (start state).
   Pure formulas: window.learningDynamics.memoryDial. */
(function () {
  "use strict";
  const { add, set, number, power, scientific, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const STEPS = 10000;

  /** Mean losses after 0, 1, ..., steps steps. */
  function losses(zeta, rate, steps = STEPS) {
    let [tt, tz, zz] = [0, 0, 0];
    const [a, b] = [-rate * zeta, 1 - rate * (1 - zeta)];
    const path = [0];
    for (let k = 0; k < steps; k += 1) {
      const s = 1 / (k + 2);
      const newZz = a * a * tt + 2 * a * b * tz + b * b * zz + rate * rate;
      const thetaZ = a * tt + b * tz; // E theta_k z_{k+1}
      const newTt = (1 - s) ** 2 * tt + 2 * s * (1 - s) * thetaZ + s * s * newZz;
      tz = (1 - s) * thetaZ + s * newZz;
      tt = newTt;
      zz = newZz;
      path.push(tt / 2);
    }
    return path;
  }
  const late = (zeta, k) => 1 / (2 * k * (1 - zeta * zeta));
  const floor = (rate) => rate / 6;

  window.learningDynamics.memoryDial = { losses, late, floor };

  // ---------------------------------------------------------------- picture
  const RANGE = { zeta: [0, 1], rate: [0.01, 1.9] };
  const MARKS = [1, 10, 100, 1000, 10000];
  const HTML = `
    <p class="ld-widget-title">Where the gradient is asked decides how much noise stays.</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="picture"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>dial ζ <data data-quantity="zeta"></data></span>
          <input type="range" name="zeta" min="0" max="1" step="0.01"></label>
        <label class="ld-slider"><span>step <bdi>η<sub>z</sub>h</bdi> <data data-quantity="rate"></data></span>
          <input type="range" name="rate" min="-2" max="0.28" step="0.01"></label>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="end"></p>
          <dl class="ld-numbers">
            <dt>mean loss at k = 10,000</dt><dd data-quantity="last"></dd>
            <dt>predicted there</dt><dd data-quantity="predicted"></dd>
            <dt>power p of the memory</dt><dd data-quantity="power"></dd>
            <dt>last point of SGD, no mean</dt><dd data-quantity="sgd"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Mean loss of the running mean in units of σ²/h, from the minimum. <span class="ld-key blue">Blue</span>: your dial.
      Thin line: 1/(2k(1 − ζ²)). Dashed, what breaks it: the gradient asked at the mean, ζ = 1.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const state = { zeta: given(host, "zeta", 0.9, ...RANGE.zeta), rate: given(host, "rate", 0.2, ...RANGE.rate) };
    const view = panel(find('[data-part="picture"]'), {
      label: "Mean loss of the running mean against the number of steps, for your dial, its prediction, and the dial at one.",
      tall: 300,
      x: { low: 1, high: STEPS, log: true, ticks: MARKS.map((k, i) => [k, i ? power(i) : "1"]), title: "step k" },
      y: { low: 1e-5, high: 1, log: true, ticks: [-5, -4, -3, -2, -1, 0].map((k) => [10 ** k, k ? power(k) : "1"]), title: "mean loss / (σ²/h)" },
    });
    const dashed = add(view.area, "path", { class: "curve control" });
    const thin = add(view.area, "path", { class: "solutions thin", fill: "none", "data-part": "late" });
    const blue = add(view.area, "path", { class: "curve blue", "data-part": "run" });
    const drawn = [...new Set(Array.from({ length: 161 }, (_, i) => Math.round(10 ** (i / 40))))];

    function layout() {
      view.layout();
      draw();
    }

    function draw() {
      const { zeta, rate } = state;
      const run = losses(zeta, rate);
      const curve = (path) => view.path(drawn.map((k) => [k, path[k]]));
      set(blue, { d: curve(run) });
      set(dashed, { d: curve(losses(1, rate)) });
      set(thin, { d: zeta < 1 ? view.path(drawn.map((k) => [k, late(zeta, k)])) : "" });
      shown.zeta.textContent = number(zeta, 2);
      shown.rate.textContent = scientific(rate);
      shown.last.textContent = scientific(run[STEPS]);
      shown.predicted.textContent = scientific(zeta < 1 ? late(zeta, STEPS) : floor(rate));
      shown.power.textContent = zeta < 1 ? number(1 / (1 - zeta), 2) : "2, of the gradients";
      shown.sgd.textContent = scientific(rate / (2 * (2 - rate)));
      shown.end.textContent = zeta < 1
        ? `Late, the loss falls like ${number(1 / (2 * (1 - zeta * zeta)), 3)}/k, whatever the step.`
        : "Asked at the mean, the loss stands still at a sixth of the step.";
      find('[name="zeta"]').value = zeta;
      find('[name="rate"]').value = Math.log10(rate);
      find('[name="rate"]').setAttribute("aria-valuetext", scientific(rate));
    }

    for (const name of ["zeta", "rate"]) {
      find(`[name="${name}"]`).addEventListener("input", (event) => {
        const value = Number(event.target.value);
        const [low, high] = RANGE[name];
        state[name] = name === "zeta" ? value : Math.min(Math.max(10 ** value, low), high);
        draw();
      });
    }
    host.replaceChildren(node);
    follow(find('[data-part="picture"]'), layout);
  }

  mount("memory-dial", build);
})();
