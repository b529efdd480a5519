/* Moving part "step-offset": one mode of a noisy quadratic, steps 1 / (k + k0 + 1), all relative curvatures equal to rho.
   Excess over its value at the start: E_k = m^2 + w v,  m <- (1 - eta rho) m,  v <- (1 - eta rho)^2 v + (eta rho)^2,
   with w in units of the excess at the start. The Kalman filter has 1 / (1 + k / w); for rho = 1 and k0 = w both agree.
   Markup: <div class="ld-widget" data-widget="step-offset"></div>; whatever stands inside is replaced.
   Optional: data-offset="10", data-noise="0.25", data-curvature="1" (start state).
   Pure formulas: window.learningDynamics.stepOffset. */
(function () {
  "use strict";
  const { add, set, number, power, scientific, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const STEPS = 1000;
  const SHORT = 0.4;

  function excess(offset, noise, curvature, steps = STEPS) {
    let mean = 1;
    let variance = 0;
    const path = [1];
    for (let k = 0; k < steps; k += 1) {
      const step = curvature / (k + offset + 1);
      mean *= 1 - step;
      variance = (1 - step) ** 2 * variance + step ** 2;
      path.push(mean ** 2 + noise * variance);
    }
    return path;
  }
  const filter = (noise, k) => 1 / (1 + k / noise);

  /** The offset with the lowest excess after `steps` steps: a scan on a logarithmic axis, then a golden section. */
  function bestOffset(noise, curvature, steps) {
    const end = (x) => excess(10 ** x, noise, curvature, steps)[steps];
    let best = -4;
    for (let x = -4; x <= 4; x += 0.1) if (end(x) < end(best)) best = x;
    let [low, high] = [best - 0.1, best + 0.1];
    const ratio = (Math.sqrt(5) - 1) / 2;
    for (let i = 0; i < 30; i += 1) {
      const [a, b] = [high - ratio * (high - low), low + ratio * (high - low)];
      if (end(a) < end(b)) high = b;
      else low = a;
    }
    return 10 ** ((low + high) / 2);
  }

  window.learningDynamics.stepOffset = { excess, filter, bestOffset };

  // ---------------------------------------------------------------- picture
  const RANGE = { offset: [0.01, 1000], noise: [0.001, 10], curvature: [0.1, 2] };
  const MARKS = [1, 10, 100, 1000];
  const FLOOR = 1e-6;
  const HTML = `
    <p class="ld-widget-title">One offset puts the run on the filter, for every number of steps at once.</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="picture"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span><bdi>offset k<sub>0</sub></bdi> <data data-quantity="offset"></data></span>
          <input type="range" name="offset" min="-2" max="3" step="0.01"></label>
        <label class="ld-slider"><span><bdi>noise w/E<sub>0</sub></bdi> <data data-quantity="noise"></data></span>
          <input type="range" name="noise" min="-3" max="1" step="0.01"></label>
        <label class="ld-slider"><span>relative curvature ρ <data data-quantity="curvature"></data></span>
          <input type="range" name="curvature" min="0.1" max="2" step="0.01"></label>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="end"></p>
          <dl class="ld-numbers">
            ${MARKS.map((k) => `<dt>excess at k = ${k} (over the filter)</dt><dd data-quantity="at${k}"></dd>`).join("")}
            <dt><bdi>best k<sub>0</sub></bdi> for k = 10</dt><dd data-quantity="best10"></dd>
            <dt><bdi>best k<sub>0</sub></bdi> for k = 1000</dt><dd data-quantity="best1000"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Expected excess loss over its value at the start. <span class="ld-key blue">Blue</span>: your run.
      Thin line: the Kalman filter. Dashed, what breaks it: the same offset with steps 0.4 times Newton's.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const state = {
      offset: given(host, "offset", 10, ...RANGE.offset),
      noise: given(host, "noise", 0.25, ...RANGE.noise),
      curvature: given(host, "curvature", 1, ...RANGE.curvature),
    };
    const view = panel(find('[data-part="picture"]'), {
      label: "Excess loss over its value at the start against the number of steps, for the run, the Kalman filter and steps that are too short.",
      tall: 300,
      x: { low: 1, high: STEPS, log: true, ticks: MARKS.map((k) => [k, String(k)]), title: "step k" },
      y: { low: FLOOR, high: 3, log: true, ticks: [-6, -4, -2, 0].map((k) => [10 ** k, k ? power(k) : "1"]), title: "excess / excess at the start" },
    });
    const dashed = add(view.area, "path", { class: "curve control" });
    const thin = add(view.area, "path", { class: "solutions thin", fill: "none", "data-part": "filter" });
    const blue = add(view.area, "path", { class: "curve blue", "data-part": "run" });

    function layout() {
      view.layout();
      draw();
    }

    function draw() {
      const { offset, noise, curvature } = state;
      const run = excess(offset, noise, curvature);
      const curve = (path) => view.path(path.map((y, k) => [k, Math.max(y, FLOOR / 10)]).slice(1));
      set(blue, { d: curve(run) });
      set(dashed, { d: curve(excess(offset, noise, SHORT)) });
      set(thin, { d: view.path(run.map((_, k) => [k, filter(noise, k)]).slice(1)) });
      shown.offset.textContent = scientific(offset);
      shown.noise.textContent = scientific(noise);
      shown.curvature.textContent = number(curvature, 2);
      for (const k of MARKS) shown[`at${k}`].textContent = `${scientific(run[k])} (×${number(run[k] / filter(noise, k), 2)})`;
      for (const k of [10, 1000]) {
        const best = bestOffset(noise, curvature, k);
        shown[`best${k}`].textContent = best < 1e-3 ? "0" : scientific(best);
      }
      const most = Math.max(...MARKS.map((k) => run[k] / filter(noise, k)));
      const slow = Math.abs(curvature - 0.5) < 1e-9 ? "(ln k)/k" : `1/k^${number(2 * curvature, 2)}`;
      shown.end.textContent = curvature <= 0.5
        ? `Steps at most half of Newton's: the excess falls like ${slow} only, at any offset.`
        : Math.abs(curvature - 1) < 1e-9
          ? (most < 1.005 ? "On the filter, at every step." : `Newton's scale: the best offset is w/E₀ = ${scientific(noise)}, for every k.`)
          : `Rate 1/k with ${number(curvature ** 2 / (2 * curvature - 1), 2)} times the filter's noise term; the best offset changes with k.`;
      for (const name of ["offset", "noise"]) {
        find(`[name="${name}"]`).value = Math.log10(state[name]);
        find(`[name="${name}"]`).setAttribute("aria-valuetext", scientific(state[name]));
      }
      find('[name="curvature"]').value = curvature;
    }

    for (const name of ["offset", "noise", "curvature"]) {
      find(`[name="${name}"]`).addEventListener("input", (event) => {
        const value = Number(event.target.value);
        const [low, high] = RANGE[name];
        state[name] = name === "curvature" ? value : Math.min(Math.max(10 ** value, low), high);
        draw();
      });
    }
    host.replaceChildren(node);
    follow(find('[data-part="picture"]'), layout);
  }

  mount("step-offset", build);
})();
